# SPDX-License-Identifier: Apache-2.0
"""What libraries of exported programs say of themselves; one serves all tests."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from graphffi_torch._standalone import build as _standalone_build

pytestmark = [
    pytest.mark.filterwarnings("ignore:You are calling torch.compile inside:UserWarning"),  # 2.10
    pytest.mark.slow,
]


class Step(torch.nn.Module):
    """Updates caches that are in a list, and has branches and a loop."""

    def forward(
        self, x: torch.Tensor, caches: list[torch.Tensor], *, options: dict[str, Any]
    ) -> dict[str, Any]:
        caches[0].add_(x.sum(0) * options["scale"] + options["more"][0])
        caches[1].mul_(2)
        y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x * 2, (x,))
        _, z = torch.while_loop(
            lambda i, _: i < 3, lambda i, z: (i + 1, z * 1.5), (torch.tensor(0), y)
        )
        return {"y": y, "z": [z, torch.cat([x, x], 0)[1:]]}


class Take(torch.nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x[index] + 1


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class Extremes(torch.nn.Module):
    def forward(self, pair: Pair) -> tuple[Pair, Any]:
        return Pair(pair.x.abs(), pair.y + 1), (pair.x - pair.y).max(0)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    batch = torch.export.Dim("batch", min=2, max=64)
    with torch.no_grad():
        exported = torch.export.export(
            Step(),
            (torch.rand(4, 6), caches()),
            {"options": options()},
            dynamic_shapes={
                "x": {0: batch},
                "caches": [None, None],
                "options": {"scale": None, "more": (None,)},
            },
        )
    folder = tmp_path_factory.mktemp("described")
    take = torch.export.export(Take(), (torch.rand(4), torch.tensor([3, 1])))
    extremes = torch.export.export(Extremes(), (Pair(torch.rand(4, 3), torch.rand(4, 3)),))
    methods = {"step": exported, "take": take, "extremes": extremes}
    path = graphffi_torch.to_library(methods, folder / "model.so", isa="avx2")
    return SimpleNamespace(path=path, library=graphffi.load_module(path))


def caches() -> list[torch.Tensor]:
    return [torch.zeros(6), torch.ones(2)]


def options() -> dict[str, Any]:
    return {"scale": torch.tensor(2.0), "more": (torch.tensor(0.5),)}


OPTIONS = [torch.tensor(2.0), torch.tensor(0.5)]


def expect(x: torch.Tensor) -> list[torch.Tensor]:
    updated = caches()
    return [*flat(Step()(x, updated, options=options())), *updated]


def flat(results: dict[str, Any]) -> list[torch.Tensor]:
    assert list(results) == ["y", "z"]
    return [results["y"], *results["z"]]


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("is_nested", [True, False])
def test_branches_loops_and_nested_tensors_are_those_of_the_program(
    built: SimpleNamespace, sign: int, is_nested: bool
) -> None:
    x, updated = torch.rand(5, 6) * sign, caches()
    nested = (updated, dict(reversed(options().items())))  # keys are found by name
    results = built.library.step(x, *(nested if is_nested else [*updated, *OPTIONS]))
    for result, reference in zip([*flat(results), *updated], expect(x), strict=True):
        torch.testing.assert_close(result, reference)


def test_nested_results_are_written_where_the_caller_wants_them(built: SimpleNamespace) -> None:
    x, updated = torch.rand(5, 6), caches()
    results = {"y": torch.empty(5, 6), "z": [torch.empty(5, 6), torch.empty(9, 6)]}
    built.library.step_into(x, updated, options(), results)
    for result, reference in zip([*flat(results), *updated], expect(x), strict=True):
        torch.testing.assert_close(result, reference)


@pytest.mark.parametrize("nesting", [Pair, lambda x, y: [x, y]])
def test_named_tuples_are_taken_as_others_and_given_as_lists(
    built: SimpleNamespace, nesting: Callable[..., Any]
) -> None:
    pair = Pair(torch.rand(4, 3), torch.rand(4, 3))
    moved, extremes = built.library.extremes(nesting(*pair))
    (x, y), (values, indices) = Extremes()(pair)
    for result, reference in zip([*moved, *extremes], [x, y, values, indices], strict=True):
        torch.testing.assert_close(result, reference)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (([torch.zeros(6)], options()), ValueError, "argument 'caches': expected a list of 2, "),
        (
            (caches(), [torch.zeros(())]),
            TypeError,
            "argument 'options': expected a dict with the keys 'scale'",
        ),
        (
            (caches(), {"scale": OPTIONS[0]}),
            ValueError,
            "keys 'scale', 'more', got a dict of 1 without 'more'",
        ),
        (
            (caches(), {**options(), "other": OPTIONS[0]}),
            ValueError,
            "expected a dict with the keys 'scale', 'more', got a dict of 3$",
        ),
        (
            (caches(), {"scale": OPTIONS[0], "more": 3}),
            TypeError,
            r"argument 'options'\['more'\]: expected",
        ),
        (
            (caches(),),
            TypeError,
            "expected 3 arguments, got 2; arguments: x, caches, options",
        ),
        (([caches(), caches()], options()), TypeError, r"operand 'caches_0': .* got ffi.Array"),
    ],
)
def test_arguments_that_are_nested_otherwise_are_refused(
    built: SimpleNamespace, arguments: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        built.library.step(torch.rand(5, 6), *arguments)


def test_arguments_are_given_by_position_or_by_name(built: SimpleNamespace) -> None:
    names = ("x", "caches", "options")
    assert built.library.get_function_metadata("step") == {"parameters": [*names]}
    x = torch.rand(5, 6)
    for num_args in range(4):
        updated = caches()
        named = dict(reversed(list(zip(names, (x, updated, options()), strict=True))))
        given = [named.pop(name) for name in names[:num_args]]
        results = built.library.step(*given, **named)
        for result, reference in zip([*flat(results), *updated], expect(x), strict=True):
            torch.testing.assert_close(result, reference)


@pytest.mark.parametrize(
    ("count", "named", "text"),
    [
        (
            1,
            {"caches_0": 1},
            "step: argument 'caches_0': expected a known name; argument 'caches': expected a "
            "value, got nothing; argument 'options': expected a value, got nothing; parameters: x, "
            "caches, options; given: 1 by position, caches_0",
        ),
        (3, {"x": 1}, "step: argument 'x': expected one value, got two; parameters: x, caches, op"),
        (4, {"y": 1}, "step: expected at most 3 arguments, got 4; argument 'y': expected a known "),
    ],
)
def test_wrong_names_of_arguments_are_refused(
    built: SimpleNamespace, count: int, named: dict[str, Any], text: str
) -> None:
    args = [torch.rand(5, 6), caches(), options(), None][:count]
    with pytest.raises(TypeError, match=text):
        built.library.step(*args, **named)
    with pytest.raises(TypeError, match="step_into: expected positional arguments only, got the"):
        built.library.step_into(*args, **named)


def test_errors_name_dimensions_and_parameters(built: SimpleNamespace) -> None:
    with pytest.raises(
        ValueError,
        match=r"operand 'x': expected float32\[batch \(2 to 64\), 6\] on cpu, got float32\[1, 6\]",
    ):
        built.library.step(torch.rand(1, 6), caches(), options())
    with pytest.raises(ValueError, match=r"operand 'caches_1': expected float32\[2\]"):
        built.library.step(torch.rand(2, 6), [torch.zeros(6), torch.ones(3)], options())


def test_a_librarys_methods_are_ops(built: SimpleNamespace) -> None:
    ops = graphffi.load_ops(built.path)
    x, updated = torch.rand(3, 6), caches()
    results = ops.step(x, *updated, *OPTIONS)  # with the operands that it updated
    for found in (results, [*results[:3], *updated]):
        for result, reference in zip(found, expect(x), strict=True):
            torch.testing.assert_close(result, reference)


JAX = """
import functools, sys
import jax, numpy as np, graphffi, graphffi_jax
model, library = graphffi.load_ops(sys.argv[1]), graphffi.load_module(sys.argv[1])
try:  # while it is traced
    jax.jit(model.take).lower(jax.numpy.ones(4), jax.numpy.zeros(2, int))
