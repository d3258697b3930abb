# SPDX-License-Identifier: Apache-2.0
"""Zeros with a sign among the attributes of calls that torch.compile traces.

Torch (2.10 to 2.15 at least) guards a float by ``==``, for which -0.0 is 0.0, and its symbolic
floats have no signed zeros: compiled code would pass the zero of another call.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, CallFunctionNoArgsSource
from torch._dynamo.variables import ConstantVariable, LambdaVariable
from torch.fx.experimental.symbolic_shapes import guard_scalar

from graphffi_torch._compiled.dynamo import trace_type
from graphffi_torch._compiled.exact_float import ExactFloat

# Guards of constants.
_BY_EQUALITY: Final = ("CONSTANT_MATCH", "CONSTANT_SUBCLASS_MATCH", "EQUALS_MATCH")


def install() -> None:
    """Makes Dynamo keep the sign of a zero that goes through `exact_float`."""
    trace_type(ExactFloat, _wrap)


def _wrap(builder: Any, value: ExactFloat) -> Any:
    return LambdaVariable(functools.partial(_exact, builder.tx.output))


def _exact(output: Any, variable: Any) -> Any:
    variable = variable.realize()
    symbol = getattr(variable, "sym_num", None)
    if isinstance(symbol, torch.SymFloat):
        hint = symbol.node.hint
        if hint == 0:
            guard_scalar(symbol)
            _guard_bits(_symbolic_floats(output))
            return ConstantVariable.create(math.copysign(0.0, hint))
    elif variable.is_python_constant() and _is_zero(variable.as_python_constant()):
        _guard_bits(_constant_zeros(output))
    return variable


def _is_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0


def _symbolic_floats(output: Any) -> list[Any]:
    """The sources of floats that the graph has as symbols, as tensors of one element."""
    variables = output.unspec_variable_map.values()
    return [v.source.base for v in variables if type(getattr(v, "raw_value", None)) is float]


def _constant_zeros(output: Any) -> list[Any]:
    """The sources of zeros that the trace has met so far: the attribute may be made of them."""
    context = torch._guards.TracingContext.get()
    guards = context.guards_context.dynamo_guards
    sources = [g.originating_source for g in guards if g.create_fn_name() in _BY_EQUALITY]
    scope = {"G": output.root_tx.f_globals, "L": output.root_tx.f_locals}
    return [source for source in sources if _is_zero(source.get_value(scope, {}, {}))]


def _guard_bits(sources: list[Any]) -> None:
    """Guards floats by ``value.hex()``, which tells all but NaN from one another."""
    for source in sources:
        bits = CallFunctionNoArgsSource(AttrSource(source, "hex"))
        install_guard(bits.make_guard(GuardBuilder.EQUALS_MATCH))
