# SPDX-License-Identifier: Apache-2.0
"""A way to call ops that a plugin brings: its `_testing` module has several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ._case import Case

if TYPE_CHECKING:
    from .._definition.op import Op


@dataclass(frozen=True)
class CheckedPath:
    """One way to call an op, such as ``torch.compile``.

    Args:
        name: For people.
        run: Called with the op and cases; gives, for each, results and updated operands as arrays
            of NumPy.
        most: Cases that are run: compilers take a second for each.
        batch: Calls that `run` gets at once, of equal structure and different contents; 0: any
            number of cases with the same ranks and data types.
        is_slow: Whether it comes after all that are not.
        takes: Whether a case can be run on it.
    """

    name: str
    run: Callable[[Op, Sequence[Case]], list[list[Any]]]
    most: int = 1 << 30
    batch: int = 1
    is_slow: bool = False
    takes: Callable[[Op, Case], bool] = lambda _op, _case: True

    def groups(self, op: Op, cases: Sequence[Case]) -> Iterator[list[Case]]:
        """The cases that `run` gets in each call."""
        taken = [case for case in cases if self.takes(op, case)]
        if self.batch > 0:
            for case in _spread(taken, self.most):
                yield [replace(case, seed=case.seed + i) for i in range(self.batch)]
            return
        groups: dict[Any, list[Case]] = {}
        for case in taken:
            if all(v.strides is None and not v.offset for v in case.views()):
                key = (tuple((len(v.shape), v.dtype) for v in case.views()), repr(case.attributes))
                groups.setdefault(key, []).append(case)
        largest = sorted(groups.values(), key=len, reverse=True)
        for group in largest[: self.most]:
            # A graph of any sizes is made with a case in which no size is 0 or 1.
            yield sorted(
                group, key=lambda c: min((n for v in c.views() for n in v.shape), default=2) < 2
            )


def _spread(cases: Sequence[Case], most: int) -> list[Case]:
    """So many cases of different kinds."""
    if len(cases) <= most:
        return list(cases)
    by_kind: dict[str, Case] = {}
    for case in cases:
        by_kind.setdefault(case.kind.partition(":")[0], case)
    kinds = sorted(
        by_kind,
        key=lambda kind: (
            kind not in ("small", "empty", "absent operand", "transposed", "large"),
            kind,
        ),
    )
    return [by_kind[kind] for kind in kinds[:most]]
