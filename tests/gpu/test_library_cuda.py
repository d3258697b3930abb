# SPDX-License-Identifier: Apache-2.0
"""Libraries of programs on CUDA, made and called on a GPU."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import graphffi

torch = pytest.importorskip("torch")
graphffi_torch = pytest.importorskip("graphffi_torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch_plugin"))
from cuda_programs import PROGRAMS  # noqa: E402 - torch may be missing

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
]
NAMES = ["layers", "attention", "branches", "image"]  # "calls" reads the GPU's memory on the host


def on_gpu(tensors: Any) -> tuple[Any, ...]:
    return tuple(tensor.cuda() for tensor in tensors)


def methods_of(name: str) -> Mapping[str, Any]:
    return {method: model.cuda().eval() for method, model in PROGRAMS[name].methods().items()}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The paths of the libraries of all programs."""
    folder = tmp_path_factory.mktemp("cuda")
    with torch.no_grad():
        return {
            name: graphffi_torch.to_library(
                {
                    method: torch.export.export(
                        model,
                        on_gpu(PROGRAMS[name].inputs()[method]),
                        dynamic_shapes=PROGRAMS[name].dynamic_shapes.get(method),
                    )
                    for method, model in methods_of(name).items()
                },
                folder / f"{name}.so",
                weights=PROGRAMS[name].weights,
            )
            for name in NAMES
        }


def check(results: Any, expected: Any) -> None:
    results = results if isinstance(results, (list, tuple)) else [results]
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    for result, value in zip(results, expected, strict=True):
        assert result.is_cuda
        torch.testing.assert_close(result, value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_results_are_those_of_torch(libraries: dict[str, str], name: str) -> None:
    library, methods = graphffi.load_module(libraries[name]), methods_of(name)
    for _ in range(3):
        for method, example in PROGRAMS[name].inputs().items():
            ours, theirs = on_gpu(example), on_gpu(example)
            check(getattr(library, method)(*ours), methods[method](*theirs))
            check(ours, theirs)  # operands that are updated


@torch.no_grad()
def test_work_is_on_the_current_stream(libraries: dict[str, str]) -> None:
    library, model = graphffi.load_module(libraries["layers"]), methods_of("layers")["main"]
    x = torch.zeros(64, 32, device="cuda")
    library.main(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        x.copy_(torch.ones_like(x))
        result = library.main(x)[0]
    side.synchronize()
    check(result, model(torch.ones_like(x))[0])


@torch.no_grad()
def test_memory_is_torchs_and_is_given_back(libraries: dict[str, str]) -> None:
    library = graphffi.load_module(libraries["layers"])
    x, into = torch.randn(64, 32, device="cuda"), on_gpu([torch.empty(64, 16), torch.empty(16)])
    library.main(x)
    library.main_into(x, *into)
    gc.collect()
    before = torch.cuda.memory_allocated()
    results = library.main(x)
    assert torch.cuda.memory_allocated() > before
    check(results, into)
    del results
    for _ in range(100):
        library.main_into(x, *into)
    assert torch.cuda.memory_allocated() == before


@torch.no_grad()
def test_threads(libraries: dict[str, str]) -> None:
    library, model = graphffi.load_module(libraries["layers"]), methods_of("layers")["main"]
    inputs = [torch.randn(2 + i, 32, device="cuda") for i in range(32)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(library.main, inputs))
    for x, result in zip(inputs, results, strict=True):
        check(result, model(x))


@torch.no_grad()
def test_ops_in_compiled_programs(libraries: dict[str, str]) -> None:
    ops, model = graphffi.load_ops(libraries["layers"]), methods_of("layers")["main"]
    x = torch.randn(20, 32, device="cuda")
    compiled = torch.compile(lambda x: ops.main(x * 2)[0] + 1, fullgraph=True)
    check(compiled(x), model(x * 2)[0] + 1)


@torch.no_grad()
def test_wrong_operands(libraries: dict[str, str]) -> None:
    library = graphffi.load_module(libraries["layers"])
    with pytest.raises(ValueError, match=r"operand 'x': expected float32\[.* on cuda.* on cpu"):
        library.main(torch.randn(20, 32))
    strided = torch.randn(32, 20, device="cuda").t()
    check(library.main(strided), library.main(strided.contiguous()))


def test_jax_calls_a_library_without_torch(libraries: dict[str, str]) -> None:
    code = f"""
import jax, graphffi, sys
if jax.default_backend() != "gpu": sys.exit(77)
model = graphffi.load_ops({libraries["layers"]!r})
x = jax.numpy.ones((20, 32))
y = jax.jit(lambda x: model.main(x)[0].sum(-1))(x)
assert abs(y - 1).max() < 1e-5, y
assert "torch" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if result.returncode == 77 or "No module named 'jax'" in result.stderr:
        pytest.skip("needs a GPU for JAX")
    assert result.returncode == 0, result.stderr
