# SPDX-License-Identifier: Apache-2.0
"""Tensors whose memory is not their elements: conjugated and negated lazily, or none at all."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch

import graphffi
import graphffi_torch
from graphffi_torch._operators.specs import to_numpy
from tests import warm_python
from tests.torch_release import IS_TORCH_2_10

if TYPE_CHECKING:
    from collections.abc import Callable

Z = torch.complex(torch.arange(3.0), torch.arange(3.0) + 1)
X = torch.arange(3.0)
BACKENDS = pytest.mark.parametrize(
    "backend",
    [
        "none",
        "aot_eager",
        pytest.param(
            "inductor",
            marks=pytest.mark.skipif(
                IS_TORCH_2_10,
                reason="torch 2.10's Inductor gives kernels lazy conjugates, which are refused",
            ),
        ),
    ],
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex"),
]


def _copy(x: Any, y: Any) -> None:
    torch.from_dlpack(y).copy_(torch.from_dlpack(x))


@pytest.fixture(scope="module")
def copy() -> Any:
    graphffi.register_global_func("mytest.copy_odd", _copy, override=True)
    return graphffi.define_op(
        "mytest::copy_odd",
        schema="(Tensor x) -> Tensor",
        kernel="mytest.copy_odd",
        infer=graphffi.like,
    )


def copy_raw(x: torch.Tensor) -> Any:
    return graphffi.call_tvm_ffi("mytest.copy_odd", x, out=graphffi.like(x))


class Copies(torch.nn.Module):
    """A conjugate, and a negative."""

    def __init__(self, copy: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.copy = copy

    def forward(self, z: torch.Tensor) -> Any:
        return self.copy(z.conj()), self.copy(z.conj().imag)


def check(results: Any) -> None:
    expected = (torch.complex(Z.real, -Z.imag), -Z.imag)
    torch.testing.assert_close(tuple(results), expected)


@pytest.mark.parametrize("is_op", [True, False], ids=["op", "primitive"])
@BACKENDS
def test_kernels_read_conjugates_and_negatives(copy: Any, is_op: bool, backend: str) -> None:
    model = Copies(copy if is_op else copy_raw)
    assert Z.conj().is_conj()
    assert Z.conj().imag.is_neg()
    check(
        (model if backend == "none" else torch.compile(model, fullgraph=True, backend=backend))(Z)
    )


@pytest.fixture(scope="module")
def artifacts(copy: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What is made of a program whose first results are of ops, the others of the primitive."""
    model = torch.nn.Module()
    ways = [Copies(copy), Copies(copy_raw)]
    model.forward = lambda z: [way(z) for way in ways]  # type: ignore[method-assign]
    program = torch.export.export(model, (Z,))
    decomposed = graphffi_torch.decompose(program)
    path = graphffi_torch.package(program, tmp_path_factory.mktemp("odd") / "model.pt2")
    functional = decomposed.run_decompositions()
    package = graphffi_torch.load_package(path, trust=True)
    return [decomposed.module(), functional.module(), package]


@pytest.mark.slow
@pytest.mark.skipif(
    torch.__version__.startswith(("2.10.", "2.11.")),
    reason="this torch's AOTInductor refuses conjugates, or gives them another data type",
)
@pytest.mark.parametrize("way", [0, 1], ids=["op", "primitive"])
def test_artifacts_read_conjugates_and_negatives(artifacts: list[Any], way: int) -> None:
    for model in artifacts:
        check(model(Z)[way])


@pytest.mark.parametrize("has_side_effect", [False, True])
def test_updates_reach_what_is_negated(kernels: Any, has_side_effect: bool) -> None:
    z = torch.zeros(3, dtype=torch.complex64)
    updated = graphffi.call_tvm_ffi(
        kernels.increment, z.conj().imag, 2.0, mutates=[0], has_side_effect=has_side_effect
    )
    torch.testing.assert_close(updated, torch.full((3,), 2.0))
    torch.testing.assert_close(z.imag, torch.full((3,), -2.0))


