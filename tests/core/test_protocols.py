# SPDX-License-Identifier: Apache-2.0
"""Values that say by a method what they are for a function: tvm-ffi's protocols."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import pytest

import graphffi
from tests.core.on_device import OnDevice


def saying(*bases: type, **methods: Any) -> type:
    """A class whose methods return these."""
    bodies = {name: lambda self, result=result: result for name, result in methods.items()}
    return type("Said", bases, bodies)


def plain(value: Any) -> Any:
    """A value that a function returned, as one that can be compared whoever called it."""
    if isinstance(value, (bool, int, float, type(None), graphffi.Function)):
        return value
    if isinstance(value, ctypes.c_void_p):
        return "address", value.value
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(key): plain(item) for key, item in value.items()}
    if not isinstance(value, str) and hasattr(value, "__getitem__"):
        return [plain(item) for item in value]
    return str(value)


@pytest.fixture
def tvm_ffi() -> Any:
    """The package apache-tvm-ffi, where it is on the runtime that graphffi uses."""
    if graphffi.runtime_info().kind == "bundled":
        pytest.skip("tvm_ffi can't be imported on the bundled runtime")
    return pytest.importorskip("tvm_ffi")


ACCEPTED = [
    (saying(__tvm_ffi_int__=3)(), 3),
    (saying(__tvm_ffi_int__=True)(), 1),
    (saying(__tvm_ffi_int__=2**70)(), 2**70),
    (saying(__tvm_ffi_float__=0.5)(), 0.5),
    (saying(__tvm_ffi_float__=3)(), 3.0),
    (saying(__tvm_ffi_value__=[1, "a", None])(), [1, "a", None]),
    (saying(__tvm_ffi_value__=saying(__tvm_ffi_int__=3)())(), 3),
    (saying(__tvm_ffi_opaque_ptr__=64)(), ("address", 64)),
    (saying(__tvm_ffi_opaque_ptr__=-1)(), ("address", 2**64 - 1)),
    (saying(__cuda_stream__=(0, 64))(), ("address", 64)),
    (saying(__dlpack_data_type__=(2, 16, 1))(), "float16"),
    (saying(__dlpack_device__=(2, 1))(), "cuda:1"),
    # More than one: the first of an order counts.
    (saying(__tvm_ffi_value__="v", __tvm_ffi_float__=0.5, __tvm_ffi_int__=3)(), 3),
    (saying(__tvm_ffi_value__="v", __tvm_ffi_float__=0.5)(), 0.5),
    (saying(__dlpack_device__=(1, 0), __tvm_ffi_int__=3)(), "cpu"),
    (saying(__dlpack_data_type__=(2, 16, 1), __dlpack_device__=(1, 0))(), "float16"),
    (saying(__dlpack_data_type__=(2, 16, 1), __tvm_ffi_opaque_ptr__=64)(), ("address", 64)),
    (saying(__call__=1, __tvm_ffi_opaque_ptr__=64)(), ("address", 64)),
    (saying(__index__=7, __tvm_ffi_int__=3)(), 3),
    (saying(__float__=7.0, __tvm_ffi_value__="v")(), "v"),
    (saying(int, __tvm_ffi_int__=3)(5), 5),
    (saying(int, __tvm_ffi_opaque_ptr__=64)(5), 5),
    (saying(int, __cuda_stream__=(0, 64))(5), ("address", 64)),
    (saying(str, __dlpack_data_type__=(2, 16, 1))("text"), "text"),
    # Within others.
    ([saying(__tvm_ffi_int__=3)(), (saying(__tvm_ffi_float__=2)(),)], [3, [2.0]]),
    ({"a": saying(__tvm_ffi_value__=(1, {"b": 2}))()}, {"a": [1, {"b": 2}]}),
]


@pytest.mark.parametrize("case", range(len(ACCEPTED)))
def test_a_value_is_what_its_method_says(kernels: graphffi.Module, case: int) -> None:
    value, expected = ACCEPTED[case]
    result = plain(kernels.echo(value))
    assert (type(result), result) == (type(expected), expected)


def test_methods_count_as_for_functions_of_tvm_ffi(tvm_ffi: Any) -> None:
    theirs = tvm_ffi.get_global_func("testing.echo")
    for value, expected in ACCEPTED:
        result = plain(theirs(value))
        theirs_of_it = "cpu:0" if expected == "cpu" else expected
        assert (type(result), result) == (type(expected), theirs_of_it)


def test_callables_that_say_a_number_are_functions(kernels: graphffi.Module) -> None:
    for method in ("int", "float", "value"):
        value = saying(__call__=7, **{f"__tvm_ffi_{method}__": 3})()
        assert kernels.echo(value)() == 7


def test_the_result_of_a_callback_may_say_what_it_is() -> None:
    assert graphffi.Function(saying(__tvm_ffi_int__=3))() == 3
    assert graphffi.Function(lambda: [saying(__tvm_ffi_value__="v")()])() == ["v"]


def test_objects_pass_by_what_holds_them(kernels: graphffi.Module) -> None:
    held = graphffi.Function(lambda x: x + 1)
    for bases, arguments in (((), ()), ((int,), (5,)), ((str,), ("a",)), ((dict,), ())):
        holder = saying(*bases, __tvm_ffi_object__=held)(*arguments)
        assert kernels.call(holder, 2) == 3
        assert kernels.echo([holder])[0](2) == 3


def test_an_object_that_only_its_method_held_lives_through_the_call(
    kernels: graphffi.Module,
) -> None:
    class Holder:
        def __tvm_ffi_object__(self) -> graphffi.Function:
            return graphffi.Function(lambda x: x + 1)

    assert kernels.call(Holder(), 2) == 3


def test_tensors_pass_by_what_holds_them(kernels: graphffi.Module) -> None:
    np = pytest.importorskip("numpy")
    tensor = graphffi.from_dlpack(np.ones(3, "float32"))
    assert kernels.sum(saying(__tvm_ffi_object__=tensor)()) == 3
    assert kernels.sum(saying(__tvm_ffi_value__=tensor)()) == 3
    assert kernels.sum(saying(__tvm_ffi_value__=np.ones(3, "float32"))()) == 3
    torch = pytest.importorskip("torch")
    assert kernels.sum(saying(__tvm_ffi_value__=torch.ones(3))()) == 3
    wrapper = saying(torch.Tensor, __tvm_ffi_object__=tensor)
    assert kernels.sum(torch.zeros(5).as_subclass(wrapper)) == 3


def test_objects_of_tvm_ffi_pass_by_what_holds_them(tvm_ffi: Any, kernels: graphffi.Module) -> None:
    held = tvm_ffi.convert([1, 2])
    assert kernels.echo(saying(__tvm_ffi_object__=held)()) == [1, 2]
    theirs = tvm_ffi.get_global_func("testing.echo")
    assert list(theirs(saying(__tvm_ffi_object__=held)())) == [1, 2]


REFUSED = [
    (saying(__tvm_ffi_int__=3.7)(), "an int from __tvm_ffi_int__, got float 3.7"),
    (saying(__tvm_ffi_int__="3")(), "an int from __tvm_ffi_int__, got str '3'"),
    (saying(__tvm_ffi_int__=None)(), "an int from __tvm_ffi_int__, got None"),
    (saying(__tvm_ffi_float__="3")(), "a float from __tvm_ffi_float__, got str '3'"),
    (saying(__tvm_ffi_float__=1j)(), "a float from __tvm_ffi_float__, got complex 1j"),
    (saying(__tvm_ffi_opaque_ptr__=None)(), "an address from __tvm_ffi_opaque_ptr__, got None"),
    (saying(__tvm_ffi_opaque_ptr__=2**64)(), "an address of 64 bits from __tvm_ffi_opaque_ptr__"),
    (saying(__tvm_ffi_opaque_ptr__=-(2**64))(), "an address of 64 bits from __tvm_ffi_opaque"),
    (saying(__cuda_stream__=7)(), "a tuple of version and address from __cuda_stream__, got int 7"),
    (saying(__cuda_stream__=(0, None))(), "an address from __cuda_stream__, got None"),
    (saying(__cuda_stream__=(0, 1, 2))(), "a tuple of version and address from __cuda_stream__"),
    (saying(__tvm_ffi_object__=3)(), "an object from __tvm_ffi_object__, got int 3"),
    (saying(__tvm_ffi_object__=None)(), "an object from __tvm_ffi_object__, got None"),
    (saying(__tvm_ffi_value__=object)(), None),
    (saying(__tvm_ffi_value__=1j)(), "None, a number, .*, got complex"),
    (saying(__tvm_ffi_int__=None, __index__=3)(), "an int from __tvm_ffi_int__, got None"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_what_a_method_should_not_say_is_refused(kernels: graphffi.Module, case: int) -> None:
    value, text = REFUSED[case]
    if text is None:  # a class, which is a callable
        assert isinstance(kernels.echo(value), graphffi.Function)
        return
    with pytest.raises(TypeError, match=rf"echo: argument #1: expected {text}"):
        kernels.echo(0, value)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ((2, 16), TypeError, r"expected \(code, bits, lanes\) from __dlpack_data_type__, got \(2"),
        ([2, 16, 1], TypeError, r"expected \(code, bits, lanes\) from __dlpack_data_type__"),
        ((2, "16", 1), TypeError, r"expected \(code, bits, lanes\) from __dlpack_data_type__"),
        ((2, 300, 1), ValueError, "expected a DLPack data type, got code 2, bits 300, lanes 1"),
        ((2, 32, 0), ValueError, "expected a DLPack data type, got code 2, bits 32, lanes 0"),
        ((2, 32, 65536), ValueError, "expected a DLPack data type"),
        ((200, 16, 1), ValueError, "expected a DLPack data type, got code 200"),
    ],
)
def test_data_types_that_dlpack_lacks_are_refused(
    kernels: graphffi.Module, given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^graphffi: dtype: {text}"):
        kernels.echo(saying(__dlpack_data_type__=given)())


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (1, TypeError, "expected a DLPack pair from __dlpack_device__, got 1"),
        ((1, "0"), TypeError, "expected a DLPack pair from __dlpack_device__"),
        ((200, 1), ValueError, "expected a DLPack device type, got 200"),
        ((1, -1), ValueError, "expected an index of 0 or more, got -1"),
    ],
)
def test_devices_that_dlpack_lacks_are_refused(
    kernels: graphffi.Module, given: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=f"^graphffi: device: {text}"):
        kernels.echo(saying(__dlpack_device__=given)())


def test_dtypes_and_devices_are_made_of_what_has_the_methods() -> None:
    assert graphffi.dtype(saying(__dlpack_data_type__=(2, 16, 2))()) == "float16x2"
    assert graphffi.Device(saying(__dlpack_device__=(2, 1))()) == graphffi.Device("cuda:1")
    tensor = saying(__dlpack_device__=(2, 1), __dlpack__=None)()
    with pytest.raises(TypeError, match=r"expected a name, a torch.device or a DLPack pair"):
        graphffi.Device(tensor)


METHODS = [
    "__tvm_ffi_int__",
    "__tvm_ffi_float__",
    "__tvm_ffi_value__",
    "__tvm_ffi_object__",
    "__tvm_ffi_opaque_ptr__",
    "__cuda_stream__",
    "__dlpack_data_type__",
    "__dlpack_device__",
    "__dlpack__",
]


class OddError(Exception):
    """An exception that cannot be made of one text."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)


