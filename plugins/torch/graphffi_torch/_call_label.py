# SPDX-License-Identifier: Apache-2.0
"""The digest of a call of `tvm_ffi::call`: what it stands for, for caches, errors and readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi import Definition


def call_label(definition: Definition, operands: Sequence[Any]) -> str:
    """Names an op's tensors in the order in which `tvm_ffi::call` gets them.

    Args:
        definition: Of the op.
        operands: One object, None or list per operand.

    Returns:
        ``mylib::rms_norm(x, weight -> out) 0123456789abcdef``, which C++ reads for errors.
    """
    inputs: list[str] = []
    outputs = list(definition.results)
    for operand, value in zip(definition.operands, operands, strict=True):
        names = outputs if operand.mutated else inputs
        if isinstance(value, (list, tuple)):
            names.extend(f"{operand.name}[{i}]" for i in range(len(value)))
        elif value is not None:
            names.append(operand.name)
    return f"{definition.name}({', '.join(inputs)} -> {', '.join(outputs)}) {definition.digest}"
