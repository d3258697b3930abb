# SPDX-License-Identifier: Apache-2.0
"""Attributes that traced code computes from the elements of tensors."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.arange(3.0)
DEFAULTS = 2 + 100 + 3 + 16 + 1000 + 3  # what attributes add besides n


def compiled(call: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        run = torch.compile(call, **options)

    def patched(*args: Any) -> Any:
        with torch._dynamo.config.patch(capture_scalar_outputs=True):
            return run(*args)

    return patched


def test_an_int_may_be_an_element(ops: Any) -> None:
    run = compiled(lambda x, i: ops.attributes(x, n=i.item()), fullgraph=True)
    for n in (5, 7):
        torch.testing.assert_close(run(X, torch.tensor(n)), X + n + DEFAULTS)


@pytest.mark.filterwarnings("ignore:.*compiles anew:RuntimeWarning")
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_a_float_that_is_an_element_is_eager_or_an_error(ops: Any, dtype: torch.dtype) -> None:
    def call(x: torch.Tensor, i: torch.Tensor) -> Any:
        return ops.add(x + 1, i.item()) * 2

    run = compiled(call)
    for value in (5, 7):
        torch.testing.assert_close(run(X, torch.tensor(value, dtype=dtype)), (X + 1 + value) * 2)


@pytest.mark.skipif(IS_TORCH_2_10, reason="needs a newer torch")
def test_a_wrong_element_is_described_without_its_value(ops: Any) -> None:
    run = compiled(lambda x: ops.attributes(x, n=x.sum().item()), fullgraph=True)
    with pytest.raises(TypeError, match="attribute 'n': expected an int, got float"):
        run(X)


@pytest.mark.skipif(IS_TORCH_2_10, reason="needs a newer torch")
def test_a_tensor_of_any_size_is_described(ops: Any) -> None:
    text = r"attribute 'n': expected an int, got float32\[3\] on cpu"
    run = compiled(lambda x: ops.attributes(x, n=x), fullgraph=True, dynamic=True)
    for call in (run, lambda x: ops.attributes(x, n=x)):
        with pytest.raises(TypeError, match=text):
            call(X)


CALLS: dict[str, Callable[..., Any]] = {
    "op": lambda ops, add, x, f: ops.add(x, f),
    "expression": lambda ops, add, x, f: ops.add(x, f * 2 + 1),
    "function": lambda ops, add, x, f: graphffi.call_tvm_ffi(add, x, f, out=graphffi.like(x)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_float_that_is_an_element_is_named(ops: Any, kernels: Any, name: str) -> None:
    add = kernels.add
    known = r"expected a float that is constant in the graph.*; pass the tensor"
    subject = r"add: argument #1" if name == "function" else r"mytest::add: attribute 'a'"

    class Call(torch.nn.Module):
        def forward(self, x: torch.Tensor, f: torch.Tensor) -> Any:
            return CALLS[name](ops, add, x, f.item())

    arguments = (X, torch.tensor(2.5))
    with pytest.raises(TypeError, match=f"{subject}: {known}"):
        compiled(Call(), fullgraph=True, backend="eager")(*arguments)
    with pytest.raises(TypeError, match=f"{subject}: {known}"):
        torch.export.export(Call(), arguments, strict=False)


def test_bools_of_elements_and_sizes_are_constants_of_the_graph(ops: Any) -> None:
    run = compiled(lambda x, i: ops.attributes(x, b=i.item() > 3), fullgraph=True)
    for n in (5, 2):
        expected = X + 1 + DEFAULTS - (0 if n > 3 else 100)
        torch.testing.assert_close(run(X, torch.tensor(n)), expected)
    run = compiled(lambda x: ops.attributes(x, b=x.shape[0] > 2), fullgraph=True, dynamic=True)
    torch.testing.assert_close(run(X), X + 1 + DEFAULTS)


@pytest.mark.filterwarnings("ignore:.*compiles anew:RuntimeWarning")
def test_calls_that_are_followed_get_constants_too(ops: Any) -> None:
    op = graphffi.define_op(
        "mytest::followed",
        schema="(Tensor(a!) x, float a) -> Tensor",
        kernel="mytest.followed",
        infer=lambda x, a: graphffi.like(x),
    )

    def kernel(x: graphffi.Tensor, a: float, out: graphffi.Tensor) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x) + a)

    graphffi.register_global_func("mytest.followed", kernel, override=True)
    run = compiled(lambda x, i: op(x.clone(), i.item())[1], fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(X, torch.tensor(5)), X)


def test_floats_of_sizes_are_constants_of_the_graph(ops: Any) -> None:
    run = compiled(lambda x: ops.add(x, x.shape[0] / 2), fullgraph=True, dynamic=True)
    torch.testing.assert_close(run(X), X + 1.5)
    torch.testing.assert_close(run(X[:2]), X[:2] + 1)


@pytest.mark.parametrize(
    "value",
    [
        *("text", graphffi.dtype("float16"), graphffi.Device("cuda:1")),
        *(torch.bfloat16, torch.device("cuda:1")),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value]], ids=["one", "list"])
def test_calls_without_an_op_take_texts_dtypes_and_devices(value: Any, wrap: Any) -> None:
    if IS_TORCH_2_10 and isinstance(value, graphffi.dtype):
        pytest.skip("torch 2.10 traces no str of a subclass")
    taken: list[Any] = []
    graphffi.register_global_func("mytest.take", lambda x, a, out: taken.append(a), override=True)

    def call(x: torch.Tensor, value: Any) -> Any:
        return graphffi.call_tvm_ffi("mytest.take", x, wrap(value), out=graphffi.like(x))

    names = {torch.bfloat16: graphffi.dtype("bfloat16"), torch.device("cuda:1"): "cuda:1"}
    expected = (
        graphffi.Device("cuda:1") if names.get(value) == "cuda:1" else names.get(value, value)
    )
    for run in (call, compiled(call, fullgraph=True)):
        run(X, value)
        assert taken.pop() == wrap(expected)


def test_arrays_of_numpy_beside_tensors_are_one_error() -> None:
    def call(x: torch.Tensor, y: Any) -> Any:
        return graphffi.call_tvm_ffi("mytest.never_called", x, y, out=graphffi.like(x))

    text = "argument: expected a torch.Tensor, as others are, got numpy.ndarray; convert it with"
    for run in (call, compiled(call, fullgraph=True)):
        with pytest.raises(TypeError, match=text):
            run(X, np.ones((2, 3), np.float32))


class Numbers(list[Any]):
    """A list that Dynamo passes to no operator."""


class Pair(NamedTuple):
    """A tuple likewise."""

    first: Any
    second: Any


@pytest.mark.parametrize("wrap", [graphffi.Shape, Numbers, Pair._make])
def test_lists_may_be_of_subclasses(wrap: Any) -> None:
    taken: list[Any] = []
    op = graphffi.define_op(
        "mytest::lists",
        schema="(Tensor[] xs, int[] ns) -> Tensor",
        kernel=lambda xs, ns, out: taken.append((len(xs), ns)),
        infer=lambda xs, ns: graphffi.like(xs[0]),
        override=True,
    )
    xs = [X, X] if wrap is graphffi.Shape else wrap([X, X])
    for run in (op, compiled(op, fullgraph=True)):
        run(xs, wrap([3, 4]))
        assert taken.pop() == (2, [3, 4])


class Three:
    """An int that Dynamo does not know as one."""

    def __index__(self) -> int:
        return 3


@pytest.mark.parametrize("kind", ["bool_", "torch.int8", "int8", torch.int8])
@pytest.mark.parametrize("n", [3, Three()], ids=["int", "index"])
def test_a_dtype_may_have_other_names(kind: Any, n: Any) -> None:
    if isinstance(n, Three) and IS_TORCH_2_10:
        pytest.skip("torch 2.10 cannot trace operator.index")
    op = graphffi.define_op(
        "mytest::named_dtype",
        schema="(Tensor x, dtype kind, int n) -> Tensor",
        kernel="mytest.never_called",
        infer=lambda x, kind, n: graphffi.empty((n,), kind),
    )

    def call(x: torch.Tensor) -> Any:
        return op(x, kind, n)

    (result,) = torch.export.export(Caller(call), (X,), strict=True).graph.output_node().args[0]
    value = result.meta["val"]
    assert (value.shape, value.dtype) == ((3,), torch.bool if kind == "bool_" else torch.int8)


class Count(enum.IntEnum):
    THREE = 3


class Text(str, enum.Enum):
    HALF = "float16"


def test_attributes_may_be_members_of_enums(ops: Any) -> None:
    def call(x: torch.Tensor) -> Any:
        return ops.attributes(ops.add(x, Count.THREE), Count.THREE, s=Text.HALF, t=Text.HALF)

    torch.testing.assert_close(compiled(call, fullgraph=True)(X), call(X))


class Caller(torch.nn.Module):
    """A module that makes a call."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> Any:
        return self.call(x)


