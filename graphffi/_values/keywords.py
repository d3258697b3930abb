# SPDX-License-Identifier: Apache-2.0
"""Arguments of calls by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .._frameworks.tracing import traced_as_constant
from .describe import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .._core import Function


def call_by_name(function: Function, /, *args: Any, **named: Any) -> Any:
    """Calls a function of a library that names its parameters.

    Raises:
        TypeError: If it does not name them; as `arguments_in_order`.
    """
    subject = function.name or "graphffi"
    return function(*arguments_in_order(subject, parameter_names(function), args, named))


@traced_as_constant
def parameter_names(function: Any) -> tuple[str, ...] | None:
    """The names of a function's parameters, if its library exports them."""
    text = getattr(function, "metadata", None)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    names = found.get("parameters") if isinstance(found, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def arguments_in_order(
    subject: str, opt_names: Sequence[str] | None, args: Sequence[Any], named: Mapping[str, Any]
) -> list[Any]:
    """A value for each parameter.

    Args:
        subject: What errors begin with.
        opt_names: Of the parameters; None if nothing names them.
        args: The arguments by position.
        named: The other ones.

    Raises:
        TypeError: For missing, unknown, doubled and surplus arguments; all of them in one message.
    """
    if opt_names is None:
        raise TypeError(
            f"{subject}: expected positional arguments only, got the keyword '{next(iter(named))}';"
            " no metadata names the parameters"
        )
    problems: list[str] = []
    values = values_by_name(opt_names, args, named, problems)
    for name in values:
        if name not in opt_names:
            problems.append(f"argument {name!r}: expected a known name")
    for name in opt_names:
        if name not in values:
            problems.append(f"argument {name!r}: expected a value, got nothing")
    if problems:
        given = ", ".join([*([f"{len(args)} by position"] if args else []), *named])
        raise TypeError(
            f"{subject}: {'; '.join(problems)}; parameters: {', '.join(opt_names) or 'none'}; "
            f"given: {given or 'none'}"
        )
    return [values[name] for name in opt_names]


def values_by_name(
    names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any], problems: list[str]
) -> dict[str, Any]:
    """All arguments by name, unknown ones too; notes surplus and doubled ones as problems."""
    if len(args) > len(names):
        problems.append(f"expected at most {counted(len(names), 'argument')}, got {len(args)}")
    values = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name in values:
            problems.append(f"argument {name!r}: expected one value, got two")
        else:
            values[name] = value
    return values
