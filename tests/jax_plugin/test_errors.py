# SPDX-License-Identifier: Apache-2.0
"""What kernels raise, as XLA tells it and as it was."""

from __future__ import annotations

import contextlib
import gc
import traceback
import weakref
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxpr_as_fun

import graphffi
import graphffi_jax

X = jnp.arange(4, dtype=jnp.float32)


class OutOfPages(RuntimeError):
    """An exception of a user."""


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("ValueError", "INVALID_ARGUMENT"),
        ("TypeError", "INVALID_ARGUMENT"),
        ("KeyError", "NOT_FOUND"),
    ],
)
def test_text_carries_kind_op_and_message(ops: SimpleNamespace, kind: str, code: str) -> None:
    text = rf"{code}: {kind}: jaxtest::fail: operand 'x': expected 3, got 4"
    for call in (ops.fail, jax.jit(ops.fail, static_argnums=1)):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            call(X, kind)


def test_so_does_that_of_a_call_with_pythons_numbers(ops: SimpleNamespace) -> None:
    text = "ValueError: jaxtest::fail: operand 'x': expected 3, got 4"
    program = jax.make_jaxpr(ops.fail, static_argnums=1)(X, "ValueError")
    for call in (
        lambda: jax.jvp(lambda x: ops.fail(x, "ValueError"), (2.0,), (1.0,)),
        lambda: jaxpr_as_fun(program)(np.asarray(X)),
    ):
        with pytest.raises(jax.errors.JaxRuntimeError, match=text):
            call()


def test_text_is_the_error_and_no_more(ops: SimpleNamespace) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        ops.fail(X, "ValueError")
    (line, *_) = str(caught.value).splitlines()
    assert line.endswith("ValueError: jaxtest::fail: operand 'x': expected 3, got 4")


def test_errors_that_begin_alike_are_told_apart() -> None:
    def fail(x: Any, text: str) -> None:
        raise (ValueError if len(str(text)) > 1 else KeyError)(str(text))

    def call(text: str) -> None:
        jax.block_until_ready(graphffi_jax.call(fail, X, text, mutates=[0]))

    for text in ("abc", "a", "abcd", "abc"):
        with pytest.raises(ValueError if len(text) > 1 else KeyError, match=f"{text}'?$"):
            with graphffi_jax.errors():
                call(text)


def test_a_cpp_exception_is_an_error(ops: SimpleNamespace) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"jaxtest::fail: .*a C\+\+ exception"):
        ops.fail(X, "std")


@pytest.mark.parametrize("kind", [ValueError, TypeError, KeyError])
def test_errors_gives_the_original_type(ops: SimpleNamespace, kind: type[Exception]) -> None:
    with (
        pytest.raises(kind, match="operand 'x': expected 3, got 4") as caught,
        graphffi_jax.errors(),
    ):
        jax.block_until_ready(ops.fail(X, kind.__name__))
    assert type(caught.value) is kind
    assert isinstance(caught.value.__cause__, jax.errors.JaxRuntimeError)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("operands", [(), (X,)], ids=len)
def test_searches_for_bad_numbers_find_the_op(value: float, operands: tuple[Any, ...]) -> None:
    def fill(*arrays: Any) -> None:
        np.from_dlpack(arrays[-1])[...] = value

    graphffi.register_global_func("jaxtest.bad_numbers", fill, override=True)

    def call(*arrays: Any) -> Any:
        return graphffi_jax.call("jaxtest.bad_numbers", *arrays, out=X)

    text = r"jaxtest.bad_numbers: results: expected no NaN \(jax_debug_nans\) and no infinity"
    for f in (call, jax.jit(call), jax.jit(lambda *a: call(*a) * 2)):
        with (
            jax.debug_nans(True),
            jax.debug_infs(True),
            pytest.raises(FloatingPointError, match=text),
        ):
            f(*operands)
        jax.block_until_ready(f(*operands))


def test_errors_leaves_other_exceptions_alone() -> None:
    with pytest.raises(ZeroDivisionError), graphffi_jax.errors():
        raise ZeroDivisionError
    with pytest.raises(jax.errors.JaxRuntimeError, match="no kernel's"), graphffi_jax.errors():
        raise jax.errors.JaxRuntimeError("INTERNAL: no kernel's")


@pytest.mark.parametrize("kind", [OutOfPages, StopIteration])  # generators cannot raise the latter
def test_an_exception_of_a_python_kernel_comes_back_itself(kind: type[Exception]) -> None:
    def full(x: Any, out: Any) -> None:
        raise kind("no page is left")

    graphffi.register_global_func("jaxtest.full", full, override=True)

    def call(x: Any) -> Any:
        return graphffi.call_tvm_ffi("jaxtest.full", x, out=graphffi.like(x))

    with pytest.raises(kind, match="no page is left") as caught, graphffi_jax.errors():
        jax.block_until_ready(jax.jit(call)(X))
    assert caught.traceback[-1].name == "full"
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=rf"{kind.__name__}: jaxtest.full: no page"
    ):
        jax.block_until_ready(call(X))


class Scratch:
    """What a kernel works with."""


def failing_call(kernel: Any, **options: Any) -> Any:
    f = jax.jit(lambda x: graphffi_jax.call(kernel, x, out=x, **options))
    return jax.block_until_ready(f(X))


def test_what_a_python_kernel_worked_with_goes_with_its_error() -> None:
    alive = []

    def look_up(shape: Any) -> None:
        scratch = Scratch()
        alive.append(weakref.ref(scratch))
        raise KeyError(shape)

    def kernel(x: Any, out: Any) -> None:
        scratch = Scratch()
        alive.append(weakref.ref(scratch))
        try:
            look_up(np.from_dlpack(x).shape)
        except KeyError as error:
            raise ValueError("no page") from error

    for _ in range(3):
        with pytest.raises(jax.errors.JaxRuntimeError, match=r"ValueError: .*no page"):
            failing_call(kernel)
    assert [ref() for ref in alive] == [None] * 6


