# SPDX-License-Identifier: Apache-2.0
"""The stream that kernels are told to work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import _core
from .device import Device


@contextmanager
def use_stream(device: Device | str, handle: int) -> Iterator[None]:
    """Have kernels that this thread calls work on a stream, for a ``with`` block.

    Tensors of a framework with streams of its own (torch) override it for the calls that they
    are passed to.

    Args:
        device: an accelerator.
        handle: the stream's address, such as ``torch.cuda.Stream.cuda_stream``; 0 is the default
            stream.

    Raises:
        ValueError: for the CPU, which has no streams.
    """
    scope = _core.StreamScope(device, handle)
    scope.enter()
    try:
        yield
    finally:
        scope.exit()
