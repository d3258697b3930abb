# SPDX-License-Identifier: Apache-2.0
"""Kernels as custom-call targets with names of their own, for `jax.ffi.ffi_call`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax

import graphffi
from graphffi_jax._library import TARGET, TARGET_GRAPH, handler_address, instantiate_named_address
from graphffi_jax._lowering import call_text
from graphffi_jax._lowering.bank import take_handler

_PLATFORMS: Final = {"cpu": "cpu", "gpu": "CUDA", "cuda": "CUDA", "rocm": "ROCM"}
_ITEMS: Final = {"args": "*inputs", "rets": "*outputs", "ctx.stream": "int(stream)"}
_lock: Final = threading.Lock()
#: What they were registered with, and their handlers, by name and platform.
registered_targets: Final[dict[tuple[str, str], tuple[Any, dict[str, Any]]]] = {}


def register_ffi_target(
    name: str,
    function: str | Callable[..., Any],
    arg_spec: Sequence[str] | None = None,
    platform: str = "cpu",
    *,
    allow_cuda_graph: bool = False,
    pass_owned_tensor: bool = False,
    use_last_output_for_alloc_workspace: bool = False,
) -> dict[str, Any]:
    """Makes a function callable as ``jax.ffi.ffi_call(name, ...)``.

    Takes what jax-tvm-ffi's function of that name takes, and passes what that passes: ``float4`` in
    pairs (4 bits, 2 lanes, the last dimension halved), and ``tvm_ffi.Tensor`` to Python functions
    where that package is loaded. Ops and `call` are the better way where
    there is no such code yet: their programs can be loaded by other processes, since they name the
    kernel, while a target has to be registered again there. A process may have 1,024 targets.

    Args:
        name: The target's name.
        function: A `graphffi.Function`, a ``tvm_ffi.Function``, a Python function or a kernel
            reference.
        arg_spec: What the function gets, in order; nothing if empty: ``"args"`` (the operands),
            ``"rets"`` (the results), ``"attrs.<name>"`` (an attribute), ``"ctx.stream"`` (the
            stream as an int), or a plan item such as ``"None"``, ``"i1"``, ``"(i0, i2)"``.
            Default: operands, then results. Results that the function does not get are what it
            returns; where it returns None, they hold what happens to be in their memory.
        platform: ``"cpu"``, ``"gpu"`` (also ``"cuda"``) or ``"rocm"``.
        allow_cuda_graph: The function only launches work on its stream: it may be recorded.
        pass_owned_tensor: Operands and results are passed as owning tensors. Python functions and
            functions whose metadata asks for them get such anyway.
        use_last_output_for_alloc_workspace: The last result, uint8, is scratch memory: tensors that
            the function allocates are taken from it, and it is not passed.

    Returns:
        The handlers that were registered, by stage, as `jax.ffi.register_ffi_target` takes them.

    Raises:
        TypeError: If an argument is of another kind.
        ValueError: For an unknown platform or item, or if the name stands for something else.
        RuntimeError: For more than 1,024 targets.

    Example:
        >>> spec = ["args", "attrs.factor", "rets"]
        >>> register_ffi_target("scale", mod.scale, spec)  # doctest: +SKIP
        >>> jax.ffi.ffi_call("scale", x)(x, factor=2.0)  # doctest: +SKIP
    """
    if not isinstance(name, str) or not name or "\0" in name:
        raise TypeError(
            "graphffi_jax.register_ffi_target: name: expected a text that has characters and no "
            f"NUL, got {name!r}"
        )
    place = _PLATFORMS.get(platform.lower()) if isinstance(platform, str) else None
    if place is None:
        raise ValueError(f"{name}: platform: expected {', '.join(_PLATFORMS)}, got {platform!r}")
    kernel = _kernel(name, function)
    text = call_text.write(
        (
            *call_text.flags(
                kernel=kernel if isinstance(kernel, str) else "",
                subject=name,
                owning=pass_owned_tensor,
                workspace=use_last_output_for_alloc_workspace,
            ),
            *_plan_of(name, arg_spec),
        )
    )
    asked = kernel, text, allow_cuda_graph
    with _lock:
        if (name, place) not in registered_targets:
            handlers = _new_handlers(name, kernel, text, place, allow_cuda_graph)
            jax.ffi.register_ffi_target(name, handlers, platform=place, api_version=1)
            registered_targets[name, place] = asked, handlers
        known, handlers = registered_targets[name, place]
    if known != asked:
        raise ValueError(
            f"{name}: expected the function and arguments that the target is registered with for "
            f"{place}, got others; choose another name"
        )
    return handlers


def _kernel(name: str, function: Any) -> Any:
    """The reference of a function if it has one."""
    if isinstance(function, str):
        return function
    if not callable(function):
        raise TypeError(
            f"{name}: function: expected a function or a kernel reference, got "
            f"{type(function).__name__}"
        )
    reference = graphffi.Function(function).reference
    return function if reference is None else reference


def _plan_of(name: str, arg_spec: Sequence[str] | None) -> call_text.Lines:
    """The plan, empty for a call without arguments, and its attributes n0, n1, …."""
    items = ["args", "rets"] if arg_spec is None else arg_spec
    if isinstance(items, str) or not all(isinstance(item, str) for item in items):
        raise TypeError(f"{name}: arg_spec: expected a list of strings, got {arg_spec!r}")
    attributes: dict[str, str] = {}
    plan = []
    for item in items:
        if item.startswith("attrs.") and len(item) > len("attrs."):
            attribute = item.removeprefix("attrs.")
            plan.append(attributes.setdefault(attribute, f"n{len(attributes)}"))
        else:
            plan.append(_ITEMS.get(item, item))
    return (("plan", ", ".join(plan)), *(("attribute", attribute) for attribute in attributes))


def _for_peer(function: Any) -> Any:
    """A Python function as one of the package ``tvm_ffi``, if that is loaded, else itself.

    Such a function gets that package's tensors, as jax-tvm-ffi passes them.
    """
    package = sys.modules.get("tvm_ffi")
    if package is None or isinstance(function, (graphffi.Function, package.Function)):
        return function
    return package.convert(function)


def _new_handlers(
    name: str, kernel: Any, text: str, platform: str, is_recordable: bool
) -> dict[str, Any]:
    function = None if isinstance(kernel, str) else graphffi.Function(_for_peer(kernel))
    new_target = graphffi.get_global_func("graphffi_jax.new_target")
    try:
        target = new_target(text, function, is_recordable)
    except ValueError as error:
        raise ValueError(
            f"{error}; arg_spec takes 'args', 'rets', 'ctx.stream', 'attrs.<name>' and plan items"
        ) from None
    capsule: Any = jax.ffi.pycapsule
    of_execution = TARGET_GRAPH if is_recordable else TARGET
    instantiate = take_handler(name, instantiate_named_address(), target)
    return {
        "instantiate": capsule(instantiate),
        "execute": capsule(handler_address(of_execution, platform, "execute")),
    }
