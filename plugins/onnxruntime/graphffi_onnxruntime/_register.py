# SPDX-License-Identifier: Apache-2.0
"""The registration of ops with the options of sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from graphffi.plugin import DefinedOp
from graphffi_onnxruntime._node_text import ops_text

if TYPE_CHECKING:
    from collections.abc import Iterable

ENTRY: Final = "graphffi.ops"
"""The entry of a session's options that names a list of ops, or is one."""


def library_path() -> str:
    """The library whose ops ONNX Runtime calls, for hosts that are no Python programs."""
    return str(Path(__file__).with_name("lib") / "libgraphffi_onnxruntime.so")


def register(
    session_options: Any, ops: str | os.PathLike[str] | DefinedOp | Iterable[DefinedOp]
) -> None:
    """Makes ops known to the sessions that are made with these options.

    Args:
        session_options: An `onnxruntime.SessionOptions`.
        ops: The path of a model, beside which `export` wrote the list of its ops, or of such a
            list; or ops. All ops of a namespace are registered at once.

    Raises:
        FileNotFoundError: If there is no such list.
        RuntimeError: With what ONNX Runtime says, such as for a namespace that the options have.
        TypeError: For something else than ops.

    Example:
        ``register(options, "model.onnx")``
    """
    session_options.add_session_config_entry(ENTRY, _entry(ops))
    session_options.register_custom_ops_library(library_path())


def _entry(ops: Any) -> str:
    if isinstance(ops, (str, os.PathLike)):
        path = os.path.abspath(ops)
        path = path if path.endswith(".ops") else f"{path}.ops"
        if not os.path.isfile(path):
            raise FileNotFoundError(
                f"graphffi_onnxruntime: list of ops: expected {path!r}, which export writes beside "
                "a model, got no such file"
            )
        return path
    listed = [ops] if isinstance(ops, DefinedOp) else list(ops)
    for each in listed:
        if not isinstance(each, DefinedOp):
            raise TypeError(f"graphffi_onnxruntime: register: expected ops or a path, got {each!r}")
    return ops_text(each.definition for each in listed)
