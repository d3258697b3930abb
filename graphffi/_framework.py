# SPDX-License-Identifier: Apache-2.0
"""Which framework a call belongs to, by the types of its tensors; none is imported for that."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final, Protocol

from ._spec import TensorSpec
from ._tracing import traced_as_constant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._op import Op
    from ._plan import CanonicalCall
    from ._schema import BoundCall


class Framework(Protocol):
    """A framework as its plugin registers it: how calls run, eagerly and traced.

    It may also have methods that are told of events:

    - `add_op(op)`: an op was defined. May refuse it with a ValueError.
    - `add_vjp(op)`: an op has a gradient rule, or one of forward mode, now.
    - `check_replacement(op, definition)`: an op is about to be defined anew. May refuse that with a
      ValueError.
    - `replace_op(op)`: it was.
    - `vjp(function, primals, cotangents)`: the gradients of a function of tensors, transposed
      without conjugates; `jvp(function, primals, tangents)`: tangents of its results, or None. For
      rules that are derived from references.
    - `use_library(path, is_new)`: a path of a library means the file that is there now, another one
      than before if it is new.
    """

    name: str

    def call_op(self, op: Op, bound: BoundCall) -> Any:
        """Runs an op on checked arguments; gives what `Definition.pack_results` gives."""
        ...

    def call_raw(self, call: CanonicalCall, results: Sequence[TensorSpec]) -> list[Any]:
        """Runs a call; gives the results, then the updated tensors of `call.mutated`."""
        ...


# Where a type comes from (first part of the module of a class in its MRO) and the plugin that
# serves it.
_PLUGINS: Final = {"torch": "graphffi_torch", "jax": "graphffi_jax", "jaxlib": "graphffi_jax"}
_frameworks: dict[str, Framework] = {}
_by_type: dict[type, Framework] = {}
_own_types: dict[type, Framework] = {}
_announced: list[Op] = []
_graph_tracers: Final[list[tuple[Framework, Callable[[], bool]]]] = []  # with their is_tracing
_broken: Final[dict[str, tuple[type[ImportError], str]]] = {}  # plugins, and what imports raise
# Of frameworks that have them: whether a tracer of Python code is at work, and `call_plain`.
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
    for name, known in (("is_traced", _is_traced), ("call_plain", _plain_callers)):
        if hasattr(framework, name):
            known.insert(0, getattr(framework, name))
    if hasattr(framework, "is_tracing"):
        _graph_tracers.append((framework, framework.is_tracing))
    _own_types.update(dict.fromkeys(types, framework))
    _by_type.clear()
    _by_type.update(_own_types)
    add_op = getattr(framework, "add_op", None)
    if add_op is not None:
        for op in _announced:
            add_op(op)


def call_plain(reference: str, args: tuple[Any, ...], out: Any, mutates: Sequence[int]) -> Any:
    """Makes a call of `call_tvm_ffi` at once, if a framework takes it for a plain one.

    Args:
        reference: Of the kernel.
        args: As for `call_tvm_ffi`, like the others.
        out: Likewise.
        mutates: Likewise.

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


def announce_op(op: Op) -> None:
    """Lets frameworks prepare for a new op: those that are registered and those that will be.

    Raises:
        ValueError: If one of them can't have it.
    """
    if "torch" in sys.modules:
        prepare_for_tracing()
    announce("add_op", op)
    _announced.append(op)


def announce(event: str, *arguments: Any) -> None:
    """Calls a method of every framework that has it.

    Args:
        event: Its name; see `Framework`.
        *arguments: What it gets.
    """
    for framework in {id(f): f for f in _frameworks.values()}.values():
        listener = getattr(framework, event, None)
        if listener is not None:
            listener(*arguments)


def prepare_for_tracing() -> None:
    """Imports the plugin for torch: a tracer of Python code can't in the middle of its work."""
    if "torch" in _frameworks or getattr(sys.modules["torch"].__spec__, "_initializing", False):
        return
    _import_if_possible(_PLUGINS["torch"])


def load_plugin_of(kind: type) -> None:
    """Imports the plugin for the framework that a type belongs to.

    One that can't be imported is reported by the first call with a tensor of the framework.
    """
    prefix = kind.__module__.partition(".")[0]
    if prefix in _PLUGINS and prefix not in _frameworks:
        _import_if_possible(_PLUGINS[prefix])


def _lookup(subject: str, kind: type) -> Framework | None:
    for base in kind.__mro__:
        prefix = base.__module__.partition(".")[0]
        if prefix not in _frameworks and prefix in _PLUGINS:
            _import_plugin(subject, _PLUGINS[prefix])
        if prefix in _frameworks:
            return _frameworks[prefix]
    return None


def framework_of(subject: str, tensors: Sequence[Any]) -> Framework:
    """The framework that runs a call.

    Args:
        subject: The op's name, for error messages.
        tensors: Its tensor operands.

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


def _import_if_possible(plugin: str) -> None:
    """Others can do without; the first call with a tensor of the framework tries again."""
    if plugin in _broken:
        return
    try:
        importlib.import_module(plugin)
    except Exception as error:
        missing = _is_missing(error, plugin)
        _broken[plugin] = (
            (ModuleNotFoundError, _missing(plugin)) if missing else (ImportError, str(error))
        )


@traced_as_constant
def refuse_trace_without_plugin(subject: str) -> None:
    """Tells torch's tracer that its plugin can't be imported, before what it can't follow.

    Args:
        subject: The op's name, for error messages.

    Raises:
        ImportError: Without the plugin, the tracer wraps it in an error of its own.
    """
    if _PLUGINS["torch"] in _broken and sys.modules["torch"].compiler.is_compiling():
        kind, text = _broken[_PLUGINS["torch"]]
        raise kind(f"{subject}: {text}")


def _import_plugin(subject: str, plugin: str) -> None:
    try:
        importlib.import_module(plugin)
    except ModuleNotFoundError as error:
        if not _is_missing(error, plugin):
            raise
        raise ModuleNotFoundError(f"{subject}: {_missing(plugin)}", name=plugin) from None


def _is_missing(error: Exception, plugin: str) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == plugin


def _missing(plugin: str) -> str:
    name = plugin.removeprefix("graphffi_")
    return (
        f"expected the plugin for {name}, {plugin}, got none; install graphffi with "
        f"GRAPHFFI_BUILD_{name.upper()}=1 where {name} is installed"
    )


@traced_as_constant
def tracing_framework() -> Framework | None:
    """The framework that traces this thread's calls, also those on NumPy arrays; None if none does.

    Such a call would otherwise run once, while its program is traced.
    """
    if "jax" in sys.modules and "jax" not in _frameworks:
        _import_if_possible(_PLUGINS["jax"])
    for framework, is_tracing in _graph_tracers:
        if is_tracing():
            return framework
    return None
