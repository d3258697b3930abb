# SPDX-License-Identifier: Apache-2.0
"""Programs that a kernel written in Python runs and waits for, on threads of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jaxlib import xla_client

import graphffi

_devices: dict[int, jax.Device] = {}
_lock = threading.Lock()


@contextlib.contextmanager
def nested_programs() -> Iterator[None]:
    """Where a kernel written in Python runs JAX programs and waits for them.

    XLA's CPU client has a fixed number of threads and of programs under way, and a program takes
    one of each as long as its kernels run. A kernel that waits for another program of the same
    client may so wait forever. In this block, JAX's default device is a CPU of another client,
    which belongs to the programs of kernels that are nested as deep. As each kernel waits for
    deeper ones only, none waits forever.

    Arrays made from NumPy arrays, and those of other programs, come to that device by themselves,
    if they are not committed to another one. Those from ``jax.dlpack.from_dlpack`` are. Programs
    are compiled for each device. Outside of kernels that a program on the CPU calls, the block does
    nothing. Also a decorator.

    Example:
        >>> @nested_programs()
        ... def kernel(x, out):
        ...     np.from_dlpack(out)[...] = step(jnp.array(np.from_dlpack(x)))
    """
    ordinal = graphffi.get_global_func("graphffi_jax.cpu_ordinal")()
    if ordinal is None:
        yield
        return
    with jax.default_device(_device_below(ordinal)):
        yield


def _device_below(ordinal: int) -> jax.Device:
    """The device for programs of kernels in a program of device `ordinal`.

    A client's devices are numbered from 0, so that its last one, which alone is used here, tells
    how deep its programs are nested.
    """
    own = {device.id for device in jax.local_devices(backend="cpu")}
    place = len(own) if ordinal in own else ordinal + 1
    with _lock:
        if place not in _devices:
            client: Any = xla_client.make_cpu_client(asynchronous=False, num_devices=place + 1)
            _devices[place] = client.local_devices()[place]
        return _devices[place]
