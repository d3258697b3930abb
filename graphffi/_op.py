# SPDX-License-Identifier: Apache-2.0
"""Ops: one definition of a kernel for every framework."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any, Final

from graphffi import _core, _signature
from graphffi._describe import describe, is_tensor
from graphffi._device import Device
from graphffi._dtype import dtype
from graphffi._framework import announce_op, announce_vjp, framework_of
from graphffi._plan import CallTraits, CanonicalCall, SideEffect, append_attribute
from graphffi._schema import Definition
from graphffi._spec import TensorSpec
from graphffi._tracing import report_to_tracer, traced_as_constant
from graphffi._vjp import Vjp
from graphffi._vmap import VmapRule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_lock: Final = threading.Lock()
_ops: Final[dict[str, Op]] = {}
_named_callables: Final[dict[int, tuple[Any, str]]] = {}  # by id, and kept, so that ids stay theirs


class Op(_core.OpBase):
    """A callable op, run by the framework of its operands: eagerly, traced or exported.

    Attributes:
        definition: The framework-neutral definition.
        traced_call: What runs instead while a tracer of Python code follows the call, set by a
            plugin: tracing the checks of `__call__` would be slow, and guarded.
        is_traced: Whether one does.
    """

    traced_call: Callable[..., Any] | None
    is_traced: Callable[[], bool]

    def __init__(self, definition: Definition) -> None:
        """Not for users: see `op` and `define_op`."""
        self.definition = definition
        self.traced_call = None
        self.__name__ = definition.name.partition("::")[2]
        self.__qualname__ = self.__name__
        self.__doc__ = definition.doc

    @property
    def name(self) -> str:
        """``namespace::op``."""
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the op.

        Args:
            *args: Operands and attributes in signature order.
            **kwargs: The same by name.

        Returns:
            The results, then the operands that the op updates in place: one object, or a tuple of
            several.

        Raises:
            TypeError: For missing, unknown or wrong-typed arguments.
            ValueError: If a check of the shape rule fails.
        """
        if self.traced_call is not None and self.is_traced():
            return self.traced_call(*args, **kwargs)
        bound = self.definition.bind(args, kwargs)
        return framework_of(self.definition.name, bound.tensors()).call_op(self, bound)

    def register_vjp(self, backward: Callable[..., Any], *, save: Sequence[str] = ()) -> None:
        """Gives the op a gradient rule, for every framework.

        Args:
            backward: Called as ``backward(saved, *cotangents)``. `saved` has every attribute of the
                op, and what `save` names, as fields. There is one cotangent per result, with its
                shape; None for a result that is no floating-point tensor. Returns one gradient or
                None per tensor operand, in signature order, with the operand's shape: a tuple, or
                the gradient itself if the op has one operand; for a list, a list. Written with
                graphffi's ops and with operators that all frameworks have.
            save: Names of the operands and results that `backward` reads; they stay in memory
                until it has run.

        Raises:
            TypeError: If `backward` is not callable.
            ValueError: If `save` names something unknown, the op updates operands in place, or it
                has another rule.

        Example:
            >>> scale.register_vjp(lambda saved, grad: grad * saved.factor)  # doctest: +SKIP
        """
        with _lock:
            vjp = Vjp.make(self.definition, backward, save)
            definition = dataclasses.replace(self.definition, vjp=vjp)
            if self.definition.vjp is None:
                self.definition = definition
                announce_vjp(self)
            elif self.definition.digest != definition.digest:
                raise ValueError(
                    f"{self.name}: register_vjp: expected the rule that is registered, got another "
                    "one; define an op with another name"
                )

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        """Copies are the op itself; elsewhere it is found by name."""
        return get_op, (self.name,)

    def __repr__(self) -> str:
        return f"<graphffi.Op {self.name}{self.definition.signature}>"


# Calls that a framework takes over (plain torch tensors, eagerly) never reach `__call__`.
_core.enable_vectorcall(Op)


