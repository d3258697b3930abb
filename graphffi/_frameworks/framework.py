# SPDX-License-Identifier: Apache-2.0
"""Which framework a call belongs to, by the types of its tensors; none is imported for that."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from .._contract.spec import TensorSpec
from .._kernels.library import when_renewed
from .plugins import (
    PACKAGES,
    PLUGINS,
    failed_import,
    import_plugin,
    load_plugin_of,
    prepare,
    prepare_for_tracing,
    served,
)
from .tracing import traced_as_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._contract.plan import CanonicalCall
    from .._definition.binding import BoundCall
    from .._definition.defined_op import DefinedOp
    from .._definition.definition import Definition


class Framework:
    """A framework as its plugin derives and registers it: how calls run, eagerly and traced.

    Attributes:
        name: Its name in errors.
        is_traced: Whether a tracer of Python code follows this thread's calls; None if the
            framework has no such tracer.
        call_plain: Makes a call of `call_tvm_ffi` at once if it is a plain one, else gives
            NotImplemented; see the function `call_plain`. None if there is no such way.
        is_tracing: Whether this thread's operations become a program's, also those on tensors that
            are not the framework's; None if its own tensors tell that.
    """

    name: str
    is_traced: Callable[[], bool] | None = None
    call_plain: Callable[..., Any] | None = None
    is_tracing: Callable[[], bool] | None = None

    def call_op(self, op: DefinedOp, definition: Definition, bound: BoundCall) -> Any:
        """Runs an op on checked arguments; gives what `Definition.pack_results` gives.

        The definition bound the arguments. It may be replaced by now.
        """
        raise NotImplementedError

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Runs a call; gives the results, then the updated tensors of `call.mutated`."""
        raise NotImplementedError

    def call_as(self, definition: Definition, bound: BoundCall) -> Any:
        """Runs an op as another definition of it says: one that forces a kernel."""
        parts = {"name": definition.name, "definition": definition, "defined": definition}
        stand_in: Any = SimpleNamespace(**parts)
        return self.call_op(stand_in, definition, bound)

    def add_op(self, op: DefinedOp) -> None:
        """Is told that an op was defined. May refuse it with a ValueError."""

    def add_vjp(self, op: DefinedOp) -> None:
        """Is told that an op has a gradient rule, or one of forward mode, now."""

    def check_replacement(self, op: DefinedOp, definition: Definition) -> None:
        """Is told that an op is about to be defined anew. May refuse that with a ValueError."""

    def replace_op(self, op: DefinedOp) -> None:
        """Is told that an op was defined anew."""

    def use_library(self, path: str, is_new: bool) -> None:
        """Is told that a path of a library means the file that is there now.

        Args:
            path: Absolute.
            is_new: Whether it is another file than before.
        """

    def vjp(
        self, function: Callable[..., Any], primals: Sequence[Any], cotangents: Sequence[Any]
    ) -> Sequence[Any]:
        """The gradients of a function of tensors, transposed without conjugates."""
        raise NotImplementedError

    def jvp(
        self, function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
    ) -> Sequence[Any]:
        """The tangents of a function's results; None for a result that has none."""
        raise NotImplementedError

    def wait(self, results: Sequence[Any]) -> None:
        """Returns when these tensors are computed."""

    def copy(self, tensor: Any) -> Any:
        """A tensor with the same contents, in memory of its own."""
        raise NotImplementedError

    def to_numpy(self, tensor: Any) -> Any:
        """The contents as an array of NumPy, of ml_dtypes where NumPy lacks the data type."""
        raise NotImplementedError

    def is_same(self, one: Any, other: Any) -> bool:
        """True if two tensors are known to have the same elements, in the same memory and order."""
        return False

    def advice(self, function: str, value: Any) -> str:
        """Says what to write instead of a direct call; "" for a tensor that a function can get.

        Args:
            function: Its name.
            value: A tensor, which may be one of a trace.
        """
        return ""

    def device_name(self, kind: str) -> str:
        """The product behind a type of devices, such as ``"cuda"``; "" if it is not known."""
        return ""


_frameworks: dict[str, Framework] = {}
_by_type: dict[type, Framework] = {}
_own_types: dict[type, Framework] = {}
_announced: list[DefinedOp] = []
_graph_tracers: Final[list[tuple[Framework, Callable[[], bool]]]] = []  # with their is_tracing
# From frameworks that have them: whether a tracer of Python code is at work, and `call_plain`.
_is_traced: Final[list[Callable[[], bool]]] = []
_plain_callers: Final[list[Callable[..., Any]]] = []


