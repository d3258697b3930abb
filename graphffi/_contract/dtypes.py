# SPDX-License-Identifier: Apache-2.0
"""The data types that an op takes and gives: the other half of what `dims` says.

``"T, T, int32 -> T; T: float32 | bfloat16"`` has a group for each tensor operand and each result,
in signature order. A group is the name of a data type, several with ``|`` in between, ``_`` for
any, or a variable: a name that stands for one data type in the whole call. After a semicolon stands
what a variable may be.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._values.describe import counted
from .._values.dtype import dtype
from .dims import grouped_specs, split_groups
from .spec import CheckTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._definition.parameter import Operand


@dataclass(frozen=True)
class StatedView:
    """A kernel's parameter that says which tensors it takes: `graphffi::View` in C++.

    Args:
        name: Of the operand or result that it gets.
        dtypes: Empty for any.
        opt_rank: None for any.
        device: Type of the device.
    """

    name: str
    dtypes: tuple[dtype, ...]
    opt_rank: int | None
    device: str


@dataclass(frozen=True)
class DTypeGroup:
    """The data types of one operand or result.

    Args:
        variable: Its name, or "" for a group without one.
        allowed: What it may be; empty for any.
        opt_rank: The number of dimensions that the kernel's parameter states, if it does.
    """

    variable: str
    allowed: tuple[dtype, ...]
    opt_rank: int | None = None


@dataclass(frozen=True)
class DTypes:
    """The data types of an op.

    Args:
        operands: A group for each tensor operand, in signature order; for a list, that of its
            items.
        results: A group for each result.
    """

    operands: tuple[DTypeGroup, ...]
    results: tuple[DTypeGroup, ...]

    def check(
        self, operands: Sequence[Operand], values: Sequence[Any], results: dict[str, Any]
    ) -> None:
        """Compares the data types of a call with the groups and with each other.

        Args:
            operands: Of the op.
            values: One `TensorSpec`, None or list of specs per operand.
            results: A `TensorSpec` for each name of a result; none before the shape rule ran.

        Raises:
            CheckTypeError: With all that are wrong.
        """
        groups = self.operands, self.results
        bound: dict[str, tuple[dtype, str]] = {}
        problems = [
            _problem(bound, subject, group, spec)
            for subject, group, spec in grouped_specs(groups, operands, values, results)
        ]
        if any(problems):
            raise CheckTypeError("; ".join(filter(None, problems)))


def _problem(
    bound: dict[str, tuple[dtype, str]], subject: str, group: DTypeGroup, spec: Any
) -> str:
    """The problem with one tensor, or ""; binds its variable where it is the first."""
    got = dtype(spec.dtype)
    rank = len(spec.shape)
    if group.opt_rank is not None and group.opt_rank != rank:
        return f"{subject}: expected {counted(group.opt_rank, 'dimension')}, got {rank}"
    if group.allowed and got not in group.allowed:
        return f"{subject}: expected {' or '.join(group.allowed)}, got {got}"
    if not group.variable:
        return ""
    first, where = bound.setdefault(group.variable, (got, subject))
    return "" if first == got else f"{subject}: expected {first} as in {where}, got {got}"


def parse_dtypes(
    subject: str,
    text: str,
    operands: Sequence[Operand],
    results: Sequence[str],
    stated: Sequence[StatedView] = (),
) -> DTypes:
    """Reads the text, and what the kernel's parameters state.

    Args:
        subject: The op's name, for error messages.
        text: ``"T, T, int32 -> T; T: float32 | bfloat16"``; empty where only the kernel says it.
        operands: Of the op.
        results: Names of the results that it allocates.
        stated: By the kernel that runs all calls.

    Raises:
        ValueError: If it does not parse, has not one group per operand and result, or says of a
            variable that no group has what it may be.
        TypeError: If it allows what the kernel does not take.
    """
    where = f"{subject}: dtypes {text!r}"
    groups, *constraints = text.split(";")
    allowed = dict(_parse_constraint(where, c) for c in constraints if c.strip())
    names = [operand.name for operand in operands], [*results]
    if text:
        sides = [
            tuple(_parse_group(where, part, allowed) for part in parts)
            for parts in split_groups(where, "data types", groups, operands, results)
        ]
    else:
        sides = [(DTypeGroup("", ()),) * len(side) for side in names]
    for name in allowed.keys() - {g.variable for side in sides for g in side}:
        raise ValueError(f"{where}: expected {name!r} in a group, got no group with it")
    views = {view.name: view for view in stated}
    restricted = [
        tuple(_restricted(where, g, views.get(name)) for g, name in zip(*pair, strict=True))
        for pair in zip(sides, names, strict=True)
    ]
    return DTypes(restricted[0], restricted[1])


def _restricted(where: str, group: DTypeGroup, opt_view: StatedView | None) -> DTypeGroup:
    """The group, no wider than a parameter that gets its tensors."""
    if opt_view is None:
        return group
    taken = opt_view.dtypes
    if taken and not set(group.allowed) <= set(taken):
        raise TypeError(
            f"{where}: {opt_view.name!r}: expected {' or '.join(taken)}, which the kernel's "
            f"parameter takes, got {' or '.join(group.allowed)}"
        )
    return DTypeGroup(group.variable, group.allowed or taken, opt_view.opt_rank)


def _parse_constraint(where: str, text: str) -> tuple[str, tuple[dtype, ...]]:
    name, colon, kinds = text.partition(":")
    if not colon or not name.strip().isidentifier() or _dtype_or_none(name.strip()):
        raise ValueError(f"{where}: expected 'T: float32 | bfloat16' after ';', got {text!r}")
    return name.strip(), _parse_kinds(where, kinds)


def _parse_group(where: str, part: str, allowed: dict[str, tuple[dtype, ...]]) -> DTypeGroup:
    name = part.strip()
    if name == "_":
        return DTypeGroup("", ())
    if name in allowed or re.fullmatch(r"[A-Z][A-Za-z0-9_]*", name):
        return DTypeGroup(name, allowed.get(name, ()))
    return DTypeGroup("", _parse_kinds(where, part))


def _parse_kinds(where: str, text: str) -> tuple[dtype, ...]:
    kinds = []
    for name in text.split("|"):
        kind = _dtype_or_none(name.strip())
        if kind is None:
            raise ValueError(
                f"{where}: expected names of data types, '_', or variables (a capital first, or "
                f"said after ';' what they are), got {name.strip()!r}"
            )
        kinds.append(kind)
    return tuple(kinds)


def _dtype_or_none(name: str) -> dtype | None:
    try:
        return dtype(name)
    except ValueError:
        return None