def op(
    name: str,
    *,
    kernel: Any,
    plan: str = "",
    mutates: Sequence[str] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
    vmap: str | Callable[..., Any] | None = None,
    dims: str = "",
    workspace: int | Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Op]:
    """Defines an op from an annotated function whose body is the shape rule.

    Args:
        name: ``namespace::op``.
        kernel: A `graphffi.Function`, a kernel reference (global function's name or
            ``library.so::symbol``), a ``tvm_ffi.Function`` or a Python callable. A function whose
            `release_gil` is False keeps Python's lock in eager calls of the op, too.
        plan: What the kernel receives, in order, by the names of parameters and results (``out``;
            ``out0``,
            ``out1``, … or the NamedTuple's fields). Default: the parameters, then the results.
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
        vmap: What becomes of a call under ``vmap``: ``"broadcast"`` calls the op with the batch
            dimension in front of all operands, ``"sequential"`` calls it for each element,
            a callable is a rule of one's own. Default: ``vmap`` is refused.
        dims: Names of dimensions, a group for each tensor operand and each result, such as
            ``"... [h], [h] -> ... [h]"``. Equal names have equal sizes: calls are checked. Those in
            brackets the kernel works along; the others may be split between devices.
        workspace: Bytes of scratch memory that the kernel needs: an int, or a rule that gets what
            the shape rule gets. `workspace` in the plan passes them as a uint8 tensor of one
            dimension; without it, they are what the kernel allocates from in JAX, where XLA plans
            them.

    Returns:
        A decorator that makes an `Op`.

    Raises:
        TypeError: If the signature is not annotated with types of ops.
        ValueError: If plan or `mutates` name something unknown, or another op has that name.

    Example:
        >>> @graphffi.op("mylib::scale", kernel=mod.scale)  # doctest: +SKIP
        ... def scale(x: Tensor, factor: float) -> Tensor:
        ...     return graphffi.like(x)
    """

    def decorate(rule: Callable[..., Any]) -> Op:
        signature = _signature.from_function(
            name, rule, (mutates,) if isinstance(mutates, str) else mutates
        )
        traits = CallTraits(pass_owning_tensor, allow_cuda_graph, has_side_effect)
        rest: dict[str, Any] = {"traits": traits, "vmap": VmapRule.make(name, vmap)}
        rest |= {"dims_text": dims, "workspace": workspace}
        return _register(name, signature, kernel, plan, rule, rule.__doc__ or "", rest)

    return decorate


def define_op(
    name: str,
    *,
    schema: str,
    kernel: Any,
    plan: str = "",
    infer: Callable[..., Any] | None = None,
    doc: str = "",
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
    vmap: str | Callable[..., Any] | None = None,
    dims: str = "",
    workspace: int | Callable[..., Any] | None = None,
) -> Op:
    """Defines an op from a schema string, for compilers that generate definitions.

    Args:
        name: ``namespace::op``.
        schema: ``(Tensor x, Tensor? mask, Tensor[] xs, Tensor(a!) cache, int[] dims, float
            eps=1e-6) -> Tensor``;
            results may be named, ``-> (Tensor y, Tensor z)``, or absent, ``-> ()``.
        kernel: As for `op`.
        plan: As for `op`.
        infer: Shape rule, called with the parameters in order; not needed for ``-> ()``.
        doc: What the op computes.
        pass_owning_tensor: As for `op`.
        allow_cuda_graph: As for `op`.
        has_side_effect: As for `op`.
        vmap: As for `op`.
        dims: As for `op`.
        workspace: As for `op`.

    Returns:
        The op.

    Raises:
        ValueError: If schema or plan don't parse, or another op has that name.
    """
    signature = _signature.from_schema(name, schema)
    traits = CallTraits(pass_owning_tensor, allow_cuda_graph, has_side_effect)
    rest: dict[str, Any] = {"traits": traits, "vmap": VmapRule.make(name, vmap)}
    rest |= {"dims_text": dims, "workspace": workspace}
    return _register(name, signature, kernel, plan, infer, doc, rest)


