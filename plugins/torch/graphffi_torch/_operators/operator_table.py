# SPDX-License-Identifier: Apache-2.0
"""The ops that are registered with torch, and their operators."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi_torch._operators.operator_schema import operator_schemas

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphffi.plugin import DefinedOp, Definition

#: Held while an op's operators are registered or replaced.
table_lock: Final = threading.RLock()
_registered: Final[dict[str, DefinedOp]] = {}
_operators: Final[dict[str, list[Any]]] = {}  # of those that somebody asked for
_watchers: Final[list[Callable[[Definition, list[Any]], None]]] = []


def is_registered(op: DefinedOp) -> bool:
    """True if an op's operators are there."""
    return op.name in _registered


def add_registered(op: DefinedOp) -> None:
    """Adds an op, whose operators are there now; the caller holds `table_lock`."""
    _registered[op.name] = op
    tell_watchers(op)


def tell_watchers(op: DefinedOp) -> None:
    """Shows an op's operators to all watchers; the caller holds `table_lock`."""
    for watcher in _watchers:
        watcher(op.definition, operators_of(op))


def watch_operators(watcher: Callable[[Definition, list[Any]], None]) -> None:
    """Lets `watcher` see the operators, `ns::name` first, of every op that is ever registered."""
    with table_lock:
        _watchers.append(watcher)
        for definition, operators in registered_operators():
            watcher(definition, operators)


def registered_ops() -> list[DefinedOp]:
    """All ops whose operators are there."""
    with table_lock:
        return list(_registered.values())


def registered_operators() -> list[tuple[Definition, list[Any]]]:
    """The definitions of all ops and their operators."""
    with table_lock:
        return [(op.definition, operators_of(op)) for op in registered_ops()]


def operators_of(op: DefinedOp) -> list[Any]:
    """The operators of an op that is registered, `ns::name` first."""
    operators = _operators.get(op.name)
    if operators is None:
        packet = packet_of(op.definition)
        _, out_schema, effect_schema = operator_schemas(op.definition)
        operators = [packet.default]
        operators += [packet.out] if out_schema else []
        operators += [packet.effect] if effect_schema else []
        _operators[op.name] = operators
    return operators


def packet_of(definition: Definition) -> Any:
    """Torch's object of all operators of one name."""
    namespace, _, name = definition.name.partition("::")
    return getattr(getattr(torch.ops, namespace), name)
