# SPDX-License-Identifier: Apache-2.0
"""Repairs of torch (2.10 to 2.15 at least) for calls of graphffi's operators.

They are made when the first graph with a call that needs them is traced, and leave the calls of
other operators as they are. Programs without such calls run torch as it is.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import when_imported
from graphffi_torch._operators import registered_operators
from graphffi_torch._primitive import PRIMITIVES
from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Callable


_is_repaired: Final[list[bool]] = []


def repair() -> None:
    """Lets torch compile calls that update complex tensors, or lists of tensors in branches."""
    if _is_repaired:
        return
    _is_repaired.append(True)
    when_imported("torch._inductor.pattern_matcher", _repair_updates_of_complex)
    when_imported("torch._higher_order_ops.utils", _repair_branches)


def _repair_updates_of_complex() -> None:
    """Prepares updates of types that Inductor lacks.

    Its passes leave alone what touches complex tensors, also where they turn such a call back into
    one that writes; later they find it unchanged and fail.
    """
    if has("complex updates"):
        from torch._inductor import pattern_matcher

        _wrap(pattern_matcher, "fallback_node_due_to_unsupported_type", _without_updates)


def _repair_branches() -> None:
    """Lets torch see what a branch of `torch.cond` writes where that is a list of tensors.

    It looks for inputs that a branch writes, argument by argument, and fails on lists.
    """
    if has("branches"):
        from torch._higher_order_ops import utils

        _wrap(utils, "_get_example_value", _with_lists)


def _wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    setattr(owner, name, wrapper(getattr(owner, name)))


def _is_ours(target: Any) -> bool:
    return target in PRIMITIVES or any(
        target in operators for _, operators in registered_operators()
    )


def _without_updates(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def is_left_alone(node: Any, *args: Any, **kwargs: Any) -> bool:
        updates = str(node.target) in ("auto_functionalized", "auto_functionalized_v2")
        return not (updates and _is_ours(node.args[0])) and original(node, *args, **kwargs)

    return is_left_alone


def _with_lists(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def get(argument: Any) -> Any:
        is_list = isinstance(argument, (list, tuple)) and len(argument) > 0
        if not is_list or not all(isinstance(node, torch.fx.Node) for node in argument):
            return original(argument)
        if not any(_is_ours(user.target) for user in argument[0].users):
            return original(argument)
        inputs = [original(node) for node in argument[0].graph.find_nodes(op="placeholder")]
        memory = {id(_memory(value)) for value in inputs if isinstance(value, torch.Tensor)}
        values = [original(node) for node in argument]
        written = {id(_memory(value)): value for value in values if id(_memory(value)) in memory}
        if len(written) > 1:
            raise NotImplementedError(
                "graphffi_torch: expected a branch whose calls update at most one of its inputs "
                "each, got one that updates several; update copies, and return them"
            )
        return next(iter(written.values()), values[0])

    return get


def _memory(value: torch.Tensor) -> torch.UntypedStorage:
    """The same object for all tensors that share memory, while one of them is there."""
    return value.untyped_storage()
