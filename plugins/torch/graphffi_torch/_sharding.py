# SPDX-License-Identifier: Apache-2.0
"""How DTensor may split a call between devices: along the dimensions that `dims` leaves free."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from graphffi import Operand, when_imported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi import Definition


_known: Final[list[tuple[Definition, Any]]] = []


def announce_sharding(definition: Definition, operator: Any) -> None:
    """Tells DTensor which placements an operator takes; without `dims`, whole tensors only.

    Args:
        definition: Of the op.
        operator: Its operator.
    """
    _known.append((definition, operator))
    if len(_known) == 1:
        when_imported("torch.distributed.tensor", _register_known)
    elif "torch.distributed.tensor" in sys.modules:
        _register(definition, operator)


def _register_known() -> None:
    for definition, operator in _known:
        _register(definition, operator)


def _register(definition: Definition, operator: Any) -> None:
    from torch.distributed.tensor.experimental import register_sharding

    def acceptable(*arguments: Any, **keywords: Any) -> list[tuple[list[Any], list[Any]]]:
        names = [p.name for p in definition.parameters]
        values = dict(zip(names, arguments, strict=False)) | keywords
        return _placements(definition, [values.get(name) for name in names])

    register_sharding(operator)(acceptable)


def _placements(
    definition: Definition, arguments: Sequence[Any]
) -> list[tuple[list[Any], list[Any]]]:
    """Every way to place results and arguments along one dimension of the mesh."""
    found = [_placement(definition, arguments, name) for name in _free_dims(definition, arguments)]
    allowed = [(outputs, inputs) for outputs, inputs, _ in found]
    current = _mutated_placement(definition, arguments)
    if current is None:
        return allowed
    allowed = [(outputs, inputs) for outputs, inputs, written in found if written == current]
    if not allowed:
        whole = "" if definition.dims is None else f" {definition.dims.text!r}"
        raise ValueError(
            f"{definition.name}: expected operands that are updated in place to be split along "
            f"free dimensions of dims{whole}, got {current}; redistribute them before the call"
        )
    return allowed


def _free_dims(definition: Definition, arguments: Sequence[Any]) -> list[str | None]:
    """Names of dimensions that may be split, and None for no split at all."""
    names: dict[str | None, None] = {None: None}
    for group, tensor in _tensors(definition, arguments):
        for name in {} if group is None else group.positions(tensor.ndim):
            if definition.dims is not None and name not in definition.dims.whole:
                names[name] = None
    return list(names)


def _placement(
    definition: Definition, arguments: Sequence[Any], name: str | None
) -> tuple[list[Any], list[Any], Any]:
    """Placements of results, of arguments, and of the operands that are updated, if any are."""
    from torch.distributed.tensor import Replicate, Shard

    def place(group: Any, ndim: int) -> Any:
        position = None if group is None else group.positions(ndim).get(name)
        return Replicate() if position is None else Shard(position)

    ndims = {}  # of what the ellipsis stands for, the same everywhere
    for group, tensor in _tensors(definition, arguments):
        if group is not None and group.has_ellipsis:
            ndims["..."] = tensor.ndim - len(group.names)
    groups = (
        [None] * len(definition.results) if definition.dims is None else definition.dims.results
    )
    outputs = [
        place(g, 0 if g is None else len(g.names) + (ndims.get("...", 0) if g.has_ellipsis else 0))
        for g in groups
    ]
    inputs: list[Any] = []
    written = None
    operand_groups = iter(_operand_groups(definition))
    for parameter, value in zip(definition.parameters, arguments, strict=True):
        group = next(operand_groups) if isinstance(parameter, Operand) else None
        if not isinstance(parameter, Operand) or value is None:
            inputs.append(None)
            continue
        placed = [
            place(group, item.ndim)
            for item in (value if isinstance(value, (list, tuple)) else (value,))
        ]
        inputs.extend(placed)
        if parameter.mutated and placed:
            written = placed[0]
    return outputs, inputs, written


def _operand_groups(definition: Definition) -> Sequence[Any]:
    if definition.dims is None:
        return [None] * len(definition.operands)
    return definition.dims.operands


def _tensors(definition: Definition, arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Every tensor argument with the group of its operand."""
    found = []
    groups = iter(_operand_groups(definition))
    for parameter, value in zip(definition.parameters, arguments, strict=True):
        if isinstance(parameter, Operand):
            group = next(groups)
            items = value if isinstance(value, (list, tuple)) else () if value is None else (value,)
            found.extend((group, item) for item in items)
    return found


def _mutated_placement(definition: Definition, arguments: Sequence[Any]) -> Any:
    """The one placement of all operands that are updated, or None if there are no such operands.

    DTensor would move such an operand to where a rule wants it, and update the copy.
    """
    placements = {}
    for parameter, value in zip(definition.parameters, arguments, strict=True):
        if isinstance(parameter, Operand) and parameter.mutated and value is not None:
            for item in value if isinstance(value, (list, tuple)) else (value,):
                placements.update(dict.fromkeys(item.placements))
    if len(placements) > 1:
        raise ValueError(
            f"{definition.name}: expected operands that are updated in place to be placed alike on "
            f"all dimensions of the mesh, got {', '.join(map(str, placements))}; redistribute them "
            "before the call"
        )
    return next(iter(placements), None)
