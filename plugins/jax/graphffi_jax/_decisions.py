# SPDX-License-Identifier: Apache-2.0
"""Decisions of an op's rules on symbolic sizes, which must hold for all of their values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np

from graphffi.plugin import UndecidedError, decidable, flat

_INCONCLUSIVE: Final = "InconclusiveDimensionOperation"
# JAX 0.6 has it elsewhere.
_ERRORS: Final[Any] = jax.errors if hasattr(jax.errors, _INCONCLUSIVE) else jax.core
_Inconclusive: Final[Any] = getattr(_ERRORS, _INCONCLUSIVE)


def run_rule(subject: str, rule: Callable[[list[Any]], Any], operands: list[Any]) -> Any:
    """What a rule returns, of which every decision holds for all values of symbolic sizes.

    Args:
        subject: The op's name and the rule's.
        rule: Gets the operands.
        operands: One `TensorSpec`, None or list of specs per operand.

    Raises:
        InconclusiveDimensionOperation: For a decision that holds for some values only.
    """
    try:
        found = rule(operands)
    except _Inconclusive as error:
        error.args = (f"{subject}: {error}",)
        raise
    if _has_symbols(operands):
        _check_equalities(subject, rule, operands)
    return found


def _check_equalities(subject: str, rule: Callable[[list[Any]], Any], operands: list[Any]) -> None:
    """Refuses comparisons that JAX takes for unequal because it cannot decide them."""
    try:
        rule(decidable(operands, _decide, operator.index))
    except UndecidedError as error:
        raise _Inconclusive(
            f"{subject}: expected decisions that hold for all values of symbolic sizes, got "
            f"{error}, which holds for some; compare such sizes in graphffi.check, or export the "
            "program with sizes that are known"
        ) from None
    except Exception:  # the rule did something to a size that only the symbol itself can do
        return


def _has_symbols(operands: Sequence[Any]) -> bool:
    return any(type(size) is not int for spec in flat(operands) for size in spec.shape)


def _decide(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    try:
        return prove(comparison, a, b)
    except UndecidedError:
        raise UndecidedError(f"'{a}' == '{b}'") from None


def prove(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """Whether a comparison holds for all values of symbolic dimensions: programs have no guards.

    JAX takes equality that it cannot decide for inequality.

    Raises:
        UndecidedError: If it holds for some.
    """
    difference = a - b
    if isinstance(difference, (int, np.integer)):
        return bool(comparison(difference, 0))
    if comparison in (operator.eq, operator.ne):
        if not (_proves(operator.ge, difference, 1) or _proves(operator.le, difference, -1)):
            raise UndecidedError
        return comparison is operator.ne
    try:
        return bool(comparison(difference, 0))
    except _Inconclusive:
        raise UndecidedError from None


def known(size: Any) -> int:
    """The value of a size that is one number."""
    if isinstance(size, (int, np.integer)):
        return int(size)
    raise UndecidedError


def _proves(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    try:
        return bool(comparison(a, b))
    except _Inconclusive:
        return False