def _register(
    name: str,
    signature: _signature.Signature,
    kernel: Any,
    plan: str,
    rule: Any,
    doc: str,
    rest: dict[str, Any],
) -> Op:
    definition = Definition(
        name=name,
        parameters=signature.parameters,
        results=signature.results,
        kernel=kernel_reference(name, kernel),
        plan=plan,
        rule=rule,
        result_type=signature.result_type,
        doc=doc,
        release_gil=getattr(kernel, "release_gil", True),
        **rest,
    )
    if rule is None and definition.results:
        raise ValueError(
            f"{name}: expected a shape rule for {', '.join(definition.results)}, got none"
        )
    has_effect = definition.traits.has_side_effect or any(o.mutated for o in definition.operands)
    if not definition.results and not has_effect:
        raise ValueError(
            f"{name}: expected a result or an operand that is updated in place, got neither; pass "
            "has_side_effect=True for an op that is called for something else"
        )
    with _lock:
        existing = _ops.get(name)
        if existing is None:
            _ops[name] = existing = Op(definition)
            announce_op(existing)
        elif not _is_same(existing.definition, definition):
            raise ValueError(
                f"{name}: expected the definition that is registered, "
                f"{existing.definition.signature}, got "
                f"another one, {definition.signature}; give it another name"
            )
    return existing


def _is_same(registered: Definition, definition: Definition) -> bool:
    """Whether a definition repeats one, to which a gradient rule may have been added since."""
    return dataclasses.replace(registered, vjp=None).digest == definition.digest


def get_op(name: str) -> Op:
    """The op of that name.

    Raises:
        KeyError: If there is none.
    """
    try:
        return _ops[name]
    except KeyError:
        raise KeyError(
            f"graphffi: op {name!r}: expected a defined op, got an unknown name"
        ) from None


@traced_as_constant
def kernel_reference(subject: str, kernel: Any, is_shared: bool = True) -> str:
    """The string by which graphs name a kernel.

    A function that no string names (a Python callable, a closure) is registered as a global one.

    Args:
        subject: The op's name, for error messages.
        kernel: A function, a callable, or a reference, which is given back as it is.
        is_shared: A callable takes the place of the one that was given for the same subject.
            Otherwise each has a name of its own, for the rest of the process.

    Raises:
        TypeError: If it is none of these.
    """
    if isinstance(kernel, str):
        return kernel
    if not callable(kernel):
        message = (
            f"{subject}: kernel: expected a graphffi.Function, a callable or a kernel reference, "
            f"got {describe(kernel)}"
        )
        report_to_tracer("TypeError", message)
        raise TypeError(message)
    function = _core.as_function(kernel)
    if function.reference is not None:
        return function.reference
    name = f"graphffi.kernel.{subject.replace('::', '.')}"
    if not is_shared:
        name = _own_name(name, kernel)
    _core.register_global_func(name, function, override=True)
    return name


def _own_name(prefix: str, kernel: Any) -> str:
    """The same for the same callable, also in another process where that is possible."""
    named = _named_callables.get(id(kernel))
    if named is None:
        base = f"{prefix}.{getattr(kernel, '__qualname__', type(kernel).__qualname__)}"
        with _lock:
            number = sum(name.startswith(base) for _, name in _named_callables.values())
            named = (kernel, f"{base}.{number}" if number else base)
            _named_callables[id(kernel)] = named
    return named[1]


