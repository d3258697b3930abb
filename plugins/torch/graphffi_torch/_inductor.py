# SPDX-License-Identifier: Apache-2.0
"""Inductor lowerings: a call becomes a direct one, its results buffers that Inductor plans.

Uses private names of torch. They are looked up when Inductor is first imported; where one is
missing, or torch is none of the tested versions, nothing is installed, and Inductor calls the
operators through the dispatcher, as it does with everybody's.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

import sympy  # type: ignore[import-untyped]
import torch
from torch._higher_order_ops.effects import _EffectType
from torch._inductor import ir, lowering, pattern_matcher
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.dependencies import StarDep
from torch._inductor.utils import convert_shape_to_inductor
from torch._inductor.virtualized import V
from torch.fx.node import map_arg

from graphffi_torch._inductor_code import check_plan, write_cpp_call, write_python_call
from graphffi_torch._primitive import CALL, CALL_EFFECT, CALL_GRAPH, Primitive, PrimitiveCall

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition, Operand

_TESTED: Final = ((2, 10), (2, 15))
_log: Final = logging.getLogger("graphffi_torch")
_PRIVATE_NAMES: Final[dict[Any, tuple[str, ...]]] = {
    ir.FallbackKernel: (
        "create",
        "process_kernel",
        "codegen_comment",
        "codegen_unbacked_symbol_defs",
    ),
    lowering: ("lowerings",),
    ir.NopKernel: ("should_allocate", "get_free_symbol_uses"),
    PythonWrapperCodegen: ("writeline", "val_to_arg_str"),
}
_EMPTY: Final = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)


def unavailable() -> str | None:
    """Why the lowerings can't serve this torch, or None."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not _TESTED[0] <= version <= _TESTED[1]:
        low, high = (".".join(map(str, v)) for v in _TESTED)
        return f"expected torch {low} to {high}, got {torch.__version__}"
    for owner, names in _PRIVATE_NAMES.items():
        for name in names:
            if not hasattr(owner, name):
                return f"expected {getattr(owner, '__name__', owner)}.{name}, got none"
    return None


def install() -> bool:
    """Installs the lowerings of the primitives.

    Returns:
        Whether it could; otherwise the reason has been logged.
    """
    work_around_storage_offsets()
    work_around_unsupported_types()
    if os.environ.get("GRAPHFFI_INDUCTOR") == "0":
        _log.info("graphffi_torch: GRAPHFFI_INDUCTOR=0: calls go through the dispatcher")
        return False
    reason = unavailable()
    if reason is not None:
        _log.warning(
            "graphffi_torch: Inductor: %s; compiled graphs call ops through the dispatcher, which "
            "is slower",
            reason,
        )
        return False
    for primitive in (CALL, CALL_GRAPH):
        lowering.lowerings[primitive] = functools.partial(_lower_call, primitive)
    lowering.lowerings[CALL_EFFECT] = _lower_call_effect
    return True


def work_around_storage_offsets() -> None:
    """Gives the offset of a view its lowering, which torch (2.10 to 2.15 at least) lacks.

    Where a call updates a view of an intermediate (``w[1]``) with symbolic sizes, the offset would
    be 0: the kernel would write to another part of ``w``.
    """
    lowerings = getattr(lowering, "lowerings", {})
    lowerings.setdefault(torch.ops.aten.sym_storage_offset.default, _lower_storage_offset)


def _lower_storage_offset(_: Any) -> Any:
    offset = V.graph.current_node.meta["val"]
    return offset.node.expr if isinstance(offset, torch.SymInt) else offset


def work_around_unsupported_types() -> None:
    """Lets torch (2.10 to 2.15 at least) prepare updates of types that Inductor lacks.

    Its passes leave alone what touches complex tensors, also where they turn such a call back into
    one that writes; later they find it unchanged and fail.
    """
    name = "fallback_node_due_to_unsupported_type"
    # The pattern matcher takes it from `lowering`, if it has been imported: this runs before that
    # where the pattern matcher is what imports `lowering`.
    for owner in (lowering, pattern_matcher):
        original = getattr(owner, name, None)
        if original is not None and not hasattr(original, "__wrapped__"):
            setattr(owner, name, _without_updates(original))


