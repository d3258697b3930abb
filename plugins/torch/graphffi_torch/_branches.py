# SPDX-License-Identifier: Apache-2.0
"""Calls in the branches of `torch.cond`, and in the bodies of other operators that take functions.

Uses a private name of torch. Where it is missing (2.10), decomposed programs with such branches
run, but are neither decomposed further nor compiled.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops import utils

if TYPE_CHECKING:
    from collections.abc import Callable


def install() -> None:
    """Lets torch (2.13 to 2.15 at least) see what a branch writes where that is a list of tensors.

    Torch looks for inputs that a branch writes, argument by argument; it fails on lists, which the
    primitives write.
    """
    name = "_get_example_value"
    original = getattr(utils, name, None)
    if original is not None and not hasattr(original, "__wrapped__"):
        setattr(utils, name, _with_lists(original))


def _with_lists(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def get(argument: Any) -> Any:
        is_list = isinstance(argument, (list, tuple)) and len(argument) > 0
        if not is_list or not all(isinstance(node, torch.fx.Node) for node in argument):
            return original(argument)
        graph = argument[0].graph
        inputs = {_memory(original(node)) for node in graph.find_nodes(op="placeholder")}
        values = [original(node) for node in argument]
        written = [value for value in values if _memory(value) in inputs - {None}]
        if len({_memory(value) for value in written}) > 1:
            raise NotImplementedError(
                "graphffi_torch: expected a branch whose calls update at most one of its inputs "
                "each, got one that updates several; update copies, and return them"
            )
        return (written or values)[0]

    return get


def _memory(value: Any) -> Any:
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) else None