def register_framework(
    framework: Framework, type_prefixes: Sequence[str], types: Sequence[type] = ()
) -> None:
    """Makes tensors of some modules' types belong to a framework.

    Args:
        framework: Runs the calls.
        type_prefixes: Top-level module names, such as ``("torch",)``.
        types: Types of tensors that are known from now on: nothing is to be noted at their first
            call, which tracers of Python code could not take for one without effect.
    """
    for prefix in type_prefixes:
        _frameworks[prefix] = framework
    served.update(type_prefixes)
    if framework.is_traced is not None:
        _is_traced.insert(0, framework.is_traced)
    if framework.call_plain is not None:
        _plain_callers.insert(0, framework.call_plain)
    if framework.is_tracing is not None:
        _graph_tracers.append((framework, framework.is_tracing))
    _own_types.update(dict.fromkeys(types, framework))
    _by_type.clear()
    _by_type.update(_own_types)
    for op in _announced:
        framework.add_op(op)


def call_plain(reference: str, args: tuple[Any, ...], out: Any, mutates: Sequence[int]) -> Any:
    """Makes a call of `call_tvm_ffi` at once, if a framework takes it for a plain one.

    Returns:
        What the call returns; NotImplemented if nothing has happened.
    """
    for is_traced in _is_traced:
        if is_traced():
            return NotImplemented
    positions = tuple(mutates) if isinstance(mutates, (list, range)) else mutates
    for call in _plain_callers:
        returned = call(TensorSpec, reference, args, out, positions)
        if returned is not NotImplemented:
            return returned
    return NotImplemented


def announce_op(op: DefinedOp) -> None:
    """Lets frameworks prepare for a new op: those that are registered and those that will be.

    Raises:
        ValueError: If one of them can't have it.
    """
    prepare_for_tracing()
    for framework in frameworks():
        framework.add_op(op)
    _announced.append(op)


def frameworks() -> Sequence[Framework]:
    """The registered frameworks, each once."""
    return tuple(dict.fromkeys(_frameworks.values()))


def _use_library(path: str, is_new: bool) -> None:
    for framework in frameworks():
        framework.use_library(path, is_new)


when_renewed(_use_library)


def frameworks_of_process() -> Sequence[Framework]:
    """Also those that the process has imported, but which no call needed yet."""
    for package in PACKAGES:
        prepare(package)
    return frameworks()


def _lookup(subject: str, kind: type) -> Framework | None:
    for base in kind.__mro__:
        prefix = base.__module__.partition(".")[0]
        import_plugin(subject, prefix)
        if prefix in _frameworks:
            return _frameworks[prefix]
    return None


def traced_advice(function: str, value: Any) -> str:
    """Says what to write instead of a direct call on a traced tensor; "" for any other value."""
    load_plugin_of(type(value))
    prefixes = (base.__module__.partition(".")[0] for base in type(value).__mro__)
    found = next((_frameworks[prefix] for prefix in prefixes if prefix in _frameworks), None)
    return "" if found is None else found.advice(function, value)


def framework_of(subject: str, tensors: Sequence[Any]) -> Framework:
    """The framework that runs a call.

    Raises:
        TypeError: If they belong to two graph compilers, or to nobody known.
        ModuleNotFoundError: If graphffi was built without their plugin.
    """
    chosen: Framework | None = None
    for tensor in tensors:
        kind = type(tensor)
        framework = _by_type.get(kind)
        if framework is None:
            framework = _lookup(subject, kind)
            if framework is None:
                raise TypeError(
                    f"{subject}: expected tensors of torch, jax, numpy or graphffi, got "
                    f"{kind.__module__}."
                    f"{kind.__qualname__}; convert it with graphffi.from_dlpack"
                )
            _by_type[kind] = framework
        if chosen is None or chosen.name == "host":
            chosen = framework
        elif framework is not chosen and framework.name != "host":
            raise TypeError(
                f"{subject}: expected tensors of one framework, got {chosen.name} and "
                f"{framework.name}"
            )
    if chosen is None or chosen.name == "host":
        return tracing_framework() or _frameworks["graphffi"]
    return chosen


class SameTensor:
    """Tells whether two tensors are the same one. Tracers have an answer of their own."""

    def __call__(self, one: Any, other: Any) -> bool:
        """True for views of the same elements, too."""
        return one is other or framework_of("graphffi.Function", [one]).is_same(one, other)


same_tensor: Final = SameTensor()


@traced_as_constant
def refuse_trace_without_plugin(subject: str) -> None:
    """Tells torch's tracer that its plugin can't be imported, before what it can't follow.

    Raises:
        ImportError: Without the plugin, the tracer wraps it in an error of its own.
    """
    failure = failed_import(PLUGINS["torch"])
    if failure is not None and sys.modules["torch"].compiler.is_compiling():
        kind, text = failure
        raise kind(f"{subject}: {text}")


@traced_as_constant
def tracing_framework() -> Framework | None:
    """The framework that traces this thread's calls, also those on NumPy arrays; None if none does.

    Such a call would otherwise run once, while its program is traced.
    """
    prepare("jax")
    for framework, is_tracing in _graph_tracers:
        if is_tracing():
            return framework
    return None
