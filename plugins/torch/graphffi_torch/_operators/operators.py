# SPDX-License-Identifier: Apache-2.0
"""Ops as operators of torch."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import KINDS, MISSING, Operand, named_plan, trace_shape_rule
from graphffi_torch._C import define_op
from graphffi_torch._compiled.dynamo import end_trace
from graphffi_torch._compiled.repairs import repair
from graphffi_torch._operators.effects import kept_entry, register_side_effect
from graphffi_torch._operators.fakes import make_effect_fake, make_fake
from graphffi_torch._operators.operator_schema import operator_schemas, why_no_operator
from graphffi_torch._operators.operator_table import (
    add_registered,
    is_registered,
    operators_of,
    packet_of,
    table_lock,
    tell_watchers,
)
from graphffi_torch._operators.vmap import register_vmap

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphffi.plugin import Attribute, DefinedOp, Definition

# Names of operators that say that calls may be recorded into CUDA graphs. Of others, the kernel of
# a call says so.
_recordable: Final[set[str]] = set()


def register_operator(op: DefinedOp) -> None:
    """Registers the operators of an op with torch, if they are not.

    Raises:
        NotImplementedError: If the op has more parameters than torch's operators can have.
        ValueError: If torch has another operator of that name.
    """
    if is_registered(op):
        return
    reason = why_no_operator(op.definition)
    if reason is not None:
        error = NotImplementedError(reason)
        end_trace(error)
        raise error
    with table_lock:
        if is_registered(op):
            return
        _register(op)
        if op.definition.vmap is not None:
            register_vmap(op)
        add_registered(op)


def operator_of(op: DefinedOp) -> Any:
    """The operator of an op. Raises what `register_operator` does."""
    register_operator(op)
    return operators_of(op)[0]


def entry_of(op: DefinedOp) -> Any:
    """The operator, or a function that calls it so that compilers keep calls with side effects."""
    operator = operator_of(op)
    mutated = [
        i for i, p in enumerate(op.definition.parameters) if isinstance(p, Operand) and p.mutated
    ]
    if not mutated or not op.definition.has_side_effect:
        return operator
    return kept_entry(operator, len(op.definition.results), mutated)


def check_operators(former: Definition, definition: Definition) -> None:
    """Refuses to have a definition in the place of another if it needs other operators."""
    other: dict[str, tuple[Any, Any]] = {}
    if operator_schemas(former) != operator_schemas(definition):
        other["parameters and results"] = former.signature, definition.signature
    if former.has_side_effect != definition.has_side_effect:
        other["has_side_effect"] = former.has_side_effect, definition.has_side_effect
    if (former.vmap is None) != (definition.vmap is None):
        other["kind of vmap"] = _kind_of_vmap(former), _kind_of_vmap(definition)
    if former.recompute and not definition.recompute:  # which the operator's tags do not say
        other["recompute"] = True, False
    if definition.name in _recordable and not _allows_cuda_graph(definition):
        other["allow_cuda_graph"] = True, False
    if other:
        held, given = (", ".join(map(str, values)) for values in zip(*other.values(), strict=True))
        raise ValueError(
            f"{definition.name}: override: expected the {' and '.join(other)} of the torch "
            f"operator that graphs hold, {held}, got {given}; give the op another name, or "
            "define it in a new process"
        )


def _kind_of_vmap(definition: Definition) -> str:
    return "no rule" if definition.vmap is None else "a rule"


def replace_operators(op: DefinedOp) -> None:
    """Makes an op's operators run its new definition, which `check_operators` has not refused."""
    with table_lock:
        register_operator(op)
        op.drop_direct_calls()
        direct_call = _define(op.definition, operator_schemas(op.definition))
        if op.definition.recompute:
            op.add_direct_call(direct_call)
        tell_watchers(op)


