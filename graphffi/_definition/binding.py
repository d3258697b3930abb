# SPDX-License-Identifier: Apache-2.0
"""From the arguments of a call to checked operands and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._values.keywords import values_by_name
from .._values.nested import flat
from .parameter import MISSING, Attribute, Operand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class BoundCall:
    """Checked arguments: one value per operand (tensor, None, list) and one per attribute."""

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]

    def tensors(self) -> list[Any]:
        """All tensors, lists flattened."""
        return flat(self.operands)


def bind(
    subject: str,
    parameters: Sequence[Operand | Attribute],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> BoundCall:
    """Matches arguments with parameters.

    Raises:
        TypeError: For missing, unknown, surplus or wrong-typed arguments; all of them in one
            message.
        ValueError: If all that is wrong are values of attributes.
    """
    problems: list[str] = []
    wrong_values: list[str] = []  # those of the problems
    values = _by_name(parameters, args, kwargs, problems)
    operands: list[Any] = []
    attributes: list[Any] = []
    for parameter in parameters:
        value = values.pop(parameter.name, MISSING)
        if isinstance(parameter, Operand):
            operands.append(_checked_operand(parameter, value, problems))
        else:
            attributes.append(_checked_attribute(parameter, value, problems, wrong_values))
    problems.extend(f"argument {name!r}: expected a known name" for name in values)
    if problems:
        message = _message(subject, parameters, problems, bool(values))
        raise ValueError(message) if len(wrong_values) == len(problems) else TypeError(message)
    return BoundCall(tuple(operands), tuple(attributes))


def _by_name(
    parameters: Sequence[Operand | Attribute],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    problems: list[str],
) -> dict[str, Any]:
    values = values_by_name([parameter.name for parameter in parameters], args, kwargs, problems)
    for parameter in parameters[: len(args)]:
        if parameter.by_name:
            name = parameter.name
            problems.append(f"argument {name!r}: expected by name, got by position; pass {name}=")
    return values


def _is_missing(value: Any) -> bool:
    return type(value) is type(MISSING)  # torch 2.10 traces no comparison of a symbol with it


def _checked_operand(operand: Operand, value: Any, problems: list[str]) -> Any:
    if _is_missing(value) and not operand.required:
        return None
    if operand.kind == "list" and isinstance(value, (list, tuple)):
        value = list(value)  # the caller's may change while the call runs
    problem = operand.problem(value)
    if problem is not None:
        problems.append(f"operand {operand.name!r}: {problem}")
    return value


def _checked_attribute(
    attribute: Attribute, value: Any, problems: list[str], wrong_values: list[str]
) -> Any:
    if _is_missing(value):
        value = attribute.default
    if not _is_missing(value):
        try:
            return attribute.convert(value)
        except ValueError as error:
            problem = str(error)
            wrong_values.append(problem)
        except TypeError as error:
            problem = str(error)
    else:
        problem = f"expected {attribute.expected}, got nothing"
    problems.append(f"attribute {attribute.name!r}: {problem}")
    return None


def _message(
    subject: str, parameters: Sequence[Operand | Attribute], problems: list[str], unknown: bool
) -> str:
    text = f"{subject}: " + "; ".join(problems)
    attributes = ", ".join(p.name for p in parameters if isinstance(p, Attribute))
    if attributes and (unknown or any(p.startswith("attribute") for p in problems)):
        text += f"; known attributes: {attributes}"
    if unknown:
        text += f"; operands: {', '.join(p.name for p in parameters if isinstance(p, Operand))}"
    return text
