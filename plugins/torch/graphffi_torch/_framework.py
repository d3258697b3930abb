# SPDX-License-Identifier: Apache-2.0
"""Torch as a framework of graphffi: eager, under FakeTensor, traced."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any, Final

import torch

import graphffi
import graphffi_torch._C as _C
from graphffi.plugin import (
    Framework,
    Tracer,
    call_device,
    described,
    flat,
    register_framework,
    register_tracer,
    set_tensor_viewer,
    traced_constants,
    when_imported,
)
from graphffi_torch._compiled.dynamo import end_trace
from graphffi_torch._compiled.exact_float import exact_float
from graphffi_torch._compiled.repairs import repair
from graphffi_torch._operators.effects import distinct
from graphffi_torch._operators.gradients import push_forward, set_rules, transpose
from graphffi_torch._operators.operator_schema import (
    DIGEST,
    graph_digest,
    operator_arguments,
    why_no_operand,
    why_no_operator,
)
from graphffi_torch._operators.operator_table import watch_operators
from graphffi_torch._operators.operators import (
    check_operators,
    entry_of,
    register_operator,
    replace_operators,
)
from graphffi_torch._operators.primitive import Primitive, call_primitive
from graphffi_torch._operators.recompute import refuse_repetition
from graphffi_torch._operators.reference import install_reference
from graphffi_torch._operators.same_tensor import is_same
from graphffi_torch._operators.sharding import (
    announce_sharding,
    original_error,
    raise_original,
    register_known,
    replicated,
)
from graphffi_torch._operators.specs import empty, results_of, to_numpy
from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from graphffi import TensorSpec
    from graphffi.plugin import BoundCall, CanonicalCall, DefinedOp, Definition

_SYMBOLS: Final[dict[type, Any]] = {
    torch.SymInt: "int",
    torch.SymFloat: "float",
    torch.SymBool: "bool",
    torch.fx.Proxy: "proxy",
}
_RERAISE_LAST_ERROR: Final = "graphffi_torch.reraise_last_error"


class TorchFramework(Framework):
    """Every call becomes a call of an operator: of the op's own, or of a primitive."""

    name = "torch"
    is_traced = staticmethod(torch.compiler.is_dynamo_compiling)
    call_plain = staticmethod(_C.call_raw)
    vjp = staticmethod(transpose)
    jvp = staticmethod(push_forward)
    to_numpy = staticmethod(to_numpy)
    is_same = staticmethod(is_same)

    def __init__(self) -> None:
        """Not for users."""
        self._ops: list[DefinedOp] = []
        self._opt_traced_call: ModuleType | None = None  # once Dynamo is there

    def install_traced_calls(self) -> None:
        """Makes Dynamo, which is there now, trace calls of ops."""
        from graphffi_torch._compiled import traced_call

        for function in traced_constants():
            torch.compiler.assume_constant_result(function)  # type: ignore[no-untyped-call]
        traced_call.install()
        self._opt_traced_call = traced_call  # before the list is read: other threads define ops
        for op in tuple(self._ops):
            self._let_trace(op)

    def add_op(self, op: DefinedOp) -> None:
        """Registers the op with torch, so that graphs can hold it.

        One that torch can't have is left to other frameworks: calls on torch's tensors say why.
        """
        self._ops.append(op)
        self._use(op, register_operator)

    def add_vjp(self, op: DefinedOp) -> None:
        """Registers the op's gradient rule with autograd."""
        if why_no_operator(op.definition) is not None:
            return
        set_rules(op.definition)
        self._let_trace(op)  # the digest, which is in graphs, covers the rule from now on

    def check_replacement(self, op: DefinedOp, definition: Definition) -> None:
        """Refuses a definition that needs other operators: graphs hold those that there are."""
        if why_no_operator(op.definition) is None:
            check_operators(op.definition, definition)

    def replace_op(self, op: DefinedOp) -> None:
        """Makes the op's operators, and what is compiled from now on, use its new definition."""
        self._use(op, replace_operators)

    def _use(self, op: DefinedOp, register: Callable[[DefinedOp], None]) -> None:
        """Makes torch use the definition that the op has by now."""
        if why_no_operator(op.definition) is None:
            install_reference(op)
            register(op)
            announce_sharding(op)
            set_rules(op.definition)
        self._let_trace(op)

    def _let_trace(self, op: DefinedOp) -> None:
        """Gives an op the function that Dynamo follows, if Dynamo is there."""
        if self._opt_traced_call is None:
            return
        reason = why_no_operator(op.definition)
        op.traced_call = (
            self._opt_traced_call.make_traced_call(op.definition, entry_of(op))
            if reason is None
            else self._opt_traced_call.make_refusal(reason)
        )
        op.is_traced = torch.compiler.is_dynamo_compiling

    def use_library(self, path: str, is_new: bool) -> None:
        """Makes the path of a library mean the file that is there now."""
        _C.use_library(path)

    def call_op(self, op: DefinedOp, definition: Definition, bound: BoundCall) -> Any:
        """Calls the op's operator, which runs the definition that the op has by now."""
        # Of values as they are now, in programs that are exported without Dynamo.
        is_traced = torch.compiler.is_compiling()
        digest = op.definition.traced_digest() if is_traced else op.definition.digest
        try:
            returned = entry_of(op)(
                *operator_arguments(op.definition, bound),
                **{DIGEST: graph_digest(digest, bound.attributes)},
            )
        except RuntimeError as error:
            _refuse_others(op.definition, bound.operands)
            original = original_error(op.name, error)
            if original is None:
                raise
            raise original from None
        mutated = op.definition.updated(bound.operands)
        results = results_of(returned, len(op.definition.results))
        return op.definition.pack_results(bound.operands, results, mutated)

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Allocates the results and calls the primitive."""
        if torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
            raise RuntimeError(
                f"{call.subject}: expected an op in code that torch.jit.trace records, got a call "
                "without a definition; define one, or use torch.export"
            )
        if torch.compiler.is_compiling():
            call.floats[:] = [exact_float(value) for value in call.floats]
        tensors: list[Any] = [*call.inputs, *call.mutated]
        for tensor in tensors:
            if not isinstance(tensor, (torch.Tensor, torch.fx.Proxy)):
                raise TypeError(why_no_operand(f"{call.subject}: argument", type(tensor)))
        first = tensors[0] if tensors else None
        device = None if first is None else first.device
        outputs = empty(call.subject, itertools.count(), results, device)
        if any(type(tensor).__name__ == "DTensor" for tensor in tensors):
            outputs = replicated(call, outputs)
        digest = graph_digest(call.digest)
        if call.traits is not None and call.traits.has_side_effect:
            digest = distinct(digest) if torch.compiler.is_compiling() else digest
        primitive = Primitive.of(call, outputs, digest)
        return call_primitive(call.traits, primitive, len(call.mutated))

    def call_as(self, definition: Definition, bound: BoundCall) -> Any:
        """Calls the kernel by the primitive: the op's operator runs its own definition only."""
        operands = [described(operand) for operand in bound.operands]
        specs = definition.infer(operands, bound.attributes)
        kernel = definition.choose(operands, bound.attributes, call_device(operands, specs))
        workspace = definition.workspace_bytes(kernel, operands, bound.attributes)
        call = definition.canonical(kernel, bound.operands, bound.attributes, workspace)
        return self.call_raw(call, specs)

    def wait(self, results: Sequence[torch.Tensor]) -> None:
        """Until work on devices is done."""
        for device in {result.device for result in results if result.device.type != "cpu"}:
            torch.accelerator.synchronize(device)

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """With the strides of the tensor, if its elements share no memory."""
        return tensor.clone()

    def device_name(self, kind: str) -> str:
        """As PyTorch tells it."""
        module = getattr(torch, kind, None)
        if kind == "cpu" or module is None or not module.is_available():
            return ""
        return str(module.get_device_name())


