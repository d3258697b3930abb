# SPDX-License-Identifier: Apache-2.0
"""Ops as operators of torch."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from typing import TYPE_CHECKING, Any, Final

import torch

from graphffi.plugin import MISSING, FactoryError, Operand, call_device, flat, trace_shape_rule
from graphffi_torch import _C
from graphffi_torch._choice import chosen_kernel
from graphffi_torch._dynamo import end_trace
from graphffi_torch._effects import kept_entry, register_side_effect
from graphffi_torch._operator_schema import (
    arguments_by_name,
    operator_schemas,
    why_no_operator,
)
from graphffi_torch._recompute import why_not_traced
from graphffi_torch._specs import allocations, concrete, rule_arguments
from graphffi_torch._vmap import register_vmap

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Attribute, DefinedOp, Definition, OpKernel

_lock: Final = threading.RLock()
_registered: Final[dict[str, DefinedOp]] = {}
_operators: Final[dict[str, list[Any]]] = {}  # of those that somebody asked for
# Names of operators that say that calls may be recorded into CUDA graphs. Of others, the kernel of
# a call says so.
_recordable: Final[set[str]] = set()
_WRONG_CALLS: Final = (
    *(TypeError, ValueError, AttributeError, LookupError, ArithmeticError),
    *(AssertionError, NameError, NotImplementedError),
)
_numbers: Final = itertools.count()
_watchers: Final[list[Callable[[Definition, list[Any]], None]]] = []
_CPU: Final = torch.device("cpu")


def register_operator(op: DefinedOp) -> None:
    """Registers the operators of an op with torch, if they are not.

    Raises:
        NotImplementedError: If the op has more parameters than torch's operators can have.
        ValueError: If torch has another operator of that name.
    """
    if op.name in _registered:
        return
    reason = why_no_operator(op.definition)
    if reason is not None:
        error = NotImplementedError(reason)
        end_trace(error)
        raise error
    with _lock:
        if op.name in _registered:
            return
        _register(op)
        if op.definition.vmap is not None:
            register_vmap(op)
        _registered[op.name] = op
        _notify(op)


def operator_of(op: DefinedOp) -> Any:
    """The operator of an op. Raises what `register_operator` does."""
    register_operator(op)
    return _operators_of(op)[0]


def _operators_of(op: DefinedOp) -> list[Any]:
    """The operators of an op that is registered, `ns::name` first."""
    operators = _operators.get(op.name)
    if operators is None:
        packet = _packet(op.definition)
        _, out_schema, effect_schema = operator_schemas(op.definition)
        operators = [packet.default]
        operators += [packet.out] if out_schema else []
        operators += [packet.effect] if effect_schema else []
        _operators[op.name] = operators
    return operators


def _packet(definition: Definition) -> Any:
    namespace, _, name = definition.name.partition("::")
    return getattr(getattr(torch.ops, namespace), name)


def entry_of(op: DefinedOp) -> Any:
    """The operator, or a function that calls it so that compilers keep calls with side effects."""
    operator = operator_of(op)
    mutated = [
        i for i, p in enumerate(op.definition.parameters) if isinstance(p, Operand) and p.mutated
    ]
    if not mutated or not op.definition.has_side_effect:
        return operator
    return kept_entry(operator, len(op.definition.results), mutated)


def watch_operators(watcher: Callable[[Definition, list[Any]], None]) -> None:
    """Lets `watcher` see the operators, `ns::name` first, of every op that is ever registered."""
    with _lock:
        _watchers.append(watcher)
        for op in _registered.values():
            watcher(op.definition, _operators_of(op))


def registered_operators() -> list[tuple[Definition, list[Any]]]:
    """The definitions of all ops and their operators."""
    with _lock:
        return [(op.definition, _operators_of(op)) for op in _registered.values()]


def check_operators(former: Definition, definition: Definition) -> None:
    """Refuses to have a definition in the place of another if it needs other operators."""
    other: dict[str, tuple[Any, Any]] = {}
    if operator_schemas(former) != operator_schemas(definition):
        other["parameters and results"] = former.signature, definition.signature
    if former.has_side_effect != definition.has_side_effect:
        other["has_side_effect"] = former.has_side_effect, definition.has_side_effect
    if (former.vmap is None) != (definition.vmap is None):
        other["kind of vmap"] = _kind_of_vmap(former), _kind_of_vmap(definition)
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
    with _lock:
        register_operator(op)
        op.drop_direct_calls()
        direct_call = _define(op.definition, operator_schemas(op.definition), replace=True)
        if op.definition.recompute:
            op.add_direct_call(direct_call)
        _notify(op)


def _register(op: DefinedOp) -> None:
    definition = op.definition
    _check_free(definition.name)
    schemas = operator_schemas(definition)
    direct_call = _define(definition, schemas, replace=False)
    if _allows_cuda_graph(definition):
        _recordable.add(definition.name)
    _register_fake(definition.name, _make_fake(op))
    if definition.recompute:  # calls go through the operator, which knows repetitions
        op.add_direct_call(direct_call)
    _, _, effect_schema = schemas
    if effect_schema:
        _register_fake(f"{definition.name}.effect", _make_effect_fake(op))
    if definition.has_side_effect:
        packet = _packet(definition)
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


def _notify(op: DefinedOp) -> None:
    for watcher in _watchers:
        watcher(op.definition, _operators_of(op))


def _define(definition: Definition, schemas: tuple[str, str, str], *, replace: bool) -> Any:
    """Registers the operators of an op; gives the capsule that takes over plain calls."""
    schema, out_schema, effect_schema = schemas
    return _C.define_op(
        schema=schema,
        out_schema=out_schema,
        effect_schema=effect_schema,
        results=list(definition.results),
        conversions={
            a.name: a.kind for a in definition.attributes if a.kind in ("dtype", "device")
        },
        kernels=[(k.reference, _op_plan(definition, k)) for k in definition.candidates],
        digest=str(next(_numbers)),  # no two definitions are alike: the op compares its digests
        answer=trace_shape_rule(definition) if _has_rule(definition) else None,
        parameters=[_direct_parameter(p) for p in definition.parameters],
        result_type=definition.result_type,
        release_gil=any(kernel.release_gil for kernel in definition.candidates),
        allow_cuda_graph=_allows_cuda_graph(definition),
        has_vmap_rule=definition.vmap is not None,
        may_run_again=definition.recompute,
        replace=replace,
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


def _op_plan(definition: Definition, kernel: OpKernel) -> str:
    """A kernel's plan over the op's own names, written out."""
    parameters = [p.name for p in definition.parameters]
    as_passed = {name: f"strided({name})" for name in definition.strided}
    groups = as_passed | {
        "*inputs": ", ".join(as_passed.get(o.name, o.name) for o in definition.operands),
        "*outputs": ", ".join(definition.results),
    }
    # The shape program tells how large one is that follows a rule.
    if "workspace" not in (*parameters, *definition.results) and not callable(kernel.workspace):
        groups["workspace"] = f"workspace({kernel.workspace})"
    return re.sub(
        r'"(?:[^"\\]|\\.)*"|\*?\b[A-Za-z_]\w*',
        lambda m: groups.get(m[0], m[0]),
        kernel.plan or ", ".join((*parameters, *definition.results)),
    )


def _make_infer(definition: Definition) -> Callable[..., list[Any]]:
    """The shape rule over the operator's arguments."""

    def infer(*arguments: Any) -> list[Any]:
        operands, attributes = rule_arguments(definition, *definition.split(arguments))
        specs = definition.infer(operands, attributes)
        device = call_device(operands, specs)
        if device != "meta":  # where calls are about shapes alone
            kernel = chosen_kernel(definition, operands, attributes, device)
            if definition.takes_ruled_workspace(kernel):  # says what is wrong while tracing
                definition.workspace_bytes(kernel, operands, attributes)
        return allocations(definition.name, definition.results, specs, _CPU)

    return infer