except TypeError as error:
    assert str(error) == "model::take: operand 'index': expected int64, got int32", error
taken = library.take(index=np.array([0, 3]), x=jax.numpy.arange(4.0))
assert isinstance(taken, jax.Array) and taken.tolist() == [1, 4], taken
@functools.partial(jax.jit, donate_argnums=(1,))
def run(x, caches):
    first, second = caches
    more = {"options_scale": np.float32(2), "options_more_0": np.float32(0.5)}
    return model.step(x, caches_1=second, caches_0=first, **more)
x = np.arange(12, dtype=np.float32).reshape(2, 6) / 12
*results, first, second = run(x, [jax.numpy.zeros(6), jax.numpy.ones(2)])
assert "torch" not in sys.modules
print(*np.concatenate([np.ravel(r) for r in (*results, first, second)]))
"""


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_jax_runs_a_method_with_donated_caches(built: SimpleNamespace) -> None:
    found = subprocess.run(
        [sys.executable, "-c", JAX, built.path], capture_output=True, text=True, check=True
    ).stdout
    expected = expect(torch.arange(12).reshape(2, 6) / 12)
    np.testing.assert_allclose(
        np.array(found.split(), np.float32),
        np.concatenate([e.ravel() for e in expected]),
        rtol=1e-5,
    )


def test_inspect_shows_methods_and_instructions(built: SimpleNamespace) -> None:
    command = [sys.executable, "-m", "graphffi", "inspect", built.path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "op step(Tensor x, Tensor(a1!) caches_0, Tensor(a2!) caches_1, Tensor " in text
    assert "shape: empty([x.shape[0], 6], float32)," in text
    assert "dtypes: float32, int64 -> float32" in text
    assert "\n  step(x, caches, options)\n" in text
    assert "processor: sse4.2, popcnt, avx, avx2" in text
    assert "avx512" not in text


ADD_ONE = """
void add_one(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  *static_cast<float*>(out.data_ptr()) = *static_cast<const float*>(x.data_ptr()) + 1;
}
"""


def export_add_one(name: str, library: str) -> torch.export.ExportedProgram:
    """A program that calls an op of the name, whose kernel is in the library."""
    add_one = graphffi.define_op(
        name, schema="(Tensor x) -> Tensor", kernel=f"{library}::add_one", infer=graphffi.like
    )

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return add_one(x)

    return torch.export.export(Model(), (torch.zeros(1),))


def test_a_kernel_library_that_was_built_anew_is_refused(tmp_path: Path) -> None:
    used, newer = (
        graphffi.cpp.build(
            "anew", cpp_sources=ADD_ONE, functions="add_one", build_directory=tmp_path / name
        )
        for name in ("used", "newer")
    )
    exported = export_add_one("described::anew", used)
    Path(newer).rename(used)
    text = "graphffi_torch: to_library: cannot load '.*': expected the file in use, got a newer"
    with pytest.raises(RuntimeError, match=text):
        graphffi_torch.to_library(exported, tmp_path / "model.so")


def test_a_kernel_that_is_named_without_a_folder_may_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found in GRAPHFFI_LIBRARY_PATH, then beside the library."""
    kernels, moved = tmp_path / "kernels", tmp_path / "moved"
    file = graphffi.cpp.build(
        "moving", cpp_sources=ADD_ONE, functions="add_one", build_directory=kernels
    )
    exported = export_add_one("described::add_one", "moving.so")
    monkeypatch.setenv("GRAPHFFI_LIBRARY_PATH", str(kernels))
    path = graphffi_torch.to_library(exported, tmp_path / "model.so")
    command = [sys.executable, "-m", "graphffi", "inspect", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    assert f"kernels: moving.so::add_one (sha256 {digest})" in text
    monkeypatch.delenv("GRAPHFFI_LIBRARY_PATH")
    kernels.rename(moved)
    path = shutil.move(path, moved)
    assert graphffi.load_module(path).main(torch.zeros(1)).tolist() == [1]


HOST = r"""
#include <stdio.h>
#include <tvm/ffi/c_api.h>

int __tvm_ffi_step(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

int main(void) {
  static float data[5][16];
  int64_t shapes[5][2] = {{2, 6}, {6}, {2}};
  const int ndims[5] = {2, 1, 1, 0, 0};
  DLTensor views[5];
  TVMFFIAny args[5] = {{0}}, result = {0};
  for (int i = 0; i < 5; ++i) {
    views[i] = (DLTensor){data[i], {kDLCPU, 0}, ndims[i], {kDLFloat, 32, 1}, shapes[i], NULL, 0};
    args[i].type_index = kTVMFFIDLTensorPtr;
    args[i].v_ptr = &views[i];
  }
  if (__tvm_ffi_step(NULL, args, 5, &result) == 0) return puts("ran") < 0;
  TVMFFIObjectHandle error = NULL;
  TVMFFIErrorMoveFromRaised(&error);
  const TVMFFIErrorCell* cell = TVMFFIErrorGetCellPtr(error);
  printf("%.*s: %s\n", (int)cell->kind.size, cell->kind.data, cell->message.data);
  return 1;
}
"""


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="needs qemu-user")
def test_older_processors_get_an_error(built: SimpleNamespace) -> None:
    """The library is made for AVX2."""
    host, runtime = Path(built.path).with_name("host"), graphffi.runtime_info().path
    folders = f"-Wl,-rpath,{Path(runtime).parent}:{host.parent}"
    libraries = [built.path, runtime, folders, "-Wl,--allow-shlib-undefined"]
    command = ["gcc", "-x", "c", "-", f"-I{graphffi.cpp.include_path()}", "-o", str(host)]
    subprocess.run([*command, "-x", "none", *libraries], input=HOST, text=True, check=True)

    emulated = ["qemu-x86_64", "-cpu", "Nehalem", host]
    text = subprocess.run(emulated, capture_output=True, text=True).stdout
    assert text.startswith("RuntimeError: graphffi: expected a processor with the instructions")
    assert "without avx, avx2, fma, bmi, bmi2, f16c, movbe; make the library with isa=" in text


