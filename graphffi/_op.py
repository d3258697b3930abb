# SPDX-License-Identifier: Apache-2.0
"""Ops: one definition of a kernel for every framework."""

from __future__ import annotations

import dataclasses
import importlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from . import _core, _signature
from ._framework import announce, announce_op, framework_of
from ._kernel import Kernel
from ._library import library_hash, renew_library, split_reference, when_renewed
from ._parameter import Operand
from ._plan import CallTraits, SideEffect, checked_effect
from ._schema import Definition
from ._vjp import Vjp
from ._vmap import VmapRule

if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable, Sequence

_lock: Final = threading.RLock()
_ops: Final[dict[str, Op]] = {}
_handles: Final[dict[str, int]] = {}  # `Kernel.handle` of each op, by its name


class _SignatureOfOp:
    """`__signature__` of ops, not of their class: `inspect.signature(Op)` is that of `__init__`."""

    def __get__(self, op: Op | None, owner: type[Op]) -> inspect.Signature:
        if op is None:
            raise AttributeError("__signature__")
        from ._python_signature import python_signature

        return python_signature(op.definition)


class Op(_core.OpBase):
    """A callable op, run by the framework of its operands: eagerly, traced or exported.

    Calls that no plugin takes over in C run `call_eagerly`; what tracers of Python code follow is
    `__call__`.

    Attributes:
        definition: The framework-neutral definition.
        traced_call: What runs while a tracer follows a call, set by a plugin: tracing the checks
            of `call_eagerly` would be slow, and guarded.
        is_traced: Whether one does.
    """

    traced_call: Callable[..., Any]
    is_traced: Callable[[], bool] | None
    __signature__ = _SignatureOfOp()

    def __init__(self, definition: Definition) -> None:
        """Not for users: see `op` and `define_op`."""
        self.is_traced = None
        self._redefine(definition)

    def _redefine(self, definition: Definition) -> None:
        self.definition = definition
        self.__name__ = definition.name.partition("::")[2]
        self.__qualname__ = self.__name__
        self.__module__ = getattr(definition.rule, "__module__", None) or __name__
        self.__doc__ = definition.doc or f"Calls the kernel {definition.kernel}."

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
        if self.is_traced is not None and self.is_traced():
            return self.traced_call(*args, **kwargs)
        return self.call_eagerly(*args, **kwargs)

    def call_eagerly(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the op where no tracer follows: see `__call__`."""
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
                announce("add_vjp", self)
            elif self.definition.digest != definition.digest:
                raise ValueError(
                    f"{self.name}: register_vjp: expected the rule that is registered, got another "
                    "one; define the op anew with override=True"
                )

    def __reduce__(self) -> tuple[Callable[[str, str], Op], tuple[str, str]]:
        """Copies are the op itself; elsewhere it is found by name, as functions are."""
        return _unpickled, (self.name, self.__module__)

    def __repr__(self) -> str:
        return f"<graphffi.Op {self.name}{self.definition.signature}>"


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
    dtypes: str = "",
    strided: bool | Sequence[str] = False,
    workspace: int | Callable[..., Any] | None = None,
    override: bool = False,
) -> Callable[[Callable[..., Any]], Op]:
    """Defines an op from an annotated function whose body is the shape rule.

    Args:
        name: ``namespace::op``.
        kernel: A `graphffi.Function`, a kernel reference (global function's name or
            ``library.so::symbol``), a ``tvm_ffi.Function`` or a Python callable. A function whose
            `release_gil` is False keeps the GIL in calls of the op from Python code, too.
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
        dtypes: Data types, groups in the same order, such as ``"T, T -> T; T: float32 |
            bfloat16"``. ``T`` is one data type in the whole call; calls are checked.
        strided: Whether the kernel takes tensors with any strides: all operands (True), or those
            named. Other operands are row-major for the kernel: where one is not, the call copies
            it, and copies back what the kernel updates.
        workspace: Bytes of scratch memory that the kernel needs: an int, or a rule that gets what
            the shape rule gets. `workspace` in the plan passes them as a uint8 tensor of one
            dimension; without it, they are what the kernel allocates from in JAX, where XLA plans
            them.
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
    traits = CallTraits(pass_owning_tensor, allow_cuda_graph, checked_effect(name, has_side_effect))

    def decorate(rule: Callable[..., Any]) -> Op:
        updated = (mutates,) if isinstance(mutates, str) else mutates
        signature = _signature.from_function(name, rule, updated)
        options = _Options(
            kernel, plan, rule.__doc__ or "", traits, vmap, dims, dtypes, strided, workspace
        )
        return _register(name, signature, rule, options, override=override)

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
    dtypes: str = "",
    strided: bool | Sequence[str] = False,
    workspace: int | Callable[..., Any] | None = None,
    override: bool = False,
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
        dtypes: As for `op`.
        strided: As for `op`.
        workspace: As for `op`.
        override: As for `op`.

    Returns:
        The op.

    Raises:
        ValueError: If schema or plan don't parse; if another op has that name and is not to be
            replaced, or cannot be.
    """
    signature = _signature.from_schema(name, schema)
    traits = CallTraits(pass_owning_tensor, allow_cuda_graph, checked_effect(name, has_side_effect))
    options = _Options(kernel, plan, doc, traits, vmap, dims, dtypes, strided, workspace)
    return _register(name, signature, infer, options, override=override)


@dataclass(frozen=True)
class _Options:
    """What an op is defined with beside its name, signature and shape rule."""

    kernel: Any
    plan: str
    doc: str
    traits: CallTraits
    vmap: str | Callable[..., Any] | None
    dims: str
    dtypes: str
    strided: bool | Sequence[str]
    workspace: int | Callable[..., Any] | None

    def define(
        self,
        name: str,
        signature: _signature.Signature,
        rule: Callable[..., Any] | None,
        kernel: Kernel,
    ) -> Definition:
        """The checked definition of an op with these options, which nothing knows yet."""
        definition = Definition(
            name=name,
            parameters=signature.parameters,
            results=signature.results,
            kernel=kernel.reference,
            plan=self.plan,
            rule=rule,
            result_type=signature.result_type,
            doc=self.doc,
            release_gil=kernel.release_gil,
            traits=self.traits,
            vmap=VmapRule.make(name, self.vmap),
            dims_text=self.dims,
            dtypes_text=self.dtypes,
            strided=_strided_operands(signature, self.strided),
            workspace=self.workspace,
            kernel_code=kernel.code,
            library_hash=library_hash(kernel.reference),
        )
        if rule is None and definition.results:
            raise ValueError(
                f"{name}: expected a shape rule for {', '.join(definition.results)}, got none"
            )
        updates = any(operand.mutated for operand in definition.operands)
        if not (definition.results or updates or self.traits.has_side_effect):
            raise ValueError(
                f"{name}: expected a result or an operand that is updated in place, got neither; "
                "pass has_side_effect=True for an op that is called for something else"
            )
        return definition


def _strided_operands(
    signature: _signature.Signature, strided: bool | Sequence[str]
) -> tuple[str, ...]:
    if isinstance(strided, bool):
        operands = (p.name for p in signature.parameters if isinstance(p, Operand))
        return tuple(operands) if strided else ()
    return (strided,) if isinstance(strided, str) else tuple(strided)


def _register(
    name: str,
    signature: _signature.Signature,
    rule: Callable[..., Any] | None,
    options: _Options,
    *,
    override: bool,
) -> Op:
    """The op of that definition; one that is refused changes nothing."""
    kernel = Kernel.of(name, options.kernel)
    definition = options.define(name, signature, rule, kernel)
    with _lock:
        existing = _ops.get(name)
        if existing is None:
            return _add(definition, kernel)
        if not _is_same(existing.definition, definition) or _handles[name] != kernel.handle:
            if not override:
                raise ValueError(
                    f"{name}: expected the definition that is registered, "
                    f"{existing.definition.signature}, got {definition.signature} with another "
                    f"{', '.join(existing.definition.differences(definition))}; give it another "
                    "name, or pass override=True to replace it"
                )
            _replace(existing, definition, kernel)
    return existing


def _add(definition: Definition, kernel: Kernel) -> Op:
    _use_library(definition.kernel)
    op = Op(definition)
    announce_op(op)
    kernel.install()
    _handles[op.name] = kernel.handle
    _ops[op.name] = op
    return op


def _replace(op: Op, definition: Definition, kernel: Kernel) -> None:
    announce("check_replacement", op, definition)
    _use_library(definition.kernel)
    kernel.install()
    _handles[op.name] = kernel.handle
    op._redefine(definition)
    announce("replace_op", op)


def _use_library(reference: str) -> None:
    """Has the path of a kernel's library mean the file that is there now.

    Raises:
        RuntimeError: If it was changed in place while it is in use.
    """
    library, _ = split_reference(reference)
    if library.startswith("/"):
        renew_library(library)


def _replace_kernels(library: str) -> None:
    """Has ops with kernels of a library that was built anew use what is in it now."""
    with _lock:
        for op in _ops.values():
            if split_reference(op.definition.kernel)[0] == library:
                kernel = op.definition.kernel
                op._redefine(dataclasses.replace(op.definition, library_hash=library_hash(kernel)))
                announce("replace_op", op)


when_renewed(_replace_kernels)


def _is_same(registered: Definition, definition: Definition) -> bool:
    """Whether a definition repeats one, to which a gradient rule may have been added since."""
    return registered.digest_without_vjp == definition.digest_without_vjp


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


def _unpickled(name: str, module: str) -> Op:
    """The op of that name, of a module that defines it once it is imported."""
    if name not in _ops:
        importlib.import_module(module)
    return get_op(name)
