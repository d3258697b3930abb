# SPDX-License-Identifier: Apache-2.0
"""Rules of ops on torch's symbols, and the kernels that they choose for calls in graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import Symbols, UndecidedError, call_device, flat, undecided

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition, OpKernel


def run_rule(
    rule: Callable[[Any, Any], Any], operands: Sequence[Any], attributes: Sequence[Any]
) -> Any:
    """The result of a rule, with torch's symbols. What it decides on sizes becomes guards.

    Args:
        rule: Gets operands and attributes.
        operands: One `TensorSpec`, None or list of specs per operand; sizes may be symbolic.
        attributes: One value per attribute, as rules get them.
    """
    values = [*flat(attributes), *(size for spec in flat(operands) for size in spec.shape)]
    if not any(isinstance(value, torch.SymInt) for value in values):
        return rule(operands, attributes)
    policy = Symbols(lambda comparison, a, b: bool(comparison(a, b)), _number)
    seen = policy.seen(operands), policy.seen(attributes)
    found = None
    try:
        found = policy.run(lambda: rule(*seen))
    # Any error may be of a text in which a symbol stands for a value.
    except Exception:
        if not policy.texts:
            raise
    if policy.texts:
        policy.texts = None  # texts are of values, which are guarded
        found = rule(*seen)
    return undecided(found)


def chosen_kernel(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    device: str,
    *,
    is_guarded: bool = True,
) -> OpKernel:
    """The kernel that a call runs.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand; sizes may be symbolic.
        attributes: One value per attribute, as rules get them.
        device: Type of the device: see `call_device`.
        is_guarded: Whether decisions on sizes become guards, so that other sizes compile another
            graph. Exported programs have no guards: decisions have to hold for all sizes.

    Raises:
        NotImplementedError: If no kernel fits.
    """
    if not definition.has_choice:
        return definition.candidates[0]
    can_guard = is_guarded and not torch.compiler.is_exporting()
    policy = Symbols(guard, _specialize) if can_guard else Symbols(prove, _known)
    return definition.choose(policy.seen(operands), policy.seen(attributes), device)


def takes_sizes_for_granted(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> bool:
    """True if rules decide what need not hold for sizes 0 and 1: torch proves it for 2 and more.

    Args:
        definition: Of an op, whose rules have been run with these.
        operands: As for `chosen_kernel`.
        attributes: The same.

    Raises:
        NotImplementedError: If they decide so on an int that is of no operand's size.
    """
    sizes = [size for spec in flat(operands) for size in spec.shape]
    of_operands = frozenset().union(*map(_symbols, sizes))
    found: list[str] = []

    def noting(decide: Callable[..., bool]) -> Callable[..., bool]:
        def note(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
            holds = decide(comparison, a, b)
            if not _holds_from_zero(comparison, a, b):
                found.append(f"{a} {_SIGNS[comparison.__name__]} {b}")
                if not (_symbols(a) | _symbols(b)) <= of_operands:
                    raise _ForeignIntError
            return holds

        return note

    try:
        guarded, proved = Symbols(noting(guard), _known), Symbols(noting(prove), _known)
        seen = guarded.seen(operands), guarded.seen(attributes)
        device = call_device(operands, definition.infer(*seen))
        kernel = definition.select(proved.seen(operands), proved.seen(attributes), device)
        if definition.takes_ruled_workspace(kernel):
            definition.workspace_bytes(kernel, *seen)
    except _ForeignIntError:
        raise NotImplementedError(
            f"{definition.name}: decompose: expected decisions on attributes that hold for 0 and "
            f"1, too, got {found[-1]}; fix the size that the attribute is computed of"
        ) from None
    # The rules do something to a size that only torch's symbols can do.
    except (UndecidedError, Exception):
        return True
    return bool(found)


def smallest(size: torch.SymInt) -> int:
    """The smallest value of a size as torch takes it; its symbols are positive."""
    return max(1, int(size.node.shape_env.bound_sympy(size.node.expr).lower))


def largest(size: torch.SymInt) -> int | None:
    """The largest value of a size as torch takes it, or None if it has none."""
    upper = size.node.shape_env.bound_sympy(size.node.expr).upper
    return int(upper) if upper.is_Integer and upper < _MOST else None


# Torch (2.10 to 2.15) takes sizes without a limit to be below it, and this for one of theirs.
_MOST: Final = 2**62


class _ForeignIntError(Exception):
    """A decision on an attribute."""


_SIGNS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def expression_of(value: Any) -> Any:
    """Sympy's expression of a symbol; a number is its own."""
    return value.node.expr if isinstance(value, torch.SymInt) else value


def _symbols(value: Any) -> frozenset[Any]:
    """The symbols that torch takes to be 2 or more: of sizes that calls choose."""
    if not isinstance(value, torch.SymInt):
        return frozenset()
    return frozenset(s for s in value.node.expr.free_symbols if s.is_positive)


def _holds_from_zero(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """True if the answer to a comparison, as torch gives it, is the same for sizes of 0 and 1."""
    import sympy  # type: ignore[import-untyped]  # imported with symbols

    assumed = _symbols(a) | _symbols(b)
    if not assumed:
        return True
    plain = {s: sympy.Symbol(s.name, integer=True, nonnegative=True) for s in assumed}
    difference = sympy.expand(sympy.sympify(expression_of(a) - expression_of(b)).xreplace(plain))
    facts = {
        "eq": (difference.is_zero,),
        "ne": (difference.is_zero,),
        "lt": (difference.is_negative, difference.is_nonnegative),
        "ge": (difference.is_negative, difference.is_nonnegative),
        "gt": (difference.is_positive, difference.is_nonpositive),
        "le": (difference.is_positive, difference.is_nonpositive),
    }[comparison.__name__]
    return any(fact is not None for fact in facts)


def _specialize(size: Any) -> Any:
    is_unknown = isinstance(size, (torch.SymInt, torch.SymFloat)) and not size.node.has_hint()
    return _known(size) if is_unknown else _number(size)


def _known(size: Any) -> Any:
    """The value that a size has in all calls."""
    if not isinstance(size, (torch.SymInt, torch.SymFloat)):
        return size
    node = size.node
    found = node.maybe_as_int() if isinstance(size, torch.SymInt) else node.maybe_as_float()
    if found is None:
        raise UndecidedError
    return found


def _number(size: Any) -> Any:
    return float(size) if isinstance(size, torch.SymFloat) else int(size)


def guard(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """True if a comparison holds for the sizes at hand: a graph of others is another one."""
    condition = comparison(a, b)
    is_unknown = isinstance(condition, torch.SymBool) and not condition.node.has_hint()
    return prove(comparison, a, b) if is_unknown else bool(condition)


def prove(comparison: Callable[[Any, Any], Any], a: Any, b: Any) -> bool:
    """True if a comparison holds for all sizes of the program.

    Raises:
        UndecidedError: If it holds for some.
    """
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    condition = comparison(a, b)
    if not isinstance(condition, torch.SymBool):
        return bool(condition)
    if statically_known_true(condition):
        return True
    negation: Any = torch.sym_not(condition)  # type: ignore[no-untyped-call]
    if statically_known_true(negation):
        return False
    raise UndecidedError
