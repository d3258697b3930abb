# SPDX-License-Identifier: Apache-2.0
"""Ops in code that torch.compile traces: a plain call goes into the graph as it is.

Dynamo follows a call of an object through its Python code: a millisecond for each call of an op,
and guards for all that it meets on the way. A call whose arguments need no conversion (nearly all)
becomes the operator's call at once; every other one is followed, through `Op.traced_call`.

Uses private names of Dynamo. Where one is missing, all calls are followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import (
    ConstantVariable,
    ListVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.tensor import SymNodeVariable

from graphffi import MISSING, Op, Operand
from graphffi_torch._operator_schema import DIGEST, graph_digest
from graphffi_torch._operators import operator_of
from graphffi_torch._specs import DTYPE_NAMES
from graphffi_torch._traced_call import operator_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi import Attribute, Definition

# Attributes of exactly these types go to the operator as they are.
_EXACT: Final = {"int": int, "float": float, "bool": bool, "str": str}


def install() -> None:
    """Lets Dynamo know ops.

    Raises:
        AttributeError: If a private name of Dynamo is missing.
    """
    _ = VariableBuilder.install_guards, VariableTracker.build, VariableTracker.realize
    VariableBuilder._type_dispatch()[Op] = _wrap


def _wrap(builder: Any, op: Op) -> Any:
    """What Dynamo knows of an op that it meets."""
    builder.install_guards(GuardBuilder.ID_MATCH)
    # Another one once there is a gradient rule.
    install_guard(AttrSource(builder.get_source(), "definition").make_guard(GuardBuilder.ID_MATCH))
    variable = OpVariable(op, source=builder.source)
    return builder.tx.output.side_effects.track_object_existing(op, variable)


class OpVariable(UserDefinedObjectVariable):
    """An op in traced code."""

    value: Op

    def call_function(self, tx: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Puts a plain call into the graph; follows the others."""
        definition = self.value.definition
        known = operator_of(self.value)
        returns = _plain_returns(definition)
        arguments = _plain_arguments(definition, args, kwargs) if returns is not None else None
        if arguments is None:
            return super().call_function(tx, args, kwargs)
        digest = ConstantVariable.create(graph_digest(definition.digest))
        operator = VariableTracker.build(tx, known)
        result = operator.call_function(tx, arguments, {DIGEST: digest})
        return arguments[definition.parameters.index(returns)] if returns else result


def _plain_returns(definition: Definition) -> Operand | tuple[()] | None:
    """The operand that a call gives back, or () for the operator's own results; else None."""
    mutated = [operand for operand in definition.operands if operand.mutated]
    if not mutated:
        return () if definition.result_type is None else None
    is_one = len(mutated) == 1 and not definition.results and mutated[0].kind == "tensor"
    return mutated[0] if is_one and not definition.traits.has_side_effect else None


def _plain_arguments(
    definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any] | None:
    """The arguments of the op's operator, or None if they are not plain."""
    if len(args) > len(definition.parameters):
        return None
    named = dict(kwargs)
    positional = iter(args)
    arguments = []
    for parameter in definition.parameters:
        given = next(positional, None)
        if given is None:
            given = named.pop(parameter.name, None)
        if given is None:
            value = _default(parameter)
        elif isinstance(parameter, Operand):
            value = _operand(parameter, given.realize())
        else:
            value = _attribute(parameter, given.realize())
        if value is None:
            return None
        arguments.append(value)
    return None if named else arguments


def _default(parameter: Operand | Attribute) -> Any:
    if isinstance(parameter, Operand):
        return None if parameter.required else ConstantVariable.create(None)
    if parameter.default is MISSING:
        return None
    value = operator_value(parameter, parameter.default)
    if parameter.is_list and value is not None:
        return ListVariable([ConstantVariable.create(item) for item in value])
    return ConstantVariable.create(value)


def _operand(operand: Operand, value: Any) -> Any:
    if operand.kind == "list":
        is_plain = isinstance(value, (ListVariable, TupleVariable)) and all(
            _is_tensor(item.realize()) for item in value.items
        )
    else:
        is_plain = _is_tensor(value) or (operand.kind == "optional" and _is_none(value))
    return value if is_plain else None


def _attribute(attribute: Attribute, value: Any) -> Any:
    if attribute.optional and _is_none(value):
        return value
    if not attribute.is_list:
        return _scalar(attribute.kind, value)
    if not isinstance(value, (ListVariable, TupleVariable)):
        return None
    items = [_scalar(attribute.kind, item.realize()) for item in value.items]
    return None if None in items else ListVariable(items)


def _scalar(kind: str, value: Any) -> Any:
    if isinstance(value, SymNodeVariable):
        return value if kind == "int" and value.python_type() is int else None
    if not isinstance(value, ConstantVariable):
        return None
    constant = value.value
    if kind == "float" and type(constant) is int and abs(constant) < 2**63:
        return ConstantVariable.create(float(constant))
    if kind == "dtype" and isinstance(constant, torch.dtype):
        name = DTYPE_NAMES.get(constant)
        return None if name is None else ConstantVariable.create(name)
    return value if type(constant) is _EXACT.get(kind) else None


def _is_tensor(value: Any) -> bool:
    # Also numbers and NumPy arrays are TensorVariables.
    return isinstance(value, TensorVariable) and issubclass(value.python_type(), torch.Tensor)


def _is_none(value: Any) -> bool:
    return isinstance(value, ConstantVariable) and value.value is None