def test_a_processor_without_the_instructions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Double(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2

    exported = torch.export.export(Double(), (torch.rand(4),))
    with pytest.raises(ValueError, match="isa: expected native, avx2, avx512, aarch64, got 'sse'"):
        graphffi_torch.to_library(exported, tmp_path / "model.so", isa="sse")
    # That no processor of today has.
    monkeypatch.setitem(_standalone_build._INSTRUCTIONS, "xop", "__SSE2__")
    path = graphffi_torch.to_library(exported, tmp_path / "model.so")
    library = graphffi.load_module(path)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="got one without xop; make the library with isa="):
            library.main(torch.rand(4))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"exported": {3: None}}, ValueError, "expected names of functions that are .*, got 3"),
        ({"exported": {"run_into": None}}, ValueError, "names of functions .*, got 'run_into'"),
        ({"exported": {}}, ValueError, "expected a program, got none"),
        ({"path": "model.pt2"}, ValueError, "expected a path that ends in '.so', got 'model.pt2'"),
        ({"path": "/no/model.so"}, FileNotFoundError, "a path in a folder, got '/no/model.so'"),
        ({"weights": 3}, ValueError, "weights: expected 'embed' or 'file', got 3"),
        ({"externs": 3}, TypeError, "externs: expected a mapping, got 3"),
        ({"externs": {"aten.topk": 3}}, TypeError, "externs: .*, got 3 for 'aten.topk'"),
        ({"options": 3}, TypeError, "options: expected a mapping, got 3"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_compiled(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    program = torch.export.export(torch.nn.Identity(), (torch.rand(4),))
    given = {"exported": program, "path": tmp_path / "model.so"} | options
    if isinstance(given["exported"], dict):
        given["exported"] = dict.fromkeys(given["exported"], program)
    with pytest.raises(error, match=f"graphffi_torch: to_library: .*{text}"):
        graphffi_torch.to_library(**given)


class TwoResults(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int | None) -> tuple[torch.Tensor, int | None]:
        return x * 2, n


@pytest.mark.parametrize(
    ("value", "sizes", "got"),
    [
        (3, None, "int 3"),
        (None, None, "None"),
        (3, {"x": None, "n": torch.export.Dim.DYNAMIC}, "a number that calls choose"),
    ],
)
def test_what_is_no_tensor_is_refused(tmp_path: Path, value: Any, sizes: Any, got: str) -> None:
    program = torch.export.export(TwoResults(), (torch.rand(4), value), dynamic_shapes=sizes)
    text = (
        f"graphffi_torch: to_library: main: input 'n': expected a tensor, got {got}; pass tensors"
    )
    with pytest.raises(NotImplementedError, match=text):
        graphffi_torch.to_library(program, tmp_path / "model.so")


class Named(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0), requires_grad=False)

    def forward(self, items: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {
            "sums😀": items["😀"].cumsum(0) * self.weight,
            'sums😀\0a"\\b': items["é??/\0b"] + items["é??/"],
        }


def test_keys_files_and_kernels_may_have_any_names(tmp_path: Path) -> None:
    """Also with characters that JSON writes as two, and with those that C++ has other uses for."""
    kernel = 'described.\t\0"sums"\\'
    graphffi.register_global_func(kernel, lambda x, *_: torch.from_dlpack(x).cumsum(0).neg())
    items = {"😀": torch.rand(4), "é??/\0b": torch.rand(2), "é??/": torch.rand(2)}
    path = graphffi_torch.to_library(
        torch.export.export(Named(), (items,)),
        tmp_path / 'a\t"model"\\é.so',
        weights="file",
        externs={"aten.cumsum": kernel},
    )
    results = graphffi.load_module(path).main(items)
    assert list(results) == ["sums😀", 'sums😀\0a"\\b']
    sums, more = map(torch.from_dlpack, results.values())
    torch.testing.assert_close(sums, -items["😀"].cumsum(0) * torch.arange(4.0))
    torch.testing.assert_close(more, items["é??/\0b"] + items["é??/"])
