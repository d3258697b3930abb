# SPDX-License-Identifier: Apache-2.0
"""Torch as a framework of graphffi: eager, under FakeTensor, traced."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import torch

import graphffi
from graphffi.plugin import (
    Tracer,
    register_framework,
    register_tensor_viewer,
    register_tracer,
    symbol_kind,
    traced_constants,
    when_imported,
)
from graphffi_torch import _C
from graphffi_torch._dynamo import end_trace
from graphffi_torch._gradients import set_gradient_rule
from graphffi_torch._operator_schema import DIGEST, graph_digest, why_no_operator
from graphffi_torch._operators import (
    check_operators,
    entry_of,
    operator_of,
    replace_operators,
    watch_operators,
)
from graphffi_torch._primitive import Primitive, call_primitive
from graphffi_torch._sharding import announce_sharding, original_error
from graphffi_torch._specs import as_list, empty, results_of
from graphffi_torch._traced_call import make_traced_call, operator_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi import Op, TensorSpec
    from graphffi.plugin import BoundCall, CanonicalCall, Definition

_SYMBOLS: Final[dict[type, Any]] = {
    torch.SymInt: "int",
    torch.SymFloat: "float",
    torch.SymBool: "bool",
    torch.fx.Proxy: "proxy",
}
_RERAISE_LAST_ERROR: Final = "graphffi_torch.reraise_last_error"


class TorchFramework:
    """Every call becomes a call of an operator: of the op's own, or of a primitive."""

    name = "torch"
    is_traced = staticmethod(torch.compiler.is_dynamo_compiling)
    call_plain = staticmethod(_C.call_raw)

    def add_op(self, op: Op) -> None:
        """Registers the op with torch, so that graphs can hold it.

        One that torch can't have is left to other frameworks: calls on torch's tensors say why.
        """
        if why_no_operator(op.definition) is not None:
            return
        op.is_traced = torch.compiler.is_dynamo_compiling
        op.traced_call = make_traced_call(op.definition, entry_of(op))
        announce_sharding(op.definition, operator_of(op))
        if op.definition.vjp is not None:
            set_gradient_rule(op.definition)

    def add_vjp(self, op: Op) -> None:
        """Registers the op's gradient rule with autograd."""
        if why_no_operator(op.definition) is not None:
            return
        set_gradient_rule(op.definition)
        # With the digest that covers the rule: it is in graphs from now on.
        op.traced_call = make_traced_call(op.definition, entry_of(op))

    def check_replacement(self, op: Op, definition: Definition) -> None:
        """Refuses a definition that needs other operators: graphs hold those that there are.

        Raises:
            ValueError: If it does.
        """
        if why_no_operator(op.definition) is None:
            check_operators(op.definition, definition)

    def replace_op(self, op: Op) -> None:
        """Has the op's operators, and what is compiled from now on, use its new definition."""
        if why_no_operator(op.definition) is not None:
            return
        replace_operators(op)
        op.traced_call = make_traced_call(op.definition, entry_of(op))
        announce_sharding(op.definition, operator_of(op))
        if op.definition.vjp is None:
            _C.remove_gradient_rule(op.name)
        else:
            set_gradient_rule(op.definition)

    def use_library(self, path: str, is_new: bool) -> None:
        """Has the path of a library mean the file that is there now."""
        _C.use_library(path)

    def call_op(self, op: Op, bound: BoundCall) -> Any:
        """Calls the op's operator."""
        try:
            returned = entry_of(op)(
                *operator_arguments(op.definition, bound),
                **{DIGEST: graph_digest(op.definition.digest)},
            )
        except RuntimeError as error:
            _refuse_others(op.definition, bound.operands)
            original = original_error(op.name, error)
            if original is None:
                raise
            raise original from None
        mutated = [
            t
            for o, v in zip(op.definition.operands, bound.operands, strict=True)
            if o.mutated
            for t in as_list(v)
        ]
        results = results_of(returned, len(op.definition.results))
        return op.definition.pack_results(bound.operands, results, mutated)

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Allocates the results and calls the primitive."""
        kinds = (torch.Tensor, torch.fx.Proxy)
        tensors: list[Any] = [t for t in (*call.inputs, *call.mutated) if isinstance(t, kinds)]
        if any(type(t).__name__ == "DTensor" for t in tensors):
            raise TypeError(
                f"{call.subject}: expected tensors with memory of their own, got DTensor; define "
                "an op with dims=, or pass their to_local()"
            )
        first = tensors[0] if tensors else None
        device = None if first is None else first.device
        outputs = [empty(spec, device) for spec in results]
        primitive = Primitive.of(call, outputs, graph_digest(call.digest))
        return call_primitive(call.traits, primitive, len(call.mutated))


def _refuse_others(definition: Definition, operands: Sequence[Any]) -> None:
    """Raises where tensors are not torch's.

    Raises:
        TypeError: That names the first one.
    """
    for operand, value in zip(definition.operands, operands, strict=True):
        for tensor in as_list(value):
            if not isinstance(tensor, (torch.Tensor, torch.fx.Proxy)):
                kind = type(tensor)
                convert = "as_tensor" if kind.__module__ == "numpy" else "from_dlpack"
                raise TypeError(
                    f"{definition.name}: operand {operand.name!r}: expected a torch.Tensor, as "
                    f"others are, got {kind.__module__}.{kind.__qualname__}; convert it with "
                    f"torch.{convert}"
                )


def install() -> None:
    """Makes graphffi's calls on torch tensors and torch's operators known to each other."""
    _C.register_reraise_last_error(_RERAISE_LAST_ERROR)
    _C.set_raisers(graphffi.get_global_func(_RERAISE_LAST_ERROR), end_trace)
    register_tracer(Tracer(end_trace, _SYMBOLS, lambda symbol: symbol.node.has_hint()))
    types = (torch.Tensor, torch.nn.Parameter)
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)
    if exchange is None:
        logging.getLogger("graphffi_torch").warning(
            "graphffi_torch: torch.Tensor has no __dlpack_c_exchange_api__; functions read tensors "
            "by __dlpack__, which is slower"
        )
    for kind in types if exchange is not None else ():
        register_tensor_viewer(kind, _C.make_tensor_viewer(exchange))
    register_framework(TorchFramework(), type_prefixes=("torch",), types=types)
    when_imported("torch._higher_order_ops.utils", _install_branches)
    # Importing Dynamo and Inductor takes seconds; they are met where something else needs them.
    when_imported("torch._dynamo", _install_traced_ops)
    when_imported("torch._inductor.lowering", _install_lowerings)


def _install_branches() -> None:
    from graphffi_torch import _branches

    _branches.install()


def _install_traced_ops() -> None:
    assume_constant: Any = torch.compiler.assume_constant_result
    for function in traced_constants():
        assume_constant(function)
    # There, a symbol is of the type that it stands for.
    torch.compiler.substitute_in_graph(symbol_kind)(lambda value: None)
    try:
        from graphffi_torch import _dynamo_module, _dynamo_op

        _dynamo_op.install()
        _dynamo_module.install()
    except (ImportError, AttributeError) as error:  # a private torch name that was removed
        logging.getLogger("graphffi_torch").warning(
            "graphffi_torch: Dynamo: %s; it follows the Python code of ops' calls, which is slower",
            error,
        )


def _install_lowerings() -> None:
    try:
        from graphffi_torch import _inductor
    except ImportError as error:  # a private torch name that was removed
        logging.getLogger("graphffi_torch").warning(
            "graphffi_torch: Inductor: %s; compiled graphs call ops through the dispatcher, which "
            "is slower",
            error,
        )
        return
    if _inductor.install():
        watch_operators(_inductor.add_op)
