# SPDX-License-Identifier: Apache-2.0
"""Side effects of ops, as torch's compilers know them.

Torch has no public name for this (up to 2.15): `torch.library._register_effectful_op` threads a
token through the graph, so that calls are neither dropped nor merged nor reordered.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import flat
from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_numbers: Final = itertools.count()


def register_side_effect(operator: Any) -> None:
    """Makes compilers keep every call of an operator, in order."""
    library: Any = torch.library
    if has("effects"):
        library._register_effectful_op(operator, library.EffectType.ORDERED)
    # In graphs that are not functional.
    torch.fx.has_side_effect(operator)


def distinct(digest: str) -> str:
    """The digest of a traced call with side effects, if need be unlike that of any other call.

    Torch (2.10 to 2.15 at least) merges equal calls in graphs with gradients, also of operators
    that `torch.fx.has_side_effect` knows.
    """
    return digest if has("effects") else f"{digest}.{next(_numbers)}"


def kept_entry(operator: Any, num_results: int, mutated: Sequence[int]) -> Callable[..., Any]:
    """A function that calls an operator with updates by the form that torch's compilers keep.

    Args:
        operator: `ns::name` of an op with side effects.
        num_results: How many tensors it returns.
        mutated: The places of its arguments that it updates.
    """
    namespace, name, _ = str(operator).split(".")
    effect_form = getattr(getattr(torch.ops, namespace), name).effect

    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = flat([args[i] for i in mutated])
        results = put_back(effect_form(*args, **kwargs), num_results, tensors)
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    return call


def put_back(
    returned: Sequence[torch.Tensor], num_results: int, mutated: Sequence[torch.Tensor]
) -> list[Any]:
    """Updates tensors with the changed copies that a form without writes gave; gives the results.

    Args:
        returned: Results, then the copies. In the place of an empty list, which torch's exported
            programs (up to 2.15) do not survive, there is an empty tensor.
        num_results: How many results there are.
        mutated: What is to be updated.
    """
    for i, tensor in enumerate(mutated):
        # Not the method, whose calls torch.fx takes for dead.
        torch.ops.aten.copy_.default(tensor, returned[num_results + i])
    return [returned[i] for i in range(num_results)]