def _make_fake(op: DefinedOp) -> Callable[..., Any]:
    """The fake of an op: its effect on tensors without data, as the op is defined at the time."""

    def fake(*arguments: Any, **keywords: Any) -> Any:
        definition = op.definition
        infer = _make_infer(definition)
        # Torch leaves out arguments that have their default.
        given = arguments_by_name(definition, arguments, keywords)
        values = [given[p.name] if p.name in given else _default(p) for p in definition.parameters]
        _check_tensors(definition, values)
        _repair(definition, values)
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
            _C.check_data_type(f"{definition.name}: {name!r}", tensor.dtype)
    except TypeError as error:
        end_trace(error)
        raise
    places = [(name, tensor.device) for name, tensor in tensors]
    if len({device.type == "meta" for _, device in places}) == 2:
        found = ", ".join(f"{name!r} on {device}" for name, device in places)
        raise ValueError(
            f"{definition.name}: expected all operands on the device meta, or none, got {found}"
        )


def _repair(definition: Definition, arguments: Sequence[Any]) -> None:
    """Repairs torch for calls that it can't compile.

    Raises:
        NotImplementedError: If this torch would make a call again that may be made once.
    """
    if not definition.recompute:
        from graphffi_torch import _repairs

        _repairs.keep_results()
        reason = why_not_traced(definition)
        if reason is not None and torch.is_grad_enabled():
            error = NotImplementedError(reason)
            end_trace(error)
            raise error
    if any(operand.mutated for operand in definition.operands):
        from graphffi_torch import _repairs

        _repairs.repair()


def _make_effect_fake(op: DefinedOp) -> Callable[..., Any]:
    """The fake of `ns::name.effect`."""
    fake = _make_fake(op)

    def effect_fake(*arguments: Any, **keywords: Any) -> list[torch.Tensor]:
        definition = op.definition
        returned = flat(fake(*arguments, **keywords))
        values = arguments_by_name(definition, arguments, keywords)
        mutated = [values.get(o.name) for o in definition.operands if o.mutated]
        returned += map(torch.empty_like, flat(mutated))
        if not returned:
            tensors = (t for t in flat([*values.values()]) if isinstance(t, torch.Tensor))
            given = next(tensors, torch.empty(0))
            returned.append(given.new_empty(0))
        return returned

    return effect_fake


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


def _default(parameter: Operand | Attribute) -> Any:
    return None if isinstance(parameter, Operand) else parameter.default
