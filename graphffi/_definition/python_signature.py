# SPDX-License-Identifier: Apache-2.0
"""An op's signature as Python's tools show it: `inspect.signature`, `help`, editors."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from .._contract.attribute_kind import KINDS
from .._core import Tensor
from .parameter import MISSING, Attribute, Operand

if TYPE_CHECKING:
    from .interface import Interface


def python_signature(definition: Interface) -> inspect.Signature:
    """The parameters of an op with types and defaults, and the type of what a call returns.

    Args:
        definition: Of the op. Parameters without default behind one with a default, which a schema
            may have, are shown as those that calls give by name only.
    """
    parameters: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for parameter in definition.parameters:
        default = _default(parameter)
        follows_default = bool(parameters) and parameters[-1].default is not inspect.Parameter.empty
        if parameter.by_name or (follows_default and default is inspect.Parameter.empty):
            kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(
            inspect.Parameter(parameter.name, kind, default=default, annotation=_type(parameter))
        )
    return inspect.Signature(parameters, return_annotation=_returned_type(definition))


def _default(parameter: Operand | Attribute) -> Any:
    if isinstance(parameter, Operand):
        return inspect.Parameter.empty if parameter.required else None
    if parameter.default is MISSING:
        return inspect.Parameter.empty
    return parameter.default


def _type(parameter: Operand | Attribute) -> Any:
    if isinstance(parameter, Operand):
        if parameter.kind == "list":
            return list[Tensor]
        return Tensor if parameter.kind == "tensor" else Tensor | None
    kind: Any = KINDS[parameter.kind].python
    if parameter.is_list:
        kind = list[kind]
    return kind | None if parameter.optional else kind


def _returned_type(definition: Interface) -> Any:
    updated = [_type(operand) for operand in definition.operands if operand.mutated]
    if definition.result_type is not None and not updated:
        return definition.result_type
    types: tuple[Any, ...] = (*(Tensor for _ in definition.results), *updated)
    if len(types) > 1:
        return tuple[types]  # type: ignore[valid-type]
    return types[0] if types else None
