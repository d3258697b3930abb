# SPDX-License-Identifier: Apache-2.0
"""The use that kernels make of the workspaces that are declared for them."""

from __future__ import annotations

from typing import NamedTuple

import graphffi


class WorkspaceUse(NamedTuple):
    """The largest use of a workspace so far.

    Attributes:
        peak: Bytes that one call took, alignment included.
        size: Bytes that were declared for that call.
    """

    peak: int
    size: int


def get_last_workspace_peak() -> int:
    """How much the last call with a declared workspace took, for code written for jax-tvm-ffi.

    Returns:
        Bytes, alignment included, of the call that ended last in any thread; 0 before the first.
        See `workspace_peaks` for those of each kernel.
    """
    return int(graphffi.get_global_func("graphffi_jax.last_workspace_peak")())


def workspace_peaks() -> dict[str, WorkspaceUse]:
    """How much of their declared workspaces the kernels of this process took at most.

    Returns:
        One entry per op, function or target whose kernel allocates from a declared workspace, by
        name, of the last 1,024 such names. Kernels that get the workspace as an argument do not
        report.

    Example:
        >>> workspace_peaks()["mylib::sort"].peak  # doctest: +SKIP
        65536
    """
    uses = graphffi.get_global_func("graphffi_jax.workspace_peaks")()
    return {str(name): WorkspaceUse(peak, size) for name, peak, size in uses}
