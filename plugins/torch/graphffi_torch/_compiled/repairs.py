# SPDX-License-Identifier: Apache-2.0
"""Repairs of torch (2.10 to 2.15 at least) for calls of graphffi's operators.

Those for updates are made when the first operator that updates operands is registered or a program
is decomposed, the others when the first call that needs them is traced. They leave the calls of
other operators as they are.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.utils.checkpoint import CheckpointPolicy

from graphffi.plugin import flat, per_tensor, when_imported
from graphffi_torch._operators.operator_schema import argument_values
from graphffi_torch._operators.operator_table import registered_operators
from graphffi_torch._operators.primitive import PRIMITIVES
from graphffi_torch._operators.recompute import kept_results
from graphffi_torch._operators.same_tensor import memory_of
from graphffi_torch._private_names import has

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    _Row = tuple[str, str, str, Callable[[Any], Any]]


def repair() -> None:
    """Lets torch compile calls that update tensors: complex ones, lists in branches, and copies."""
    _wrap_each(_FOR_UPDATES)


def keep_results() -> None:
    """Makes torch save the results of ops with ``recompute=False`` for gradients."""
    _wrap_each(_FOR_RESULTS)


def _wrap_each(rows: Sequence[_Row]) -> None:
    for row in rows:
        if row not in _wrapped:
            _wrapped.add(row)
            when_imported(row[0], functools.partial(_wrap, *row))


def _wrap(module: str, feature: str, name: str, wrapper: Callable[[Any], Any]) -> None:
    if has(feature):
        owner = sys.modules[module]
        setattr(owner, name, wrapper(getattr(owner, name)))


def _is_ours(target: Any) -> bool:
    return target in PRIMITIVES or any(
        target in operators for _, operators in registered_operators()
    )


def _is_update(node: torch.fx.Node) -> bool:
    """True if a node of a functional graph stands for a call of ours that updates operands."""
    is_functional = str(node.target) in ("auto_functionalized", "auto_functionalized_v2")
    return is_functional and _is_ours(node.args[0])


def _without_updates(original: Callable[..., bool]) -> Callable[..., bool]:
    @functools.wraps(original)
    def is_left_alone(node: Any, *args: Any, **kwargs: Any) -> bool:
        return not _is_update(node) and original(node, *args, **kwargs)

    return is_left_alone


def _with_copies(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def remove(graph: Any, *args: Any, **kwargs: Any) -> None:
        nodes = _copies_around_updates(getattr(graph, "graph", graph))
        kept = {node: node.target for node in nodes}
        for node in kept:
            node.target = torch.clone  # of no operator, while the original looks for them
        try:
            original(graph, *args, **kwargs)
        finally:
            for node, target in kept.items():
                node.target = target

    return remove


def _copies_around_updates(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """Nodes that may copy a tensor that is updated, or make one: with memory of their own."""
    updated = {_memory_of(tensor) for tensor in _updated_tensors(graph)}
    copies = []
    for node in graph.nodes if updated else ():
        if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor):
            memory, read = _memory_of(node), {*map(_memory_of, node.all_input_nodes)}
            touches = memory in updated or not updated.isdisjoint(read)
            if touches and memory not in read:
                copies.append(node)
    return copies


def _updated_tensors(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The tensors that calls of the plugin's operators update, in a functional graph; buffers."""
    calls = [n for n in graph.nodes if _is_update(n)]
    bases = [base for n in calls for base in n.kwargs.get("_all_bases", n.all_input_nodes)]
    updates = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    return bases + [n.args[0] for n in updates if n.args[0].op == "get_attr"]


def _memory_of(node: Any) -> int:
    value = node.meta.get("val")
    return id(memory_of(value)) if isinstance(value, torch.Tensor) else id(node)


