# SPDX-License-Identifier: Apache-2.0
"""`op` and `define_op`: from a Python function or a schema to an op."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypedDict, overload

from .._contract.traits import CallTraits, SideEffect, checked_effect, checked_traits
from .._kernels.kernel import complete_kernel, named_kernel
from .._kernels.op_kernel import OpKernel, forced_kernel
from .._rules.derivatives import checked_save
from .._rules.reference import checked_choice
from .._rules.vmap import checked_vmap
from .._values.describe import describe
from . import signature as _signature
from .definition import Definition
from .op_table import register_op
from .parameter import Operand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ParamSpec, TypeVar

    from typing_extensions import Unpack

    P = ParamSpec("P")
    R = TypeVar("R")

    from .op import Op


class _OpOptions(TypedDict, total=False):
    """The options of `op` but `mutates`."""

    kernel: Any
    plan: str
    pass_owning_tensor: bool
    allow_cuda_graph: bool
    has_side_effect: SideEffect
    recompute: bool
    vmap: str | Callable[..., Any] | None
    dims: str
    dtypes: str
    strided: bool | Sequence[str]
    workspace: int | Callable[..., Any] | None
    fallback: str
    gradient: str
    override: bool


# Updated operands are results, too, of which the function's annotation says nothing.
@overload
def op(
    name: str, *, mutates: str | Sequence[str], **options: Unpack[_OpOptions]
) -> Callable[[Callable[P, Any]], Op[P, Any]]: ...
@overload
def op(name: str, **options: Unpack[_OpOptions]) -> Callable[[Callable[P, R]], Op[P, R]]: ...
def op(
    name: str,
    *,
    kernel: Any = None,
    plan: str = "",
    mutates: str | Sequence[str] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
    recompute: bool = True,
    vmap: str | Callable[..., Any] | None = None,
    dims: str = "",
    dtypes: str = "",
    strided: bool | Sequence[str] = False,
    workspace: int | Callable[..., Any] | None = None,
    fallback: str = "",
    gradient: str = "",
    override: bool = False,
) -> Callable[[Callable[..., Any]], Op]:
    """Defines an op from an annotated function whose body is the shape rule.

    Args:
        name: ``namespace::op``.
        kernel: A `graphffi.Function`, a kernel reference (global function's name or
            ``library.so::symbol``), a ``tvm_ffi.Function`` or a Python callable. A function whose
            `release_gil` is False keeps the GIL in calls of the op from Python code, too. Default:
            none; `Op.add_kernel` gives the op its kernels.
        plan: What the kernel receives, in order, by the names of parameters and results (``out``;
            ``out0``, ``out1``, … or the NamedTuple's fields), and ints that are computed of sizes
            (``(x.numel + 127) // 128``). Default: the parameters, then the results.
        mutates: Operands that the kernel updates in place; they are returned after the results.
        pass_owning_tensor: The kernel takes `Tensor` parameters, and its library does not export
            metadata that says so (what `graphffi.cpp` builds does). They own for the call; see
            docs/jax.md.
        allow_cuda_graph: The kernel only launches work on its stream: compilers may record calls
            into CUDA graphs, and replay them without calling the kernel. Otherwise they leave the
            calls out of such graphs.
        has_side_effect: Calls count for more than their results: none is dropped or merged, not
            even of an op that has no results. ``"ordered"``: they keep the order of the program in
            JAX, too.
        recompute: Whether a call may be made again in place of keeping its results for gradients.
            False for a kernel that gives equal operands other results, because it draws random
            numbers or counts: see docs/gradients.md.
        vmap: What becomes of a call under ``vmap``: ``"broadcast"`` calls the op with the batch
            dimension in front of all operands, ``"sequential"`` calls it for each element,
            a callable is a rule of one's own. Default: ``vmap`` is refused.
        dims: Names of dimensions, a group for each tensor operand and each result, such as
            ``"... [h], [h] -> ... [h]"``. Equal names have equal sizes: calls are checked. Those in
            brackets the kernel works along; the others may be split between devices.
        dtypes: Data types, groups in the same order, such as ``"T, T -> T; T: float32 |
            bfloat16"``. ``T`` is one data type in the whole call; calls are checked. Default: those
            that the kernel's parameters state (`graphffi::View` in C++).
        strided: Whether the kernel takes tensors with any strides: all operands (True), or those
            named. Other operands are row-major for the kernel: where one is not, the call copies
            it, and copies back what the kernel updates.
        workspace: Bytes of scratch memory that the kernel needs: an int, or a rule that gets what
            the shape rule gets. `workspace` in the plan passes them as a uint8 tensor of one
            dimension; without it, they are what the kernel allocates from in JAX, where XLA plans
            them.
        fallback: ``"reference"``: what `Op.set_reference` gives runs where no kernel fits, and
            compilers see its operations. Default: such calls are a `NotImplementedError`.
        gradient: ``"reference"``: rules of gradients that are not registered are derived from what
            `Op.set_reference` gives. Default: differentiation without rule is refused.
        override: Replaces the op of that name, if there is one that is defined otherwise: it is the
            same object, and calls, traces and compilations from now on use this definition.
            Without a gradient rule until one is registered.

    Returns:
        A decorator that makes an `Op`.

    Raises:
        TypeError: If the signature is not annotated with types of ops.
        ValueError: If plan or `mutates` name something unknown; if another op has that name and is
            not to be replaced, or cannot be.

    Example:
        >>> @graphffi.op("mylib::scale", kernel=mod.scale)  # doctest: +SKIP
        ... def scale(x: Tensor, factor: float) -> Tensor:
        ...     return graphffi.like(x)
    """
    options = _OpOptions(
        kernel=kernel,
        plan=plan,
        pass_owning_tensor=pass_owning_tensor,
        allow_cuda_graph=allow_cuda_graph,
        has_side_effect=has_side_effect,
        recompute=recompute,
        vmap=vmap,
        dims=dims,
        dtypes=dtypes,
        strided=strided,
        workspace=workspace,
        fallback=fallback,
        gradient=gradient,
        override=override,
    )

    def decorate(rule: Callable[..., Any]) -> Op:
        updated = (mutates,) if isinstance(mutates, str) else mutates
        signature = _signature.from_function(name, rule, updated)
        return _register(name, signature, rule, rule.__doc__ or "", options)

    return decorate


def define_op(
    name: str,
    *,
    schema: str,
    kernel: Any = None,
    plan: str = "",
    infer: Callable[..., Any] | None = None,
    doc: str = "",
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
    recompute: bool = True,
    vmap: str | Callable[..., Any] | None = None,
    dims: str = "",
    dtypes: str = "",
    strided: bool | Sequence[str] = False,
    workspace: int | Callable[..., Any] | None = None,
    fallback: str = "",
    gradient: str = "",
    override: bool = False,
) -> Op:
    """Defines an op from a schema string, for compilers that generate definitions.

    The schema is ``(Tensor x, Tensor? mask, Tensor[] xs, Tensor(a!) cache, int[] dims, float
    eps=1e-6) -> Tensor``; results may be named, ``-> (Tensor y, Tensor z)``, or absent, ``-> ()``.
    `infer` is the shape rule, which gets the parameters in order; it is not needed for ``-> ()``.
    `doc` says what the op computes. The other arguments are those of `op`.

    Returns:
        The op.

    Raises:
        ValueError: If schema or plan don't parse; if another op has that name and is not to be
            replaced, or cannot be.
    """
    options = _OpOptions(
        kernel=kernel,
        plan=plan,
        pass_owning_tensor=pass_owning_tensor,
        allow_cuda_graph=allow_cuda_graph,
        has_side_effect=has_side_effect,
        recompute=recompute,
        vmap=vmap,
        dims=dims,
        dtypes=dtypes,
        strided=strided,
        workspace=workspace,
        fallback=fallback,
        gradient=gradient,
        override=override,
    )
    return _register(name, _signature.from_schema(name, schema), infer, doc, options)


def _register(
    name: str,
    signature: _signature.Signature,
    rule: Callable[..., Any] | None,
    doc: str,
    options: _OpOptions,
) -> Op:
    """The op with these options."""
    for option, value in (("dims", options["dims"]), ("dtypes", options["dtypes"]), ("doc", doc)):
        if not isinstance(value, str):
            raise TypeError(f"{name}: {option}: expected a str, got {describe(value)}")
    definition = _define(name, signature, rule, doc, options)
    kernel = _make_kernel(definition, options)
    if kernel is not None:
        definition = dataclasses.replace(definition, kernels=(kernel,))
    return register_op(definition, override=options["override"])


def _define(
    name: str,
    signature: _signature.Signature,
    rule: Callable[..., Any] | None,
    doc: str,
    options: _OpOptions,
) -> Definition:
    """The checked definition of an op with these options, without kernels."""
    definition = Definition(
        name=name,
        parameters=signature.parameters,
        results=signature.results,
        kernels=(),
        rule=rule,
        result_type=signature.result_type,
        doc=doc,
        has_side_effect=checked_effect(name, options["has_side_effect"]),
        recompute=_checked_bool(name, "recompute", options["recompute"]),
        vmap=checked_vmap(name, options["vmap"]),
        dims_text=options["dims"],
        dtypes_text=options["dtypes"],
        strided=_strided_operands(name, signature, options["strided"]),
        forced=forced_kernel(name),
        fallback=checked_choice(name, "fallback", options["fallback"]),
        gradient=checked_choice(name, "gradient", options["gradient"]),
    )
    if definition.gradient:
        checked_save(definition, "gradient='reference'", callable, ())
    if rule is not None and not callable(rule):
        raise TypeError(f"{name}: infer: expected a callable, got {describe(rule)}")
    if rule is None and definition.results:
        raise ValueError(
            f"{name}: expected a shape rule for {', '.join(definition.results)}, got none"
        )
    if not (definition.results or definition.is_updating or definition.has_side_effect):
        raise ValueError(
            f"{name}: expected a result or an operand that is updated in place, got neither; "
            "pass has_side_effect=True if the op has a side effect"
        )
    return definition


def _make_kernel(definition: Definition, options: _OpOptions) -> OpKernel | None:
    """The kernel that the op is defined with, if it is.

    Raises:
        ValueError: If there is none, but what belongs to one.
    """
    effect = definition.has_side_effect
    traits = checked_traits(
        definition.name, options["pass_owning_tensor"], options["allow_cuda_graph"], effect
    )
    kernel = OpKernel("", plan=options["plan"], workspace=options["workspace"], traits=traits)
    if options["kernel"] is not None:
        named = named_kernel(kernel, options["kernel"])
        return complete_kernel(definition, named, options["kernel"], "")
    if kernel.plan or kernel.workspace is not None or traits != CallTraits(has_side_effect=effect):
        raise ValueError(
            f"{definition.name}: expected kernel= with options of a kernel (plan, "
            "workspace, pass_owning_tensor, allow_cuda_graph), got none; pass them to "
            "add_kernel"
        )
    return None


def _checked_bool(name: str, option: str, value: bool) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}: {option}: expected a bool, got {describe(value)}")
    return value


def _strided_operands(
    name: str, signature: _signature.Signature, strided: bool | Sequence[str]
) -> tuple[str, ...]:
    if isinstance(strided, bool):
        operands = (p.name for p in signature.parameters if isinstance(p, Operand))
        return tuple(operands) if strided else ()
    if not isinstance(strided, (str, tuple, list)):
        raise TypeError(
            f"{name}: strided: expected a bool or names of operands, got {describe(strided)}"
        )
    return (strided,) if isinstance(strided, str) else tuple(strided)
