# SPDX-License-Identifier: Apache-2.0
"""Values of operands: a tensor, None or a list."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def flat(values: Any) -> list[Any]:
    """The tensors among operands, or among what an op returns: without None, lists flattened."""
    if not isinstance(values, (tuple, list)):
        return [] if values is None else [values]
    found: list[Any] = []
    for value in values:
        if isinstance(value, (tuple, list)):
            found += flat(value)
        elif value is not None:
            found.append(value)
    return found


def for_rule(value: Any) -> Any:
    """A value of a call as a rule gets it, which may change lists; not those that are traced."""
    return list(value) if type(value) is list else value


def per_tensor(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a function of a tensor one of an operand: a list gives a list, None gives None."""

    @functools.wraps(function)
    def of_operand(operand: Any, *rest: Any) -> Any:
        if isinstance(operand, (list, tuple)):
            return [function(tensor, *rest) for tensor in operand]
        return None if operand is None else function(operand, *rest)

    return of_operand


def structure_of(value: Any) -> int | None:
    """None for None, -1 for one value, the length of a list."""
    if value is None:
        return None
    return len(value) if isinstance(value, (list, tuple)) else -1
