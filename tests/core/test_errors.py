# SPDX-License-Identifier: Apache-2.0
"""Errors of kernels as Python exceptions."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

import graphffi


@pytest.mark.parametrize(
    "kind",
    [
        TypeError,
        ValueError,
        IndexError,
        NotImplementedError,
        RuntimeError,
        OSError,
        MemoryError,
        ZeroDivisionError,
        KeyboardInterrupt,
        StopIteration,
    ],
)
def test_kind_is_the_exception_of_that_name(kernels: Any, kind: type[BaseException]) -> None:
    with pytest.raises(kind, match=r"the text") as caught:
        kernels["raise"](kind.__name__, "the text")
    assert type(caught.value) is kind


def test_key_error_has_its_text(kernels: Any) -> None:
    with pytest.raises(KeyError) as caught:
        kernels["raise"]("KeyError", "the 'text'")
    assert caught.value.args == ("the 'text'",)


@pytest.mark.parametrize("kind", ["NoSuchError", "int", "print", "UnicodeDecodeError", "", "a.b"])
def test_unknown_kind_is_named(kernels: Any, kind: str) -> None:
    with pytest.raises(graphffi.Error, match=rf"^{re.escape(kind)}: the text") as caught:
        kernels["raise"](kind, "the text")
    assert caught.value.kind == kind
    assert isinstance(caught.value, RuntimeError)
    notes = "".join(getattr(caught.value, "__notes__", []))
    is_class = kind == "UnicodeDecodeError"
    assert ("UnicodeDecodeError(message) raises TypeError: function takes" in notes) == is_class


def test_registered_kind(kernels: Any) -> None:
    @graphffi.register_error
    class ShapeMismatchError(ValueError):
        pass

    @graphffi.register_error("my.Kind")
    class Other(Exception):
        pass

    with pytest.raises(ShapeMismatchError, match=r"text"):
        kernels["raise"]("ShapeMismatchError", "text")
    with pytest.raises(Other, match=r"text"):
        kernels["raise"]("my.Kind", "text")


@pytest.mark.parametrize("value", [1, "a.Kind", int, str])
def test_only_exceptions_are_registered(value: Any) -> None:
    with pytest.raises(TypeError, match=r"register_error: expected an exception class, got"):
        graphffi.register_error("a.Kind")(value)


def test_standard_exception_is_internal(kernels: Any) -> None:
    with pytest.raises(graphffi.Error, match=r"^InternalError: .*from the standard library"):
        kernels.raise_std()


@pytest.mark.parametrize("text", ["", "ünï", "x" * 4096, "two\nlines", "%s %d"])
def test_message_is_kept(kernels: Any, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{re.escape(text)}$"):
        kernels["raise"]("ValueError", text)


def test_backtrace_is_a_note_without_our_frames(kernels: Any) -> None:
    np = pytest.importorskip("numpy")
    with pytest.raises(ValueError, match=r"sizes differ") as caught:
        kernels.add_one(np.ones(2, "float32"), np.ones(3, "float32"))
    (note,) = caught.value.__notes__
    assert re.search(r'File ".*kernels.cc", line \d+, in', note)
    assert "graphffi::bindings" not in note


def test_failure_without_error_is_reported(kernels: Any) -> None:
    with pytest.raises(graphffi.Error, match=r"^InternalError: .*without raising an error"):
        kernels.silent_failure()


def test_pending_exception_that_is_none_is_reported(kernels: Any) -> None:
    text = "an exception is pending in Python, but none is"
    # apache's runtime turns -2 into -1, and so loses what it means.
    lost = "without raising an error"
    with pytest.raises(graphffi.Error, match=f"^InternalError: .*({text}|{lost})"):
        kernels.always_minus_two()
    with pytest.raises(graphffi.Error, match=f"^InternalError: .*{text}"):
        kernels["raise"]("EnvErrorAlreadySet", "")


@pytest.mark.parametrize("name", ["minus_two", "check_signals", "ignore_signal"])
def test_signal_during_a_kernel_is_raised(kernels: Any, name: str) -> None:
    def interrupt(*_: object) -> None:
        raise TimeoutError("rung")

    old = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(TimeoutError, match=r"rung"):
            kernels[name]()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert kernels.echo(1) == 1


@pytest.mark.parametrize("name", ["minus_two", "check_signals"])
def test_handled_signal_does_not_stop_a_kernel(kernels: Any, name: str) -> None:
    heard: list[int] = []
    old = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        assert kernels[name]() is None
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert heard == [signal.SIGUSR1]


def test_the_process_goes_on_after_errors(kernels: Any) -> None:
    for _ in range(100):
        with pytest.raises(ValueError, match=r"again"):
            kernels["raise"]("ValueError", "again")
        assert kernels.echo(1) == 1


def test_an_error_is_not_an_earlier_one_whose_context_somebody_keeps(kernels: Any) -> None:
    def raising() -> None:
        raise LookupError("from Python")

    kernels.keep_context(raising)
    for i in range(50):  # any of them may be where the first one was
        with pytest.raises(RuntimeError, match=f"native {i}") as caught:
            kernels["raise"]("RuntimeError", f"native {i}")
        assert type(caught.value) is RuntimeError
