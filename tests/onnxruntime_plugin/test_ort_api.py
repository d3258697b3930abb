# SPDX-License-Identifier: Apache-2.0
"""What ort_api.h states of ONNX Runtime's C ABI, through the installed library."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import graphffi_onnxruntime

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
HEADER = ROOT / "plugins" / "onnxruntime" / "csrc" / "ort" / "ort_api.h"


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of one op that calls each slot, and says what it found."""
    compiler = os.environ.get("CXX") or shutil.which("g++")
    if compiler is None:
        pytest.skip("needs g++")
    path = tmp_path_factory.mktemp("probe") / "probe.so"
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{HEADER.parent}"]
    command = [compiler, *flags, str(HERE / "probe.cc"), "-o", str(path)]
    subprocess.run(command, check=True, timeout=300)
    return path


def test_each_slot_does_what_the_header_says(
    probe: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    helper = onnx.helper
    node = helper.make_node(
        "probe", ["x", "", "z"], ["y"], domain="probe",
        f=1.5, i=-3, s="te\u00e9xt", fs=[0.5, 2.0], is_=[7, 8, 9], ss=["a", "bc"],
    )  # fmt: skip
    given = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3]) for name in ("x", "z")
    ]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("probe", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("probe.entry", "a value")
    options.register_custom_ops_library(str(probe))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert session.get_outputs()[0].shape == ["n", 3]
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x, "z": x})[0], x)
    del session
    said = capfd.readouterr().out
    assert "wrong" not in said
    slots = {int(n) for n in re.findall(r"Slot<\s*(\d+),", HEADER.read_text())}
    assert {int(n) for n in re.findall(r"slot (\d+)", said)} == slots


def test_an_error_of_a_kernel_is_a_status(probe: Path) -> None:
    helper = onnx.helper
    node = helper.make_node("probe", ["x"], ["y"], domain="probe", i=-4)
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("probe", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(probe))
    with pytest.raises(Exception, match="the probe refuses the node"):
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )


class ApiBase(ctypes.Structure):
    """As ort_api.h has it."""

    GetApi = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
    GetVersion = ctypes.CFUNCTYPE(ctypes.c_void_p)
    _fields_ = (("get_api", GetApi), ("get_version_string", GetVersion))


def test_an_older_release_is_refused() -> None:
    (path,) = Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*")
    runtime = ctypes.CDLL(str(path))
    runtime.OrtGetApiBase.restype = ctypes.POINTER(ApiBase)
    newest = runtime.OrtGetApiBase().contents

    def get_api(version: int) -> Any:
        return newest.get_api(version) if version <= 24 else None

    text = ctypes.create_string_buffer(b"1.24.4")
    get_version = ApiBase.GetVersion(lambda: ctypes.addressof(text))
    older = ApiBase(ApiBase.GetApi(get_api), get_version)
    library = ctypes.CDLL(graphffi_onnxruntime.library_path())
    library.RegisterCustomOps.restype = ctypes.c_void_p
    status = library.RegisterCustomOps(None, ctypes.byref(older))
    functions = ctypes.cast(newest.get_api(1), ctypes.POINTER(ctypes.c_void_p))
    get_message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(functions[2])
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions[93])
    assert get_message(status) == (
        b"RuntimeError: graphffi: expected ONNX Runtime 1.25 or newer, got 1.24.4"
    )
    release(status)
