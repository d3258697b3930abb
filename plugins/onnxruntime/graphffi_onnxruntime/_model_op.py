# SPDX-License-Identifier: Apache-2.0
"""Nodes of models that are made by hand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphffi.plugin import DefinedOp, described, flat
from graphffi_onnxruntime._node_text import node_text, slots, typed_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ModelOp:
    """An op as models have it.

    Args:
        op: The op. All that follows is of its definition as it is now.
    """

    op: DefinedOp

    @property
    def domain(self) -> str:
        """The op's namespace, which a model imports in version 1."""
        return self.op.name.partition("::")[0]

    @property
    def op_type(self) -> str:
        """The op's name in it."""
        return self.op.name.partition("::")[2]

    def node(
        self, inputs: Sequence[str], outputs: Sequence[str], /, *args: Any, **kwargs: Any
    ) -> Any:
        """A node.

        Args:
            inputs: Names of the values that are the call's tensors: operands in order, lists
                flattened, without those that are None.
            outputs: Names of its results, then of the operands that it updates.
            *args: Operands and attributes of one call that the model is to serve. Tensors are
                arrays or `TensorSpec`; only their data types, shapes and devices are looked at.
            **kwargs: The same by name.

        Returns:
            The `onnx.NodeProto`.

        Raises:
            NotImplementedError: If ONNX Runtime can't run the call.
            TypeError, ValueError: As a call does.
        """
        import onnx

        definition = self.op.definition
        bound = definition.bind(args, kwargs)
        operands = [described(value) for value in bound.operands]
        if len(flat(operands)) != len(inputs):
            raise ValueError(
                f"{definition.name}: inputs: expected a name for each tensor, "
                f"{len(flat(operands))}, got {len(inputs)}"
            )
        names = iter(inputs)
        named = ["" if spec is None else next(names) for spec in slots(operands)]
        node = onnx.helper.make_node(self.op_type, named, outputs, domain=self.domain)
        text = node_text(definition, operands, bound.attributes)
        for name, (kind, value) in typed_attributes(definition, bound.attributes, text).items():
            number = onnx.AttributeProto.AttributeType.Value(kind)
            node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=number))
        return node


def model_op(op: DefinedOp) -> ModelOp:
    """The op as models have it, for nodes that are made by hand.

    Example:
        ``model_op(scale).node(["x"], ["y"], graphffi.TensorSpec((4, 8), "float32"), factor=2.0)``
    """
    return ModelOp(op)
