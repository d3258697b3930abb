# SPDX-License-Identifier: Apache-2.0
"""Ops on NumPy arrays: definition, binding, plans, results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import graphffi
from graphffi import Tensor

KERNELS = r"""
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;

/// Adds up what it gets, so that a test sees which arguments arrived in which place.
double Number(ffi::AnyView value) {
  if (value == nullptr) return 1000;
  if (auto x = value.try_cast<ffi::TensorView>()) return static_cast<float*>(x->data_ptr())[0];
  if (auto list = value.try_cast<ffi::Array<ffi::Any>>()) {
    double sum = 0;
    for (const ffi::Any& item : *list) sum = sum * 10 + Number(item);
    return sum;
  }
  if (auto text = value.try_cast<ffi::String>()) return static_cast<double>(text->size());
  if (value.type_index() == kTVMFFIDataType) return value.cast<DLDataType>().bits;
  if (value.type_index() == kTVMFFIDevice) return value.cast<DLDevice>().device_type;
  return value.cast<double>();
}

/// Writes the number of each other argument into its first one.
void Write(ffi::PackedArgs args, ffi::Any* result) {
  auto out = args[0].cast<ffi::TensorView>();
  TVM_FFI_CHECK(out.numel() >= args.size() - 1, ValueError) << "out is too small";
  for (int i = 1; i < args.size(); ++i) {
    static_cast<float*>(out.data_ptr())[i - 1] = static_cast<float>(Number(args[i]));
  }
}

void add_one_in_place(ffi::TensorView x) {
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(x.data_ptr())[i] += 1;
}