def call_tvm_ffi(
    func: Any,
    *args: Any,
    out: Any = None,
    mutates: Sequence[int] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> Any:
    """Calls a TVM FFI function without defining an op, in eager code and in graphs.

    Args:
        func: A kernel reference or a function.
        *args: Tensors, None, ints, floats, bools, strings, `dtype`, `Device`, and lists of these:
            what the function
            receives, followed by the results.
        out: A `TensorSpec` (`graphffi.like`, `graphffi.empty`), or a list of them: results to
            allocate.
        mutates: Positions in `args` of tensors that the function updates in place.
        pass_owning_tensor: As for `op`.
        allow_cuda_graph: As for `op`.
        has_side_effect: As for `op`. Such a call may have no result.

    Returns:
        The results, then the updated tensors: one object, a tuple of several, or None.

    Raises:
        TypeError: For an argument of another kind.
        ValueError: If the call has no result, updates nothing and has no side effect.

    Example:
        >>> y = graphffi.call_tvm_ffi("my.func", x, 2.0, out=graphffi.like(x))  # doctest: +SKIP
    """
    try:
        call, specs = pack_call(
            func,
            args,
            out=out,
            mutates=mutates,
            pass_owning_tensor=pass_owning_tensor,
            allow_cuda_graph=allow_cuda_graph,
            has_side_effect=has_side_effect,
        )
        # Without tensors, the results' dtypes say whose call it is, where they are no names.
        frameworks_own = [spec.dtype for spec in specs if not isinstance(spec.dtype, str)]
        framework = framework_of(call.func, [*call.inputs, *call.mutated] or frameworks_own)
    except (TypeError, ValueError) as error:
        report_to_tracer(type(error).__name__, error.args[0])
        raise
    results = framework.call_raw(call, specs)
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def pack_call(
    func: Any,
    args: Sequence[Any],
    *,
    out: Any = None,
    mutates: Sequence[int] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> tuple[CanonicalCall, list[TensorSpec]]:
    """The call that `call_tvm_ffi` makes, for plugins that make it themselves.

    Args:
        func: As for `call_tvm_ffi`, like all others.
        args: Likewise.
        out: Likewise.
        mutates: Likewise.
        pass_owning_tensor: Likewise.
        allow_cuda_graph: Likewise.
        has_side_effect: Likewise.

    Returns:
        The call in canonical form, and the results to allocate for it.
    """
    reference = kernel_reference("graphffi.call_tvm_ffi", func, is_shared=False)
    traits = None
    if pass_owning_tensor or allow_cuda_graph or has_side_effect:
        traits = CallTraits(pass_owning_tensor, allow_cuda_graph, has_side_effect)
    return _pack_arguments(reference, args, out, mutates, traits)


def _pack_arguments(
    reference: str, args: Sequence[Any], out: Any, mutates: Sequence[int], traits: CallTraits | None
) -> tuple[CanonicalCall, list[TensorSpec]]:
    """The call in canonical form, and the results to allocate for it."""
    specs = [] if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
    packer = _ArgumentPacker(reference, len(specs), frozenset(mutates))
    items = [packer.item(value, i in packer.mutates) for i, value in enumerate(args)]
    has_effect = traits is not None and traits.has_side_effect
    if not specs and not packer.call.mutated and not has_effect:
        raise ValueError(
            f"{reference}: expected out=, mutates= or has_side_effect=True, got none; a call "
            "without effect would be dropped from graphs"
        )
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{reference}: out: expected graphffi.like(...), graphffi.empty(...) or a list of "
                f"these, got {describe(spec)}"
            )
    items.extend(f"o{i}" for i in range(len(specs)))
    return packer.finish(", ".join(items), traits), specs


class _ArgumentPacker:
    """Sorts positional arguments into the banks of a canonical call."""

    def __init__(self, reference: str, num_results: int, mutates: frozenset[int]) -> None:
        self.num_results = num_results
        self.mutates = mutates
        self.call = CanonicalCall(reference, "", [], [], [], [], [], subject=reference)

    def item(self, value: Any, mutated: bool) -> str:
        """Takes one argument; gives what the plan says of it."""
        call = self.call
        if mutated and not is_tensor(value):
            raise TypeError(f"{call.func}: mutates: expected a tensor, got {describe(value)}")
        if value is None:
            return "None"
        if is_tensor(value):
            if mutated:
                call.mutated.append(value)
                return f"o{self.num_results + len(call.mutated) - 1}"
            call.inputs.append(value)
            return f"i{len(call.inputs) - 1}"
        if isinstance(value, (list, tuple)):
            return "(" + ", ".join(self.item(item, mutated=False) for item in value) + ")"
        kind = _attribute_kind(value)
        if kind is None:
            raise TypeError(
                f"{call.func}: argument: expected a tensor, None, int, float, bool, str, dtype, "
                f"Device or a list, got "
                f"{describe(value)}"
            )
        return append_attribute(kind, value, call.ints, call.floats, call.strs)

    def finish(self, plan: str, traits: CallTraits | None) -> CanonicalCall:
        """The call with its plan."""
        call = self.call
        return CanonicalCall(
            call.func,
            plan,
            call.inputs,
            call.mutated,
            call.ints,
            call.floats,
            call.strs,
            call.subject,
            traits=traits,
        )


def _attribute_kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int) or type(value).__name__ == "SymInt":
        return "int"
    if isinstance(value, float) or type(value).__name__ == "SymFloat":
        return "float"
    if isinstance(value, dtype):
        return "dtype"
    if isinstance(value, Device):
        return "device"
    return "str" if isinstance(value, str) else None