class Real(float):
    """A float of another class."""


@pytest.mark.skipif(IS_TORCH_2_10, reason="torch 2.10 traces no float of a subclass")
def test_attributes_may_be_numpys_data_types_and_other_floats(ops: Any) -> None:
    run = compiled(lambda x, f, t: ops.attributes(x, f=f, t=t), fullgraph=True, backend="aot_eager")
    for f, t in (
        (Real(1.5), np.dtype("int8")),
        (Real(2.5), np.int8),
        (Real(2.5), np.float32),
        (3.5, np.dtype("float64")),
    ):
        torch.testing.assert_close(run(X, f, t), ops.attributes(X, f=f, t=t))


ZEROS = (1.5, 2.5, -0.0, 0.0, -0.0)
PLACES: dict[str, Callable[..., Any]] = {
    "op": lambda op, x, g: op(x, g),
    "expression": lambda op, x, g: op(x, g * 2),
    "list": lambda op, x, g: op(x, 1.0, [2.0, g]),
    "optional": lambda op, x, g: op(x, 1.0, [], g),
    "function": lambda op, x, g: graphffi.call_tvm_ffi(
        "exact.see", x, g, [], None, out=graphffi.like(x)
    ),
}


class Seen:
    """An op that notes its attributes."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        graphffi.register_global_func("exact.see", self.see, override=True)
        self.op = graphffi.define_op(
            "exact::see",
            schema="(Tensor x, float g=0.0, float[] gs=[0.0, 1.0], float? o=0.0) -> Tensor",
            kernel="exact.see",
            infer=lambda x, g, gs, o: graphffi.like(x),
        )

    def see(self, x: Any, g: Any, gs: Any, o: Any, out: Any) -> None:
        self.values.append(repr([g, list(gs), o]))

    def of(self, run: Callable[..., Any], *args: Any) -> list[str]:
        """The attributes of the calls that a function makes."""
        self.values.clear()
        run(*args)
        return [*self.values]


@pytest.fixture(scope="module")
def seen() -> Seen:
    return Seen()


@pytest.mark.filterwarnings("ignore:.*compiles anew:RuntimeWarning")
@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("values", [ZEROS, (0.0, *map(Real, ZEROS))])
def test_zeros_keep_their_sign(
    seen: Seen, values: tuple[float, ...], place: str, dynamic: bool | None
) -> None:
    if IS_TORCH_2_10 and type(values[-1]) is Real:
        pytest.skip("torch 2.10 traces no float of a subclass")

    def call(x: torch.Tensor, g: float) -> Any:
        return PLACES[place](seen.op, x, g)

    run = compiled(call, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for value in values:
        assert seen.of(run, X, value) == seen.of(call, X, value)


def test_calls_that_differ_in_the_sign_of_a_zero_are_two(seen: Seen) -> None:
    calls = graphffi.define_op(
        "exact::signed",
        schema="(Tensor x, float g) -> Tensor",
        kernel=lambda x, g, out: seen.values.append(g),
        infer=lambda x, g: graphffi.like(x),
    )
    calls.register_vjp(lambda g, out: out, save=("g",))

    def call(x: torch.Tensor) -> Any:
        return calls(x, 0.0) + calls(x, -0.0)

    run = compiled(call, fullgraph=True, backend="aot_eager")
    seen.values.clear()
    run(X.clone().requires_grad_())
    assert sorted(map(repr, seen.values)) == ["-0.0", "0.0"]


def test_exported_programs_keep_the_sign_of_a_zero(seen: Seen) -> None:
    program = torch.export.export(Caller(lambda x: seen.op(x, -0.0, [-0.0], -0.0)), (X,))
    for found in (program, program.run_decompositions(), graphffi_torch.decompose(program)):
        assert seen.of(found.module(), X) == ["[-0.0, [-0.0], -0.0]"]
