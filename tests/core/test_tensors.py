# SPDX-License-Identifier: Apache-2.0
"""Tensors of every framework as arguments and results."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import graphffi


def test_kernel_reads_and_writes_the_callers_memory(kernels: Any, arrays: Any) -> None:
    x, y = arrays.make([1, 2, 3]), arrays.make([0, 0, 0])
    kernels.add_one(x, y)
    assert y.tolist() == [2, 3, 4]


@pytest.mark.parametrize("values", [5.0, [], [[]], [[1, 2], [3, 4]]])
def test_any_rank_and_empty(kernels: Any, arrays: Any, values: Any) -> None:
    x = arrays.make(values)
    result = kernels.same(x)
    assert tuple(result.shape) == tuple(x.shape)
    assert kernels.sum(x) == float(x.sum())


def test_rank_17(kernels: Any, arrays: Any) -> None:
    x = arrays.make([1, 2]).reshape((1,) * 16 + (2,))
    assert kernels.sum(x) == 3


def test_result_is_of_the_arguments_framework(kernels: Any, arrays: Any) -> None:
    x = arrays.make([1, 2])
    result = kernels.same(x)
    assert isinstance(result, arrays.kind)
    assert result.tolist() == [1, 2]


def test_results_in_containers_are_too(kernels: Any, arrays: Any) -> None:
    first, second = kernels.twice(arrays.make([1, 2]))
    assert isinstance(first, arrays.kind)
    assert second.tolist() == [1, 2]


def test_tensors_in_a_list(kernels: Any, arrays: Any) -> None:
    x = arrays.make([1, 2])
    assert kernels.count_tensors([x, x, x]) == 3
    assert kernels.echo([x, [x]])[1][0].tolist() == [1, 2]


def test_first_framework_decides(kernels: Any) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    x, y = np.ones(2, "float32"), torch.ones(2)
    call = graphffi.get_global_func("ffi.Array")
    assert all(isinstance(item, np.ndarray) for item in call(x, y))
    assert all(isinstance(item, torch.Tensor) for item in call(y, x))


def test_result_without_framework_is_a_tensor(kernels: Any) -> None:
    x = graphffi.from_dlpack(pytest.importorskip("numpy").ones(2))
    result = kernels.same(x)
    assert isinstance(result, graphffi.Tensor)
    assert result == x


def test_kept_tensor_outlives_its_call(kernels: Any, arrays: Any) -> None:
    x = arrays.make([1, 2, 3])
    kernels.keep(x)
    del x
    gc.collect()
    result = kernels.take_kept()
    assert isinstance(result, graphffi.Tensor)
    assert result.shape == (3,)
    assert kernels.sum(result) == 6


def test_kept_tensor_is_let_go(kernels: Any) -> None:
    np = pytest.importorskip("numpy")

    class Owner(np.ndarray):
        pass

    x = np.ones(3, "float32").view(Owner)
    alive = weakref.ref(x)
    kernels.keep(x)
    del x
    gc.collect()
    assert alive() is not None
    kernels.take_kept()
    gc.collect()
    assert alive() is None


def test_env_allocator_is_the_frameworks(kernels: Any) -> None:
    torch = pytest.importorskip("torch")
    before = kernels.has_allocator()  # the process's, where graphffi_jax is imported
    y = kernels.allocate_like(torch.ones(2, 3, dtype=torch.bfloat16))
    assert isinstance(y, torch.Tensor)
    assert y.shape == (2, 3)
    assert y.dtype == torch.bfloat16
    assert kernels.has_allocator() is before


def test_allocation_without_allocator_is_refused(
    kernels_path: str, run_python: Callable[..., tuple[int, str]]
) -> None:
    pytest.importorskip("numpy")
    # A process of its own: graphffi_jax brings an allocator for the process.
    status, text = run_python(
        "import graphffi, numpy as np\n"
        f"graphffi.load_module({kernels_path!r}).allocate_like(np.ones(2))"
    )
    assert status != 0
    assert "RuntimeError" in text
    assert "allocator" in text.lower()


def test_non_contiguous(kernels: Any) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    x = np.arange(24, dtype="float32").reshape(4, 6)
    assert kernels.sum(x[::2, ::-3]) == float(x[::2, ::-3].sum())
    y = torch.arange(24.0).reshape(4, 6)
    assert kernels.sum(y.t()[1::2]) == float(y.t()[1::2].sum())
    assert kernels.sum(y[:, :1].expand(4, 5)) == float(y[:, 0].sum() * 5)


def test_read_only_numpy_array_is_read(kernels: Any) -> None:
    np = pytest.importorskip("numpy")
    x = np.ones(3, "float32")
    x.flags.writeable = False
    assert kernels.sum(x) == 3


def test_torch_tensor_that_requires_grad_passes(kernels: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.nn.Parameter(torch.ones(3))
    assert kernels.sum(x) == 3
    assert kernels.same(x).requires_grad is False


@pytest.mark.parametrize("kind", ["sparse", "meta", "conj", "fake"])
def test_torch_tensor_without_plain_memory_is_refused(kernels: Any, kind: str) -> None:
    torch = pytest.importorskip("torch")
    if kind == "sparse":
        x = torch.eye(2).to_sparse()
    elif kind == "meta":
        x = torch.ones(2, device="meta")
    elif kind == "conj":
        x = torch.ones(2, dtype=torch.complex64).conj()
    else:
        with torch._subclasses.FakeTensorMode():
            x = torch.ones(2)
    for value in (x, [x]):
        # A call on tensors without data is one of a graph.
        text = r"index: (argument #0: expected a tensor|expected a function that returns None)"
        with pytest.raises((ValueError, TypeError), match=text):
            kernels.type_index(value)


def test_torch_imaginary_part_of_a_conjugate_is_refused(kernels: Any) -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 2, dtype=torch.complex64).conj().imag
    for view in (x, x.t(), x[0, 0], x[:1]):
        with pytest.raises(ValueError, match=r"argument #0: expected a tensor") as caught:
            kernels.sum(view)
        assert "resolve_neg" in str(caught.value.__cause__)


def test_numpy_array_that_dlpack_cannot_describe_is_refused(kernels: Any) -> None:
    np = pytest.importorskip("numpy")
    for x in (np.array(["text"]), np.ones(2, dtype=">f4"), np.array([object()])):
        with pytest.raises(ValueError, match=r"argument #0: expected a tensor that DLPack can"):
            kernels.type_index(x)


def numpy_arrays() -> dict[str, Any]:
    """NumPy arrays of every layout and data type that DLPack has words for, and a few others."""
    np, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    grid = np.arange(24, dtype="float32").reshape(4, 6)
    read_only = np.arange(5)
    read_only.flags.writeable = False
    kinds = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
    pairs = np.zeros(3, dtype=[("x", "i2"), ("y", "i4")])
    pairs["y"] = (7, 8, 9)
    evens = np.zeros(3, dtype=[("x", "i4"), ("y", "i4")])
    return {
        **{f"dtype {kind}": np.array([[1, 0, 1]], dtype=kind) for kind in kinds},
        **{f"dtype {kind}": np.ones(2, kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.int4)},
        "0-d": np.array(2.5),
        "empty": np.ones((3, 0, 2)),
        "transposed": grid.T,
        "reversed": grid[::-2, ::-1],
        "broadcast": np.broadcast_to(grid[0], (5, 6)),
        "read-only": read_only,
        "ten dimensions": np.arange(4.0).reshape((2, 1, 1, 1, 1, 1, 1, 1, 1, 2)),
        "column of a record": evens["y"],
        "crooked column of a record": pairs["y"],
        "subclass": np.ones(2).view(np.recarray),
        "long double": np.ones(2, "g"),
        "big-endian": np.ones(2, ">f8"),
        "dates": np.zeros(2, "M8[s]"),
        "text": np.array(["a"]),
        "record": pairs,
    }


def test_numpy_arrays_are_what_dlpack_says_of_them(kernels: Any) -> None:
    for name, array in numpy_arrays().items():
        try:
            expected = graphffi.from_dlpack(array)
        except (BufferError, TypeError, ValueError):
            with pytest.raises(ValueError, match="#0: expected a tensor that DLPack can describe"):
                kernels.keep(array)
            continue
        kernels.keep(array)
        lent = graphffi.from_dlpack(kernels.take_kept())
        assert (lent.shape, lent.dtype) == (expected.shape, expected.dtype), name
        if array.size:  # test_row_major.py has those of empty arrays
            assert lent.strides == expected.strides, name
        assert lent.data_ptr == expected.data_ptr, name
        assert lent.device == expected.device


def test_numpy_arrays_that_a_kernel_keeps_outlive_the_caller(kernels: Any) -> None:
    np = pytest.importorskip("numpy")
    array = np.full(1000, 7.0)
    gone = weakref.ref(array)
    kernels.keep(array)
    del array
    gc.collect()
    assert gone() is not None
    np.full(1000, 3.0)  # would take the memory if it were free
    kept = kernels.take_kept()
    assert (np.from_dlpack(kept) == 7).all()
    del kept
    gc.collect()
    assert gone() is None


def test_numpy_bfloat16_passes(kernels: Any) -> None:
    np, ml_dtypes = pytest.importorskip("numpy"), pytest.importorskip("ml_dtypes")
    x = np.array([[1.5, 2, 3], [4, 5, 6]], dtype=ml_dtypes.bfloat16)
    tensor = graphffi.from_dlpack(x[:, ::2])
    assert tensor.dtype == "bfloat16"
    assert tensor.strides == (3, 2)
    assert tensor.data_ptr == x.ctypes.data
    result = kernels.same(x)
    assert result.dtype == x.dtype
    assert result.tolist() == x.tolist()


def test_producer_without_version_passes(kernels: Any) -> None:
    np = pytest.importorskip("numpy")

    class Old:
        def __init__(self) -> None:
            self.array = np.ones(4, "float32")

        def __dlpack__(self) -> object:
            return self.array.__dlpack__()

    assert kernels.sum(Old()) == 4


def content_of(capsule: Any) -> int:
    """The address of a DLTensor."""
    find = ctypes.pythonapi.PyCapsule_GetPointer
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = find(capsule, b"dltensor")
    return address


@pytest.mark.parametrize(
    ("offset", "kind", "value", "got"),
    [
        (0, ctypes.c_void_p, None, "no memory"),
        (16, ctypes.c_int32, -1, "-1 dimensions"),
        (24, ctypes.c_void_p, None, "no shape"),
        (-1, ctypes.c_int64, -4, "the size -4"),
    ],
)
def test_dlpack_tensors_that_nobody_can_read_are_refused(
    offset: int, kind: Any, value: Any, got: str
) -> None:
    np = pytest.importorskip("numpy")

    class Liar:
        def __dlpack__(self, **options: Any) -> Any:
            capsule = np.ones(4, "float32").__dlpack__()
            address = content_of(capsule)
            shape = ctypes.c_void_p.from_address(address + 24).value
            kind.from_address(shape if offset < 0 else address + offset).value = value
            return capsule

    with pytest.raises(BufferError, match=f"a DLPack tensor with a shape and memory, got .*{got}"):
        graphffi.from_dlpack(Liar())


@pytest.mark.parametrize("result", [None, 3, "capsule"])
def test_producer_that_lies_is_refused(kernels: Any, result: Any) -> None:
    class Liar:
        def __dlpack__(self, **options: Any) -> Any:
            return result

    with pytest.raises(ValueError, match=r"argument #0: expected a tensor that DLPack can"):
        kernels.sum(Liar())


def test_an_interrupted_producer_is_no_error_of_its_tensor(kernels: Any) -> None:
    class Interrupted:
        def __dlpack__(self, **options: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kernels.sum(Interrupted())


def test_capsule_is_used_once() -> None:
    np = pytest.importorskip("numpy")
    capsule = np.ones(3).__dlpack__()

    class Again:
        def __dlpack__(self) -> object:
            return capsule

    assert graphffi.from_dlpack(Again()).shape == (3,)
    with pytest.raises(TypeError, match=r"an unused DLPack capsule, got one named 'used_dltensor'"):
        graphffi.from_dlpack(Again())


def test_tensor_describes_itself() -> None:
    np = pytest.importorskip("numpy")
    x = np.zeros((2, 3), "int16")[:, ::2]
    t = graphffi.from_dlpack(x)
    assert (t.shape, t.strides, t.ndim) == ((2, 2), (3, 2), 2)
    assert (t.dtype, t.device) == (graphffi.dtype("int16"), graphffi.Device("cpu"))
    assert t.data_ptr == x.ctypes.data
    assert repr(t) == "<graphffi.Tensor int16[2, 2] on cpu>"
    assert repr(graphffi.from_dlpack(np.ones(2, "complex64"))) == (
        "<graphffi.Tensor complex64[2] on cpu>"
    )
    assert graphffi.from_dlpack(t) is t
    assert t.__dlpack_device__() == (1, 0)
    assert t.type_key == "ffi.Tensor"


def test_tensor_is_an_array_for_numpy() -> None:
    np = pytest.importorskip("numpy")
    x = np.arange(3, dtype="int16")
    t = graphffi.from_dlpack(x)
    for same in (np.asarray(t), np.asarray(t, "int16"), np.asarray(t, copy=None)):
        assert np.shares_memory(same, x), same
    assert np.asarray(t, copy=False).base is not None
    for copy in (np.array(t), np.asarray(t, "float32"), np.asarray(t, copy=True)):
        assert copy.tolist() == [0, 1, 2]
        assert not np.shares_memory(copy, x), copy
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, "float32", copy=False)
    assert (t + x).tolist() == [0, 2, 4]


def test_tensor_on_another_device_is_no_array() -> None:
    np = pytest.importorskip("numpy")

    class OnCuda:
        def __dlpack__(self, **options: Any) -> Any:
            capsule = np.ones(4, "float32").__dlpack__()
            ctypes.c_int32.from_address(content_of(capsule) + 8).value = 2
            return capsule

    text = r"Tensor: __array__: expected a tensor on the CPU, got <.* float32\[4\] on cuda:0>"
    with pytest.raises(TypeError, match=text):
        np.asarray(graphffi.from_dlpack(OnCuda()))


def test_tensor_goes_to_every_framework(arrays: Any) -> None:
    x = arrays.make([1, 2, 3])
    t = graphffi.from_dlpack(x)
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    assert np.from_dlpack(t).tolist() == [1, 2, 3]
    assert torch.from_dlpack(t).tolist() == [1, 2, 3]
    assert jax.dlpack.from_dlpack(t).tolist() == [1, 2, 3]


def test_unused_capsules_free_their_tensor() -> None:
    np = pytest.importorskip("numpy")
    t = graphffi.from_dlpack(np.ones(3))
    for version in (None, (1, 0)):
        capsule = t.__dlpack__(max_version=version)
        assert "dltensor" in repr(capsule)
        del capsule


def test_dlpack_of_another_device_or_a_copy_is_refused() -> None:
    t = graphffi.from_dlpack(pytest.importorskip("numpy").ones(3))
    with pytest.raises(BufferError, match=r"expected its own device"):
        t.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match=r"expected copy=False"):
        t.__dlpack__(copy=True)


class NoObject:
    """Of a package on this runtime, without content."""

    def __chandle__(self) -> int:
        return 0


@pytest.mark.parametrize("value", [None, 3, "text", [1.0], NoObject()])
def test_from_dlpack_of_no_tensor_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"graphffi: from_dlpack: expected a tensor, got"):
        graphffi.from_dlpack(value)


def test_a_returned_view_is_refused(kernels: Any) -> None:
    x = graphffi.from_dlpack(pytest.importorskip("numpy").ones(3))
    with pytest.raises(RuntimeError, match=r"expected an owning tensor as result"):
        kernels.return_view(x)


def test_shape_is_a_shape_and_a_list_can_be_one(kernels: Any) -> None:
    assert kernels.product(graphffi.Shape([2, 3])) == 6
    assert kernels.product(graphffi.Shape()) == 1


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1,) * 17])
def test_core_allocates_on_the_cpu(shape: tuple[int, ...]) -> None:
    from graphffi import _core

    t = _core.empty(shape, "bfloat16", "cpu")
    assert (t.shape, t.dtype, t.data_ptr % 64) == (shape, "bfloat16", 0)


@pytest.mark.parametrize("shape", [(-1,), (2**62, 2**62)])
def test_core_refuses_a_shape_that_no_memory_holds(shape: tuple[int, ...]) -> None:
    from graphffi import _core

    with pytest.raises(ValueError, match=r"graphffi: cannot allocate a tensor with dimension"):
        _core.empty(shape, "float32")


def test_core_refuses_to_allocate_elsewhere() -> None:
    from graphffi import _core

    with pytest.raises(NotImplementedError, match=r"empty: expected the device cpu, got cuda:0"):
        _core.empty([1], "float32", "cuda:0")