void split(ffi::TensorView x, ffi::TensorView low, ffi::TensorView high) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float value = static_cast<float*>(x.data_ptr())[i];
    static_cast<float*>(low.data_ptr())[i] = value - 1;
    static_cast<float*>(high.data_ptr())[i] = value + 1;
  }
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def_packed("graphffi.tests.op_write", Write);
}
"""


class Split(NamedTuple):
    """Results with names."""

    low: Tensor
    high: Tensor


@pytest.fixture(scope="module")
def module() -> graphffi.Module:
    return graphffi.cpp.load_inline(
        "test_op",
        cpp_sources=KERNELS,
        functions=["add_one_in_place", "split"],
    )


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def written(size: int) -> graphffi.TensorSpec:
    return graphffi.empty((size,), "float32")


WRITE = "graphffi.tests.op_write"


def test_attributes_and_constants_arrive_as_the_plan_says(module: graphffi.Module) -> None:
    op = graphffi.define_op(
        "test_op::kinds",
        schema="(Tensor x, Tensor? y, Tensor[] zs, int n, float f, bool b, str s, dtype d, "
        "Device where, int[] dims, int? absent=None) -> Tensor",
        kernel=WRITE,
        plan='out, f, x, y, (x, zs), n, b, s, d, where, dims, absent, None, true, 2.5, "abc"',
        infer=lambda x, *_: written(15),
    )
    out = op(
        array(7), None, [array(3), array(4)], 5, 0.25, True, "12345", "bfloat16", "cuda:1", [2, 9]
    )
    assert out.tolist() == [0.25, 7, 1000, 70 + 34, 5, 1, 5, 16, 2, 29, 1000, 1000, 1, 2.5, 3]


def test_the_default_plan_is_parameters_then_results(module: graphffi.Module) -> None:
    @graphffi.op("test_op::split", kernel=module.split)
    def split(x: Tensor) -> Split:
        return graphffi.like(x), graphffi.like(x)  # type: ignore[return-value]

    result = split(array(1, 2))
    assert isinstance(result, Split)
    assert result.low.tolist() == [0, 1]
    assert result.high.tolist() == [2, 3]


def test_an_op_updates_its_operand_in_place_and_returns_it(module: graphffi.Module) -> None:
    @graphffi.op("test_op::inc", kernel=module.add_one_in_place, mutates=("x",))
    def inc(x: Tensor) -> None: ...

    x = array(1, 2)
    assert inc(x) is x
    assert x.tolist() == [2, 3]
    x.flags.writeable = False
    with pytest.raises(ValueError, match=r"test_op::inc: .*expected a writable array"):
        inc(x)


def test_graphffi_tensors_give_graphffi_tensors(module: graphffi.Module) -> None:
    op = graphffi.define_op(
        "test_op::tensors",
        schema="(Tensor x) -> Tensor",
        kernel=WRITE,
        plan="out, x",
        infer=graphffi.like,
    )
    out = op(graphffi.from_dlpack(array(3)))
    assert isinstance(out, graphffi.Tensor)
    assert np.from_dlpack(out).tolist() == [3]


def test_all_wrong_arguments_are_reported_at_once(module: graphffi.Module) -> None:
    @graphffi.op("test_op::checked", kernel=WRITE, plan="out, x, eps, dims")
    def checked(x: Tensor, eps: float = 1e-6, dims: list[int] = [1]) -> Tensor:  # noqa: B006
        graphffi.check(x.ndim == 1, f"operand 'x': expected 1 dimension, got {x.ndim}")
        return graphffi.empty((3,), "float32")

    with pytest.raises(TypeError) as caught:
        checked(3, eps="small", dims=2, axis=1)
    assert str(caught.value) == (
        "test_op::checked: operand 'x': expected a tensor, got int 3; attribute 'eps': expected a "
        "float, got str 'small'; attribute 'dims': expected a list of ints, got int 2; argument "
        "'axis': expected a known name; known attributes: eps, dims; operands: x"
    )
    with pytest.raises(TypeError, match="operand 'x': expected a tensor, got nothing"):
        checked()
    with pytest.raises(TypeError, match="expected at most 3 arguments, got 4"):
        checked(array(1), 1.0, [1], 2)
    with pytest.raises(TypeError, match="argument 'x': expected one value, got two"):
        checked(array(1), x=array(1))
    with pytest.raises(
        ValueError, match="test_op::checked: operand 'x': expected 1 dimension, got 2"
    ):
        checked(np.ones((1, 1), np.float32))
    assert checked(array(1), np.float32(0.5), (np.int64(3),)).tolist() == [1, 0.5, 3]


@pytest.mark.parametrize("value", [True, "1", 1.5, None, np.array(1), [1]])
def test_an_int_attribute_takes_ints_only(module: graphffi.Module, value: object) -> None:
    op = graphffi.define_op(
        "test_op::int",
        schema="(Tensor x, int n) -> Tensor",
        kernel=WRITE,
        plan="out, n",
        infer=lambda x, n: graphffi.like(x),
    )
    with pytest.raises(TypeError, match="test_op::int: attribute 'n': expected an int, got"):
        op(array(1), value)


def test_one_name_has_one_definition() -> None:
    def define(schema: str, plan: str = "") -> graphffi.Op:
        return graphffi.define_op(
            "test_op::once", schema=schema, kernel=WRITE, plan=plan, infer=lambda *_: written(1)
        )

    first = define("(Tensor x) -> Tensor")
    assert define("(Tensor x) -> Tensor") is first
    registered = r"test_op::once: expected the registered definition, \(x: tensor\) -> "
    with pytest.raises(ValueError, match=rf"{registered}.*with another signature; give it another"):
        define("(Tensor x, int n) -> Tensor")
    with pytest.raises(ValueError, match=rf"{registered}.*with another plan; give it another name"):
        define("(Tensor x) -> Tensor", "out, x")


@pytest.mark.parametrize(
    ("schema", "plan", "text"),
    [
        ("(Tensor x) -> Tensor", "out, y", "expected a known name, got 'y'; known names: out, x"),
        ("(Tensor x) -> Tensor", "out x", "expected an item"),
        ("(Tensor x) -> Tensor", "(out, x", "is missing"),
        ("(Tensor x, Tensor x) -> Tensor", "", "expected distinct names of .*, got 'x' twice"),
        ("(Tensor out) -> Tensor", "", "got 'out' twice; a single result is 'out'"),
        ("(Tensor class) -> Tensor", "", "that neither Python nor graphffi reserves, got 'class'"),
        ("(Tensor größe) -> Tensor", "", "expected names of ASCII letters, .* got 'größe'"),
        ("(Tensor graphffi_digest) -> Tensor", "", "got 'graphffi_digest'"),
        ("(Tensor x) -> ()", "", "expected a result or an operand that is updated in place"),
        ("(Tensor x) -> (Tensor a, Tensor b)", "x, a", "expected all results, .* without b"),
    ],
)
def test_a_wrong_definition_is_refused(schema: str, plan: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        graphffi.define_op(
            "test_op::wrong", schema=schema, kernel=WRITE, plan=plan, infer=lambda *_: written(1)
        )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"plan": None}, "test_op::wrong: plan: expected a str, got None"),
        ({"dims": None}, "test_op::wrong: dims: expected a str, got None"),
        ({"doc": 3}, "test_op::wrong: doc: expected a str, got int 3"),
        ({"dtypes": 1}, "test_op::wrong: dtypes: expected a str, got int 1"),
        (
            {"strided": 1},
            "test_op::wrong: strided: expected a bool or names of operands, got int 1",
        ),
    ],
)
def test_options_of_another_kind_are_refused(options: dict[str, Any], text: str) -> None:
    schema = "(Tensor x) -> Tensor"
    with pytest.raises(TypeError, match=text):
        graphffi.define_op("test_op::wrong", schema=schema, kernel=WRITE, infer=written, **options)


@pytest.mark.parametrize(
    "name", ["plain", "a::b::c", "::f", "a::", "1a::f", "a b::f", "a::for", "a::ö"]
)
def test_an_op_needs_a_namespace_and_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="op name: expected 'namespace::name'"):
        graphffi.define_op(name, schema="(Tensor x) -> Tensor", kernel=WRITE, infer=graphffi.like)


def test_a_rule_returns_the_declared_results() -> None:
    op = graphffi.define_op(
        "test_op::rule", schema="(Tensor x) -> Tensor", kernel=WRITE, infer=lambda x: (x, x)
    )
    with pytest.raises(TypeError, match="test_op::rule: shape rule: expected 1 result, got 2"):
        op(array(1))
    op = graphffi.define_op(
        "test_op::rule2", schema="(Tensor x) -> Tensor", kernel=WRITE, infer=lambda x: (3,)
    )
    nothing = graphffi.define_op(
        "test_op::nothing", schema="(Tensor x) -> Tensor", kernel=WRITE, infer=lambda x: None
    )
    with pytest.raises(TypeError, match=r"result 'out': expected graphffi.like.*, got None"):
        nothing(array(1))
    with pytest.raises(TypeError, match=r"result 'out': expected graphffi.like.*, got int 3"):
        op(array(1))


def test_a_python_callable_is_a_kernel() -> None:
    def kernel(x: Tensor, out: Tensor) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * 2

    op = graphffi.define_op(
        "test_op::python", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like
    )
    assert op(array(1, 2)).tolist() == [2, 4]


def test_unknown_kernels_are_named_when_called() -> None:
    for kernel, kind, text in (
        ("no.such.function", KeyError, "kernel 'no.such.function'"),
        ("/nowhere/lib.so::f", RuntimeError, "/nowhere/lib.so"),
        ("lib.so::f", RuntimeError, "GRAPHFFI_LIBRARY_PATH"),
    ):
        op = graphffi.define_op(
            f"test_op::unknown{len(kernel)}",
            schema="(Tensor x) -> Tensor",
            kernel=kernel,
            infer=graphffi.like,
        )
        with pytest.raises(kind, match=text):
            op(array(1))


def test_scalars_of_numpy_are_operands_without_dimensions() -> None:
    op = graphffi.define_op(
        "test_op::scalars",
        schema="(Tensor x, Tensor[] rest) -> Tensor",
        kernel=lambda x, rest, out: np.copyto(
            np.from_dlpack(out), np.from_dlpack(x) + sum(map(np.from_dlpack, rest))
        ),
        infer=lambda x, rest: graphffi.like(x),
    )
    y = op(np.float32(1), [np.float32(2), np.float32(3)])
    assert (type(y), y.shape, y.tolist()) == (np.ndarray, (), 6)
    update = graphffi.define_op("test_op::scalar", schema="(Tensor(a!) x) -> ()", kernel=WRITE)
    with pytest.raises(
        ValueError, match="operand 'x': expected a writable array to update in place"
    ):
        update(np.float32(1))


def test_rules_may_take_parameters_by_name_only(module: graphffi.Module) -> None:
    @graphffi.op(
        "test_op::keywords",
        kernel=WRITE,
        plan="out, n, x, m",
        workspace=lambda x, *, n, m: n + m,
    )
    def op(x: Tensor, *, n: int, m: int = 4) -> Tensor:
        return graphffi.empty((n + m,), "float32")

    assert op(array(7), n=2).tolist()[:3] == [2, 7, 4]
    assert op(array(7), n=2).shape == (6,)


def test_foreign_operands_are_refused() -> None:
    class Array:
        shape = (1,)
        dtype = "float32"

    op = graphffi.define_op(
        "test_op::foreign", schema="(Tensor x) -> Tensor", kernel=WRITE, infer=graphffi.like
    )
    with pytest.raises(
        TypeError, match=r"expected tensors of torch, jax, numpy or graphffi, got .*Array"
    ):
        op(Array())


def test_call_tvm_ffi_packs_arguments_by_kind(module: graphffi.Module) -> None:
    x, y = array(3), np.zeros(9, np.float32)
    returned = graphffi.call_tvm_ffi(
        WRITE, y, x, 2, 0.5, True, "abc", None, [x, 4], graphffi.dtype("int8"),
        graphffi.Device("cuda:0"), mutates=(0,),
    )  # fmt: skip
    assert returned is y
    assert y.tolist() == [3, 2, 0.5, 1, 3, 1000, 34, 8, 2]


def test_call_tvm_ffi_takes_scalars_of_numpy_as_numbers() -> None:
    taken = []
    scalars = (np.int64(2), np.float32(0.5), np.bool_(True), np.str_("a"), [np.float64(1.5)])
    graphffi.call_tvm_ffi(lambda *args: taken.extend(args), *scalars, has_side_effect=True)
    assert taken == [2, 0.5, True, "a", [1.5]]
    with pytest.raises(TypeError, match="argument #1: expected a tensor to update, got float"):
        graphffi.call_tvm_ffi(WRITE, array(1), np.float32(1), mutates=[1])


def test_call_tvm_ffi_allocates_results(module: graphffi.Module) -> None:
    low, high = graphffi.call_tvm_ffi(
        module.split, array(5), out=[graphffi.like(array(5)), graphffi.like(array(5))]
    )
    assert (low.tolist(), high.tolist()) == ([4], [6])


def test_plans_for_lists_of_any_length_do_not_pile_up() -> None:
    op = graphffi.define_op(
        "test_op::lengths",
        schema="(Tensor x, int[] numbers) -> Tensor",
        kernel=WRITE,
        infer=lambda x, numbers: written(1),
    )
    (kernel,) = op.definition.kernels
    for length in range(1100):
        call = op.definition.canonical(kernel, (None,), ([0] * length,))
    assert len(call.ints) == 1099
    assert len(op.definition._templates) <= 1024


def test_a_callable_never_gets_the_name_of_another_one() -> None:
    def counting() -> Any:
        calls: list[None] = []  # equal in all of them: their code has one text

        def kernel(out: Any) -> None:
            calls.append(None)
            np.from_dlpack(out)[...] = len(calls)

        return kernel

    def call(kernel: Any) -> float:
        return float(np.from_dlpack(graphffi.call_tvm_ffi(kernel, out=written(1)))[0])

    first, second = counting(), counting()
    call(first), call(second)
    for number in range(1023):  # the name of the first one goes
        call(lambda out, number=number: np.copyto(np.from_dlpack(out), number))
    call(second), call(counting())
    assert call(second) == 3


def test_call_tvm_ffi_needs_an_effect() -> None:
    with pytest.raises(ValueError, match=r"expected out=, mutates= or has_side_effect=True"):
        graphffi.call_tvm_ffi(WRITE, array(1))
    for size in (2.5, "2"):
        with pytest.raises(TypeError, match=r"result 0: expected sizes \(ints\), got"):
            graphffi.call_tvm_ffi(WRITE, array(1), out=written(size))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"argument #0: expected a tensor to update, got int 1"):
        graphffi.call_tvm_ffi(WRITE, 1, mutates=(0,))
    with pytest.raises(TypeError, match=r"argument #0: expected a tensor, .*, got object"):
        graphffi.call_tvm_ffi(WRITE, object(), out=written(1))


def test_the_rule_is_asked_once_for_calls_of_one_kind() -> None:
    asked = []

    def rule(x: graphffi.TensorSpec, n: int, fs: list[float]) -> graphffi.TensorSpec:
        asked.append((x.shape, x.dtype, n, fs))
        graphffi.check(n < 3, "n is too large")
        return graphffi.empty((n, *x.shape), x.dtype)

    op = graphffi.define_op(
        "coretest::asked",
        schema="(Tensor x, int n, float[] fs=[1.0]) -> Tensor",
        kernel=lambda *arguments: None,
        infer=rule,
    )
    for dtype in ("float32", "int8"):
        for n in (1, 2):
            for fs in ([1.0], [2.0]):
                for shape in ((2,), (2, 3)):
                    for _ in range(3):
                        result = op(np.ones(shape, dtype), n, fs)
                        assert (result.shape, result.dtype) == ((n, *shape), dtype)
    assert len(asked) == 16
    for _ in range(2):
        with pytest.raises(ValueError, match="coretest::asked: n is too large"):
            op(np.ones(2), 3)


def test_a_kernel_that_is_registered_anew_is_called() -> None:
    op = graphffi.define_op(
        "coretest::replaced",
        schema="(Tensor(a!) x) -> ()",
        kernel="coretest.replaced",
    )
    x = np.zeros(1)
    for value in (1, 2):
        graphffi.register_global_func(
            "coretest.replaced", lambda t, v=value: np.from_dlpack(t).fill(v), override=True
        )
        assert op(x)[0] == value


def test_a_spec_is_no_operand_of_a_call() -> None:
    op = graphffi.define_op(
        "op_tests::of_spec", schema="(Tensor x) -> Tensor", kernel="no.kernel", infer=graphffi.like
    )
    for device in (None, "cpu"):
        with pytest.raises(TypeError, match=r"^op_tests::of_spec: operand 'x': expected a tensor"):
            op(graphffi.empty([1], "float32", device))


@pytest.mark.parametrize("kind", ["complex64", "complex128x2", "float32"])
def test_a_kernel_gets_any_data_type(kind: str) -> None:
    seen: list[graphffi.dtype] = []
    graphffi.register_global_func(f"optest.{kind}", lambda x, kind, out: seen.append(kind))
    op = graphffi.define_op(
        f"optest::{kind}",
        schema="(Tensor x, dtype kind) -> Tensor",
        kernel=f"optest.{kind}",
        infer=lambda x, kind: graphffi.like(x),
    )
    op(np.ones(2), kind)
    assert seen == [graphffi.dtype(kind)]


@pytest.mark.parametrize("trait", ["pass_owning_tensor", "allow_cuda_graph"])
def test_traits_are_bools(trait: str) -> None:
    options: Any = {trait: "no"}
    rule = graphffi.like
    text = f"{trait}: expected a bool, got str 'no'"
    with pytest.raises(TypeError, match=f"testop::traits: {text}"):
        graphffi.define_op(
            "testop::traits",
            schema="(Tensor x) -> Tensor",
            kernel="k",
            infer=graphffi.like,
            **options,
        )
    op = graphffi.define_op(f"testop::traits_{trait}", schema="(Tensor x) -> Tensor", infer=rule)
    with pytest.raises(TypeError, match=f"add_kernel: {text}"):
        op.add_kernel("k", **options)
    with pytest.raises(TypeError, match=f"add_factory: {text}"):
        op.add_factory(key=lambda x: x.ndim, **options)(lambda ndim: "k")
    with pytest.raises(TypeError, match=f"some.kernel: {text}"):
        graphffi.call_tvm_ffi("some.kernel", **options)


def test_a_shape_rule_is_callable() -> None:
    rule: Any = 3
    with pytest.raises(TypeError, match="testop::rule: infer: expected a callable, got int 3"):
        graphffi.define_op("testop::rule", schema="(Tensor x) -> Tensor", kernel="k", infer=rule)
