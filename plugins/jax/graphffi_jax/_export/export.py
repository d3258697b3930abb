# SPDX-License-Identifier: Apache-2.0
"""Programs that leave the process: what jax.export has to know of graphffi's custom calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphffi_jax._library import ALL_TARGETS

if TYPE_CHECKING:
    from jax import export


def export_checks() -> list[export.DisabledSafetyCheck]:
    """The checks of `jax.export` that programs with kernels can't pass, for ``disabled_checks=``.

    jax.export lets only those custom calls pass whose meaning JAX promises to keep. That of
    graphffi's is promised by graphffi: a process that has imported `graphffi_jax` runs such a
    program, if it finds the kernels by their references.

    Returns:
        One check for each of graphffi's targets, whatever the number of ops.

    Raises:
        ImportError: If the package flatbuffers is missing, which jax.export needs.

    Example:
        >>> exported = export.export(f, disabled_checks=export_checks())(x)  # doctest: +SKIP
    """
    from jax import export

    return [export.DisabledSafetyCheck.custom_call(name) for name in ALL_TARGETS]


def check_exportable(context: Any, call: Any) -> None:
    """Refuses calls with side effects in programs that are exported, which JAX would do later."""
    parameters = context.module_context.lowering_parameters
    if call.has_side_effect and getattr(parameters, "for_export", False):
        raise NotImplementedError(
            f"{call.subject}: has_side_effect={call.has_side_effect!r}: expected a program "
            "that stays in this process, got one for jax.export, which takes no side effects; "
            "return a result that the program uses"
        )
