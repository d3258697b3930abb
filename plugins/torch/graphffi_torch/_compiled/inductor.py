# SPDX-License-Identifier: Apache-2.0
"""Inductor lowerings: a call becomes a direct one, its results buffers that Inductor plans.

Uses private names of torch (`_private_names.py`). Where one is missing, this is not imported, and
Inductor calls the operators through the dispatcher, as it does with everybody's.
"""

from __future__ import annotations

import dataclasses
import functools
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

import sympy  # type: ignore[import-untyped]
import torch
from torch._higher_order_ops.effects import _EffectType
from torch._inductor import decomposition, ir, lowering
from torch._inductor.dependencies import StarDep
from torch._inductor.utils import convert_shape_to_inductor
from torch._inductor.virtualized import V
from torch.fx.node import map_arg

from graphffi_torch._compiled.inductor_code import check_call, write_cpp_call, write_python_call
from graphffi_torch._operators.choice import expression_of, run_rule
from graphffi_torch._operators.operator_schema import overload_of
from graphffi_torch._operators.primitive import (
    CALL,
    CALL_EFFECT,
    CALL_GRAPH,
    Primitive,
    PrimitiveCall,
)
from graphffi_torch._operators.reference import compute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi.plugin import Definition, Operand, OpKernel

_AS_STRIDED: Final = torch.ops.aten.as_strided.default
_EMPTY: Final = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)


def install() -> None:
    """Installs the lowerings of the primitives."""
    for primitive in (CALL, CALL_GRAPH):
        lowering.lowerings[primitive] = functools.partial(_lower_call, primitive)
    lowering.lowerings[CALL_EFFECT] = _lower_call_effect


def add_op(definition: Definition, operators: Sequence[Any]) -> None:
    """Installs the lowerings of `ns::name` and, if there is one, `ns::name.out`."""
    _set_decomposition(definition, operators[0])
    for operator in operators:
        if not definition.recompute:  # operators know whether they are called again
            lowering.lowerings.pop(operator, None)
            continue
        lowering.lowerings[operator] = functools.partial(_lower_op, definition, operator)


def _set_decomposition(definition: Definition, operator: Any) -> None:
    """Lets Inductor see what calls compute that run the op's reference, to fuse it."""
    former = decomposition.decompositions.pop(operator, None)
    if definition.runs_reference and not definition.is_updating:
        chosen = functools.partial(_decompose, definition, operator)
        decomposition.decompositions[operator] = chosen
    elif former is None:
        return
    decomposition.fast_random_decomps.cache_clear()


def _decompose(definition: Definition, operator: Any, *args: Any, **kwargs: Any) -> Any:
    call = PrimitiveCall.of(definition, operator, args, kwargs)
    kernel, _ = call.kernel(is_guarded=not V.aot_compilation)
    if not kernel.is_reference:
        return NotImplemented
    operands, attributes = call.rule_arguments()
    specs = run_rule(definition.infer, operands, attributes)
    results = compute(definition, call.operands, attributes, specs)
    return results[0] if len(results) == 1 else tuple(results)


def _lower_call(primitive: Any, *args: Any, **kwargs: Any) -> None:
    num_fresh = _count_fresh(_node_of(primitive))
    args, kwargs = _with_offsets(args, kwargs)
    _call_kind(LoweredCall, num_fresh=num_fresh).create(primitive, *args, **kwargs)


def _count_fresh(call: torch.fx.Node) -> int:
    """The number of outputs, the first, that are tensors that nothing has seen before the call.

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


def _node_of(operator: Any) -> torch.fx.Node:
    """The node that is being lowered, which calls the operator."""
    node = V.graph.current_node
    if operator is not (node.args[1] if _has_token(node) else node.target):
        # Inductor lowers a function of elements as part of the node that it is an argument of.
        raise NotImplementedError(
            f"{operator.name()}: expected a call on whole tensors, got one in a function that "
            "Inductor computes for each element, such as score_mod of flex_attention; call the op "
            "outside of it"
        )
    return node


def _lower_call_effect(
    func: str, inputs: Sequence[Any], outputs: Sequence[Any], *args: Any, **kwargs: Any
) -> list[Any]:
    """Lowers a call with side effects to copies of its outputs, which the kernel changes."""
    copies = [lowering.clone(output) for output in outputs]
    OrderedCall.create(CALL, func, inputs, copies, *args, **kwargs)
    return copies or _stand_in()


def _stand_in() -> list[Any]:
    """An empty tensor, the result of a call with side effects that has no outputs."""
    return [_empty_like(V.graph.current_node.meta["val"][1][0])]


def _lower_op(definition: Definition, operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Lowers a call of an op to buffers for its results and a call of the primitive."""
    _node_of(operator)
    call = _row_major(PrimitiveCall.of(definition, operator, *_with_offsets(args, kwargs)))
    has_copies = overload_of(operator) == "effect"
    kernel, workspace = _kernel(definition, operator)
    is_recorded = kernel.traits.allow_cuda_graph and not has_copies
    results: Sequence[Any] = call.outputs or [
        _empty_like(fake, is_recorded=is_recorded) for fake in _fakes(definition)
    ]
    num_fresh = len(results) if call.outputs is None else 0
    primitive = call.primitive(kernel, results, workspace)
    ordered = _call_kind(OrderedCall, release_gil=kernel.release_gil)
    if has_copies:
        copies = [lowering.clone(tensor) for tensor in primitive.outputs[len(results) :]]
        primitive = dataclasses.replace(primitive, outputs=[*results, *copies])
        ordered.create(CALL, *primitive.arguments())
        return primitive.outputs or _stand_in()
    unordered = _call_kind(LoweredCall, num_fresh=num_fresh, release_gil=kernel.release_gil)
    kind = ordered if _has_token(V.graph.current_node) else unordered
    kind.create(CALL_GRAPH if kernel.traits.allow_cuda_graph else CALL, *primitive.arguments())
    if call.outputs is not None or not results:
        return None
    return results[0] if len(results) == 1 and not _is_indexed() else tuple(results)