def _refuse_others(definition: Definition, operands: Sequence[Any]) -> None:
    """Raises where tensors are not torch's, or nested: such an operator is torch's to refuse.

    Raises:
        TypeError: That names the first one of another framework.
        ValueError: That names the first nested one.
    """
    for operand, value in zip(definition.operands, operands, strict=True):
        for tensor in flat(value):
            if not isinstance(tensor, (torch.Tensor, torch.fx.Proxy)):
                subject = f"{definition.name}: operand {operand.name!r}"
                raise TypeError(why_no_operand(subject, type(tensor))) from None
            if isinstance(tensor, torch.Tensor) and tensor.is_nested:
                raise ValueError(
                    f"{definition.name}: {operand.name!r}: expected a strided tensor, got a nested "
                    "one; call .to_padded_tensor(0)"
                ) from None


def install() -> None:
    """Makes graphffi's calls on torch tensors and torch's operators known to each other."""
    _C.register_reraise_last_error(_RERAISE_LAST_ERROR)
    _C.set_raisers(
        graphffi.get_global_func(_RERAISE_LAST_ERROR),
        end_trace,
        raise_original,
        refuse_repetition,
        repair,
    )
    register_tracer(Tracer(end_trace, _SYMBOLS, lambda symbol: symbol.node.has_hint()))
    types = (torch.Tensor, torch.nn.Parameter)
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        logging.getLogger("graphffi_torch").warning(
            "graphffi_torch: torch.Tensor has no __dlpack_c_exchange_api__; functions read tensors "
            "by __dlpack__, which is slower"
        )
    else:
        set_tensor_viewer(exchange, _C.make_tensor_viewer(exchange))
    framework = TorchFramework()
    register_framework(framework, type_prefixes=("torch",), types=types)
    # Importing these takes seconds; they are met where something else needs them.
    when_imported("torch._dynamo", framework.install_traced_calls)
    when_imported("torch._dynamo", _install_traced_modules)
    when_imported("torch._inductor.lowering", _install_lowerings)
    when_imported("torch.distributed.tensor", register_known)


def _install_traced_modules() -> None:
    if has("modules"):
        from graphffi_torch._compiled import dynamo_module

        dynamo_module.install()
    if has("exact floats"):
        from graphffi_torch._compiled import dynamo_float

        dynamo_float.install()


def _install_lowerings() -> None:
    if has("lowerings"):
        from graphffi_torch._compiled import inductor

        inductor.install()
        watch_operators(inductor.add_op)
