# SPDX-License-Identifier: Apache-2.0
"""Named targets: what users of jax-tvm-ffi have, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.arange(4, dtype=jnp.float32)
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)
seen: list[Any] = []


def record(*args: Any) -> None:
    """A kernel that remembers what it gets."""
    seen[:] = [plain(a) for a in args]


def plain(value: Any) -> Any:
    """Tensors by their shape, since they may not be kept; arrays as lists."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    if isinstance(value, str) or not hasattr(value, "__len__"):
        return value
    return [plain(item) for item in value]


def call(name: str, *args: Any, results: Any = SHAPE, **attributes: Any) -> Any:
    args = args or (X,)
    f = jax.jit(lambda *a: jax.ffi.ffi_call(name, results)(*a, **attributes))
    return jax.block_until_ready(f(*args))


def test_operands_then_results_by_default(library: str) -> None:
    graphffi_jax.register_ffi_target("jaxtarget.add_one", f"{library}::add_one")
    np.testing.assert_array_equal(call("jaxtarget.add_one"), X + 1)


def test_a_function_of_a_module(library: str) -> None:
    module = graphffi.load_module(library)
    graphffi_jax.register_ffi_target(
        "jaxtarget.axpy", module.axpy, ["attrs.a", "i0", "rets", "i1"], platform="cpu"
    )
    y = call("jaxtarget.axpy", X, X, a=np.float32(2))
    np.testing.assert_array_equal(y, 3 * X)


@pytest.mark.parametrize(
    ("spec", "attributes", "expected"),
    [
        (["args"], {}, [(4,)]),
        (["rets", "args"], {}, [(4,), (4,)]),
        (["args", "attrs.k"], {"k": np.int32(3)}, [(4,), 3]),
        (["attrs.k", "args", "attrs.k"], {"k": 2.5}, [2.5, (4,), 2.5]),
        (["attrs.a b", "args"], {"a b": "text"}, ["text", (4,)]),
        (["attrs.k"], {"k": True}, [True]),
        (["attrs.k"], {"k": np.array([1, 2], np.int64)}, [[1, 2]]),
        (["attrs.k"], {"k": np.array([1.5, 2], np.float32)}, [[1.5, 2]]),
        (["attrs.k"], {"k": np.array([], np.int64)}, [[]]),
        (["attrs.k"], {"k": np.uint8(7)}, [7]),
        (["ctx.stream", "args"], {}, [0, (4,)]),
        (["None", "i0", "3", '"x"', "true"], {}, [None, (4,), 3, "x", True]),
        (["(i0, i0)"], {}, [[(4,), (4,)]]),
    ],
)
def test_arguments_are_what_the_spec_says(
    spec: list[str], attributes: dict[str, Any], expected: list[Any]
) -> None:
    name = f"jaxtarget.spec.{spec}.{sorted(attributes.values(), key=str)}"
    graphffi_jax.register_ffi_target(name, record, [*spec, "rets"])
    call(name, **attributes)
    assert seen.pop() == (4,)
    assert seen == expected


def test_results_that_a_function_does_not_get_may_stay_as_they_are() -> None:
    graphffi_jax.register_ffi_target("jaxtarget.unfilled", record, ["args", "attrs.k"])
    assert call("jaxtarget.unfilled", k=5).shape == X.shape
    assert seen == [(4,), 5]


def test_an_empty_spec_passes_nothing() -> None:
    graphffi_jax.register_ffi_target("jaxtarget.nothing", record, [])
    seen[:] = ["not called"]
    assert call("jaxtarget.nothing").shape == X.shape
    assert seen == []


def test_results_that_a_function_does_not_get_are_what_it_returns() -> None:
    def doubled(x: Any) -> Any:
        return graphffi.from_dlpack(2 * np.from_dlpack(x))

    graphffi_jax.register_ffi_target("jaxtarget.returned", doubled, ["args"])
    np.testing.assert_array_equal(call("jaxtarget.returned"), 2 * X)


@pytest.mark.parametrize(
    ("shape", "passed"),
    [((), ()), ((8,), (4,)), ((7,), (4,)), ((3, 8), (3, 4)), ((2, 3, 4), (2, 3, 2))],
)
def test_float4_is_passed_in_pairs(shape: tuple[int, ...], passed: tuple[int, ...]) -> None:
    tensors = []

    def note(x: Any, y: Any) -> None:
        tensors[:] = [(tuple(t.shape), str(t.dtype), tuple(t.strides)) for t in (x, y)]

    name = f"jaxtarget.float4.{len(shape)}.{shape}"
    graphffi_jax.register_ffi_target(name, note)
    x = jnp.zeros(shape, jnp.float4_e2m1fn)
    call(name, x, results=jax.ShapeDtypeStruct(shape, jnp.float4_e2m1fn))
    strides = tuple(int(np.prod(passed[i + 1 :])) for i in range(len(passed)))
    assert tensors == 2 * [(passed, "float4_e2m1fnx2", strides)]