def _with_offsets(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of the node that is being lowered, with views of the sizes they should have.

    Torch (2.10 to 2.15 at least) has no lowering of a view's symbolic offset, and takes 0 for it
    and for sizes that are the same symbol: where a call updates a view of an intermediate
    (``w[1]``), the kernel would write to another part of ``w``, or to none.
    """
    node = V.graph.current_node
    return _with_offset(_arguments(node), args), _with_offset(node.kwargs, kwargs)


def _with_offset(given: Any, lowered: Any) -> Any:
    if isinstance(given, (list, tuple)):
        return [_with_offset(node, value) for node, value in zip(given, lowered, strict=True)]
    if isinstance(given, dict):
        return {name: _with_offset(node, lowered[name]) for name, node in given.items()}
    if not (isinstance(given, torch.fx.Node) and given.target is _AS_STRIDED):
        return lowered
    fake = given.meta["val"]
    *sizes, offset = map(_as_expression, (*fake.shape, *fake.stride(), fake.storage_offset()))
    if isinstance(offset, int):
        return lowered
    # A view of the whole: torch's own is of a copy where Inductor lacks the type.
    whole = V.graph.env[given.all_input_nodes[0]]
    view = sizes[: fake.ndim], sizes[fake.ndim :], offset
    return lowering.lowerings[_AS_STRIDED](whole, *view)


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


def _kernel(definition: Definition, operator: Any) -> tuple[OpKernel, int | sympy.Expr | None]:
    """The kernel of the node that is being lowered, and its workspace if that follows a rule."""
    if not definition.is_looked_at:
        return definition.candidates[0], None
    node = V.graph.current_node
    args, kwargs = map_arg((_arguments(node), node.kwargs), lambda argument: argument.meta["val"])
    call = PrimitiveCall.of(definition, operator, args, kwargs)
    # A package is for all sizes of the exported program: there are no guards in it.
    kernel, size = call.kernel(is_guarded=not V.graph.aot_mode)
    return kernel, expression_of(size)


def _is_indexed() -> bool:
    """True if the node's only result is taken out of a tuple.

    Torch up to 2.13 leaves graphs so where an op that can update operands was given none of them.
    """
    node = V.graph.current_node
    return not _has_token(node) and any(user.target is getitem for user in node.users)


def _has_token(node: torch.fx.Node) -> bool:
    """True if the node calls an op with side effects: it returns a token before the results."""
    return node.target is torch.ops.higher_order.with_effects


def _arguments(node: torch.fx.Node) -> Sequence[Any]:
    """The positional arguments of the operator that a node calls."""
    return node.args[2:] if _has_token(node) else node.args


def _fakes(definition: Definition) -> Sequence[torch.Tensor]:
    """The results of the node that is being lowered, without data."""
    if not definition.results:
        return ()
    fakes = V.graph.current_node.meta["val"]
    if _has_token(V.graph.current_node):
        _, *fakes = fakes
        if len(fakes) == 1:
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
    tensors without dimensions. CUDA graphs may hold the call that fills it if `is_recorded`.
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


class LoweredCall(ir.FallbackKernel):
    """A call of a primitive that does not go through the dispatcher."""

    num_fresh = 0  # outputs, the first, that share no memory
    release_gil: bool | None = None  # while the kernel runs; None: as the process does

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Whether a call may be recorded into a CUDA graph, torch asks the node that it was lowered
        # from: that says nothing of the kernel, and with_effects nothing of the operator.
        target: Any = self.op_overload
        self.fx_node = torch.fx.Graph().call_function(target)

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
        check_call(call)
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


class OrderedCall(LoweredCall):
    """One with side effects: it is kept, and stays behind those before it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Torch 2.13 notes the order for with_effects itself, but under names that its scheduler
        # does not look up.
        self._before = V.graph.effectful_ops.get(_EffectType.ORDERED)

    def get_read_writes(self) -> Any:
        """The reads and writes by which the scheduler orders calls."""
        found = super().get_read_writes()
        if self._before is not None:
            found.reads.add(StarDep(self._before.get_name()))
        return found

    def has_side_effects(self) -> bool:
        """Says that it must be kept."""
        return True


def _as_expression(value: Any) -> int | sympy.Expr:
    value = expression_of(value)
    if isinstance(value, sympy.Expr):
        value = V.graph.sizevars.simplify(value)
    return int(value) if isinstance(value, (int, sympy.Integer)) else value
