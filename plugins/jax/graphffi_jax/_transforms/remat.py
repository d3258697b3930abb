# SPDX-License-Identifier: Apache-2.0
"""Calls under `jax.checkpoint`, which computes them again for gradients, or keeps their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jax.extend.core import Literal

_Parts = tuple[Any, Any, list[bool], list[bool], list[Any]]


def keep_or_recompute(
    saveable: Callable[..., Any], unknown: Sequence[bool], instantiated: Sequence[bool], call: Any
) -> _Parts:
    """Splits a call as JAX would, but keeps the results of an op with ``recompute=False``.

    Args:
        saveable: The policy of the checkpoint.
        unknown: The operands that the backward pass alone knows.
        instantiated: The operands that it has anyway.
        call: The equation of the call.

    Returns:
        The equation of the forward pass and that of the backward pass, or None; for each result,
        whether the forward pass lacks it, and whether the backward pass has it; what is kept.
    """
    pairs = zip(call.invars, instantiated, strict=True)
    missing = [v for v, is_there in pairs if not is_there and not isinstance(v, Literal)]
    count = len(call.outvars)
    if any(unknown):
        return None, call, [True] * count, [True] * count, missing
    if call.effects or not _may_run_again(call.params["call"]) or _is_kept(saveable, call):
        return call, None, [False] * count, [False] * count, []
    return call, call, [False] * count, [True] * count, missing


def _may_run_again(call: Any) -> bool:
    made_of = call.made_of
    return made_of is None or made_of.definition.recompute


def _is_kept(saveable: Callable[..., Any], call: Any) -> bool:
    policy = saveable(call.primitive, *(v.aval for v in call.invars), **call.params)
    return policy is not False and type(policy).__name__ != "RecomputeType"
