# SPDX-License-Identifier: Apache-2.0
"""Data types and devices."""

from __future__ import annotations

import gc
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import Device, Function, dtype


@pytest.mark.parametrize(
    ("name", "numbers", "itemsize"),
    [
        ("float32", (2, 32, 1), 4),
        ("bfloat16", (4, 16, 1), 2),
        ("bool", (6, 8, 1), 1),
        ("int64", (0, 64, 1), 8),
        ("uint8", (1, 8, 1), 1),
        ("int4", (0, 4, 1), 1),
        ("complex64", (5, 64, 1), 8),
        ("float8_e4m3fn", (10, 8, 1), 1),
        ("float8_e8m0fnu", (14, 8, 1), 1),
        ("float4_e2m1fnx2", (17, 4, 2), 1),
        ("float32x4", (2, 32, 4), 16),
        ("handle", (3, 64, 1), 8),
    ],
)
def test_dtype_by_name(name: str, numbers: tuple[int, int, int], itemsize: int) -> None:
    found = dtype(name)
    assert (found.code, found.bits, found.lanes) == numbers
    assert found.itemsize == itemsize
    assert found == name
    assert hash(found) == hash(name)
    assert dtype.from_dlpack_type(*numbers) == found
    assert dtype(found) is found
    assert repr(found) == f"dtype({name!r})"
    copy = pickle.loads(pickle.dumps(found))
    assert (type(copy), copy, copy.bits) == (dtype, name, found.bits)


def test_dtypes_of_other_libraries() -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    jnp = pytest.importorskip("jax.numpy")
    for value in (np.float32, np.dtype("f4"), torch.float32, jnp.float32, "torch.float32"):
        assert dtype(value) == "float32"
    for value in (np.bool_, np.dtype(bool), torch.bool, jnp.bool_):
        assert dtype(value) == "bool"
    for value in (torch.bfloat16, jnp.bfloat16, np.dtype(jnp.bfloat16)):
        assert dtype(value) == "bfloat16"
    assert dtype(torch.float4_e2m1fn_x2) == "float4_e2m1fnx2"


@pytest.mark.parametrize("name", ["", "flot", "float", "float0", "float300", "int8x0", " int8"])
def test_unknown_dtype_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=rf"graphffi: dtype: expected a name .*, got {name!r}"):
        dtype(name)


@pytest.mark.parametrize("kind", [">f4", ">i8", ">c8"])
def test_dtype_in_another_byte_order_is_refused(kernels: graphffi.Module, kind: str) -> None:
    value = pytest.importorskip("numpy").dtype(kind)
    assert dtype(value.newbyteorder("=")) == value.name
    for call in (dtype, kernels.echo):
        with pytest.raises(ValueError, match=r"byte order of this machine, got dtype\('>"):
            call(value)


@pytest.mark.parametrize("value", [None, 3, float, [], object])
def test_no_dtype_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"graphffi: dtype: expected a name or a data type"):
        dtype(value)


def test_numbers_that_are_no_dtype_are_refused() -> None:
    with pytest.raises(ValueError, match=r"got code 99, bits 8, lanes 1"):
        dtype.from_dlpack_type(99, 8)


@pytest.mark.parametrize(
    ("value", "kind", "index", "text"),
    [
        ("cpu", "cpu", 0, "cpu"),
        ("cpu:0", "cpu", 0, "cpu"),
        ("cuda", "cuda", 0, "cuda:0"),
        ("cuda:12", "cuda", 12, "cuda:12"),
        ((2, 3), "cuda", 3, "cuda:3"),
        ("mps", "metal", 0, "metal:0"),
        ("meta", "meta", 0, "meta:0"),
    ],
)
def test_device(value: Any, kind: str, index: int, text: str) -> None:
    device = Device(value)
    assert (device.type, device.index, str(device)) == (kind, index, text)
    assert repr(device) == f"Device({text!r})"
    assert device == Device(text)
    assert hash(device) == hash(Device(device))
    assert pickle.loads(pickle.dumps(device)) == device


def test_device_with_an_index() -> None:
    assert Device("cuda", 1) == Device("cuda:1")
    assert Device("cuda:1").dlpack_type == 2


def test_device_of_torch() -> None:
    torch = pytest.importorskip("torch")
    assert Device(torch.device("cuda", 1)) == Device("cuda:1")
    assert Device(torch.device("cpu")) == Device("cpu")
    assert Device(torch.device("privateuseone:1")) == Device("ext_dev:1")


def test_devices_have_the_names_of_the_headers() -> None:
    header = Path(__file__).parents[2] / "csrc/include/tvm/ffi/device.h"
    first: dict[str, str] = {}
    for name, kind in re.findall(r'\{"(\w+)", (kDL\w+)\}', header.read_text()):
        assert Device(name).type == first.setdefault(kind, name)
    assert len(first) > 10


@pytest.mark.parametrize("value", ["", "cdua", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", (77, 0)])
def test_unknown_device_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"graphffi: device: expected"):
        Device(value)


@pytest.mark.parametrize("value", [None, 3, [], (1,), (1.5, 0), ("1", "0")])
def test_no_device_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=r"graphffi: device: expected a name"):
        Device(value)


def test_contradiction_and_negative_index_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one index, got 'cuda:1' and 2"):
        Device("cuda:1", 2)
    with pytest.raises(ValueError, match=r"expected an index of 0 or more, got -1"):
        Device("cuda", -1)
    with pytest.raises(ValueError, match=r"expected an index below 2\*\*31, got 2147483648"):
        Device("cuda:2147483648")


@pytest.mark.parametrize("index", [1.5, "0"])
def test_an_index_is_an_int(index: Any) -> None:
    with pytest.raises(TypeError, match=r"device: expected an index \(an int\), got"):
        Device("cuda", index)


def test_device_without_memory_has_no_number() -> None:
    with pytest.raises(ValueError, match=r"expected one with memory, got meta:0"):
        Device("meta").dlpack_type  # noqa: B018


def test_devices_of_results_are_not_kept_for_good() -> None:
    echo = Function(lambda device: device)
    for index in range(3000):
        assert echo(Device("cuda", index)) == Device("cuda", index)
    assert sum(type(found) is Device for found in gc.get_objects()) < 2000


def test_device_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Device("cpu").index = 1  # type: ignore[misc]


def test_numpy_results_need_ml_dtypes_for_what_numpy_lacks(run_python: Any) -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None  # which is not installed then
import numpy
import graphffi
from graphffi import Tensor

@graphffi.op("narrow::cast", kernel=lambda x, y: None)
def cast(x: Tensor) -> Tensor:
    return graphffi.like(x, dtype="bfloat16")

try:
    cast(numpy.ones(3))
except TypeError as error:
    print(error)
"""
    code, output = run_python(program)
    assert code == 0, output
    assert "expected a data type of NumPy or ml_dtypes (which pip installs), got bfloat16" in output
