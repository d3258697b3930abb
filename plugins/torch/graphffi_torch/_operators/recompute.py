# SPDX-License-Identifier: Apache-2.0
"""Ops with ``recompute=False``: their kernels may not run again for a gradient."""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

import torch

from graphffi_torch._private_names import WITHOUT, why_without

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from graphffi.plugin import Definition


def refuse_repetition(op: str) -> None:
    """Refuses a call that torch.utils.checkpoint makes again; called while autograd goes back.

    Raises:
        NotImplementedError: In such a call.
    """
    frame: FrameType | None = inspect.currentframe()
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if module == "torch.autograd.graph":  # a gradient rule's own call
            return
        if module == "torch.utils.checkpoint":
            namespace, _, name = op.partition("::")
            raise NotImplementedError(
                f"{op}: recompute: expected results that are saved, since the op has "
                "recompute=False, got torch.utils.checkpoint, which makes the call again; pass it "
                "use_reentrant=False and context_fn=functools.partial(torch.utils.checkpoint."
                f"create_selective_checkpoint_contexts, [torch.ops.{namespace}.{name}.default]), "
                "or compile the whole"
            )
        frame = frame.f_back


def why_not_traced(definition: Definition) -> str | None:
    """The reason that graphs with gradients cannot hold calls of an op, if there is one."""
    reason = None if definition.recompute else why_without("saved results")
    if reason is None:
        return None
    return f"{definition.name}: recompute: {reason}; {WITHOUT['saved results']}"


def kept_results(graph: torch.fx.Graph, operators: Sequence[Any]) -> list[torch.fx.Node]:
    """The results of operators' calls in the forward part of a graph, which torch has to save."""
    found: list[torch.fx.Node] = []
    for node in graph.nodes:
        if node.target in operators and node.meta.get("partitioner_tag") != "is_backward":
            is_single = isinstance(node.meta.get("val"), torch.Tensor)
            items = (user for user in node.users if user.target is operator.getitem)
            found.extend([node] if is_single else items)
    return found
