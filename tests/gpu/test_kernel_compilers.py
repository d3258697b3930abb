# SPDX-License-Identifier: Apache-2.0
"""The code of docs/kernel_compilers.md whose compilers need a GPU or a package of their own."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphffi

torch = pytest.importorskip("torch")
pytest.importorskip("graphffi_torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernel_compilers.md"


def run_page(heading: str, **names: Any) -> dict[str, Any]:
    """Runs the code under a heading of the page with these names; gives all names."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2]
    code = section.partition("```python\n")[2].partition("```")[0]
    assert code, f"no code under {heading!r}"
    found = {"graphffi": graphffi, "torch": torch, "tempfile": tempfile, **names}
    exec(compile(code, f"{PAGE}: {heading}", "exec"), found)
    return found


def needs(name: str) -> Any:
    """The package, or the test is skipped with its name."""
    return pytest.importorskip(name, reason=f"needs {name}", exc_type=ImportError)


@pytest.fixture(scope="module")
def scale() -> dict[str, Any]:
    triton = needs("triton")
    op = graphffi.define_op("compilers::scale", schema="(Tensor x) -> Tensor", infer=graphffi.like)
    kernels = importlib.import_module("tests.gpu.triton_kernels")
    return run_page("Triton", triton=triton, scale=op, kernel=kernels.kernel)


@pytest.fixture(scope="module")
def add() -> Any:
    cutlass = needs("cutlass")
    op = graphffi.define_op(
        "compilers::add",
        schema="(Tensor a, Tensor b) -> Tensor",
        infer=lambda a, b: graphffi.like(a),
    )
    kernels = importlib.import_module("tests.gpu.cute_kernels")
    run_page("CuTe DSL", cutlass=cutlass, cute=cutlass.cute, add=op, add_kernel=kernels.add_kernel)
    return op


@pytest.fixture(scope="module")
def matmul() -> Any:
    tilelang = needs("tilelang")
    op = graphffi.define_op(
        "compilers::matmul",
        schema="(Tensor a, Tensor b) -> Tensor",
        infer=lambda a, b: graphffi.like(a, shape=(a.shape[0], b.shape[1])),
    )
    kernels = importlib.import_module("tests.gpu.tilelang_kernels")
    run_page("TileLang", tilelang=tilelang, matmul=op, make_matmul=kernels.make_matmul)
    return op


@pytest.fixture(params=["torch", "torch.compile", "jax.jit"])
def call(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls an op with tensors of torch on the GPU, in each framework."""
    if request.param == "torch":
        return lambda op, *tensors: op(*tensors)
    if request.param == "torch.compile":
        torch.compiler.reset()
        return lambda op, *tensors: torch.compile(op, fullgraph=True)(*tensors)
    jax = pytest.importorskip("jax")
    pytest.importorskip("graphffi_jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs a GPU for JAX")

    def by_jax(op: Any, *tensors: Any) -> Any:
        made = jax.jit(op)(*(jax.numpy.asarray(t.cpu().numpy()) for t in tensors))
        return torch.from_numpy(jax.device_get(made).copy()).cuda()

    return by_jax


@pytest.mark.parametrize("size", [1000, 4096])
def test_a_factory_makes_kernels_by_triton(
    scale: dict[str, Any], call: Callable[..., Any], size: int
) -> None:
    x = torch.randn(size, device="cuda")
    assert torch.equal(call(scale["scale"], x), 2 * x)


def test_a_module_launches_the_kernel_of_triton(scale: dict[str, Any]) -> None:
    launch, shared = scale["launcher"](256)
    x = torch.randn(1000, device="cuda")
    out = torch.zeros_like(x)
    launch(x, out, 1000, 0, 0, 4, 1, 1, 128, 1, 1, shared)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize("shape", [(1000,), (3, 5)])
def test_a_factory_makes_kernels_by_cute_dsl(
    add: Any, call: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    a, b = (torch.randn(shape, device="cuda") for _ in range(2))
    assert torch.equal(call(add, a, b), a + b)


def test_a_kernel_of_cute_dsl_runs_on_the_stream_of_the_call(add: Any) -> None:
    a, b = (torch.randn(3, 5, device="cuda") for _ in range(2))
    add(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # which refuses work on other streams
        out = add(a, b)
    a.fill_(1.0)
    graph.replay()
    assert torch.equal(out, 1.0 + b)


def test_a_factory_makes_kernels_by_tilelang(matmul: Any, call: Callable[..., Any]) -> None:
    a, b = (torch.randn(128, 128, device="cuda", dtype=torch.float16) for _ in range(2))
    torch.testing.assert_close(call(matmul, a, b), a @ b, rtol=2e-2, atol=2e-1)