def _with_kept_results(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def mark(joint_module: Any, *args: Any, **kwargs: Any) -> None:
        original(joint_module, *args, **kwargs)
        for result in kept_results(joint_module.graph, _kept_operators()):
            result.meta["recompute"] = CheckpointPolicy.MUST_SAVE

    return mark


def _with_kept_values(original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    @functools.wraps(original)
    def choose(joint_graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> list[Any]:
        # Without any memory to spend, torch (2.10 to 2.15) saves nothing, whatever is marked.
        saved = list(original(joint_graph, *args, **kwargs))
        kept = kept_results(joint_graph, _kept_operators())
        return saved + [result for result in kept if result not in saved]

    return choose


def _kept_operators() -> list[Any]:
    return [o for d, operators in registered_operators() if not d.recompute for o in operators]


def _with_lists(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(original)
    def get(argument: Any) -> Any:
        is_list = isinstance(argument, (list, tuple)) and len(argument) > 0
        if not is_list or not all(isinstance(node, torch.fx.Node) for node in argument):
            return original(argument)
        if not any(_is_ours(user.target) for user in argument[0].users):
            return original(argument)
        inputs = [original(node) for node in argument[0].graph.find_nodes(op="placeholder")]
        memory = {id(memory_of(value)) for value in inputs if isinstance(value, torch.Tensor)}
        values = [original(node) for node in argument]
        written = {
            id(memory_of(value)): value for value in values if id(memory_of(value)) in memory
        }
        if len(written) > 1:
            raise NotImplementedError(
                "graphffi_torch: expected a branch whose calls update at most one of its inputs "
                "each, got one that updates several; update copies, and return them"
            )
        return next(iter(written.values()), values[0])

    return get


def _with_copies_of_typed_views(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def functionalize(mode: Any, op: Any, args: Any, kwargs: Any) -> Any:
        views = _updated_typed_views(op, args, kwargs) if _is_ours(op) else []
        if not views:
            return original(mode, op, args, kwargs)
        with mode:
            copies = {id(view): view.clone() for view in views}
        copied = per_tensor(lambda value: copies.get(id(value), value))
        given = {name: copied(value) for name, value in kwargs.items()}
        returned = original(mode, op, tuple(map(copied, args)), given)
        with mode:
            for view in views:
                view.copy_(copies[id(view)])
        return returned

    return functionalize


def _updated_typed_views(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The tensors that a call updates, of another data type than what they are views of."""
    get_base = sys.modules["torch._higher_order_ops.auto_functionalize"].get_base
    bases = [(tensor, get_base(tensor)) for tensor in _tensors_to_update(op, args, kwargs)]
    return [t for t, base in bases if base is not None and base.dtype != t.dtype]


def _tensors_to_update(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    if op in PRIMITIVES:
        return flat(args[2] if len(args) > 2 else kwargs["outputs"])
    definition = next(d for d, operators in registered_operators() if op in operators)
    operands, _ = definition.split(argument_values(definition, args, kwargs))
    results = [kwargs[name] for name in definition.results if name in kwargs]  # of `.out`
    return [*definition.updated(operands), *flat(results)]


_PARTITIONERS: Final = "torch._functorch.partitioners"
# The functions of torch that are repaired: the module, the feature, the name, and what gives the
# function that takes its place.
_FOR_RESULTS: Final[Sequence[_Row]] = (
    # Lets partitioners know what is not to be computed again; no tag tells them (up to 2.15).
    (_PARTITIONERS, "saved results", "force_save_bw_mutation_src", _with_kept_results),
    (_PARTITIONERS, "saved results", "choose_saved_values_set", _with_kept_values),
)
_FOR_UPDATES: Final[Sequence[_Row]] = (
    # Has calls update a copy of a view of another data type, such as `view_as_complex(x)`, and
    # copies it back. Torch (2.10 to 2.15) makes the view anew of what it is a view of: the kernel
    # would get that data type, and other elements.
    (
        "torch._higher_order_ops.auto_functionalize",
        "typed views",
        "do_auto_functionalize_v2",
        _with_copies_of_typed_views,
    ),
    # Prepares updates of types that Inductor lacks. Its passes leave alone what touches complex
    # tensors, also where they turn such a call back into one that writes; later they find it
    # unchanged and fail.
    (
        "torch._inductor.pattern_matcher",
        "complex updates",
        "fallback_node_due_to_unsupported_type",
        _without_updates,
    ),
    # Lets torch see what a branch of `torch.cond` writes where that is a list of tensors. It looks
    # for inputs that a branch writes, argument by argument, and fails on lists.
    ("torch._higher_order_ops.utils", "branches", "_get_example_value", _with_lists),
    # Keeps copies whose source or result is updated: clones, but also `x.repeat(1)`. Torch removes
    # them from functional graphs, where they seem to change nothing, and later has the call update
    # what was copied (pytorch#198031; 2.15 keeps them). In programs of packages, it also takes the
    # copy of a buffer for the buffer, which the end of the program updates.
    ("torch._inductor.fx_passes.post_grad", "copies", "remove_noop_ops", _with_copies),
    # Keeps copies such as `x[1:] * 1` that a call updates. Torch takes `x[1:]` for them, and has
    # the call update the beginning of `x`: where a factor is a tensor of ones, in 2.10 to 2.13; a
    # number, in 2.15.
    ("torch._inductor.fx_passes.joint_graph", "copies", "remove_no_ops", _with_copies),
)
_wrapped: Final[set[_Row]] = set()