def raising(method: str, error: BaseException) -> Any:
    """An object whose method raises `error`."""

    def raises(self: Any, **keywords: Any) -> Any:
        raise error

    return type("Raising", (), {method: raises})()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "error", [KeyError("k"), BufferError("b"), OddError(3, "t"), KeyboardInterrupt()], ids=repr
)
def test_an_exception_in_a_method_arrives_as_it_is(
    kernels: graphffi.Module, method: str, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        kernels.echo(raising(method, error))
    assert raised.value is error
    with pytest.raises(type(error)) as raised:
        kernels.echo([1, {"a": raising(method, error)}])
    assert raised.value is error


def test_an_exception_in_a_method_of_a_result_arrives_as_it_is() -> None:
    error = KeyError("k")
    with pytest.raises(KeyError) as raised:
        graphffi.Function(lambda: raising("__tvm_ffi_int__", error))()
    assert raised.value is error


def test_exceptions_in_methods_are_those_of_tvm_ffi(tvm_ffi: Any) -> None:
    theirs = tvm_ffi.get_global_func("testing.echo")
    for method in METHODS:
        with pytest.raises(KeyError, match="k"):
            theirs(raising(method, KeyError("k")))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_a_note_says_which_argument_raised(kernels: graphffi.Module) -> None:
    for method in ("__tvm_ffi_int__", "__dlpack__", "__cuda_stream__"):
        error = KeyError("k")
        with pytest.raises(KeyError):
            kernels.echo(1, raising(method, error))
        assert error.__notes__ == [f"echo: argument #1: raised by {method}"]


def test_a_value_that_says_itself_is_refused(kernels: graphffi.Module) -> None:
    class Endless:
        def __tvm_ffi_value__(self) -> Any:
            return self

    with pytest.raises(RecursionError):
        kernels.echo(Endless())


def test_a_method_that_is_none_does_not_count(kernels: graphffi.Module) -> None:
    cls = type("Passing", (), {"__tvm_ffi_int__": None, "__index__": lambda self: 7})
    assert kernels.echo(cls()) == 7


class WithStream(OnDevice):
    """One that says which stream kernels are to use."""

    def __init__(self, device: int, index: int = 0, stream: Any = 0x1230) -> None:
        super().__init__(device, index)
        self.stream = stream

    def __tvm_ffi_env_stream__(self) -> Any:
        return self.stream


CUDA = 2


def test_the_stream_that_a_tensor_names_is_the_kernels(kernels: graphffi.Module) -> None:
    seen = graphffi.Function(lambda *_: [kernels.stream(CUDA, index) for index in range(2)])
    assert seen(OnDevice(CUDA)) == [0, 0]
    assert seen(WithStream(CUDA)) == [0x1230, 0]
    assert seen(OnDevice(CUDA), WithStream(CUDA, 1)) == [0, 0x1230]
    assert seen([WithStream(CUDA)]) == [0x1230, 0]
    assert kernels.stream(CUDA, 0) == 0
    with graphffi.use_stream("cuda:0", 0x4560):
        assert seen(OnDevice(CUDA)) == [0x4560, 0]
        assert seen(WithStream(CUDA)) == [0x1230, 0]
        assert seen(1) == [0x4560, 0]


def test_streams_of_tensors_on_the_cpu_do_not_count(kernels: graphffi.Module) -> None:
    seen = graphffi.Function(lambda *_: kernels.stream(CUDA, 0))
    assert seen(WithStream(1, stream="none")) == 0


def test_streams_that_are_no_address_are_refused(kernels: graphffi.Module) -> None:
    with pytest.raises(TypeError, match="argument #0: expected an address from __tvm_ffi_env_str"):
        kernels.echo(WithStream(CUDA, stream="none"))
    error = KeyError("k")
    odd = type("Odd", (OnDevice,), {"__tvm_ffi_env_stream__": lambda self: fail(error)})
    with pytest.raises(KeyError) as raised:
        kernels.echo(odd(CUDA))
    assert raised.value is error


def fail(error: Exception) -> None:
    raise error


def test_only_a_framework_brings_an_allocator(kernels: graphffi.Module) -> None:
    torch = pytest.importorskip("torch")
    seen = graphffi.Function(lambda *_: kernels.has_allocator())
    before = kernels.has_allocator()
    assert seen(WithStream(CUDA)) is before
    assert seen(WithStream(CUDA), torch.ones(2)) is True
    assert kernels.has_allocator() is before
