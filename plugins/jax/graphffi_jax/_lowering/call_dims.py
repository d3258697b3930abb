# SPDX-License-Identifier: Apache-2.0
"""The dimensions along which a call may be split between devices."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

_FREE: Final = (
    "or, if the kernel does the same for each index, name the dimension in dims= outside of "
    "brackets"
)
_ARRAY: Final = re.compile(r"([^,()]+)\(([^()]*)\)")


@dataclass(frozen=True)
class ArrayDims:
    """The dimensions of one array of a call.

    Args:
        name: Of the operand or result.
        dims: One name per dimension; ``[name]`` or ``_`` for one that the kernel needs whole,
            ``@0``, ``@1``, … for those of loops around the call, outermost first; ``batch0``, … for
            those that `vmap` added to an op that names none.
    """

    name: str
    dims: tuple[str, ...]

    def free(self) -> dict[str, int]:
        """The places of the dimensions along which the array may be split."""
        return {dim: i for i, dim in enumerate(self.dims) if dim[0] not in "[_"}

    def whole_but_for(self, names: Set[str]) -> ArrayDims:
        """The array, split along these dimensions at most."""
        free = self.free().keys() & names
        dims = (d if d in free or d[0] in "[_" else f"[{d}]" for d in self.dims)
        return ArrayDims(self.name, tuple(dims))


@dataclass(frozen=True)
class CallDims:
    """The dimensions of all arrays of a call, in the order of the custom call.

    Args:
        operands: What it gets.
        results: What it returns: also updated operands, and its workspace.
    """

    operands: tuple[ArrayDims, ...]
    results: tuple[ArrayDims, ...]

    @property
    def names(self) -> dict[str, None]:
        """The free dimensions of all arrays."""
        return {name: None for a in (*self.operands, *self.results) for name in a.free()}

    def __str__(self) -> str:
        """As in the text of a call: ``x(@0 b [h]), w([h]) -> out(@0 b [h])``."""
        left, right = (
            ", ".join(f"{a.name}({' '.join(a.dims)})" for a in side)
            for side in (self.operands, self.results)
        )
        return f"{left} -> {right}"

    @staticmethod
    def parse(text: str) -> CallDims:
        """Reads what `str` wrote."""
        sides = []
        for side in text.split("->"):
            found = _ARRAY.findall(side)
            sides.append(tuple(ArrayDims(n.strip(), tuple(dims.split())) for n, dims in found))
        return CallDims(sides[0], sides[1])

    def problem(self, operands: Sequence[int], results: Sequence[int]) -> str | None:
        """Tells why a call of arrays with so many dimensions can't be split like that, or None."""
        for arrays, ranks in ((self.operands, operands), (self.results, results)):
            if [len(array.dims) for array in arrays] != list(ranks):
                return f"expected {len(ranks)} arrays with {ranks} dimensions on a side"
        for array in self.operands:
            for result in self.results:
                lost = array.free().keys() - result.free().keys()
                if lost and result.name != "workspace":
                    return f"expected {min(lost)!r} of operand {array.name!r} in every result"
        return None

    @staticmethod
    def unnamed(operands: Sequence[int], results: Sequence[int]) -> CallDims:
        """The dimensions of a call that can't be split; gets how many each array has."""
        sides = [("i", operands), ("o", results)]
        return CallDims(
            *(
                tuple(ArrayDims(f"{letter}{i}", ("_",) * ndim) for i, ndim in enumerate(side))
                for letter, side in sides
            )
        )

    @staticmethod
    def of(call: Any, shapes: Sequence[Any], num_operands: int) -> CallDims:
        """The dimensions of a call, by the shapes of its operands, then of its results."""
        every = range(len(call.loops))
        loops = [
            [f"@{k}" for k in every if i >= num_operands or call.loops[k][i]]
            for i in range(len(shapes))
        ]
        inner = [shape[len(names) :] for shape, names in zip(shapes, loops, strict=True)]
        definition = None if call.made_of is None else call.made_of.definition
        if definition is None:
            ndims = [len(shape) for shape in inner]
            one = CallDims.unnamed(ndims[:num_operands], ndims[num_operands:])
            named = [*one.operands, *one.results]
        else:
            named = _named(definition, call, inner)
        rows = [
            ArrayDims(array.name, (*names, *array.dims))
            for array, names in zip(named, loops, strict=True)
        ]
        # A device that has a part of what no operand has would not know which.
        known = {name for array in rows[:num_operands] for name in array.free()}
        results = tuple(array.whole_but_for(known) for array in rows[num_operands:])
        found = CallDims(tuple(rows[:num_operands]), results)
        if call.chosen.workspace is None:
            return found
        # XLA plans the workspace of a whole call for each of its parts.
        return CallDims(found.operands, (*found.results, ArrayDims("workspace", ("_",))))


def _named(definition: Any, call: Any, shapes: Sequence[Any]) -> list[ArrayDims]:
    read, outputs = (side.split(", ") if side else [] for side in call.names.split(" -> "))
    updated = outputs[len(definition.results) :]
    dims = definition.dims
    groups = {} if dims is None else dict(zip(definition.results, dims.results, strict=True))
    if dims is not None:
        operands = (operand.name for operand in definition.operands)
        groups |= zip(operands, dims.operands, strict=True)
    rows = []
    for name, shape in zip([*read, *updated, *outputs], shapes, strict=True):
        row = ["_"] * len(shape)
        if dims is None:
            row[: call.batches] = [f"batch{i}" for i in range(call.batches)]
        else:
            for dim, position in groups[name.partition("[")[0]].positions(len(shape)).items():
                row[position] = f"[{dim}]" if dim in dims.whole else dim
        rows.append(ArrayDims(name, tuple(row)))
    return rows


def check_parts(
    subject: str,
    dims: CallDims,
    shapes: Sequence[Sequence[Any]],
    parts: Sequence[Sequence[int]],
) -> None:
    """Refuses operands that are split where the kernel needs them whole, or in unequal parts.

    `parts` says in how many parts each dimension of each operand is. XLA would gather them, without
    a word, and run the whole call on every device.
    """
    problems: list[str] = []
    ways: dict[str, None] = {}
    for array, shape, counts in zip(dims.operands, shapes, parts, strict=True):
        for i, (name, size, count) in enumerate(zip(array.dims, shape, counts, strict=True)):
            label = f"dimension {i}" + ("" if name[0] in "_@" else f" {name}")
            where = f"operand {array.name!r}: expected {label}"
            if count > 1 and name not in array.free():
                problems.append(f"{where} whole on every device, got it in {count} parts")
                ways[_FREE] = None
            elif isinstance(size, int) and size % count:
                problems.append(f"{where} in equal parts, got size {size} in {count} parts")
                ways[f"or pad it to a multiple of {count}"] = None
    if problems:
        raise ValueError(
            f"{subject}: {'; '.join(problems)}; gather it with jax.lax.with_sharding_constraint or "
            f"jax.sharding.reshard, or call the op in jax.shard_map, {', '.join(ways)}"
        )
