# SPDX-License-Identifier: Apache-2.0
"""Fakes of operators: what a call of an op makes of tensors without data, while torch traces it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import FactoryError, call_device, flat
from graphffi_torch._C import check_data_type
from graphffi_torch._compiled.dynamo import end_trace
from graphffi_torch._compiled.repairs import keep_results
from graphffi_torch._operators.choice import chosen_kernel, run_rule
from graphffi_torch._operators.operator_schema import argument_values
from graphffi_torch._operators.recompute import why_not_traced
from graphffi_torch._operators.specs import allocations, concrete, rule_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import DefinedOp, Definition

_WRONG_CALLS: Final = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError),
    *(AssertionError, NameError, NotImplementedError),
)
_CPU: Final = torch.device("cpu")


def make_fake(op: DefinedOp) -> Callable[..., Any]:
    """The fake of an op: its effect on tensors without data, as the op is defined at the time."""

    def fake(*arguments: Any, **keywords: Any) -> Any:
        definition = op.definition
        infer = _make_infer(definition)
        values = argument_values(definition, arguments, keywords)
        _check_tensors(definition, values)
        _keep_results(definition)
        try:
            rows = infer(*values)
            if any(_is_negative(size) for shape, _, _ in rows for size in shape):
                raise ValueError(f"{definition.name}: expected sizes of 0 or more")
        except FactoryError as error:
            end_trace(error)
            raise
        except _WRONG_CALLS as error:
            end_trace(_with_sizes(error, infer, values))
            raise
        except RuntimeError as error:
            _explain_unknown(definition, error)
            raise
        results = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in rows]
        if len(results) == 1:
            return results[0]
        return tuple(results) if results else None

    return fake


def make_effect_fake(op: DefinedOp) -> Callable[..., Any]:
    """The fake of `ns::name.effect`."""
    fake = make_fake(op)

    def effect_fake(*arguments: Any, **keywords: Any) -> list[torch.Tensor]:
        definition = op.definition
        returned = flat(fake(*arguments, **keywords))
        operands, _ = definition.split(argument_values(definition, arguments, keywords))
        returned += map(torch.empty_like, definition.updated(operands))
        if not returned:
            given = next(iter(flat(operands)), torch.empty(0))
            returned.append(given.new_empty(0))
        return returned

    return effect_fake


def _make_infer(definition: Definition) -> Callable[..., list[Any]]:
    """The shape rule over the operator's arguments."""

    def infer(*arguments: Any) -> list[Any]:
        operands, attributes = rule_arguments(definition, *definition.split(arguments))
        specs = run_rule(definition.infer, operands, attributes)
        device = call_device(operands, specs)
        if device != "meta":  # where calls are about shapes alone
            kernel = chosen_kernel(definition, operands, attributes, device)
            if definition.takes_ruled_workspace(kernel):  # says what is wrong while tracing
                size = functools.partial(definition.workspace_bytes, kernel)
                run_rule(size, operands, attributes)
        return allocations(definition.name, definition.results, specs, _CPU)

    return infer


def _explain_unknown(definition: Definition, error: RuntimeError) -> None:
    """Names the op in torch's error for a condition that only elements of tensors decide."""
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    if isinstance(error, GuardOnDataDependentSymNode):
        error.args = (
            f"{definition.name}: shape rule: expected a condition that sizes and attributes decide "
            "while the graph is made, got one that elements of tensors decide; state it with "
            f"torch._check before the call\n{error}",
        )


def _is_negative(size: Any) -> bool:
    if not isinstance(size, torch.SymInt):
        return False
    from torch.fx.experimental.symbolic_shapes import guard_or_false  # imported with symbols

    return guard_or_false(size < 0)


def _check_tensors(definition: Definition, arguments: Sequence[Any]) -> None:
    """Refuses data types that kernels can't be given, and tensors with data beside some without.

    Torch (2.10 to 2.15) takes a call with a tensor on the device meta for one about shapes alone,
    and its compilers don't know all data types.

    Raises:
        TypeError: For a wrong data type.
        ValueError: If there are tensors with data and without.
    """
    operands, _ = definition.split(arguments)
    tensors = [
        (o.name, tensor)
        for o, value in zip(definition.operands, operands, strict=True)
        for tensor in flat(value)
    ]
    try:
        for name, tensor in tensors:
            check_data_type(f"{definition.name}: {name!r}", tensor.dtype)
    except TypeError as error:
        end_trace(error)
        raise
    places = [(name, tensor.device) for name, tensor in tensors]
    if len({device.type == "meta" for _, device in places}) == 2:
        found = ", ".join(f"{name!r} on {device}" for name, device in places)
        raise ValueError(
            f"{definition.name}: expected all operands on the device meta, or none, got {found}"
        )


def _keep_results(definition: Definition) -> None:
    """Makes torch save the results of calls that may be made once.

    Raises:
        NotImplementedError: If this torch would make such a call again.
    """
    if definition.recompute:
        return
    keep_results()
    reason = why_not_traced(definition)
    if reason is not None and torch.is_grad_enabled():
        error = NotImplementedError(reason)
        end_trace(error)
        raise error


def _with_sizes(error: Exception, infer: Callable[..., Any], arguments: Sequence[Any]) -> Exception:
    """The rule's error with the sizes at hand where it has a tracer's symbols.

    That is what eager code raises.
    """
    try:
        infer(*[concrete(argument) for argument in arguments])
    except _WRONG_CALLS as concrete_error:
        return concrete_error
    except RuntimeError:  # torch's: there are no sizes yet
        return error
    return error  # the rule fails for symbols alone
