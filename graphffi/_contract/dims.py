# SPDX-License-Identifier: Apache-2.0
"""Named dimensions of an op: what has to have one size, and what may be cut into parts.

``"b s [h], [h] -> b s [h]"`` has a group of names for each tensor operand and each result. A name
in brackets is a dimension that the kernel works along, and needs whole; the kernel does the same
for every index of the others, so that these may be split between devices. ``...`` stands for any
number of leading dimensions, a number for a size, ``_`` for any size of a dimension that is needed
whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .._values.describe import counted
from .spec import CheckError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .._definition.parameter import Operand

_G = TypeVar("_G")
_TOKEN: Final = r"\.\.\.|\w+|\S"
_NAME: Final = r"[A-Za-z]\w*"


@dataclass(frozen=True)
class Group:
    """The dimensions of one operand or result.

    Args:
        names: Outermost first: names, sizes as digits, ``_``; without the ellipsis.
        has_ellipsis: Whether any number of dimensions comes before these.
    """

    names: tuple[str, ...]
    has_ellipsis: bool

    def __str__(self) -> str:
        return " ".join(("...", *self.names) if self.has_ellipsis else self.names)

    def positions(self, ndim: int) -> dict[str, int]:
        """The places of a tensor's named dimensions, of that many; ellipsis ones are ``...0``."""
        leading = ndim - len(self.names)
        found = {f"...{i}": i for i in range(leading)}
        found.update({n: leading + i for i, n in enumerate(self.names) if re.fullmatch(_NAME, n)})
        return found


@dataclass(frozen=True)
class Dims:
    """The named dimensions of an op.

    Args:
        text: As it was given.
        operands: A group for each tensor operand, in signature order; for a list, that of its
            items.
        results: A group for each result.
        whole: The names that were in brackets.
    """

    text: str
    operands: tuple[Group, ...]
    results: tuple[Group, ...]
    whole: frozenset[str]

    def check(
        self, operands: Sequence[Operand], values: Sequence[Any], results: dict[str, Any]
    ) -> None:
        """Compares the sizes of a call with each other and with those that are given.

        Args:
            operands: Of the op.
            values: One `TensorSpec`, None or list of specs per operand.
            results: A `TensorSpec` for each name of a result; none before the shape rule ran.

        Raises:
            CheckError: If they differ.
        """
        seen: dict[str, tuple[Any, str]] = {}
        groups = self.operands, self.results
        for subject, group, spec in grouped_specs(groups, operands, values, results):
            _meet(seen, subject, group, spec.shape)


def _meet(
    seen: dict[str, tuple[Any, str]], subject: str, group: Group, shape: Sequence[Any]
) -> None:
    """Compares the sizes of a tensor with those that names had first, and where that was.

    Raises:
        CheckError: If they differ.
    """
    leading = len(shape) - len(group.names)
    if leading < 0 or (leading > 0 and not group.has_ellipsis):
        raise CheckError(
            f"{subject}: expected dimensions ({group}), got {counted(len(shape), 'dimension')}"
        )
    if group.has_ellipsis:
        first, where = seen.setdefault("...", (leading, subject))
        if first != leading:
            raise CheckError(
                f"{subject}: expected {first} leading dimensions before ({group}) as in {where}, "
                f"got {leading}"
            )
    names = (*(f"...{i}" for i in range(leading)), *group.names)
    for i, (name, size) in enumerate(zip(names, shape, strict=True)):
        if name == "_":
            continue
        given = (int(name), "dims") if name.isdigit() else (size, subject)
        first, where = seen.setdefault(name, given)
        if first != size:
            label = f"dimension {i}" if name[0] in ".0123456789" else f"{name!r}"
            raise CheckError(
                f"{subject}: expected size {first} of {label} as in {where}, got {size}"
            )