def test_float4_of_many_operands_is_passed_in_pairs() -> None:
    graphffi_jax.register_ffi_target("jaxtarget.float4.many", record, ["args", "rets"])
    x = jnp.zeros((2, 6), jnp.float4_e2m1fn)
    call("jaxtarget.float4.many", *([x] * 70), results=jax.ShapeDtypeStruct((2, 6), x.dtype))
    assert seen == 71 * [(2, 3)]


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        (["nope"], ValueError, "expected a known name, got 'nope'.*'attrs.<name>' and plan items"),
        (["args.0"], ValueError, "arg_spec takes"),
        (["attrs."], ValueError, "arg_spec takes"),
        ("args", TypeError, "arg_spec: expected a list of strings, got 'args'"),
        ([1], TypeError, "arg_spec: expected a list of strings"),
    ],
)
def test_a_bad_spec_is_an_error(spec: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=f"jaxtarget.bad: .*{text}"):
        graphffi_jax.register_ffi_target("jaxtarget.bad", record, spec)


def test_a_bad_platform_or_function_is_an_error() -> None:
    with pytest.raises(ValueError, match="platform: expected cpu, gpu, cuda, rocm, got 'tpu'"):
        graphffi_jax.register_ffi_target("jaxtarget.bad", record, platform="tpu")
    with pytest.raises(ValueError, match="platform: expected cpu, gpu, cuda, rocm, got None"):
        graphffi_jax.register_ffi_target("jaxtarget.bad", record, platform=None)  # type: ignore[arg-type]
    for name in (None, "", "jaxtarget.\0"):
        with pytest.raises(
            TypeError, match="name: expected a text that has characters and no NUL, got"
        ):
            graphffi_jax.register_ffi_target(name, record)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function: expected a function or a kernel reference, got"):
        graphffi_jax.register_ffi_target("jaxtarget.bad", 3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="an unknown name"):
        graphffi_jax.register_ffi_target("jaxtarget.bad", "jaxtarget.no_such_function")


def test_all_bad_attributes_are_told_by_name_at_once() -> None:
    graphffi_jax.register_ffi_target(
        "jaxtarget.named", record, ["args", "attrs.alpha", "attrs.beta", "rets"]
    )
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        call("jaxtarget.named", gamma=1, beta={"x": 1})
    text = str(caught.value)
    assert "jaxtarget.named: attribute 'gamma': expected a known attribute (alpha, beta)" in text
    assert "attribute 'alpha': expected a value, got nothing" in text
    assert (
        "attribute 'beta': expected an int, a float, a bool, a string or an array, got a d" in text
    )
    call("jaxtarget.named", alpha=1, beta=2)  # the process goes on
    assert seen == [(4,), 1, 2, (4,)]


@pytest.mark.parametrize("length", [7, 8, 4096, 1 << 20])
def test_a_long_string_arrives(length: int) -> None:
    graphffi_jax.register_ffi_target("jaxtarget.text", record, ["attrs.text", "rets"])
    call("jaxtarget.text", text="é" * length)
    assert seen == ["é" * length, (4,)]


def test_registering_again_is_fine_and_something_else_is_not(library: str) -> None:
    def register(spec: list[str]) -> Any:
        return graphffi_jax.register_ffi_target("jaxtarget.twice", f"{library}::add_one", spec)

    assert register(["args", "rets"]) is register(["args", "rets"])
    with pytest.raises(ValueError, match=r"jaxtarget\.twice: expected the function and arguments"):
        register(["rets", "args"])


def test_owned_tensors_where_asked(library: str) -> None:
    function = f"{library}::takes_any_tensor"
    graphffi_jax.register_ffi_target("jaxtarget.view", function)
    graphffi_jax.register_ffi_target("jaxtarget.owned", function, pass_owned_tensor=True)
    np.testing.assert_array_equal(call("jaxtarget.owned"), X)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"TypeError: jaxtarget\.view: "):
        call("jaxtarget.view")


