# SPDX-License-Identifier: Apache-2.0
"""Sizes of 1, for which an exported program is right only if torch was told not to exclude them.

By default, ``torch.export`` takes sizes to be 2 or more and notes no guard where the program's own
Python code relies on it: nothing tells afterwards. With ``backed_size_oblivious`` it notes guards,
but takes sizes for other than 1 where operators ask (``x.squeeze()``). So the graph is run once
more for a size of 1, on tensors without data. A size of 0 is never known to be right: torch's
symbols are positive numbers to sympy (torch 2.10 to 2.15).
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

log: Final = logging.getLogger("graphffi_torch")
_MOST_SYMBOLS: Final = 6  # of more, too many combinations have to be tried


def sizes_of_one(exported: torch.export.ExportedProgram) -> frozenset[Any]:
    """The symbols of sizes that may be 1."""
    environment = _environment(exported)
    candidates = _oblivious_symbols(environment)
    right = [s for s in candidates if _is_right(exported, environment, {s})]
    if not 0 < len(right) <= _MOST_SYMBOLS:
        return frozenset()
    several = (c for n in range(2, len(right) + 1) for c in itertools.combinations(right, n))
    are_right = all(_is_right(exported, environment, set(some)) for some in several)
    return frozenset(right) if are_right else frozenset()


@contextlib.contextmanager
def as_exported(exported: torch.export.ExportedProgram) -> Iterator[None]:
    """Makes torch treat sizes of 1 as it did in the export."""
    if not _oblivious_symbols(_environment(exported)):
        yield
        return
    from torch.fx.experimental import _config

    config: Any = _config
    with config.patch(backed_size_oblivious=True):
        yield


def _environment(exported: torch.export.ExportedProgram) -> Any:
    nodes = exported.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in nodes]
    sizes = (size for v in values if isinstance(v, torch.Tensor) for size in v.shape)
    symbolic: Any = (size for size in sizes if type(size) is not int)
    return next((size.node.shape_env for size in symbolic), None)


def _oblivious_symbols(environment: Any) -> list[Any]:
    """The symbols that torch did not take to be 2 or more. It does so anew for loaded programs."""
    if environment is None:
        return []
    ranges = environment.var_to_range
    return [s for s in environment.var_to_sources if s in ranges and ranges[s].lower < 2]


def _is_right(exported: torch.export.ExportedProgram, environment: Any, ones: set[Any]) -> bool:
    """True if the graph gives the sizes that it says if symbols are 1, and others as they were."""
    values = {**example_values(environment), **dict.fromkeys(ones, 1)}
    nodes = exported.graph.find_nodes(op="placeholder")
    mode = next(v.fake_mode for n in nodes if hasattr(v := n.meta.get("val"), "fake_mode"))
    try:
        with type(mode)(), torch.no_grad():
            inputs = [_like(node.meta.get("val"), values) for node in nodes]
            _Comparison(exported.graph_module, values).run(*inputs)
    # Whatever a node raises for these sizes: torch's errors have no type of their own.
    except Exception as error:
        log.info("graphffi_torch: export: %s may not be 1: %r", ones, error)
        return False
    return True


def example_values(environment: Any) -> Mapping[Any, Any]:
    """The symbols' values in the example."""
    # Torch before 2.13 has them under another name.
    values: Mapping[Any, Any] = (
        getattr(environment, "backed_var_to_val", None) or environment.var_to_val
    )
    return values


def known(value: Any, values: Mapping[Any, Any]) -> Any:
    """A size as a number, of values of symbols."""
    return int(value.node.expr.xreplace(values)) if isinstance(value, torch.SymInt) else value


def _like(value: Any, values: Mapping[Any, Any]) -> Any:
    if not isinstance(value, torch.Tensor):
        return known(value, values)
    shape, strides = ([known(n, values) for n in ns] for ns in (value.shape, value.stride()))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)


class _Comparison(torch.fx.Interpreter):
    """Raises for a node that does not give what it says."""

    def __init__(self, module: torch.fx.GraphModule, values: Mapping[Any, Any]) -> None:
        super().__init__(module)
        self._values = values

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        self._compare(result, n.meta.get("val"))
        return result

    def _compare(self, result: Any, expected: Any) -> None:
        if isinstance(expected, (tuple, list)):
            for one, other in zip(result, expected, strict=True):
                self._compare(one, other)
        elif isinstance(expected, torch.Tensor):
            other = _like(expected, self._values)
            strides = zip(result.shape, result.stride(), other.stride(), strict=True)
            is_same = result.shape == other.shape and result.dtype == other.dtype
            if not is_same or any(size > 1 and a != b for size, a, b in strides):
                raise ValueError(f"expected {other}, got {result}")
        elif isinstance(expected, torch.SymInt) and result != known(expected, self._values):
            raise ValueError(f"expected {expected}, got {result}")
