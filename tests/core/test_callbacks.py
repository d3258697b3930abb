# SPDX-License-Identifier: Apache-2.0
"""Python callables as functions of the runtime."""

from __future__ import annotations

import gc
import threading
import traceback
import weakref
from typing import Any

import pytest

import graphffi


class CustomError(Exception):
    """An exception with more than a text."""

    def __init__(self, text: str, extra: int) -> None:
        super().__init__(text)
        self.extra = extra


def test_kernel_calls_python(kernels: Any) -> None:
    assert kernels.call(lambda x: [x, x], 3) == [3, 3]
    assert kernels.call(str.upper, "text") == "TEXT"
    assert kernels.call(dict, {"a": 1}) == {"a": 1}


def test_callback_returns_a_function(kernels: Any) -> None:
    add = kernels.call(lambda x: lambda y: x + y, 3)
    assert isinstance(add, graphffi.Function)
    assert add(4) == 7


def test_exception_is_the_same_object_with_its_traceback(kernels: Any) -> None:
    error = CustomError("text", 7)

    def fail(_: object) -> None:
        raise error

    with pytest.raises(CustomError) as caught:
        kernels.call(fail, None)
    assert caught.value is error
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "fail"
    assert frames[0] == "test_exception_is_the_same_object_with_its_traceback"


def test_exception_passes_nested_calls(kernels: Any) -> None:
    def inner(_: object) -> None:
        raise CustomError("deep", 1)

    def middle(x: object) -> None:
        try:
            kernels.call(inner, x)
        except CustomError as error:
            raise LookupError("wrapped") from error

    with pytest.raises(LookupError, match=r"wrapped") as caught:
        kernels.call(lambda x: kernels.call(middle, x), None)
    assert isinstance(caught.value.__cause__, CustomError)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames == ["test_exception_passes_nested_calls", "<lambda>", "middle"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_base_exceptions_pass(kernels: Any, kind: type[BaseException]) -> None:
    def fail(_: object) -> None:
        raise kind

    with pytest.raises(kind):
        kernels.call(fail, None)


def test_caught_exception_is_let_go(kernels: Any) -> None:
    alive: list[weakref.ref[CustomError]] = []

    def fail() -> None:
        error = CustomError("text", 1)
        alive.append(weakref.ref(error))
        raise error

    assert kernels.call_and_catch(fail) == "CustomError"
    gc.collect()
    assert alive[0]() is None


def test_exception_whose_text_fails_is_carried(kernels: Any) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fail(_: object) -> None:
        raise Mute

    with pytest.raises(Mute):
        kernels.call(fail, None)


def test_exception_of_code_without_lines_is_carried(kernels: Any) -> None:
    def fail(_: object) -> None:
        raise ValueError("mine")

    fail.__code__ = fail.__code__.replace(co_linetable=b"")
    with pytest.raises(ValueError, match="mine"):
        kernels.call(fail, None)


def test_exception_through_another_thread(kernels: Any) -> None:
    assert kernels.call_in_thread(lambda x: (x, threading.get_ident()), 1)[0] == 1
    assert kernels.call_in_thread(lambda _: threading.get_ident(), 1) != threading.get_ident()


def test_result_that_no_kernel_can_have_is_refused(kernels: Any) -> None:
    def returns_set(_: object) -> set[int]:
        return {1}

    with pytest.raises(TypeError, match=r"returns_set: result: expected .*, got set"):
        kernels.call(returns_set, None)


def test_wrong_count_is_pythons_own_error(kernels: Any) -> None:
    with pytest.raises(TypeError, match=r"positional argument"):
        kernels.call(lambda: None, 1)


def test_callback_gets_tensors(kernels: Any, arrays: Any) -> None:
    seen = []

    def look(x: graphffi.Tensor) -> graphffi.Tensor:
        seen.append(x)
        return x

    result = kernels.call(look, arrays.make([1, 2]))
    assert isinstance(result, arrays.kind)
    assert isinstance(seen[0], graphffi.Tensor)
    del result
    gc.collect()
    assert kernels.sum(seen[0]) == 3


def test_callback_gets_a_weak_view_as_a_tensor(kernels: Any) -> None:
    np = pytest.importorskip("numpy")
    x = graphffi.from_dlpack(np.ones((2, 3), "float32"))

    def look(view: graphffi.Tensor) -> float:
        assert view.shape == (2, 3)
        return float(np.from_dlpack(view).sum())

    assert kernels.call_with_view(look, x) == 6


def test_callbacks_nest(kernels: Any) -> None:
    def fall(depth: int) -> int:
        return 0 if depth == 0 else 1 + kernels.call(fall, depth - 1)

    assert fall(50) == 50


def test_endless_recursion_is_an_error(run_python: Any) -> None:
    code = (
        "import graphffi\n"
        "f = graphffi.Function(lambda: f())\n"
        "try: f()\n"
        "except RecursionError: print('stopped')\n"
    )
    assert run_python(code) == (0, "stopped\n")


def test_callback_lives_as_long_as_its_function(kernels: Any) -> None:
    class Callable:
        def __call__(self) -> int:
            return 5

    target = Callable()
    alive = weakref.ref(target)
    function = graphffi.Function(target)
    del target
    gc.collect()
    assert function() == 5
    del function
    gc.collect()
    assert alive() is None


def test_threads_call_and_call_back(kernels: Any) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(300):
                assert kernels.call(lambda x: x + 1, i) == i + 1
                with pytest.raises(KeyError, match=str(number)):
                    kernels["raise"]("KeyError", str(number))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_calls_give_up_the_gil(kernels: Any) -> None:
    # The other thread's callback needs the GIL while this thread waits inside the kernel for it.
    assert kernels.call_in_thread(lambda x: x, 3) == 3


def test_gil_can_be_kept(kernels: Any) -> None:
    function = graphffi.Function(kernels.echo)
    assert function is kernels.echo
    own = kernels.get_function("echo")
    assert own.release_gil is True
    own.release_gil = False
    assert own(3) == 3
    assert kernels.get_function("call")(own, 3) == 3


def test_only_callables_become_functions() -> None:
    for value in (1, "text", None, [len]):
        with pytest.raises(TypeError, match=r"graphffi.Function: expected a callable, got"):
            graphffi.Function(value)


def test_callback_after_the_interpreter_has_gone(run_python: Any, kernels_path: str) -> None:
    code = (
        "import graphffi\n"
        f"kernels = graphffi.load_module({kernels_path!r})\n"
        "class Late:\n"
        "    def __call__(self, x): return x\n"
        "    def __del__(self): print('deleted')\n"
        "kernels.keep(graphffi.Function(Late()))\n"
        "def fail(): raise ValueError\n"
        "graphffi.register_global_func('late', Late())\n"
        "print('end')\n"
    )
    status, output = run_python(code)
    assert status == 0
    assert output.startswith("end")


def test_a_callable_that_holds_a_function_is_not_called_itself() -> None:
    """Functions of CuTe DSL are such: the runtime calls what they hold, without Python."""

    class Holder:
        def __init__(self, held: Any) -> None:
            self._held = held

        def __tvm_ffi_object__(self) -> Any:
            return self._held

        def __call__(self, *args: Any) -> Any:
            return "itself", args

    held = graphffi.Function(lambda x: x + 1)
    assert graphffi.Function(Holder(held))(2) == 3
    assert graphffi.Function(Holder(None))(2)[0] == "itself"
