# SPDX-License-Identifier: Apache-2.0
"""From what `op`, `define_op` and `Op.add_kernel` are given to a kernel of the op."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._kernel import Kernel
from ._library import library_hash, split_reference
from ._op_kernel import OpKernel
from ._plan import CallTraits

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Fit:
    """The calls that a kernel is for: see `OpKernel`."""

    name: str = ""
    device: str = ""
    dtypes: tuple[Any, ...] = ()
    when: Callable[..., Any] | None = None


@dataclass(frozen=True)
class KernelOptions:
    """What a kernel is given with."""

    kernel: Any
    plan: str
    workspace: int | Callable[..., Any] | None
    traits: CallTraits

    def make(self, subject: str, fit: Fit, *, is_first: bool = False) -> tuple[OpKernel, Kernel]:
        """The kernel of an op, and what its reference is to mean.

        Args:
            subject: The op's name.
            fit: The calls that it is for.
            is_first: Whether the op is defined with it.
        """
        base = _kernel_name(self.kernel)
        name = fit.name or (f"{fit.device}.{base}" if fit.device else base)
        kernel = Kernel.of(subject, self.kernel, "" if is_first else name)
        return OpKernel(
            reference=kernel.reference,
            plan=self.plan,
            workspace=self.workspace,
            traits=self.traits,
            release_gil=kernel.release_gil,
            code=kernel.code,
            library_hash=library_hash(kernel.reference),
            name=name,
            device=fit.device,
            dtypes=fit.dtypes,
            when=fit.when,
        ), kernel


def _kernel_name(kernel: Any) -> str:
    """What a kernel is called where nobody gave it a name."""
    reference = kernel if isinstance(kernel, str) else getattr(kernel, "reference", None)
    if reference is None:
        return str(getattr(kernel, "__name__", type(kernel).__name__))
    _, symbol = split_reference(reference)
    return symbol.rpartition(".")[2]