def _without_updates(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def is_left_alone(node: Any, *args: Any, **kwargs: Any) -> bool:
        updates = str(node.target) in ("auto_functionalized", "auto_functionalized_v2")
        return not updates and original(node, *args, **kwargs)

    return is_left_alone


def add_op(definition: Definition, operators: Sequence[Any]) -> None:
    """Installs the lowerings of an op.

    Args:
        definition: Of the op.
        operators: `ns::name` and, if there is one, `ns::name.out`.
    """
    for operator in operators:
        lowering.lowerings[operator] = functools.partial(_lower_op, definition, operator)


def _lower_call(primitive: Any, *args: Any, **kwargs: Any) -> None:
    num_fresh = _count_fresh(V.graph.current_node)
    _call_kind(DirectCall, num_fresh=num_fresh).create(primitive, *args, **kwargs)


def _count_fresh(call: torch.fx.Node) -> int:
    """How many outputs, the first, are tensors that nothing has seen before the call.

    So are the results in exported programs.
    """
    inputs, outputs = (a if isinstance(a, (list, tuple)) else () for a in call.args[1:3])
    seen = set(inputs)
    for i, output in enumerate(outputs):
        is_fresh = isinstance(output, torch.fx.Node) and output.target in _EMPTY
        if not is_fresh or output in seen or any(user < call for user in output.users):
            return i
        seen.add(output)
    return len(outputs)


def _lower_call_effect(
    func: str, inputs: Sequence[Any], outputs: Sequence[Any], *args: Any, **kwargs: Any
) -> list[Any]:
    """Lowers a call with side effects to copies of its outputs, which the kernel changes."""
    copies = [lowering.clone(output) for output in outputs]
    OrderedCall.create(CALL, func, inputs, copies, *args, **kwargs)
    return copies or [_empty_like(V.graph.current_node.meta["val"][1][0])]


def _lower_op(definition: Definition, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Lowers a call of an op to buffers for its results and a call of the primitive."""
    call = _row_major(PrimitiveCall.of(definition, operator, args, kwargs))
    is_recorded = definition.traits.allow_cuda_graph and operator._overloadname != "effect"
    results: Sequence[Any] = call.outputs or [
        _empty_like(fake, is_recorded=is_recorded) for fake in _fakes(definition)
    ]
    num_fresh = len(results) if call.outputs is None else 0
    primitive = call.primitive(results, _workspace_bytes(definition, operator))
    ordered = _call_kind(OrderedCall, release_gil=definition.release_gil)
    if operator._overloadname == "effect":
        copies = [lowering.clone(tensor) for tensor in primitive.outputs[len(results) :]]
        primitive = dataclasses.replace(primitive, outputs=[*results, *copies])
        ordered.create(CALL, *primitive.arguments())
        return primitive.outputs or [_empty_like(V.graph.current_node.meta["val"][1][0])]
    unordered = _call_kind(DirectCall, num_fresh=num_fresh, release_gil=definition.release_gil)
    kind = ordered if _has_token(V.graph.current_node) else unordered
    kind.create(CALL_GRAPH if definition.traits.allow_cuda_graph else CALL, *primitive.arguments())
    if call.outputs is not None or not results:
        return None
    return results[0] if len(results) == 1 and not _is_indexed() else tuple(results)


def _row_major(call: PrimitiveCall) -> PrimitiveCall:
    """The call with operands in the layout that the kernel takes, so that Inductor fuses copies."""

    def convert(operand: Operand, value: Any) -> Any:
        if operand.mutated or operand.name in call.definition.strided:
            return value
        if isinstance(value, (list, tuple)):
            return [convert(operand, item) for item in value]
        return value if value is None else ir.ExternKernel.require_contiguous(value)

    operands = zip(call.definition.operands, call.operands, strict=True)
    return dataclasses.replace(call, operands=[convert(*pair) for pair in operands])


def _workspace_bytes(definition: Definition, operator: Any) -> int | sympy.Expr | None:
    """The size of the workspace of the node that is being lowered, if it follows a rule."""
    if not definition.takes_ruled_workspace:
        return None
    node = V.graph.current_node
    arguments = node.args[2:] if _has_token(node) else node.args
    args, kwargs = map_arg((arguments, node.kwargs), lambda argument: argument.meta["val"])
    size = PrimitiveCall.of(definition, operator, args, kwargs).workspace_bytes()
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _is_indexed() -> bool:
    """Whether the node's only result is taken out of a tuple.

    Torch up to 2.13 leaves graphs so where an op that can update operands was given none of them.
    """
    node = V.graph.current_node
    return not _has_token(node) and any(user.target is getitem for user in node.users)


def _has_token(node: torch.fx.Node) -> bool:
    """Whether the node calls an op with side effects: it returns a token before the results."""
    return node.target is torch.ops.higher_order.with_effects


def _fakes(definition: Definition) -> Sequence[torch.Tensor]:
    """The results of the node that is being lowered, without data."""
    if not definition.results:
        return ()
    fakes = V.graph.current_node.meta["val"]
    if _has_token(V.graph.current_node):
        _, *fakes = fakes
        if len(fakes) == 1 and isinstance(fakes[0], (list, tuple)):
            (fakes,) = fakes
    fakes = (fakes,) if isinstance(fakes, torch.Tensor) else tuple(fakes)
    return fakes[: len(definition.results)]


class EmptyKernel(ir.NopKernel):
    """A buffer that nothing fills."""

    def should_allocate(self) -> bool:
        """Its memory is Inductor's to give."""
        return True

    def get_free_symbol_uses(self, unbacked_only: bool = False) -> Any:
        """Sizes that must be known before."""
        return self.layout.get_free_symbol_uses(unbacked_only)


class UnrecordedEmptyKernel(EmptyKernel):
    """One that is allocated outside of CUDA graphs, as the call that fills it is made there.

    Otherwise torch records graphs that do nothing but allocate, and warns that they are empty.
    """

    unbacked_bindings = True  # what has any is left out of graphs


def _empty_like(fake: torch.Tensor, *, is_recorded: bool = True) -> Any:
    """A buffer that Inductor plans: it may reuse the memory of one that is no longer needed.

    Torch's own lowering of `empty` makes a loop that Inductor analyses over and over, and fills
    tensors without dimensions.

    Args:
        fake: What it is like.
        is_recorded: Whether CUDA graphs may hold the call that fills it.
    """
    layout = ir.FixedLayout(
        device=fake.device,
        dtype=fake.dtype,
        size=convert_shape_to_inductor(fake.size()),
        stride=convert_shape_to_inductor(fake.stride()),
    )
    kind = EmptyKernel if is_recorded else UnrecordedEmptyKernel
    kernel = kind(name=None, layout=layout, inputs=[])
    kernel.name = V.graph.register_buffer(kernel)
    V.graph.register_operation(kernel)
    return ir.TensorBox.create(kernel)


class DirectCall(ir.FallbackKernel):
    """A call of a primitive that does not go through the dispatcher."""

    num_fresh = 0  # outputs, the first, that share no memory
    release_gil: bool | None = None  # while the kernel runs; None: as the process does

    @classmethod
    def process_kernel(cls, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """Sorts the arguments. What is run once more to learn of results is spared: it has none."""
        no_kernel: Any = _return_nothing
        return super().process_kernel(no_kernel, *args, **kwargs)

    def codegen(self, wrapper: Any) -> None:
        """Writes the call into the graph's code."""
        if getattr(V.graph, "fx_wrapper", False):
            super().codegen(wrapper)
            return
        self.codegen_comment(wrapper)
        args, kwargs = self.unflatten_args(self.inputs, self.constant_args)
        call = Primitive(*args, **kwargs)
        call = dataclasses.replace(call, ints=[_as_expression(value) for value in call.ints])
        check_plan(call)
        if V.graph.cpp_wrapper:
            write_cpp_call(wrapper, call, self.num_fresh)
        else:
            write_python_call(wrapper, call, self.num_fresh, release_gil=self.release_gil)
        self.codegen_unbacked_symbol_defs(wrapper)


@functools.cache
def _call_kind(base: Any, **fields: Any) -> Any:
    """A kind of calls that says more of them: nodes are made by torch, of their kind alone."""
    return type(base.__name__, (base,), fields)


def _return_nothing(*args: Any, **kwargs: Any) -> None:
    pass


class OrderedCall(DirectCall):
    """One with side effects: it is kept, and stays behind those before it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Torch 2.13 notes the order for with_effects itself, but under names that its scheduler
        # does not look up.
        self._before = V.graph.effectful_ops.get(_EffectType.ORDERED)
        # Whether a call may be recorded into a CUDA graph, torch asks the node that it was lowered
        # from. That is with_effects, which says nothing of the operator.
        target: Any = self.op_overload
        self.fx_node = torch.fx.Graph().call_function(target)

    def get_read_writes(self) -> Any:
        """What the scheduler orders calls by."""
        found = super().get_read_writes()
        if self._before is not None:
            found.reads.add(StarDep(self._before.get_name()))
        return found

    def has_side_effects(self) -> bool:
        """That it must be kept."""
        return True


def _as_expression(value: Any) -> int | sympy.Expr:
    if isinstance(value, torch.SymInt):
        value = value.node.expr
    if isinstance(value, sympy.Expr):
        value = V.graph.sizevars.simplify(value)
    return int(value) if isinstance(value, (int, sympy.Integer)) else value