def test_the_last_output_as_workspace(library: str) -> None:
    graphffi_jax.register_ffi_target(
        "jaxtarget.scratch",
        f"{library}::scratch",
        ["args", "rets"],
        use_last_output_for_alloc_workspace=True,
    )
    for shape in ((1024,), (16, 64)):
        y, _ = call("jaxtarget.scratch", results=(SHAPE, jax.ShapeDtypeStruct(shape, jnp.uint8)))
        np.testing.assert_array_equal(y, X)
        assert graphffi_jax.inspect().last_workspace_peak == X.nbytes
    with pytest.raises(jax.errors.JaxRuntimeError, match="workspace: expected at least 16 bytes"):
        call("jaxtarget.scratch", results=(SHAPE, jax.ShapeDtypeStruct((8,), jnp.uint8)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="workspace: expected uint8 as the last"):
        call("jaxtarget.scratch", results=(SHAPE, SHAPE))


def test_vmap_and_its_workspace(library: str) -> None:
    graphffi_jax.register_ffi_target(
        "jaxtarget.vmapped",
        f"{library}::scratch",
        ["args", "rets"],
        use_last_output_for_alloc_workspace=True,
    )
    shapes = (SHAPE, jax.ShapeDtypeStruct((16,), jnp.uint8))
    f = jax.ffi.ffi_call("jaxtarget.vmapped", shapes, vmap_method="broadcast_all")
    xs = jnp.arange(32, dtype=jnp.float32).reshape(8, 4)
    np.testing.assert_array_equal(jax.vmap(f)(xs)[0], xs)


def test_the_kind_of_an_error_is_kept(library: str) -> None:
    graphffi_jax.register_ffi_target(
        "jaxtarget.fail", f"{library}::fail", ["args", "attrs.kind", "rets"]
    )
    with pytest.raises(KeyError, match="operand 'x'"), graphffi_jax.errors():
        call("jaxtarget.fail", kind="KeyError")


FULL_SCRIPT = """
import sys
import graphffi_jax, jax, jax.numpy as jnp

def register(i):
    spec = [str(float(i)), "i0", "rets", "i0"]
    graphffi_jax.register_ffi_target(f"full.f{i}", f"{sys.argv[1]}::axpy", spec)

for i in range(1024):
    register(i)
for _ in range(2):
    try:
        register(1024)
    except RuntimeError as error:
        print(error)
register(1023)  # which is there
x = jnp.ones(1)
print(graphffi_jax.inspect().registered, *(
    float(jax.ffi.ffi_call(f"full.f{i}", x)(x)[0]) for i in (0, 1023)))
"""


def test_more_targets_than_there_are_handlers_are_an_error(
    library: str, run_script: Callable[..., Any]
) -> None:
    result = run_script(FULL_SCRIPT, library)
    assert result.returncode == 0, result.stderr
    error = (
        "full.f1024: expected at most 1024 targets in a process, got one more; use ops or "
        "graphffi_jax.call, which share targets\n"
    )
    assert result.stdout == 2 * error + "1024 1.0 1024.0\n"


def test_gpu_targets_can_be_registered(library: str) -> None:
    handlers = graphffi_jax.register_ffi_target(
        "jaxtarget.gpu", f"{library}::add_one", platform="gpu", allow_cuda_graph=True
    )
    assert set(handlers) == {"instantiate", "execute"}


def test_a_python_function_may_use_dlpack_without_a_flag() -> None:
    def double(x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = 2 * np.from_dlpack(x)

    graphffi_jax.register_ffi_target("jaxtarget.double", double, ["args", "rets"])
    np.testing.assert_array_equal(call("jaxtarget.double"), 2 * X)


def test_tvm_ffi_functions_are_taken() -> None:
    if graphffi.runtime_info().kind == "bundled":
        pytest.skip("needs apache-tvm-ffi's runtime")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    graphffi_jax.register_ffi_target(
        "jaxtarget.tvm_ffi", tvm_ffi.convert(record), ["attrs.k", "rets"]
    )
    call("jaxtarget.tvm_ffi", k=3)
    assert seen == [3, (4,)]


def test_python_functions_get_tensors_of_tvm_ffi_where_that_is_loaded() -> None:
    if graphffi.runtime_info().kind == "bundled":
        pytest.skip("needs apache-tvm-ffi's runtime")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    kinds: list[Any] = []

    def note(*tensors: Any) -> None:
        kinds[:] = [type(t) for t in tensors]

    graphffi_jax.register_ffi_target("jaxtarget.kinds", note)
    call("jaxtarget.kinds")
    assert len(kinds) == 2
    # Apache TVM makes the package give tensors of a class that it derives.
    assert all(issubclass(kind, tvm_ffi.Tensor) for kind in kinds)
    graphffi_jax.register_ffi_target("jaxtarget.own_kinds", graphffi.Function(note))
    call("jaxtarget.own_kinds")
    assert kinds == 2 * [graphffi.Tensor]


def test_a_call_without_op(library: str) -> None:
    y = graphffi_jax.call(f"{library}::add_one", np.asarray(X), out=SHAPE)
    assert isinstance(y, jax.Array)
    np.testing.assert_array_equal(y, X + 1)
    updated = jax.jit(lambda x: graphffi_jax.call(f"{library}::increment", x, mutates=(0,)))(X)
    np.testing.assert_array_equal(updated, X + 1)


def test_calls_of_different_functions_do_not_mix() -> None:
    def constant(value: float) -> Callable[..., None]:
        def fill(out: Any) -> None:
            np.from_dlpack(out)[...] = value

        return fill

    one, two = constant(1), constant(2)
    a, b = jax.jit(lambda: (graphffi_jax.call(one, out=SHAPE), graphffi_jax.call(two, out=SHAPE)))()
    np.testing.assert_array_equal(a, np.ones(4))
    np.testing.assert_array_equal(b, np.full(4, 2))


def test_what_a_call_refuses(library: str) -> None:
    with pytest.raises(TypeError, match=r"out: expected jax\.ShapeDtypeStruct"):
        graphffi_jax.call(f"{library}::add_one", X, out=(4,))
    with pytest.raises(ValueError, match="expected out=, mutates= or has_side_effect=True"):
        graphffi_jax.call(f"{library}::add_one", X)
