# SPDX-License-Identifier: Apache-2.0
"""The plugin's native library: XLA's handlers, the kept errors, the gate at exit."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
from pathlib import Path
from typing import Any, Final

import jax

import graphffi
from graphffi.plugin import packaged_name
from graphffi_jax._lowering.frames import clear_frames_of_errors

TARGET: Final = "tvm_ffi.call"
"""The custom-call target of all kernels."""

TARGET_GRAPH: Final = "tvm_ffi.call_graph"
"""The same, for kernels that may be recorded into a command buffer."""

LOCAL_TARGETS: Final = {TARGET: "tvm_ffi.local_call", TARGET_GRAPH: "tvm_ffi.local_call_graph"}
"""The same where each device runs its own part: XLA asks no partitioner, which takes time."""

ALL_TARGETS: Final = (*LOCAL_TARGETS, *LOCAL_TARGETS.values())

_PLATFORMS: Final = ("cpu", "CUDA", "ROCM")
_STAGES: Final = ("instantiate", "execute")
_EXIT_TIMEOUT_MS: Final = 10_000


@functools.cache
def _load() -> ctypes.CDLL:
    path = Path(__file__).with_name("lib") / "libgraphffi_jax.so"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"graphffi: cannot load the JAX plugin: {error}; "
            "was graphffi built where jax is installed?"
        ) from error
    library.graphffi_jax_handler.restype = ctypes.c_void_p
    library.graphffi_jax_handler.argtypes = [ctypes.c_char_p] * 3
    library.graphffi_jax_register_functions.argtypes = []
    library.graphffi_jax_close_gate.argtypes = [ctypes.c_int]
    return library


def handler_address(target: str, platform: str, stage: str) -> int:
    """The handler of one of the two targets that serve all ops."""
    address: int = _load().graphffi_jax_handler(target.encode(), platform.encode(), stage.encode())
    return address


def instantiate_named_address() -> int:
    """The function that handlers of named targets call when XLA instantiates a call site."""
    return ctypes.cast(_load().graphffi_jax_instantiate_named, ctypes.c_void_p).value or 0


def register_targets() -> None:
    """Registers the handlers with XLA, for every platform, also those that are started later.

    Raises:
        ImportError: If the native library is missing or does not fit the runtime.
    """
    library = _load()
    if library.graphffi_jax_register_functions() != 0:
        raise ImportError(
            "graphffi: the JAX plugin could not register its functions with the runtime"
        )
    capsule: Any = jax.ffi.pycapsule
    for target, local in LOCAL_TARGETS.items():
        for platform in _PLATFORMS:
            handlers = {
                stage: capsule(handler_address(target, platform, stage)) for stage in _STAGES
            }
            for name in (target, local):
                jax.ffi.register_ffi_target(name, handlers, platform=platform, api_version=1)
    clear_frames_of_errors()
    graphffi.register_global_func("graphffi_jax.packaged_name", packaged_name, override=True)
    atexit.register(_end_calls, library)


def _end_calls(library: ctypes.CDLL) -> None:
    # JAX waits for side effects at exit, too, but later: this is called first.
    with contextlib.suppress(Exception):  # JAX tells of it
        jax.effects_barrier()  # type: ignore[no-untyped-call]
    # Calls in XLA's threads that need the GIL would abort the process once the interpreter is gone.
    library.graphffi_jax_close_gate(_EXIT_TIMEOUT_MS)
