# SPDX-License-Identifier: Apache-2.0
"""Wrong calls: text and type are those of eager code, and the process goes on."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import graphffi
from graphffi_torch._library import find_build
from tests.torch_release import IS_TORCH_2_10

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.ones(3)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def inductor(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, fullgraph=True)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda ops: ops.add(X.double()),
            ValueError,
            "mytest::add: operand 'x': expected float32, got float64",
        ),
        (
            lambda ops: ops.add(X, a="b"),
            TypeError,
            "mytest::add: attribute 'a': expected a float, got str 'b'",
        ),
        (
            lambda ops: ops.add(),
            TypeError,
            "mytest::add: operand 'x': expected a tensor, got nothing",
        ),
        (
            lambda ops: ops.add(X, 1.0, 2.0),
            TypeError,
            "mytest::add: expected at most 2 arguments, got 3",
        ),
        (
            lambda ops: ops.add(X, b=1.0),
            TypeError,
            "mytest::add: argument 'b': expected a known name",
        ),
    ],
    ids=["rule", "attribute", "missing", "count", "unknown"],
)
def test_wrong_arguments_are_reported(ops: Any, call: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind) as eager:
        call(ops)
    assert text in str(eager.value)
    with pytest.raises(kind) as traced:
        compiled(lambda: call(ops))()
    assert type(traced.value) is type(eager.value)
    assert str(traced.value) == str(eager.value)
    if sys.version_info >= (3, 11):  # which shows notes
        assert "in code that torch.compile traced" in traced.value.__notes__[0]
        assert "test_errors.py" in traced.value.__notes__[0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (np.ones, "expected a torch.Tensor, as others are, got numpy.ndarray; .* torch.as_tensor"),
        (np.float32, "expected a torch.Tensor, as others are, got numpy.float32"),
        (
            lambda size: graphffi.from_dlpack(np.ones(size)),
            "got graphffi.Tensor; convert it with torch.from_dlpack",
        ),
    ],
)
def test_tensors_of_others_are_refused_beside_those_of_torch(make: Any, text: str) -> None:
    second = graphffi.define_op(
        "mytest::second",
        schema="(Tensor x, Tensor? y=None) -> Tensor",
        kernel="testing.echo",
        infer=lambda x, y: graphffi.like(x),
    )
    with pytest.raises(TypeError, match=f"mytest::second: operand 'y': .*{text}"):
        second(X, make(2))


def test_arrays_beside_tensors_are_refused_in_traced_code() -> None:
    op = graphffi.define_op(
        "mytest::many",
        schema="(Tensor x, Tensor[] ys, Tensor? z=None) -> Tensor",
        kernel="testing.echo",
        infer=lambda x, ys, z: graphffi.like(x),
    )
    array = np.ones(2, np.float32)
    calls: dict[str, Any] = {
        "operand 'x'": lambda x: op(array, [x]),
        "operand 'ys'": lambda x: op(x, [x, array]),
        "operand 'z'": lambda x: op(x, [x], z=array),
    }
    for operand, call in calls.items():
        text = f"mytest::many: {operand}: expected a torch.Tensor, as others are, got numpy.ndarray"
        with pytest.raises(TypeError, match=text):
            call(X)
        with pytest.raises(TypeError, match=text):
            compiled(call)(X)


def test_traced_code_catches_errors_where_the_graph_may_break(ops: Any) -> None:
    def step(x: torch.Tensor) -> Any:
        try:
            return ops.add(x.double())
        except ValueError as error:
            return str(error)

    assert "expected float32, got float64" in torch.compile(step, backend="aot_eager")(X)


def test_numbers_of_numpy_break_the_graph_which_would_make_tensors_of_them(ops: Any) -> None:
    def step(x: torch.Tensor, a: Any) -> Any:
        return ops.add(x, a) * 2

    number = np.float32(3)
    message = "mytest::add: attribute 'a': expected a float, got float32.* are plain Python values"
    with pytest.raises(TypeError, match=message):
        compiled(step)(X, number)
    broken = torch.compile(step, backend="aot_eager")
    torch.testing.assert_close(broken(X, number), step(X, number))


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize("refused", ["vmap", "jvp"])
def test_refused_transformations_are_one_error(ops: Any, refused: str, wrap: Any) -> None:
    calls = {
        "vmap": torch.vmap(ops.add),
        "jvp": lambda x: torch.func.jvp(ops.add, (x,), (x,))[1],
    }
    with pytest.raises(NotImplementedError) as caught:
        wrap(calls[refused])(torch.ones(2, 3))
    assert caught.value.args[0].startswith(f"mytest::add: {refused}: expected ")


class CustomError(Exception):
    """Of a Python callback."""


@pytest.mark.parametrize(
    "kind",
    [
        "ValueError",
        "TypeError",
        "KeyError",
        "IndexError",
        "RuntimeError",
        "NotImplementedError",
        "ZeroDivisionError",
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_errors_of_kernels_keep_type_and_text(ops: Any, kind: str, wrap: Any) -> None:
    expected = __builtins__[kind] if isinstance(__builtins__, dict) else getattr(__builtins__, kind)
    with pytest.raises(expected, match="mytest::fail: operand 'x': expected luck, got none"):
        wrap(lambda x: ops.fail(x, kind))(X)
    torch.testing.assert_close(ops.add(X), X + 1)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_errors_of_unknown_kinds_name_it(ops: Any, wrap: Any) -> None:
    with pytest.raises(graphffi.Error, match="OddError: mytest::fail"):
        wrap(lambda x: ops.fail(x, "OddError"))(X)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_exceptions_of_callbacks_come_back_as_the_same_object(wrap: Any) -> None:
    raised = CustomError("mine")

    def callback(x: Any, y: Any) -> None:
        raise raised

    graphffi.register_global_func("mytest.callback", callback, override=True)

    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi("mytest.callback", x, out=graphffi.like(x))

    with pytest.raises(CustomError) as error:
        wrap(call)(X)
    assert error.value is raised
    assert any(entry.name == "callback" for entry in error.traceback)


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("reference", "kind", "text"),
    [
        ("no.such.function", KeyError, "no.such.function"),
        ("/no/such/library.so::f", RuntimeError, "library.so"),
    ],
)
def test_missing_kernels_are_named(wrap: Any, reference: str, kind: Any, text: str) -> None:
    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, out=graphffi.like(x))

    with pytest.raises(kind, match=text):
        wrap(call)(X)


SHARED: list[tuple[str, Callable[[torch.Tensor], Any]]] = [
    (
        "operand 'o0': expected memory of its own, got memory shared with operand 'i0'",
        lambda x: ([x], [x]),
    ),
    ("got memory shared with operand 'i0'", lambda x: ([x[:3]], [x[1:]])),
    (
        "operand 'o1': expected memory of its own, got memory shared with operand 'o0'",
        lambda x: ([], [x, x]),
    ),
    ("expected elements that do not overlap", lambda x: ([x], [x.new_ones(1).expand(4)])),
]


@pytest.mark.parametrize(
    "wrap", [lambda f: f, compiled, inductor], ids=["eager", "aot", "inductor"]
)
@pytest.mark.parametrize("case", range(len(SHARED)))
def test_outputs_that_share_memory_are_refused(kernels: Any, wrap: Any, case: int) -> None:
    text, tensors = SHARED[case]

    def call(x: torch.Tensor) -> torch.Tensor:
        inputs, outputs = tensors(x)
        plan = "i0, f0, o0" if inputs else "o0, f0, o1"
        torch.ops.tvm_ffi.call(kernels.add.reference, inputs, outputs, plan, floats=[1.0])
        return outputs[0]

    x = torch.ones(4)
    with pytest.raises(ValueError, match=text):
        wrap(call)(x)
    assert x.tolist() == [1, 1, 1, 1]


def test_outputs_of_the_destination_form_are_checked(ops: Any) -> None:
    assert ops.add
    with pytest.raises(
        ValueError, match=r"result 'out': expected float32\[3\] on cpu, got float32\[4\] on cpu"
    ):
        torch.ops.mytest.add.out(X, out=torch.empty(4))
    with pytest.raises(TypeError, match=r"expected float32\[3\] on cpu, got float64\[3\] on cpu"):
        torch.ops.mytest.add.out(X, out=torch.empty(3, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"result 'out': expected float32\[3\] on cpu, got None"):
        torch.ops.mytest.add.out(X, out=None)


@pytest.mark.parametrize("schema", ["(Tensor self)", "(Tensor(a!) self)"])
def test_operators_refuse_none_as_eager_calls_do(schema: str) -> None:
    name = "read" if "!" not in schema else "written"
    op = graphffi.define_op(
        f"mytest::none_{name}",
        schema=f"{schema} -> Tensor",
        kernel="testing.echo",
        infer=graphffi.like,
    )
    text = f"mytest::none_{name}: operand 'self': expected a tensor, got None"
    for call in (op, getattr(torch.ops.mytest, f"none_{name}")):
        with pytest.raises(TypeError, match=text):
            call(None)


def test_sparse_tensors_are_refused(kernels: Any) -> None:
    with pytest.raises(ValueError, match="'i0': expected a strided tensor, got Sparse"):
        torch.ops.tvm_ffi.call(
            kernels.add.reference,
            [torch.eye(3).to_sparse()],
            [torch.empty(3, 3)],
            "i0, f0, o0",
            floats=[1.0],
        )


def test_numbers_need_a_plan(kernels: Any) -> None:
    for values in ({"ints": [1]}, {"floats": [1.0]}, {"strs": ["text"]}):
        with pytest.raises(ValueError, match="plan: expected one that names the numbers and texts"):
            torch.ops.tvm_ffi.call(kernels.add.reference, [X], [torch.empty(3)], **values)


@pytest.mark.parametrize("options", [None, {"cpp_wrapper": True}], ids=["python", "cpp"])
def test_a_plan_that_is_wrong_is_the_error_of_eager_code(kernels: Any, options: Any) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        reference = kernels.add.reference
        torch.ops.tvm_ffi.call(reference, [x], [out], "i0, f7, o0", [], [2.0], [])
        return out

    for run in (call, torch.compile(call, options=options)):
        with pytest.raises(ValueError, match=r"^.*::add: plan 'i0, f7, o0': .* got 'f7'"):
            run(X)


def test_names_of_other_libraries_are_refused() -> None:
    for name in (
        "aten::relu",
        "aten::add",
        "mytest::name",  # an attribute of torch.ops.mytest
        "mytest::__self__",
        "mytest::self",  # the module in graphs
        "load_library::add",  # torch.ops.load_library is a function
        "higher_order::add",
        "prim::add_one",
    ):
        text = "expected a name that is free"
        if "prim" in name:  # torch 2.10 raises the parts of its text
            reserved = " is a reserved namespace"
            text = f"('prim', '{reserved}" if IS_TORCH_2_10 else f"prim{reserved}"
        with pytest.raises(ValueError, match=re.escape(f"{name}: {text}")):
            graphffi.define_op(
                name, schema="(Tensor x) -> Tensor", kernel="no.kernel", infer=graphffi.like
            )


def test_the_same_definition_twice_is_fine_and_another_is_refused() -> None:
    def define(size: int) -> Any:
        return graphffi.define_op(
            "mytest::twice",
            schema="(Tensor x) -> Tensor",
            kernel="no.kernel",
            infer=lambda x: graphffi.empty((size,), "float32"),
        )

    assert define(3) is define(3)
    with pytest.raises(ValueError, match="mytest::twice"):
        define(4)


def many(count: int, num_results: int = 1) -> Any:
    """An op that copies its last operand to its last result."""

    def copy(*tensors: Any) -> None:
        torch.from_dlpack(tensors[-1]).copy_(torch.from_dlpack(tensors[count - 1]))

    operands = ", ".join(f"Tensor x{i}" for i in range(count))
    results = ", ".join(["Tensor"] * num_results)
    op = graphffi.define_op(
        f"mytest::many_{count}_{num_results}",
        schema=f"({operands}) -> ({results})",
        kernel=f"mytest.copy_{count}",
        infer=lambda *xs: tuple(graphffi.like(xs[0]) for _ in range(num_results)),
    )
    graphffi.register_global_func(f"mytest.copy_{count}", copy, override=True)
    return op


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_as_many_parameters_as_operators_can_have(wrap: Any) -> None:
    xs = [torch.full((1,), float(i)) for i in range(63)]
    assert wrap(many(63))(*xs).item() == 62
    assert wrap(many(62, 3))(*xs[:62])[2].item() == 61


@pytest.mark.parametrize("wrap", [lambda f: f, compiled], ids=["eager", "compiled"])
def test_too_many_parameters_are_refused_by_torch_alone(wrap: Any) -> None:
    op = many(64)
    op.register_vjp(lambda saved, grad: [grad] * 64)
    message = "mytest::many_64_1: expected at most 63 parameters of an op that PyTorch calls, got"
    with pytest.raises(NotImplementedError, match=message):
        wrap(lambda x: op(*[x] * 64))(torch.ones(1))
    with pytest.raises(NotImplementedError, match=message):
        wrap(lambda x: op(*[x] * 63, **{"x63": x}))(torch.ones(1))
    assert op(*[np.ones(1)] * 64).item() == 1


def test_a_patch_release_of_torch_has_the_build_of_its_release() -> None:
    running = find_build(torch.__version__)
    major, minor = torch.__version__.split(".")[:2]
    assert find_build(f"{major}.{minor}.99+cu130") == running


@pytest.mark.parametrize("length", [1, 300], ids=["readable", "too long"])
def test_a_torch_without_a_build_is_an_error_that_names_the_command(
    length: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", f"{tmp_path}/{'x' * length}")
    with pytest.raises(ImportError) as failure:
        find_build("1.13.1")
    expected = "graphffi_torch: expected a build for torch 1.13, got torch-"
    assert str(failure.value).startswith(expected)
    assert "`graphffi build-plugin`" in str(failure.value)
