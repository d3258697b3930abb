# SPDX-License-Identifier: Apache-2.0
"""Ops that libraries define."""

from __future__ import annotations

import os
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._definition.op_text import define_arguments, parse_op_text

from .conftest import HERE, Arrays

np = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def library() -> str:
    return graphffi.cpp.build("op_library", [HERE / "op_library.cc"], extra_cflags=["-O1"])


@pytest.fixture(scope="module")
def ops(library: str) -> Any:
    return graphffi.load_ops(library, namespace="libtest")


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def test_ops_of_a_library_run_in_every_framework(ops: Any, arrays: Arrays) -> None:
    x, weight = floats(2, 3), floats(3)
    result = ops.rms_norm(arrays.make(x), arrays.make(weight), eps=0.5)
    assert isinstance(result, arrays.kind)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5) * weight
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-5)


def test_shapes_follow_expressions_of_dims(ops: Any) -> None:
    low, high = ops.halves(floats(7))
    assert (low.shape, high.shape) == ((3,), (4,))
    np.testing.assert_array_equal(np.concatenate([low, high]), floats(7))


def test_shapes_of_expressions_stay_symbolic_in_graphs(ops: Any) -> None:
    torch = pytest.importorskip("torch")
    compiled = torch.compile(ops.halves, dynamic=True, fullgraph=True, backend="aot_eager")
    for size in (6, 9):
        assert compiled(torch.ones(size))[1].shape == (size - size // 2,)


def test_updated_listed_and_optional_operands(ops: Any) -> None:
    total = np.zeros(3, "float32")
    assert ops.accumulate(total, [floats(3), floats(3)]) is total
    ops.accumulate(total, [], bias=floats(3))
    np.testing.assert_allclose(total, 3 * floats(3), rtol=1e-6)


def test_workspace_and_strides(ops: Any) -> None:
    assert ops.scratch(floats(2, 4), 5)[0] == 20
    assert ops.scratch(floats(2), 5)[0] == 7
    assert ops.scratch(floats(4, 2).T, 5)[0] == 1000020
    assert ops.scratch.definition.kernels[0].traits.allow_cuda_graph


def test_a_text_that_is_exported_by_hand_is_taken_too(ops: Any) -> None:
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(ops.twice(floats(3)), 2 * floats(3))
    batched = torch.vmap(ops.twice)(torch.ones(2, 3))
    assert (batched == 2).all()


def test_documentation_digest_and_copies(library: str, ops: Any) -> None:
    assert ops.rms_norm.__doc__ == "Root-mean-square norm.\n\nOver the last dimension."
    again = graphffi.load_ops(library, namespace="libtest")
    assert again.rms_norm is ops.rms_norm
    assert pickle.loads(pickle.dumps(ops.halves)) is ops.halves
    assert ops.rms_norm.__module__ == __name__


@pytest.mark.parametrize(("size", "expected"), [(3, "an even size"), (10, "less")])
def test_checks_of_values_are_those_of_every_path(
    ops: Any, arrays: Arrays, size: int, expected: str
) -> None:
    twice = ops.twice_even
    np.testing.assert_array_equal(twice(arrays.make(floats(10, 10))), 2 * floats(10, 10))
    with pytest.raises(
        ValueError, match=f"^libtest::twice_even: operand 'x': expected {expected}$"
    ):
        twice(arrays.make(floats(size)))


def test_checks_hold_in_traced_calls(ops: Any) -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    text = "libtest::twice_even: operand 'x': expected an even size"
    compiled = torch.compile(ops.twice_even, dynamic=True, fullgraph=True, backend="aot_eager")
    assert compiled(torch.ones(4)).tolist() == [2] * 4
    with pytest.raises(Exception, match=text):
        compiled(torch.ones(5))
    with pytest.raises(ValueError, match=text):
        jax.jit(ops.twice_even)(floats(5))


def test_gradients_of_a_librarys_op_come_from_its_reference(ops: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(4, requires_grad=True)
    ops.twice_even.set_reference(lambda xp, x: x * 2)
    ops.twice_even(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2] * 4


def test_wrong_calls_are_refused_by_dims_and_dtypes(ops: Any) -> None:
    with pytest.raises(ValueError, match="libtest::rms_norm: operand 'weight': expected size 3 of"):
        ops.rms_norm(floats(2, 3), floats(4))
    with pytest.raises(TypeError, match="libtest::rms_norm: operand 'x': expected float32, got"):
        ops.rms_norm(floats(2, 3).astype("float64"), floats(3))


def test_a_library_is_found_beside_the_file_that_loads_it(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "beside_package"
    package.mkdir()
    shutil.copy(library, package / "libbeside.so")
    source = "import graphffi\nops = graphffi.load_ops('libbeside.so')\n"
    (package / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import beside_package  # type: ignore[import-not-found]

    assert beside_package.ops.twice.name == "beside::twice"
    monkeypatch.setenv("GRAPHFFI_LIBRARY_PATH", str(package))
    assert graphffi.load_ops("libbeside.so").twice is beside_package.ops.twice


def test_a_library_that_is_nowhere_is_refused() -> None:
    text = (
        f"cannot load 'libnowhere.so': expected it beside {__file__!r}, in a folder of "
        f"GRAPHFFI_LIBRARY_PATH or in {os.getcwd()!r}, found none"
    )
    with pytest.raises(RuntimeError, match=re.escape(text)):
        graphffi.load_ops("libnowhere.so")
    with pytest.raises(RuntimeError, match=r"cannot load '/libnowhere\.so': expected a file"):
        graphffi.load_ops("/libnowhere.so")


def test_a_library_without_ops_or_namespace_is_refused(library: str, kernels_path: str) -> None:
    with pytest.raises(ValueError, match=r"expected definitions of ops \(GRAPHFFI_EXPORT_OP\), "):
        graphffi.load_ops(kernels_path)
    with pytest.raises(ValueError, match="namespace: expected an identifier, got 'op-library'"):
        graphffi.load_ops(library, namespace="op-library")


def build(text: str, *, kernel: str = "(tvm::ffi::TensorView x, tvm::ffi::TensorView out)") -> str:
    source = (
        f"void wrong{kernel} {{}}\n"
        f'extern "C" TVM_FFI_DLL_EXPORT const char __graphffi_op_wrong[];\n{text}\n'
    )
    return graphffi.cpp.build("wrong_ops", cpp_sources=source, functions=["wrong"])


def test_errors_at_load_name_op_and_library() -> None:
    text = 'const char __graphffi_op_wrong[] = "schema: (Tensor x, float f) -> Tensor\\n'
    path = build(text + 'shape: like(x)";')
    message = (
        r"^wrong_ns::wrong: plan \(x, f, out\): expected 2 values for the kernel wrong\(.*\) -> "
        rf"None, got 3; in the library {re.escape(repr(path))}$"
    )
    with pytest.raises(TypeError, match=message):
        graphffi.load_ops(path, namespace="wrong_ns")
    path = build(text + 'shape: like(y)";')
    with pytest.raises(ValueError, match=r"wrong_ns::wrong: shape 'like\(y\)': .*; in the library"):
        graphffi.load_ops(path, namespace="wrong_ns")


def test_a_symbol_that_is_no_text_is_refused() -> None:
    path = build('const char __graphffi_op_wrong[] = "";')
    with pytest.raises(ValueError, match="symbol __graphffi_op_wrong: expected an array of char"):
        graphffi.load_ops(path, namespace="wrong_ns")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("shape: like(x)", "text of the op: expected a schema, got none"),
        ("schema: (Tensor x)", r"schema: expected '\(Tensor x, …\) -> Tensor', got"),
        ("schema: (Tensor x) -> Tensor\nshpe: like(x)",
         "expected 'field: value' with a field of schema, shape, .*, got 'shpe: like"),
        ("schema: () -> ()\nschema: () -> ()", "field 'schema': expected it once, got two"),
        ("schema: (Tensor x) -> Tensor", r"shape: expected an expression such as like\(x\)"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x",
         r"shape 'like\(x': expected an expression, got"),
        ("schema: (Tensor x) -> Tensor\nshape: open(x)",
         "expected a call of like, empty, min, max, len, got"),
        ("schema: (Tensor x) -> Tensor\nshape: x.data", "expected an attribute of shape, ndim, "),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[i for i in x.shape])",
         r"expected calls, sizes and arithmetic, got '\[i for i in x\.shape\]'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[x.ndim ** 2])",
         "expected calls, sizes and arithmetic, got 'Pow'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(y)",
         "expected a name of x or a data type, got 'y'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x), like(x)",
         "expected 1 expressions for out, got 2"),
        ("schema: (Tensor x) -> Tensor\ndims: [a] -> [b]", "no operand has the dimension 'b'"),
        ("schema: (Tensor[] x) -> Tensor\ndims: ... a -> ... a",
         r"no operand has the dimensions '\.\.\.'"),
        ("schema: (Tensor x) -> Tensor\ndims: a -> a\ndtypes: _ -> _",
         "dtypes does not say their data types"),
        ("schema: (Tensor x) -> ()\nallow_cuda_graph: yes",
         "allow_cuda_graph: expected true or false, got 'yes'"),
        ("schema: (Tensor x) -> ()\nworkspace: 2 **", "workspace '2 ..': expected an expression"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[1], shape=[2])",
         r"expected the arguments of like \(each keyword once"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, size=[1])",
         r"expected the arguments of like \(got an unexpected keyword argument 'size'\), got 'l"),
        ("schema: (Tensor x) -> Tensor\nshape: empty([1])",
         r"expected the arguments of empty \(missing a required argument: 'dtype'\)"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[" + " + ".join(["1"] * 4000) + "])",
         r"shape 'like\(x, shape=\[1 \+ .*\.\.\.': expected an expression that Python's parser"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[" + "-" * 4000 + "1])",
         "expected an expression that Python's parser takes"),
        ("schema: (Tensor x) -> Tensor\nshape: " + "[" * 4000, "expected an expression, got"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, dtype=\ud800)", "an expression, got 'utf"),
        ("schema: (Tensor x) -> Tensor\ndims: b -> b\nshape: None",
         r"shape 'None': expected like\(...\), empty\(...\) or an operand for each result, got 'N"),
        ("schema: (Tensor x, int n) -> Tensor\nshape: like(x) if n else n", "each result, got 'n'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x.shape)", r"each result, got 'x\.shape'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=3)", "of sizes as shape, got '3'"),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, dtype='f')", "expected a name such as "),
        ("schema: (Tensor x) -> Tensor\nshape: like(x, shape=[1j])", "and arithmetic, got '1j'"),
        ("schema: (Tensor like) -> Tensor\nshape: like(like)", "the function like, got the param"),
        ("schema: (Tensor x) -> ()\nworkspace: None", "workspace 'None': expected a number of byt"),
        ("schema: (Tensor x) -> ()\nworkspace: 1.5", r"workspace '1\.5': expected a number of byt"),
        ("schema: (Tensor x) -> ()\nworkspace: x", "workspace 'x': expected a number of bytes"),
        ("schema: (Tensor x) -> ()\ncheck: x.ndim, 'text'", "expected a condition and the text"),
        ("schema: (Tensor x) -> ()\ncheck: x.ndim == 1", "expected a condition and the text"),
        ("schema: (Tensor x) -> ()\ncheck: x.ndim == 1, 1", "expected a condition and the text"),
        ("schema: (Tensor x) -> ()\ncheck: ", "check '': expected an expression"),
        ("schema: (Tensor check) -> ()\ncheck: check.ndim == 1, ''", "no parameter of that name"),
        ("schema: (Tensor x) -> ()\nworkspace: \u00b2", "expected an expression, got invalid char"),
    ],
)  # fmt: skip
def test_texts_that_do_not_parse(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^ns::op: .*{problem}"):
        define_arguments("ns::op", parse_op_text("ns::op", text), "somewhere")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("[like(x)]", [3]),
        ("x", [3]),
        ("xs[0] if n else like(like(x), shape=[n])", [0]),
        ("empty([*x.shape, max(n, 2)], x.dtype)", [3, 2]),
        ("like(x, shape=[" + " + ".join(["n + 1"] * 60) + "])", [60]),
    ],
)
def test_texts_of_many_forms_are_rules(shape: str, expected: list[int]) -> None:
    text = f"schema: (Tensor x, Tensor[] xs, int n=0) -> Tensor\nshape: {shape}"
    arguments = define_arguments("ns::op", parse_op_text("ns::op", text), "somewhere")
    x = np.ones(3, "float32")
    found = arguments["infer"](graphffi.like(x), [graphffi.like(x)], 0)
    assert list((found[0] if isinstance(found, list) else found).shape) == expected


@pytest.mark.parametrize(
    ("text", "strided"), [("true", True), ("false", False), ("x", ["x"]), ("x, y", ["x", "y"])]
)
def test_texts_name_operands_of_any_strides(text: str, strided: bool | list[str]) -> None:
    fields = parse_op_text("ns::op", f"schema: (Tensor x, Tensor y) -> ()\nstrided: {text}")
    assert define_arguments("ns::op", fields, "somewhere")["strided"] == strided


@pytest.mark.parametrize("dtypes", ["", "T, T -> T", "float64, T -> T"])
@pytest.mark.parametrize(("kind", "absent"), [("Tensor?", None), ("Tensor[]", [])])
def test_results_are_like_operands_that_every_call_has(dtypes: str, kind: str, absent: Any) -> None:
    text = f"schema: ({kind} y, Tensor x) -> Tensor\ndims: n, n -> n"
    fields = parse_op_text("ns::op", f"{text}\ndtypes: {dtypes}" if dtypes else text)
    arguments = define_arguments("ns::op", fields, "somewhere")
    x = np.ones(3, "float32")
    assert arguments["infer"](absent, x) == graphffi.empty([3], "float32")
