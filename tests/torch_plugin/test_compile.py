# SPDX-License-Identifier: Apache-2.0
"""Ops and the primitive in eager code and under torch.compile, with the same results."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch

import graphffi
from tests.torch_release import IS_TORCH_2_10

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.arange(6.0).reshape(2, 3)

CALLS: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "add": lambda ops, x: ops.add(x * 2, 3.0) + 1,
    "an int for a float": lambda ops, x: ops.add(x, 3),
    "keywords": lambda ops, x: ops.add(a=3.0, x=x),
    "noncontiguous": lambda ops, x: ops.add(x.T),
    "expanded": lambda ops, x: ops.add(x[:1].expand(4, 3)),
    "0-d": lambda ops, x: ops.add(x.sum()),
    "empty": lambda ops, x: ops.add(x[:0]),
    "named results": lambda ops, x: ops.split(x).large - ops.split(x).small,
    "optional operand": lambda ops, x: ops.masked(x, x[:1, 1]),
    "absent operand": lambda ops, x: ops.masked(x),
    "list": lambda ops, x: ops.total_of([x[0], x[1]], x[0]),
    "empty list": lambda ops, x: ops.total_of([], x[0]),
    "attributes": lambda ops, x: ops.attributes(
        x, n=4, f=0.5, b=False, s="", t=torch.int8, d=torch.device("cpu"), ns=[7], o=2
    ),
    "default attributes": lambda ops, x: ops.attributes(x),
    "constants": lambda ops, x: ops.constants(x),
    "in place": lambda ops, x: ops.increment(x.clone(), 2.0) * 2,
    "in place and a result": lambda ops, x: ops.increment_and_copy(x.clone()),
    "size as attribute": lambda ops, x: ops.attributes(x, n=x.shape[0]),
}
EXPECTED: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: x * 2 + 4,
    "an int for a float": lambda x: x + 3,
    "keywords": lambda x: x + 3,
    "noncontiguous": lambda x: x.T + 1,
    "expanded": lambda x: x[:1].expand(4, 3) + 1,
    "0-d": lambda x: x.sum() + 1,
    "empty": lambda x: x[:0],
    "named results": lambda x: torch.full_like(x, 2.0),
    "optional operand": lambda x: x + x[0, 1],
    "absent operand": lambda x: x,
    "list": lambda x: x[0] + x[1],
    "empty list": lambda x: torch.zeros(3),
    "attributes": lambda x: x + 4 + 0.5 + 8 + 1000 + 7 + 2,
    "default attributes": lambda x: x + 1 + 2 + 100 + 3 + 16 + 1000 + 3,
    "constants": lambda x: x + 13,
    "in place": lambda x: (x + 2) * 2,
    "in place and a result": lambda x: (x, x + 1),
    "size as attribute": lambda x: x + x.shape[0] + 2 + 100 + 3 + 16 + 1000 + 3,
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", ["eager", "fx", "static", "dynamic"])
def test_every_call_gives_the_reference(ops: Any, name: str, mode: str) -> None:
    def call(x: torch.Tensor) -> Any:
        return CALLS[name](ops, x)

    if mode == "fx":
        call = torch.fx.symbolic_trace(call)
    elif mode != "eager":
        backend = "inductor" if mode == "dynamic" else "aot_eager"
        call = torch.compile(call, fullgraph=True, dynamic=mode == "dynamic", backend=backend)
    torch.testing.assert_close(call(X), EXPECTED[name](X))


@pytest.mark.parametrize("name", CALLS)
def test_dynamo_does_not_follow_the_binding_of_right_calls(
    ops: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bind(*_: Any) -> None:
        raise AssertionError("followed")

    monkeypatch.setattr(type(ops.add.definition), "bind", bind)
    compiled = torch.compile(lambda x: CALLS[name](ops, x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(X), EXPECTED[name](X))


def test_another_op_or_a_new_gradient_rule_compiles_anew(ops: Any, kernels: Any) -> None:
    op = graphffi.define_op(
        "mytest::add_later",
        schema="(Tensor x, float a) -> Tensor",
        kernel=kernels.add,
        plan="x, a, out",
        infer=lambda x, a: graphffi.like(x),
    )
    compiled = torch.compile(lambda f, x: f(x, 2.0), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(op, X), X + 2)
    torch.testing.assert_close(compiled(ops.add, X), X + 2)
    op.register_vjp(lambda saved, grad: grad * 1.0)
    x = X.clone().requires_grad_()
    compiled(op, x).sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(X))


def test_changing_sizes_do_not_recompile(ops: Any) -> None:
    compiled = 0

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        nonlocal compiled
        compiled += 1
        return graph.forward

    f = torch.compile(ops.add, fullgraph=True, dynamic=True, backend=backend)
    for size in (2, 5, 9):
        torch.testing.assert_close(f(torch.ones(size, 4)), torch.full((size, 4), 2.0))
    assert compiled == 1


def test_a_float_attribute_that_recompiles_is_one_warning(kernels: Any) -> None:
    op = graphffi.define_op(
        "floats::add",
        schema="(Tensor x, float a, float b=1.0) -> Tensor",
        kernel=kernels.add,
        plan="x, a, out",
        infer=lambda x, a, b: graphffi.like(x),
    )
    f = torch.compile(lambda x, a: op(x, a, 2.0), fullgraph=True, backend="eager")
    with warnings.catch_warnings(record=True) as seen:
        warnings.filterwarnings("always", message="floats::add")
        f(X, 1.0)
        f(X, 1.0)
        assert not seen
        for a in (2.0, 3.0, 4.0):
            torch.testing.assert_close(f(X, a), X + a)
    assert [str(warning.message) for warning in seen] == [
        "floats::add: attribute 'a': expected the same float in each call, got one that changes, "
        "which torch.compile compiles anew for each value; pass a tensor"
    ]
    assert seen[0].category is RuntimeWarning


def test_ops_in_place_return_the_same_objects(ops: Any) -> None:
    x = torch.zeros(3)
    assert ops.increment(x) is x
    before, after = ops.increment_and_copy(x)
    assert after is x
    assert before.tolist() == [1, 1, 1]
    assert x.tolist() == [2, 2, 2]


def test_inputs_of_a_graph_are_updated(ops: Any) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        ops.increment(x)
        return x * 2

    x = torch.zeros(3)
    y = torch.compile(step, fullgraph=True)(x)
    assert x.tolist() == [1, 1, 1]
    assert y.tolist() == [2, 2, 2]


@pytest.mark.parametrize("compiled", [False, True])
def test_functions_are_called_without_an_op(kernels: Any, compiled: bool) -> None:
    reference = kernels.add.reference

    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, 2.0, out=graphffi.like(x))

    if compiled:
        call = torch.compile(call, fullgraph=True, dynamic=True)
    torch.testing.assert_close(call(X), X + 2)


def test_functions_are_given_sizes_that_vary(kernels: Any) -> None:
    def add(x: torch.Tensor, n: int) -> Any:
        return graphffi.call_tvm_ffi(kernels.add.reference, x, float(n), out=graphffi.like(x))

    compiled = torch.compile(add, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (3, 4):
        torch.testing.assert_close(compiled(X, n), X + n)


def add_in_python(x: Any, a: float, out: Any) -> None:
    torch.from_dlpack(out).copy_(torch.from_dlpack(x) + a)


@pytest.mark.skipif(IS_TORCH_2_10, reason="torch 2.10 traces into objects that it is given")
def test_functions_and_python_callables_are_constants_of_a_graph(kernels: Any) -> None:
    for function in (kernels.add, add_in_python):

        def call(x: torch.Tensor, function: Any = function) -> Any:
            return graphffi.call_tvm_ffi(function, x, 2.0, out=graphffi.like(x)) * 2

        compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(X), (X + 2) * 2)


def test_a_call_without_tensors_gives_tensors_of_the_results_dtype(kernels: Any) -> None:
    def call() -> Any:
        return graphffi.call_tvm_ffi(
            "graphffi_test.fill", 2.0, out=graphffi.empty((3,), torch.float32)
        )

    def fill(value: float, out: Any) -> None:
        torch.from_dlpack(out).fill_(value)

    graphffi.register_global_func("graphffi_test.fill", fill, override=True)
    for run in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
        torch.testing.assert_close(run(), torch.full((3,), 2.0))


def test_fake_and_meta_tensors_follow_the_rule(ops: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    assert ops.add(X.to("meta")).shape == X.shape
    with FakeTensorMode():
        y = ops.split(torch.empty(4, 5)).small
    assert y.shape == (4, 5)


@pytest.mark.slow
def test_an_op_met_first_in_a_graph_works() -> None:
    program = """
