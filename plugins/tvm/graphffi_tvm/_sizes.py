# SPDX-License-Identifier: Apache-2.0
"""From torch's symbolic sizes to expressions of TVM."""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Final

import tvm
from tvm import relax

from graphffi_torch.plugin import expression_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

# By the names of sympy's classes and of torch's.
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "Add": lambda *terms: functools.reduce(operator.add, terms),
    "Mul": lambda *factors: functools.reduce(operator.mul, factors),
    "FloorDiv": lambda a, b: a // b,
    "CleanDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "Max": lambda *values: functools.reduce(tvm.tirx.max, values),
    "Min": lambda *values: functools.reduce(tvm.tirx.min, values),
}


class Sizes:
    """The sizes of one program.

    Args:
        graph: The program's.
        importer: TVM's, which has Relax's variables for the inputs.
    """

    def __init__(self, graph: torch.fx.Graph, importer: Any) -> None:
        self._symbols: dict[str, Any] = {}
        for node in graph.find_nodes(op="placeholder"):
            variable = importer.env.get(node)
            if isinstance(variable, relax.Var):
                for symbol in relax.analysis.tir_vars_in_type(variable.ty):
                    self._symbols.setdefault(symbol.name, symbol)

    def convert(self, subject: str, size: Any) -> Any:
        """An int, or the expression for one of torch's symbols.

        Args:
            subject: Begins errors: the op and its operand, result or attribute.
            size: An int or a `torch.SymInt`.

        Raises:
            NotImplementedError: For an expression of an unknown form, or of symbols that are no
                inputs' sizes.
        """
        return size if isinstance(size, int) else self._expression(subject, expression_of(size))

    def _expression(self, subject: str, expression: Any) -> Any:
        kind = type(expression).__name__
        if expression.is_Integer:
            return tvm.tirx.IntImm("int64", int(expression))
        if expression.is_Symbol:
            if expression.name not in self._symbols:
                raise NotImplementedError(
                    f"{subject}: expected a size that the inputs' sizes give, got {expression}, "
                    "which elements of tensors decide"
                )
            return self._symbols[expression.name]
        if kind == "Pow" and expression.exp.is_Integer and expression.exp > 0:
            base = self._expression(subject, expression.base)
            return math.prod([base] * int(expression.exp))
        if kind not in _FUNCTIONS:
            raise NotImplementedError(
                f"{subject}: expected a size of sums, products, //, %, min and max, got "
                f"{expression}"
            )
        return _FUNCTIONS[kind](*(self._expression(subject, a) for a in expression.args))
