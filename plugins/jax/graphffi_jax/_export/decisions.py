# SPDX-License-Identifier: Apache-2.0
"""Decisions of an op's rules on symbolic sizes, which must hold for all of their values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import jax
import numpy as np

from graphffi.plugin import Symbols, UndecidedError, undecided

_INCONCLUSIVE: Final = "InconclusiveDimensionOperation"
# JAX 0.6 has it elsewhere.
_ERRORS: Final[Any] = jax.errors if hasattr(jax.errors, _INCONCLUSIVE) else jax.core
_Inconclusive: Final[Any] = getattr(_ERRORS, _INCONCLUSIVE)


def run_rule(subject: str, rule: Callable[[list[Any]], Any], operands: list[Any]) -> Any:
    """The result of a rule, of which every decision holds for all values of symbolic sizes.

    Args:
        subject: The op's name and the rule's.
        rule: Gets the operands.
        operands: One `TensorSpec`, None or list of specs per operand.

    Raises:
        InconclusiveDimensionOperation: For a decision that holds for some values only.
    """
    policy = Symbols(prove, known)
    seen = policy.seen(operands)
    try:
        found = policy.run(lambda: rule(seen))
        if policy.texts:
            raise UndecidedError(_refusal(f"text of '{min(text for text, _ in policy.texts)}'"))
    except UndecidedError as error:
        raise _Inconclusive(f"{subject}: {error}") from None
    return undecided(found)


def prove(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """The result of a comparison for all values of symbolic dimensions: programs have no guards.

    Raises:
        UndecidedError: If it holds for some.
    """
    difference = a - b
    if isinstance(difference, (int, np.integer)):
        return bool(comparison(difference, 0))
    if comparison not in (operator.eq, operator.ne):
        return _proved(comparison, a, b)
    # JAX takes equality that it cannot decide for inequality.
    if not (_proves(operator.ge, difference, 1) or _proves(operator.le, difference, -1)):
        raise UndecidedError(_refusal(f"'{a}' == '{b}', which holds for some"))
    return comparison is operator.ne


def known(size: Any) -> int:
    """The value of a size that is one number."""
    if isinstance(size, (int, np.integer)):
        return int(size)
    raise UndecidedError(_refusal(f"a use of the value of '{size}'"))


def _proved(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    try:
        return bool(comparison(a, b))
    except _Inconclusive as error:
        raise UndecidedError(str(error)) from None


def _proves(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    try:
        return _proved(comparison, a, b)
    except UndecidedError:
        return False


def _refusal(given: str) -> str:
    return (
        "expected decisions that hold for all values of symbolic sizes, got "
        f"{given}; give the sizes constraints or one name in jax.export.symbolic_shape, or export "
        "the program with sizes that are known"
    )