def _move(first: Any, others: Any, old: Any) -> None:
    torch.from_dlpack(old).copy_(torch.from_dlpack(first))
    for tensor in (first, *others):
        torch.from_dlpack(tensor).add_(2)


@BACKENDS
def test_ops_with_results_update_several_that_are_conjugated_or_negated(backend: str) -> None:
    graphffi.register_global_func("mytest.move", _move, override=True)
    move = graphffi.define_op(
        "mytest::move",
        schema="(Tensor(a!) first, Tensor(b!)[] others) -> Tensor old",
        kernel="mytest.move",
        infer=lambda first, others: graphffi.like(first),
    )

    def call(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return move(x.conj(), [y.conj().imag, z])[0]

    x, y, z = Z.clone(), Z.clone(), X.clone()
    wrapped = call if backend == "none" else torch.compile(call, fullgraph=True, backend=backend)
    torch.testing.assert_close(wrapped(x, y, z), Z.conj().resolve_conj())
    torch.testing.assert_close((x, y.real, y.imag, z), (Z + 2, Z.real, Z.imag - 2, X + 2))


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_tensors_whose_memory_was_given_back_are_refused(ops: Any, kernels: Any, wrap: Any) -> None:
    x = X.clone()
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="mytest::add: 'x': expected a tensor with data, got one"):
        wrap(ops.add)(x)
    with pytest.raises(ValueError, match="argument #0: expected a tensor that DLPack can describe"):
        kernels.add(x, 1.0, X.clone())


class Subclass(torch.Tensor):
    """Without operators of its own."""


def lazy_zeros() -> torch.Tensor:
    """What torch makes of zero tangents."""
    return torch._efficientzerotensor((3,))


def given_back() -> torch.Tensor:
    """A tensor whose memory was given back."""
    x = X.clone()
    x.untyped_storage().resize_(0)
    return x


def view_given_back() -> torch.Tensor:
    """A view whose address is that of no memory, and not NULL."""
    whole = X.clone()
    x = whole[1:]
    whole.untyped_storage().resize_(0)
    return x


@pytest.mark.parametrize("make", [lazy_zeros, given_back, view_given_back])
@pytest.mark.parametrize("kind", [torch.Tensor, torch.nn.Parameter, Subclass], ids=str)
def test_functions_refuse_tensors_without_memory(kernels: Any, make: Any, kind: Any) -> None:
    x = make() if kind is torch.Tensor else torch.Tensor._make_subclass(kind, make())
    text = "argument #0: expected a tensor that DLPack can describe"
    with pytest.raises(ValueError, match=text):
        kernels.add(x, 1.0, X.clone())
    with pytest.raises(ValueError, match=text):
        kernels.add([x], 1.0, X.clone())
    with pytest.raises(BufferError, match="it has no memory"):
        graphffi.from_dlpack(x)
    graphffi.from_dlpack(torch.empty(0))


SEEN_BEFORE_THE_PLUGIN = """
import torch, graphffi
class Subclass(torch.Tensor): pass
whole = torch.ones(6)
x = torch.Tensor._make_subclass(Subclass, whole[1:])
graphffi.from_dlpack(x)
import graphffi_torch
whole.untyped_storage().resize_(0)
try:
    graphffi.from_dlpack(x)
except BufferError as error:
    assert "it has no memory" in str(error)
else:
    raise AssertionError("no error")
"""


def test_types_seen_before_the_plugin_are_read_as_it_reads_them() -> None:
    warm_python.run([sys.executable, "-c", SEEN_BEFORE_THE_PLUGIN], check=True)


@pytest.mark.parametrize("is_op", [True, False], ids=["op", "primitive"])
@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_data_types_that_kernels_cannot_be_given_are_refused(copy: Any, is_op: bool) -> None:
    name = "mytest::copy_odd: 'x'" if is_op else "mytest.copy_odd: 'i0'"
    for x, got in (
        (torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), "QUInt8; call .dequantize()"),
        (torch.empty(3, dtype=torch.bits8), "Bits8; pass the bytes"),
        (torch.empty(3, dtype=torch.uint1), "UInt1; pass the bytes"),
    ):
        with pytest.raises(TypeError, match="expected a data type") as error:
            (copy if is_op else copy_raw)(x)
        told = f"{name}: expected a data type that kernels can take, got {got}"
        assert str(error.value).startswith(told)