import graphffi
from graphffi import Tensor

graphffi.register_global_func("first.f", lambda x, y: None)

@graphffi.op("first::f", kernel="first.f")
def f(x: Tensor) -> Tensor:
    return graphffi.like(x)

import torch
import graphffi_torch
assert torch.compile(f, fullgraph=True, backend="aot_eager")(torch.ones(3)).shape == (3,)

@graphffi.op("first::g", kernel="first.f")
def g(x: Tensor) -> Tensor:
    return graphffi.like(x)

y = torch.compile(lambda x: g(x), fullgraph=True, backend="aot_eager")(torch.ones(3))
assert y.shape == (3,)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.slow
def test_a_function_met_first_in_a_graph_works() -> None:
    program = """
import sys
import graphffi

graphffi.register_global_func("first.f", lambda x, y: None)

import torch
call = lambda x: graphffi.call_tvm_ffi("first.f", x, out=graphffi.like(x))
assert torch.compile(call, fullgraph=True, backend="aot_eager")(torch.ones(3)).shape == (3,)
assert "graphffi_torch._compiled.traced_call" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_condition_that_elements_decide_names_the_op(ops: Any) -> None:
    @graphffi.op("mytest::long", kernel=ops.add.definition.kernels[0].reference)
    def long(x: graphffi.Tensor, a: float = 1.0) -> graphffi.Tensor:
        graphffi.check(x.shape[0] >= 2, f"operand 'x': expected 2 or more, got {x.shape[0]}")
        return graphffi.like(x)

    def stated(x: torch.Tensor) -> torch.Tensor:
        y = x[x > 1]
        torch._check(y.shape[0] >= 2)
        return long(y)

    x = torch.arange(5.0)
    compiled = functools.partial(torch.compile, fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert compiled(stated)(x).tolist() == [3, 4, 5]
        with pytest.raises(Exception, match="mytest::long: shape rule: expected a condition that"):
            compiled(lambda x: long(x[x > 1]))(x)


HELPERS = (
    *("list", "len", "type", "isinstance", "tuple", "zip", "float", "Tensor", "Device", "dtype"),
    *(
        "digest",
        "bind",
        "operator",
        "values",
        "args",
        "named",
        "warn",
        "varies",
        "is_",
        "find_places",
    ),
    *("MISSING", "torch", "result_type", "to_float", "graphffi_traced_call"),
)


def add_to(x: Any, by: float, out: Any) -> None:
    torch.from_dlpack(out).copy_(torch.from_dlpack(x) + by)


@pytest.mark.parametrize("name", HELPERS)
def test_an_op_may_be_called_like_what_traced_code_refers_to(name: str) -> None:
    op = graphffi.define_op(
        f"helpers::{name}",
        schema="(Tensor x, float by=1.0) -> Tensor",
        kernel=add_to,
        infer=lambda x, by: graphffi.like(x),
    )
    torch.testing.assert_close(torch.compile(op, fullgraph=True, backend="aot_eager")(X), X + 1)
    program = torch.compile(lambda x: op(by=2, x=x), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(program(X), X + 2)


@pytest.mark.parametrize("name", ["self", "op", "args", "named", "torch", "values", "v_x", "len"])
def test_parameters_may_be_called_like_what_traced_code_refers_to(name: str) -> None:
    op = graphffi.define_op(
        f"helpers::of_{name}",
        schema=f"(Tensor x, float {name}=1.0) -> Tensor",
        kernel=add_to,
        infer=lambda x, by: graphffi.like(x),
    )
    program = torch.compile(lambda x: op(x, **{name: 2}), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(program(X), X + 2)
    torch.testing.assert_close(op(X, **{name: 2}), X + 2)