def _register(op: DefinedOp) -> None:
    definition = op.definition
    _check_free(definition.name)
    schemas = operator_schemas(definition)
    direct_call = _define(definition, schemas)
    if _allows_cuda_graph(definition):
        _recordable.add(definition.name)
    _register_fake(definition.name, make_fake(op))
    if definition.is_updating:
        repair()
    if definition.recompute:  # calls go through the operator, which knows repetitions
        op.add_direct_call(direct_call)
    _, _, effect_schema = schemas
    if effect_schema:
        _register_fake(f"{definition.name}.effect", make_effect_fake(op))
    if definition.has_side_effect:
        packet = packet_of(definition)
        register_side_effect(packet.effect if effect_schema else packet.default)


def _check_free(full_name: str) -> None:
    namespace, _, name = full_name.partition("::")
    operators = getattr(torch.ops, namespace)
    # `torch.ops` has functions of its own; torch looks up no operators of names such as __self__.
    # Graphs call a result as its operator, and modules are `self` in them (torch 2.10 to 2.15).
    is_namespace = type(operators) is type(torch.ops.tvm_ffi)
    is_taken = name == "self" or name.startswith("__") or hasattr(operators, name)
    if not is_namespace or is_taken:
        raise ValueError(
            f"{full_name}: expected a name that is free, got one that torch.ops has; choose another"
        )
    try:
        _library_of(namespace)
    except ValueError as error:
        raise ValueError(f"{full_name}: {error}") from None


def _register_fake(name: str, fake: Callable[..., Any]) -> None:
    torch.library.register_fake(name, fake, lib=_library_of(name.partition("::")[0]))


@functools.cache
def _library_of(namespace: str) -> torch.library.Library:
    """The library object for fakes of a namespace; torch would make one for each fake."""
    return torch.library.Library(namespace, "FRAGMENT")  # type: ignore[no-untyped-call]


def _define(definition: Definition, schemas: tuple[str, str, str]) -> Any:
    """Registers the operators of an op, or makes those that are registered run this definition.

    Returns:
        The capsule that takes over plain calls.
    """
    schema, out_schema, effect_schema = schemas
    return define_op(
        schema=schema,
        out_schema=out_schema,
        effect_schema=effect_schema,
        results=list(definition.results),
        conversions={
            a.name: a.kind for a in definition.attributes if KINDS[a.kind].travels_by_name
        },
        kernels=[(k.reference, named_plan(definition, k)) for k in definition.candidates],
        answer=trace_shape_rule(definition) if _has_rule(definition) else None,
        parameters=[_direct_parameter(p) for p in definition.parameters],
        result_type=definition.result_type,
        release_gil=any(kernel.release_gil for kernel in definition.candidates),
        allow_cuda_graph=_allows_cuda_graph(definition),
        has_vmap_rule=definition.vmap is not None,
        may_run_again=definition.recompute,
    )


def _allows_cuda_graph(definition: Definition) -> bool:
    """True if any call may be recorded."""
    kernels = definition.kernels
    return bool(kernels) and all(kernel.traits.allow_cuda_graph for kernel in kernels)


def _has_rule(definition: Definition) -> bool:
    rules = (definition.rule, definition.dims, definition.dtypes)
    return definition.is_looked_at or any(rule is not None for rule in rules)


def _direct_parameter(parameter: Operand | Attribute) -> tuple[str, str, str, Any]:
    """Name, kind, flags and default of a parameter, as `_C` takes it."""
    flags = ["by_name"] * parameter.by_name
    if isinstance(parameter, Operand):
        flags += ["mutated"] * parameter.mutated + ["required"] * parameter.required
        return parameter.name, parameter.kind, " ".join(flags), None
    flags += ["list"] * parameter.is_list + ["optional"] * parameter.optional
    if parameter.default is MISSING:
        return parameter.name, parameter.kind, " ".join((*flags, "required")), None
    return parameter.name, parameter.kind, " ".join(flags), _direct_default(parameter)


def _direct_default(attribute: Attribute) -> Any:
    value = attribute.default
    if attribute.kind != "device" or value is None:
        return value
    return tuple(map(str, value)) if attribute.is_list else str(value)
