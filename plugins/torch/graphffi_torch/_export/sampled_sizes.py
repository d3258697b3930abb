# SPDX-License-Identifier: Apache-2.0
"""Sizes by which rules of ops may decide otherwise than for those of an exported program's example.

For formats whose nodes have no Python to ask: they hold what the rules said of all of these.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import flat, per_tensor
from graphffi_torch._export.sizes_of_one import example_values, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphffi import TensorSpec

# None, one, few; multiples of what kernels unroll and vectorize by, and none; small and large.
_SAMPLES: Final = (0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 32, 33, 64, 100, 128, 129, 256, 1000, 1024)
_UNKNOWN: Final = 4  # of a size that elements of tensors decide


def sampled_sizes(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """The tensors of a call with numbers in the place of symbols.

    Args:
        tensors: A `TensorSpec`, None or list of specs per operand, and any more that have sizes of
            the operands' symbols, such as results.

    Yields:
        The same with the sizes of the example; then with others, for each symbol and for all.
    """
    sizes = [size for spec in flat(tensors) for size in spec.shape]
    symbolic: Any = [size for size in sizes if isinstance(size, torch.SymInt)]
    symbols = sorted({s for size in symbolic for s in size.node.expr.free_symbols}, key=str)
    if not symbols:
        yield list(tensors)
        return
    given = example_values(symbolic[0].node.shape_env)
    example = {s: given.get(s, _UNKNOWN) for s in symbols}
    groups = [symbols] if len(symbols) == 1 else [symbols, *([s] for s in symbols)]
    yield _with(tensors, example)
    for group in groups:
        for sample in _SAMPLES:
            yield _with(tensors, {**example, **dict.fromkeys(group, sample)})


def _with(tensors: Sequence[Any], values: Mapping[Any, Any]) -> list[Any]:
    @per_tensor
    def with_values(spec: TensorSpec) -> TensorSpec:
        return replace(spec, shape=tuple(known(size, values) for size in spec.shape))

    found: list[Any] = [with_values(tensor) for tensor in tensors]
    return found
