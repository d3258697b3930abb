# SPDX-License-Identifier: Apache-2.0
"""From calls of ops in exported programs to nodes of ONNX models."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import onnx.defs
import onnx_ir as ir
import onnxscript
import torch

import graphffi
from graphffi.plugin import call_device, flat, per_tensor
from graphffi_onnxruntime._node_text import (
    check_data_type,
    node_text,
    slots,
    typed_attributes,
    why_no_node,
)
from graphffi_torch.plugin import (
    DTYPE_NAMES,
    PrimitiveCall,
    pure_operators,
    run_rule,
    sampled_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition

_log: Final = logging.getLogger("graphffi_onnxruntime")
_Formal: Final = onnx.defs.OpSchema.FormalParameter
_Option: Final = onnx.defs.OpSchema.FormalParameterOption


class Translation:
    """Makes nodes, and notes the first call that no node can stand for.

    Attributes:
        refusal: Why that call is refused: torch hides it among errors of its own.
    """

    def __init__(self, device: str | None) -> None:
        """`device`: the type of the devices that the model runs on; None: those of the program."""
        self._device = device
        self._numbers = itertools.count()
        self.refusal: Exception | None = None

    def table(self) -> dict[Any, Callable[..., Any]]:
        """A function for each operator, as `torch.onnx.export` takes them."""
        return {o: self._make_function(o, d) for o, d in pure_operators().items()}

    def _make_function(self, target: Any, definition: Definition) -> Callable[..., Any]:
        def translate(*args: Any, **kwargs: Any) -> Any:
            try:
                return self._node(PrimitiveCall.of(definition, target, args, kwargs))
            # Any error is an answer to the user: torch's would only say that there was one.
            except Exception as error:
                self.refusal = self.refusal or error
                raise

        return translate

    def _node(self, call: PrimitiveCall) -> Any:
        definition = call.definition
        examples = [_example(operand) for operand in call.operands]
        check_call(call, examples)
        operands, attributes = replace(call, operands=examples).rule_arguments()
        on_device = [_on(operand, self._device) for operand in operands]
        # The program goes on with these results, whatever the rules say of other sizes.
        results = run_rule(definition.infer, operands, attributes)
        (*first, _), *samples = sampled_sizes([*on_device, list(results)])
        others = [(o, r) for *o, r in samples if _is_answered(definition, o, attributes)]
        text = node_text(definition, first, attributes, others=others)
        pairs = zip(definition.operands, call.operands, strict=True)
        mutated = [value for operand, value in pairs if operand.mutated]
        updated, count = slots(mutated), len(definition.results)
        typed = typed_attributes(definition, attributes, text)
        if not definition.recompute:  # optimizers make equal nodes one
            typed["graphffi_number"] = ("INT", next(self._numbers))
        made = _make(definition, call.operands, typed, count + len(updated))
        for value, output in zip(updated, made[count:], strict=True):
            if value is None:
                output.name = ""  # which says that there is none
        made = [output for output in made if output.name != ""]
        return made if mutated or count > 1 else made[0]  # torch's operators give a list or one


def _is_answered(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> bool:
    """True if a kernel serves calls of such sizes; no factory is asked, which would make one."""
    if any(kernel.factory for kernel in definition.candidates):
        return False
    try:
        specs = definition.infer(operands, attributes)
        kernel = definition.choose(operands, attributes, call_device(operands, specs))
    # Whatever the rules raise for such sizes: calls raise it, too.
    except Exception as error:
        _log.debug("%s: the model refuses such sizes: %s", definition.name, error)
        return False
    return not kernel.is_reference


def _make(
    definition: Definition,
    operands: Sequence[Any],
    typed: dict[str, tuple[str, Any]],
    count: int,
) -> list[Any]:
    """Adds a node to the model that is being made, and gives its outputs."""
    inputs = slots(operands)
    namespace, _, name = definition.name.partition("::")
    named = {
        key: ir.Attr(key, ir.AttributeType[kind], value) for key, (kind, value) in typed.items()
    }
    # The types of one call: the inputs of each other call of the op may be others.
    schema = onnx.defs.OpSchema(
        name,
        namespace,
        1,
        inputs=[_Formal(f"i{i}", "T", param_option=_Option.Optional) for i in range(len(inputs))],
        outputs=[_Formal(f"o{i}", "T") for i in range(count)],
        type_constraints=[("T", ["tensor(float)"], "")],
        attributes=[
            onnx.defs.OpSchema.Attribute(
                each.name, getattr(onnx.defs.OpSchema.AttrType, each.type.name), "", required=False
            )
            for each in named.values()
        ],
    )
    op = onnxscript.values.Op(onnxscript.values.Opset(namespace, 1), name, schema)
    made = op(*inputs, **named)
    return list(made) if isinstance(made, (list, tuple)) else [made]


@per_tensor
def _example(value: ir.Value) -> torch.Tensor:
    """The tensor without data that torch has in the place of a value."""
    producer = value.producer()
    node: torch.fx.Node = (value if producer is None else producer).meta["node"]
    if node.name != value.name:  # one of several results, which is called as what takes it
        node = next(user for user in node.users if user.name == value.name)
    tensor: torch.Tensor = node.meta["val"]
    return tensor


def check_call(call: PrimitiveCall, examples: Sequence[Any]) -> None:
    """Refuses a call that no node can stand for.

    Args:
        call: Of nodes of torch's graph or values of the model.
        examples: The tensors that the operands are in the trace.
    """
    definition = call.definition
    reason = why_no_node(definition)
    if reason is not None:
        raise NotImplementedError(reason)
    for attribute, value in zip(definition.attributes, call.attributes, strict=True):
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(item, (ir.Value, torch.fx.Node)):
                raise NotImplementedError(
                    f"{definition.name}: attribute {attribute.name!r}: expected a constant of the "
                    "model, got a number that it computes; fix the size that it is computed of, or "
                    "pass a tensor"
                )
    for operand, value in zip(definition.operands, examples, strict=True):
        for tensor in flat([value]):
            name = DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))
            check_data_type(f"{definition.name}: operand {operand.name!r}", name)


@per_tensor
def _on(spec: graphffi.TensorSpec, device: str | None) -> graphffi.TensorSpec:
    return spec if device is None else replace(spec, device=graphffi.Device(device))
