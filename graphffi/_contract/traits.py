# SPDX-License-Identifier: Apache-2.0
"""Traits of kernels: what frameworks may have to know to call one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .._values.describe import describe

SideEffect = bool | Literal["ordered"]


@dataclass(frozen=True)
class CallTraits:
    """Facts of a kernel that a framework may need to call it.

    Args:
        pass_owning_tensor: Tensors are passed as owning `Tensor` objects also where the framework
            would pass views. Kernels whose exported metadata asks for `Tensor` get them anyway.
        allow_cuda_graph: The kernel only launches work on the stream that it is given, so that
            the framework may record it into a graph of device work.
        has_side_effect: Calls count for more than their results: none is dropped or merged.
            ``"ordered"``: they keep the order of the program in every framework.
    """

    pass_owning_tensor: bool = False
    allow_cuda_graph: bool = False
    has_side_effect: SideEffect = False


def checked_effect(subject: str, value: SideEffect) -> SideEffect:
    """A `has_side_effect`.

    Raises:
        ValueError: If it is none of its values.
    """
    if value not in (False, True, "ordered"):
        raise ValueError(
            f"{subject}: has_side_effect: expected False, True or 'ordered', got {value!r}"
        )
    return value


def checked_traits(
    subject: str, pass_owning_tensor: bool, allow_cuda_graph: bool, has_side_effect: SideEffect
) -> CallTraits:
    """Traits that a user gave.

    Raises:
        TypeError: If one of the first two is no bool.
        ValueError: If `has_side_effect` is none of its values.
    """
    given = {"pass_owning_tensor": pass_owning_tensor, "allow_cuda_graph": allow_cuda_graph}
    for name, value in given.items():
        if not isinstance(value, bool):
            raise TypeError(f"{subject}: {name}: expected a bool, got {describe(value)}")
    effect = checked_effect(subject, has_side_effect)
    return CallTraits(pass_owning_tensor, allow_cuda_graph, effect)


NO_TRAITS: Final = CallTraits()