@pytest.mark.parametrize("is_op", [True, False], ids=["op", "primitive"])
@pytest.mark.parametrize("dtype", [torch.int4, torch.bits8], ids=str)
def test_compiled_code_refuses_them_alike(copy: Any, is_op: bool, dtype: torch.dtype) -> None:
    x = torch.empty(3, dtype=dtype)
    f = copy if is_op else copy_raw
    with pytest.raises(TypeError, match="expected a data type") as eager:
        f(x)
    with pytest.raises(TypeError) as compiled:
        torch.compile(f, fullgraph=True, backend="eager")(x)
    assert str(compiled.value) == str(eager.value)


def test_results_of_data_types_that_torch_lacks_are_refused_by_name() -> None:
    op = graphffi.define_op(
        "mytest::odd_result",
        schema="(Tensor x, dtype kind) -> Tensor y",
        kernel="mytest.never_called",
        plan="x, y",
        infer=lambda x, kind: graphffi.like(x, dtype=kind),
    )
    raw = lambda x, kind: graphffi.call_tvm_ffi(  # noqa: E731
        "mytest.never_called", x, out=graphffi.like(x, dtype=kind)
    )
    for kind in ("float7", "float32x4", "handle", "int4", "uint1"):
        told = f"expected a dtype that torch passes to kernels, got {kind}(\n|$)"
        for f, name in ((op, "mytest::odd_result: result 'y'"), (raw, "mytest.never_called: .*0")):
            with pytest.raises(TypeError, match=f"^{name}: {told}"):
                f(X, kind)
            compiled = torch.compile(f, fullgraph=True, backend="eager")
            with pytest.raises(TypeError, match=f"^{name}: {told}"):
                compiled(X, kind)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused(ops: Any, layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    text = "mytest::add: 'x': expected a strided tensor, got a nested one; call .to_padded_tensor"
    with pytest.raises(ValueError, match=text):
        ops.add(nested)


def test_tensors_with_and_without_data_in_one_call_are_refused(ops: Any, kernels: Any) -> None:
    meta = X.to("meta")
    assert ops.total_of([meta, meta], meta).is_meta
    message = "mytest::total_of: expected all operands on the device meta, or none, got 'xs' on cpu"
    with pytest.raises(ValueError, match=message):
        ops.total_of([X, meta], X)
    with pytest.raises(ValueError, match="expected all tensors on the device meta, or none, got"):
        graphffi.call_tvm_ffi(kernels.masked, X, meta, out=graphffi.like(X))
    with pytest.raises(ValueError, match="mytest::add: expected all tensors on the device meta"):
        torch.ops.mytest.add.out(X, out=meta)
    torch.ops.mytest.add.out(meta, out=meta)


def test_tensors_without_an_exchange_table_are_read_by_dlpack() -> None:
    code = """
import torch
del torch.Tensor.__dlpack_c_exchange_api__
import graphffi
import graphffi_torch
graphffi.register_global_func("odd.double", lambda x: torch.from_dlpack(x).mul_(2))
x = torch.ones(2)
graphffi.get_global_func("odd.double")(x)
print(x.tolist())
"""
    result = warm_python.run([sys.executable, "-c", code])
    assert result.stdout == "[2.0, 2.0]\n", result.stderr
    assert "torch.Tensor has no __dlpack_c_exchange_api__; functions read" in result.stderr


@pytest.mark.parametrize("name", "bool int8 uint16 float16 bfloat16 float8_e5m2 complex64".split())
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_contents_are_the_same_as_arrays(name: str, shape: tuple[int, ...]) -> None:
    dtype = getattr(torch, name)
    contents = torch.arange(math.prod(shape) * dtype.itemsize, dtype=torch.uint8) % 2
    tensor = contents.view(dtype).reshape(shape)
    tensor = tensor.T if tensor.ndim == 2 else tensor
    array = to_numpy(tensor)
    assert array.shape == tensor.shape
    assert graphffi.dtype(array.dtype) == name
    assert array.tobytes() == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    array[...] = 0
    assert contents.tolist() == [i % 2 for i in range(contents.numel())]


def test_a_data_type_that_numpy_lacks_has_no_array() -> None:
    with pytest.raises(TypeError, match=r"expected a data type of NumPy or ml_dtypes .* got int3"):
        to_numpy(torch.zeros(2, dtype=torch.uint8).view(torch.int3))


def test_conjugates_are_arrays_of_their_own() -> None:
    assert to_numpy(Z.conj()).tolist() == Z.conj().resolve_conj().tolist()


NEGATED: dict[str, Any] = {
    "operand": lambda copy, x: copy(x),
    "view": lambda copy, x: copy(x[1:]),
    "intermediate": lambda copy, x: copy(x + 1),
    "function": lambda copy, x: copy_raw(x),
}


@pytest.mark.parametrize("case", NEGATED)
def test_inductor_refuses_inputs_that_are_negated(copy: Any, case: str) -> None:
    run = torch.compile(lambda x: NEGATED[case](copy, x), fullgraph=True)
    kind: type[Exception] = ValueError
    text = "of the graph: expected elements as they are in memory, got their negatives; call"
    if IS_TORCH_2_10 and case == "function":  # whose Inductor refuses them itself
        kind, text = Exception, "got their negatives|find kernel for .*auto_functional"
    for negated in (torch._neg_view(X), Z.conj().imag):
        with pytest.raises(kind, match=text):
            run(negated)
    torch.testing.assert_close(run(X), NEGATED[case](copy, X))


@BACKENDS
def test_updates_of_inputs_that_are_negated_are_right_or_refused(
    kernels: Any, backend: str
) -> None:
    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(kernels.increment, x, 2.0, mutates=[0])

    x = X.clone()
    run = call if backend == "none" else torch.compile(call, fullgraph=True, backend=backend)
    if backend == "inductor":
        with pytest.raises(ValueError, match="got their negatives"):
            run(torch._neg_view(x))
        torch.testing.assert_close(x, X)
    else:
        run(torch._neg_view(x))
        torch.testing.assert_close(x, X - 2)


@BACKENDS
def test_cotangents_may_be_negated(copy: Any, backend: str) -> None:
    rule = graphffi.define_op(
        "mytest::copy_of_copy",
        schema="(Tensor x) -> Tensor",
        kernel=copy.definition.kernels[0].reference,
        infer=graphffi.like,
    )
    rule.register_vjp(lambda saved, grad: copy(grad))
    run = rule if backend == "none" else torch.compile(rule, fullgraph=True, backend=backend)
    x = X.clone().requires_grad_()
    for cotangent in (torch._neg_view(X), X):
        (found,) = torch.autograd.grad(run(x), x, cotangent)
        torch.testing.assert_close(found, cotangent.resolve_neg())


STRIDES = {"numpy": (0, 3), "inner": (3, 0, 2), "outer": (0, 2, 3)}


@pytest.mark.parametrize("shape", STRIDES.values(), ids=STRIDES)
@BACKENDS
def test_strides_of_tensors_without_elements_do_not_matter(
    backend: str, shape: tuple[int, ...]
) -> None:
    seen: list[Any] = []
    update = graphffi.define_op(
        "mytest::update_nothing",
        schema="(Tensor(a!) x, Tensor y) -> ()",
        kernel="mytest.update_nothing",
    )
    graphffi.register_global_func(
        "mytest.update_nothing", lambda x, y: seen.append(x.strides), override=True
    )

    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        update(x, y)

    run = call if backend == "none" else torch.compile(call, fullgraph=True, backend=backend)
    x = torch.zeros(4).as_strided(shape, (0,) * len(shape))
    run(x, X)
    run(x, x)
    update(graphffi.from_dlpack(x), graphffi.from_dlpack(X))
    assert seen[:2] == [torch.zeros(shape).stride()] * 2
    assert len(seen) == 3
