# SPDX-License-Identifier: Apache-2.0
"""Ops in code that torch.compile traces: a plain call goes into the graph as it is.

Dynamo follows a call of an object through its Python code: a millisecond for each call of an op,
and guards for all that it meets on the way. A call whose arguments need no conversion (nearly all)
becomes the operator's call at once; every other one is followed, through `Op.traced_call`.

Uses private names of Dynamo. Where one is missing, all calls are followed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._C._dynamo import eval_frame
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import (
    ConstantVariable,
    ListVariable,
    NumpyNdarrayVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
)
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    guard_or_false,
    guard_or_true,
    guard_scalar,
)

from graphffi import Op
from graphffi.plugin import MISSING, Operand, is_int64, is_known
from graphffi_torch._dynamo import end_trace, is_wrong_call
from graphffi_torch._operator_schema import DIGEST, graph_digest
from graphffi_torch._operators import operator_of
from graphffi_torch._sharding import original_error
from graphffi_torch._specs import DTYPE_NAMES
from graphffi_torch._traced_call import operator_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi.plugin import Attribute, Definition

# Attributes of exactly these types go to the operator as they are.
_EXACT: Final = {"int": int, "float": float, "bool": bool, "str": str}
# Attributes of these kinds are constants of the graph.
_CONSTANT: Final = ("float", "bool")


def install() -> None:
    """Lets Dynamo know ops.

    Raises:
        AttributeError: If a private name of Dynamo is missing.
    """
    # A call where the graph breaks is an eager one, all of it.
    eager = eval_frame._FrameExecStrategy(
        eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP
    )
    eval_frame.set_code_exec_strategy(Op.__call__.__code__, eager)
    _ = VariableBuilder.install_guards, VariableTracker.build, VariableTracker.realize
    VariableBuilder._type_dispatch()[Op] = _wrap
    torch.compiler.substitute_in_graph(is_int64)(_is_int64)
    torch.compiler.substitute_in_graph(is_known)(_is_known)


def _is_int64(value: Any) -> bool:
    return guard_or_true(value >= -(2**63)) and guard_or_true(value < 2**63)


def _is_known(value: Any) -> bool:
    condition = value if isinstance(value, bool) else value > 0
    # For what is unknown, the guesses differ.
    return guard_or_true(condition) is guard_or_false(condition)


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
        try:
            return self._call(tx, args, kwargs)
        except Exception as error:
            original = original_error(self.value.name, error)
            if original is None or original is error:
                raise
            if is_wrong_call(original):
                raise original from None
            end_trace(original)
            raise

    def _call(self, tx: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        definition = self.value.definition
        args, kwargs = _with_constants(definition, args, kwargs)
        known = operator_of(self.value)
        returns = _plain_returns(definition)
        arguments = _plain_arguments(definition, args, kwargs) if returns is not None else None
        if arguments is None:
            _refuse_untraceable(definition, args, kwargs)
            return super().call_function(tx, args, kwargs)
        digest = ConstantVariable.create(graph_digest(definition.digest))
        operator = VariableTracker.build(tx, known)
        result = operator.call_function(tx, arguments, {DIGEST: digest})
        return arguments[definition.parameters.index(returns)] if returns else result


def _with_constants(
    definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with constants for symbolic floats and bools, which operators do not take."""
    constant = {p.name for p in definition.attributes if p.kind in _CONSTANT}
    named = zip((p.name for p in definition.parameters), args, strict=False)
    positional = [_constant(value) if name in constant else value for name, value in named]
    by_name = {n: _constant(v) if n in constant else v for n, v in kwargs.items()}
    return [*positional, *args[len(positional) :]], by_name


def _constant(value: Any) -> Any:
    """What a symbolic number is in this graph; the number itself if the graph computes it."""
    value = value.realize()
    if isinstance(value, (ListVariable, TupleVariable)):
        return type(value)([_constant(item) for item in value.items])
    if not isinstance(value, SymNodeVariable):
        return value
    try:
        return ConstantVariable.create(guard_scalar(value.sym_num))
    except GuardOnDataDependentSymNode:
        return value


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
    if _is_beyond_abi(value):
        return None
    if kind == "float" and type(constant) is int:
        return ConstantVariable.create(float(constant))
    if kind == "dtype" and isinstance(constant, torch.dtype):
        name = DTYPE_NAMES.get(constant)
        return None if name is None else ConstantVariable.create(name)
    return value if type(constant) is _EXACT.get(kind) else None


def _refuse_untraceable(
    definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Ends the trace of a call with values that Dynamo would put into the graph in another form.

    Those are constants that no kernel can be given, and floats and bools that the graph computes,
    which the operator refuses with torch's text, and numbers of NumPy, which become tensors.
    """
    named = dict(zip((p.name for p in definition.parameters), args, strict=False), **kwargs)
    if not any(
        _is_untraceable(attribute.kind, item.realize())
        for attribute in definition.attributes
        if attribute.name in named
        for item in _items(named[attribute.name].realize())
    ):
        return
    with contextlib.suppress(NotImplementedError):  # an argument that has no value yet
        values = [_value(v) for v in args], {name: _value(v) for name, v in kwargs.items()}
        try:
            definition.bind(*values)
        except (TypeError, ValueError) as error:
            end_trace(error)


def _is_untraceable(kind: str, value: Any) -> bool:
    if isinstance(value, SymNodeVariable):
        return kind in _CONSTANT
    return isinstance(value, NumpyNdarrayVariable) or _is_beyond_abi(value)


def _items(value: Any) -> Sequence[Any]:
    return value.items if isinstance(value, (ListVariable, TupleVariable)) else [value]


def _is_beyond_abi(value: Any) -> bool:
    constant = value.value if isinstance(value, ConstantVariable) else None
    if type(constant) is int:
        return not is_int64(constant)
    return type(constant) is str and any("\ud800" <= char <= "\udfff" for char in constant)


def _value(variable: Any) -> Any:
    """What an argument is, for an error."""
    variable = variable.realize()
    if isinstance(variable, (ListVariable, TupleVariable)):
        return [_value(item) for item in variable.items]
    if isinstance(variable, TensorVariable):
        return variable.as_proxy().node.meta["example_value"]
    if isinstance(variable, SymNodeVariable):
        return variable.sym_num
    return variable.as_python_constant()


def _is_tensor(value: Any) -> bool:
    # Also numbers and NumPy arrays are TensorVariables.
    return isinstance(value, TensorVariable) and issubclass(value.python_type(), torch.Tensor)


def _is_none(value: Any) -> bool:
    return isinstance(value, ConstantVariable) and value.value is None
