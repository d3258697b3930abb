# SPDX-License-Identifier: Apache-2.0
"""Frames of kernels written in Python that have raised."""

from __future__ import annotations

import traceback
from types import FrameType

import graphffi


def _clear_frames(error: BaseException) -> None:
    """Drops the local variables of a kernel's frames, and keeps their lines.

    They may hold views of memory that XLA takes back when the call returns, and scratch memory that
    would live as long as the error is kept. Frames of an exception that the caller of the program
    is handling, which is the context of the kernel's, are left alone.
    """
    frames: set[FrameType] = set()
    errors, seen = [error], set()
    while errors:
        raised = errors.pop()
        trace = raised.__traceback__
        if id(raised) in seen or trace is None or (frames and trace.tb_frame not in frames):
            continue
        seen.add(id(raised))
        frames.update(frame for frame, _ in traceback.walk_tb(trace))
        errors += getattr(raised, "exceptions", ())
        errors += filter(None, (raised.__cause__, raised.__context__))
    for frame in frames:
        try:
            frame.clear()
        except RuntimeError:  # it is still running
            continue


def clear_frames_of_errors() -> None:
    """Lets the handlers clear the frames of what kernels raise, before XLA goes on."""
    keeps_exception = graphffi.get_global_func("graphffi.keeps_exception")
    graphffi.get_global_func("graphffi_jax.clear_frames_by")(keeps_exception, _clear_frames)