def test_an_error_that_was_caught_keeps_no_variables_of_its_callers() -> None:
    def refuse(x: Any, out: Any) -> None:
        raise OutOfPages

    def catch() -> Any:
        variable = Scratch()
        with contextlib.suppress(OutOfPages), graphffi_jax.errors():
            failing_call(refuse)
        return weakref.ref(variable)

    caught = catch()
    gc.collect()  # JAX 0.6 makes cycles of frames
    assert caught() is None


def test_an_error_that_is_reported_again_has_its_kind_and_message() -> None:
    def refuse(x: Any, out: Any) -> None:
        raise OutOfPages("no page is left")

    @jax.jit
    def program(x: Any) -> Any:  # heavy, so that it runs while its caller goes on
        return graphffi_jax.call(refuse, (x @ x @ x)[0], out=X)

    result = program(jnp.eye(512))
    for kind, text in [
        (OutOfPages, "no page is left"),
        (RuntimeError, "OutOfPages: no page is le"),
    ]:
        with pytest.raises(kind, match=f"^{text}"), graphffi_jax.errors():
            jax.block_until_ready(result)


def test_a_kernels_traceback_has_lines_and_no_views_of_xlas_memory() -> None:
    def look_up(view: Any) -> None:
        raise KeyError(view.shape)

    def kernel(x: Any, out: Any) -> None:
        view = np.from_dlpack(x)
        look_up(view)

    with pytest.raises(KeyError) as caught, graphffi_jax.errors():
        failing_call(kernel)
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    frames = {frame.name: frame.locals for frame in told.stack}
    assert not frames["kernel"]
    assert not frames["look_up"]


def test_so_does_that_of_a_function_which_a_library_calls(library: str) -> None:
    def look_up(x: Any, out: Any) -> None:
        view = np.from_dlpack(x)
        raise KeyError(view.shape)

    graphffi.register_global_func("jaxtest.look_up", look_up, override=True)
    forward = graphffi.load_module(library).forward
    with pytest.raises(KeyError) as caught, graphffi_jax.errors():
        jax.block_until_ready(graphffi_jax.call(forward, "jaxtest.look_up", X, out=X))
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    (frame,) = (frame for frame in frames if frame.f_code is look_up.__code__)
    assert not frame.f_locals


def test_an_error_that_is_handled_meanwhile_keeps_its_locals() -> None:
    def kernel(x: Any, out: Any) -> None:
        raise ValueError("in the kernel")

    def fail() -> None:
        place = "here"
        raise LookupError(place)

    try:
        fail()
    except LookupError as error:
        with pytest.raises(ValueError, match="in the kernel"), graphffi_jax.errors():
            failing_call(kernel)
        frames = {
            frame.f_code.co_name: frame for frame, _ in traceback.walk_tb(error.__traceback__)
        }
        assert frames["fail"].f_locals["place"] == "here"


def test_a_missing_function_is_reported_at_compile(library: str) -> None:
    op = graphffi.define_op(
        "jaxtest::missing",
        schema="(Tensor x) -> Tensor",
        kernel=f"{library}::no_such_kernel",
        infer=graphffi.like,
    )
    lowered = jax.jit(op).lower(X)
    text = r"KeyError: jaxtest::missing: .*expected a function 'no_such_kernel'"
    with pytest.raises(jax.errors.JaxRuntimeError, match=text):
        lowered.compile()
    with pytest.raises(KeyError, match="no_such_kernel"), graphffi_jax.errors():
        lowered.compile()


def test_a_missing_global_function() -> None:
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=r"KeyError: jaxtest.nope: .*an unknown name"
    ):
        graphffi.call_tvm_ffi("jaxtest.nope", X, out=graphffi.like(X))


def test_a_missing_library() -> None:
    for name in ("/nowhere/libkernels.so", "libkernels_nowhere.so"):
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"{name}.*(cannot|Cannot|[Ff]ail)"):
            graphffi.call_tvm_ffi(f"{name}::f", X, out=graphffi.like(X))


def test_a_library_of_another_kind(tmp_path: Any) -> None:
    path = tmp_path / "text.so"
    path.write_text("not an ELF file")
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"text\.so"):
        graphffi.call_tvm_ffi(f"{path}::f", X, out=graphffi.like(X))


def test_a_wrong_count_is_the_kernels_own_error(library: str) -> None:
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"TypeError: .*add_one"):
        graphffi.call_tvm_ffi(f"{library}::add_one", X, X, X, out=graphffi.like(X))


def test_the_process_goes_on_after_many_errors(ops: SimpleNamespace) -> None:
    failing = jax.jit(ops.fail, static_argnums=1)
    for _ in range(200):
        with pytest.raises(jax.errors.JaxRuntimeError):
            failing(X, "ValueError")
    np.testing.assert_array_equal(ops.add_one(X), np.asarray(X) + 1)


def test_text_of_any_bytes(library: str) -> None:
    for got in ("\0", "é" * 3):
        with pytest.raises(jax.errors.JaxRuntimeError, match="expected a registered function"):
            graphffi.call_tvm_ffi(f"jaxtest.{got}", X, out=graphffi.like(X))


def test_errors_gives_the_original_of_any_bytes(ops: SimpleNamespace) -> None:
    with pytest.raises(ValueError, match=r"no UTF-8: \\xff"), graphffi_jax.errors():
        jax.jit(lambda x: ops.fail(x, "bytes"))(X).block_until_ready()
