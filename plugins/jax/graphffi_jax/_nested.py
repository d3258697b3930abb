# SPDX-License-Identifier: Apache-2.0
"""JAX programs that a kernel written in Python runs and waits for: on a client of their own."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any, Final

import jax

import graphffi

from ._private_names import find_private

_COMPILED: Final = "/jax/core/compile/backend_compile_duration"
_devices: dict[int, jax.Device] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def nested_programs() -> Iterator[None]:
    """Where a kernel written in Python runs JAX programs and waits for them.

    XLA's CPU client has a fixed number of threads and of programs under way, and a program takes
    one of each as long as its kernels run. A kernel that waits for another program of the same
    client may so wait forever. In this block, JAX's default device is a CPU of another client,
    which belongs to the programs of kernels that are nested as deep. As each kernel waits for
    deeper ones only, none waits forever. Outside of the block, a kernel that compiles a program for
    the client that it was called from is an error.

    Arrays made from NumPy arrays, and those of other programs, come to that device by themselves,
    if they are not committed to another one. Those from ``jax.dlpack.from_dlpack`` are. Programs
    are compiled for each device. The block does nothing outside of kernels that a program on the
    CPU calls, and where the default device is no CPU. Also a decorator.

    Example:
        >>> @nested_programs()
        ... def kernel(x, out):
        ...     np.from_dlpack(out)[...] = step(jnp.array(np.from_dlpack(x)))
    """
    ordinal = _cpu_ordinal()
    if ordinal is None:
        yield
        return
    with jax.default_device(_devices.get(ordinal) or _make_device(ordinal)):
        yield


def watch_kernels() -> None:
    """Makes it an error that a kernel compiles a program that it could wait for forever.

    A program that was compiled before, elsewhere, is not noticed.
    """
    jax.monitoring.register_event_duration_secs_listener(_refuse_program)


def _refuse_program(event: str, duration_secs: float, **_: Any) -> None:
    if event != _COMPILED or _cpu_ordinal() is None:
        return
    if jax.config.jax_default_device not in _devices.values():  # type: ignore[attr-defined]
        raise RuntimeError(
            "graphffi: expected a kernel that runs no JAX programs on the CPU that its own program "
            "runs on, got one that compiles a program, for which it may wait forever; run it in "
            "graphffi_jax.nested_programs()"
        )


def _cpu_ordinal() -> int | None:
    """The CPU whose program called the kernel on this thread, where JAX computes on CPUs."""
    ordinal: int | None = _cpu_ordinal_function()()
    return ordinal if ordinal is not None and _default_platform() == "cpu" else None


@functools.cache
def _cpu_ordinal_function() -> graphffi.Function:
    return graphffi.get_global_func("graphffi_jax.cpu_ordinal")


def _default_platform() -> str:
    default: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    if default is None:
        return _platform_of_backend()
    return default if isinstance(default, str) else str(default.platform)


@functools.cache
def _platform_of_backend() -> str:
    return jax.default_backend()


def _make_device(ordinal: int) -> jax.Device:
    """The device for programs of kernels in a program of device `ordinal`.

    A client's devices are numbered from 0, so that its last one, which alone is used here, tells
    how deep its programs are nested.
    """
    own = {device.id for device in jax.local_devices(backend="cpu")}
    place = len(own) if ordinal in own else ordinal + 1
    with _lock:
        for device in _devices.values():
            if device.id == place:
                break
        else:
            device = _make_client(place + 1).local_devices()[place]
        _devices[ordinal] = device
        return device


def _make_client(num_devices: int) -> Any:
    make = find_private("jaxlib.xla_client.make_cpu_client")
    if make is None:
        raise NotImplementedError(
            "graphffi_jax.nested_programs: expected a jax that has "
            f"jaxlib.xla_client.make_cpu_client, got jax {jax.__version__}; compute what the "
            "kernel needs before the call"
        )
    return make(asynchronous=False, num_devices=num_devices)
