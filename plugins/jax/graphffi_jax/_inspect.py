# SPDX-License-Identifier: Apache-2.0
"""The plugin's state in this process, for users who look into programs or measure memory."""

from __future__ import annotations

from dataclasses import dataclass

import graphffi
from graphffi_jax._library import TARGET, TARGET_GRAPH
from graphffi_jax._lowering.targets import registered_targets


@dataclass(frozen=True)
class Inspection:
    """A snapshot.

    Attributes:
        targets: Names of the custom-call targets of ops: the second one of those whose kernels may
            be recorded into CUDA graphs.
        registered: The number of targets that `register_ffi_target` has registered.
        workspaces: For each op, function or target whose kernel allocates from a declared
            workspace, by name: the bytes that one call took at most, alignment included, and the
            bytes that were declared for that call. Of the last 1,024 such names; kernels that get
            the workspace as an argument do not report.
        last_workspace_peak: The bytes that were taken by the call with a declared workspace that
            ended last in any thread; 0 before the first.
    """

    targets: tuple[str, str]
    registered: int
    workspaces: dict[str, tuple[int, int]]
    last_workspace_peak: int


def inspect() -> Inspection:
    """Return the state of the plugin in this process.

    Example:
        >>> peak, declared = inspect().workspaces["mylib::sort"]  # doctest: +SKIP
    """
    uses = graphffi.get_global_func("graphffi_jax.workspace_peaks")()
    return Inspection(
        targets=(TARGET, TARGET_GRAPH),
        registered=len(registered_targets),
        workspaces={str(name): (int(peak), int(size)) for name, peak, size in uses},
        last_workspace_peak=int(graphffi.get_global_func("graphffi_jax.last_workspace_peak")()),
    )
