# SPDX-License-Identifier: Apache-2.0
"""graphffi's ops as nodes of ONNX models, in sessions of ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

try:
    import onnxruntime as _onnxruntime  # noqa: F401
except ModuleNotFoundError as _error:
    raise ImportError(
        "graphffi_onnxruntime: expected onnxruntime 1.25 or newer, got none; pip install "
        "onnxruntime"
    ) from _error

from graphffi_onnxruntime._model_op import ModelOp as ModelOp
from graphffi_onnxruntime._model_op import model_op as model_op
from graphffi_onnxruntime._register import library_path as library_path
from graphffi_onnxruntime._register import register as register

if _TYPE_CHECKING:
    from graphffi_onnxruntime._export import export as export
    from graphffi_onnxruntime._export import translation_table as translation_table
    from graphffi_onnxruntime._ops_file import write_ops as write_ops

__all__ = [
    "ModelOp",
    "export",
    "library_path",
    "model_op",
    "register",
    "translation_table",
    "write_ops",
]


def __getattr__(name: str) -> _Any:
    """Import what needs PyTorch or onnx when it is first used: sessions need neither."""
    if name in ("export", "translation_table"):
        from graphffi_onnxruntime import _export as module
    elif name == "write_ops":
        from graphffi_onnxruntime import _ops_file as module  # type: ignore[no-redef]
    else:
        raise AttributeError(f"module 'graphffi_onnxruntime' has no attribute {name!r}", name=name)
    return getattr(module, name)
