# SPDX-License-Identifier: Apache-2.0
"""The parameters, buffers, constants and inputs that exported programs update."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.fx.operator_schemas import get_signature_for_torch_op

from graphffi_torch._export.decompose import all_nodes
from graphffi_torch._export.sizes_of_one import as_exported
from graphffi_torch._operators.primitive import PRIMITIVES
from graphffi_torch._operators.same_tensor import memory_of

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lifted(NamedTuple):
    """A tensor that a program holds.

    Args:
        name: By which the program's module knows it, ``model.count``.
        tensor: The tensor.
        kind: ``"buffer"``, ``"parameter"`` or ``"constant"``, such as a tensor of a closure.
    """

    name: str
    tensor: torch.Tensor
    kind: str


class Memory(NamedTuple):
    """The memory of a tensor, and how the tensor lies in it: one buffer, whatever its names."""

    storage: torch.UntypedStorage
    dtype: torch.dtype
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def of(tensor: torch.Tensor) -> Memory:
        """The memory of a tensor."""
        return Memory(
            tensor.untyped_storage(),
            tensor.dtype,
            int(tensor.storage_offset()),
            tuple(tensor.shape),
            tensor.stride(),
        )


def lifted_tensors(program: torch.export.ExportedProgram) -> dict[str, Lifted]:
    """The tensors that a program holds, by its inputs that stand for them."""
    held = {**program.constants, **program.state_dict}
    found = {}
    for spec in program.graph_signature.input_specs:
        tensor = None if spec.target is None else held.get(spec.target)
        if isinstance(tensor, torch.Tensor):
            kind = spec.kind.name.partition("_")[0].lower()
            found[spec.arg.name] = Lifted(str(spec.target), tensor, kind)
    return found


def check_updates(function: str, program: torch.export.ExportedProgram) -> None:
    """Refuses updates that torch's compilers do not keep, or do not know of.

    Args:
        function: Begins the error message, ``package``.
        program: As exported.

    Raises:
        ValueError: For an update of a constant or parameter, and of memory that the program also
            holds under another name.
    """
    _check_parameters(function, program)
    lifted = lifted_tensors(program)
    for subject, operand, name in updates_of_inputs(program):
        if name not in lifted:
            continue
        own = lifted[name]
        if own.kind != "buffer":  # torch (2.13) also loses updates of parameters
            raise ValueError(
                f"{subject}: {function}: {operand}: expected an input or a buffer of the program, "
                f"since the call updates it, got the {own.kind} '{own.name}'; make the tensor a "
                "buffer with register_buffer"
            )
        for key, other in lifted.items():
            if key != name and share_elements(own.tensor, other.tensor):
                raise ValueError(
                    f"{subject}: {function}: {operand}: expected memory of its own, since the call "
                    f"updates it, got '{own.name}', which shares memory with '{other.name}'; "
                    "use one of them everywhere"
                )


def _check_parameters(function: str, program: torch.export.ExportedProgram) -> None:
    """Refuses updates of parameters that a program after run_decompositions lists.

    Of a program that was saved and loaded, `check_updates` sees none of those within
    ``torch.no_grad()``.
    """
    for spec in program.graph_signature.output_specs:
        if spec.kind.name == "PARAMETER_MUTATION":
            raise ValueError(
                f"graphffi_torch: {function}: parameter '{spec.target}': expected no updates, got "
                "one; make the tensor a buffer with register_buffer"
            )


def check_not_tied(subject: str, program: torch.export.ExportedProgram) -> None:
    """Refuses a tensor that is given twice: torch's export makes one input of both."""
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    inputs = [nodes[each] for each in program.graph_signature.user_inputs if each in nodes]
    given = program.call_spec.in_spec
    values = given.flatten_up_to(program.example_inputs) if program.example_inputs else []
    first: dict[int, torch.fx.Node] = {}
    for node, value in zip(inputs, values, strict=False):
        other = first.setdefault(id(value), node)
        is_tensor = isinstance(value, torch.Tensor) and other is not node
        if is_tensor and not (node.users and other.users):
            raise ValueError(
                f"graphffi_torch: {subject}: inputs '{other.name}' and '{node.name}': "
                "expected a tensor for each in the example, got one for both, which makes them one "
                "input; export with a copy"
            )


def share_elements(one: torch.Tensor, other: torch.Tensor) -> bool:
    """True if an element of a tensor is also one of another tensor."""
    storage = one.untyped_storage()
    if storage is not other.untyped_storage() or one.numel() == 0 or other.numel() == 0:
        return False
    if one.dtype != other.dtype:
        return True
    touched = torch.zeros(storage.nbytes() // one.element_size(), dtype=torch.bool)
    touched.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(True)
    return bool(touched.as_strided(other.shape, other.stride(), other.storage_offset()).any())


def functionalized(
    function: str, exported: torch.export.ExportedProgram
) -> torch.export.ExportedProgram:
    """The same program, which lists the inputs and buffers that it updates.

    Raises:
        ValueError: For an update of a parameter.
    """
    with as_exported(exported):
        program: torch.export.ExportedProgram = exported.run_decompositions({})
    _check_parameters(function, program)
    return program


def input_memory(graph: torch.fx.Graph) -> dict[torch.UntypedStorage, str]:
    """The inputs of a graph by their memory. A view has that of its base, in the trace, too.

    Without ``torch.tensor([1, 2])`` of the program's code: each run makes a copy of it, but in the
    trace (torch 2.13) the copy has the memory of what it is of.
    """
    owner: Any = graph.owning_module
    literals = {memory_of(node.meta["val"]) for _, node in all_nodes(owner) if _copies(node)}
    inputs: dict[torch.UntypedStorage, str] = {}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and memory_of(value) not in literals:
            inputs.setdefault(value.untyped_storage(), node.name)
    return inputs


def _copies(node: torch.fx.Node) -> bool:
    return node.target is torch.ops.aten.lift_fresh_copy.default


def updates_of_inputs(program: torch.export.ExportedProgram) -> Iterator[tuple[str, str, str]]:
    """For each operand that a call updates: the op, the operand, and the input that it is of."""
    inputs = input_memory(program.graph)
    for _, node in all_nodes(program.graph_module):  # torch.no_grad() has a graph of its own
        for name, updated in _updated(node):
            value = updated.meta.get("val")
            if isinstance(value, torch.Tensor) and (storage := memory_of(value)) in inputs:
                yield *_described(node, name), inputs[storage]


def _updated(node: torch.fx.Node) -> Iterator[tuple[str, torch.fx.Node]]:
    """The operands that a call of an operator updates, with their names."""
    target: Any = node.target
    if not hasattr(target, "overloadpacket"):
        return
    _, schemas = get_signature_for_torch_op(target, return_schemas=True)
    for i, argument in enumerate((schemas or [])[0].arguments):
        value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        if isinstance(value, torch.fx.Node):
            yield argument.name, value
        elif isinstance(value, (list, tuple)):
            for k, each in enumerate(value):
                if isinstance(each, torch.fx.Node):
                    yield f"{argument.name}[{k}]", each


def _described(node: torch.fx.Node, name: str) -> tuple[str, str]:
    if node.target in PRIMITIVES:  # whose operands have no names
        return f"graphffi_torch: kernel '{node.args[0]}'", "an updated operand"
    target: Any = node.target
    return target.name().split(".")[0], f"operand '{name}'"