def parse_dims(
    subject: str, text: str, operands: Sequence[Operand], results: Sequence[str]
) -> Dims:
    """Reads the text.

    Args:
        subject: The op's name, for error messages.
        text: ``"b s [h], [h] -> b s [h]"``.
        operands: Of the op.
        results: Names of the results that it allocates.

    Raises:
        ValueError: If it does not parse, or has not one group per operand and result; if a
            dimension that is not in brackets is missing from a result or an operand that is updated
            in place.
    """
    where = f"{subject}: dims {text!r}"
    whole: set[str] = set()
    groups = [
        tuple(_parse_group(where, part, whole) for part in parts)
        for parts in split_groups(where, "dimensions", text, operands, results)
    ]
    dims = Dims(text, groups[0], groups[1], frozenset(whole))
    written = [g for o, g in zip(operands, dims.operands, strict=True) if o.mutated]
    for group in (*dims.operands, *dims.results):
        for name in (*group.names, *(("...",) if group.has_ellipsis else ())):
            is_free = name == "..." or (re.fullmatch(_NAME, name) and name not in whole)
            for output in (*written, *dims.results):
                if is_free and name not in str(output).split():
                    raise ValueError(
                        f"{where}: expected {name!r} in every result; write "
                        f"[{name}] for a dimension that the kernel needs whole"
                    )
    return dims


def split_groups(
    where: str, kind: str, text: str, operands: Sequence[Operand], results: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The texts of the groups of operands and of results.

    Args:
        where: Begins error messages.
        kind: What the groups say, in the plural.
        text: Groups with commas in between, those of the results after ``->``.
        operands: Of the op.
        results: Names of the results that it allocates.

    Raises:
        ValueError: If there is not one group per operand and result.
    """
    left, arrow, right = text.partition("->")
    if not arrow and results:
        raise ValueError(f"{where}: expected '->' and the results' {kind}")
    sides = []
    for side, what, count in ((left, "operands", len(operands)), (right, "results", len(results))):
        parts = side.split(",") if side.strip() or count else []
        if len(parts) != count:
            raise ValueError(
                f"{where}: expected {counted(count, 'group')} for the {what}, got {len(parts)}"
            )
        sides.append(parts)
    return sides[0], sides[1]


def grouped_specs(
    groups: tuple[Sequence[_G], Sequence[_G]],
    operands: Sequence[Operand],
    values: Sequence[Any],
    results: dict[str, Any],
) -> Iterator[tuple[str, _G, Any]]:
    """The name in errors of each tensor, its group and spec; items of lists have the list's group.

    Args:
        groups: Of operands and results.
        operands: Of the op.
        values: One `TensorSpec`, None or list of specs per operand.
        results: A `TensorSpec` for each name of a result, or nothing.
    """
    for operand, group, value in zip(operands, groups[0], values, strict=True):
        if isinstance(value, (list, tuple)):
            for i, item in enumerate(value):
                yield f"operand {f'{operand.name}[{i}]'!r}", group, item
        elif value is not None:
            yield f"operand {operand.name!r}", group, value
    for group, (name, spec) in zip(groups[1], results.items(), strict=False):
        yield f"shape rule: result {name!r}", group, spec


def _parse_group(where: str, part: str, whole: set[str]) -> Group:
    names: list[str] = []
    has_ellipsis = is_bracketed = False
    for token in re.findall(_TOKEN, part):
        if token in "[]":
            if is_bracketed == (token == "["):
                raise ValueError(f"{where}: expected brackets in pairs")
            is_bracketed = token == "["
        elif token == "...":
            if names or has_ellipsis or is_bracketed:
                raise ValueError(f"{where}: expected '...' to come first")
            has_ellipsis = True
        elif re.fullmatch(_NAME, token) or re.fullmatch("_|[0-9]+", token):
            if token in names and not is_bracketed and re.fullmatch(_NAME, token):
                raise ValueError(
                    f"{where}: expected {token!r} once in a group; write "
                    f"[{token}] for a dimension that the kernel needs whole"
                )
            names.append(token)
            if is_bracketed:
                whole.add(token)
        else:
            raise ValueError(
                f"{where}: expected names, sizes, '_', '...' and brackets, got {token!r}"
            )
    if is_bracketed:
        raise ValueError(f"{where}: expected brackets in pairs")
    return Group(tuple(names), has_ellipsis)
