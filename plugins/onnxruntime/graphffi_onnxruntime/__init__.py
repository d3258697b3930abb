# SPDX-License-Identifier: Apache-2.0
"""graphffi's ops as nodes of ONNX models, in sessions of ONNX Runtime."""

from __future__ import annotations

try:
    import onnxruntime as _onnxruntime  # noqa: F401
except ModuleNotFoundError as _error:
    raise ImportError(
        "graphffi_onnxruntime: expected onnxruntime 1.17 or newer, got none; pip install "
        "onnxruntime"
    ) from _error

from graphffi_onnxruntime._model_op import ModelOp as ModelOp
from graphffi_onnxruntime._model_op import model_op as model_op
from graphffi_onnxruntime._register import library_path as library_path
from graphffi_onnxruntime._register import register as register

__all__ = ["ModelOp", "library_path", "model_op", "register"]
