# SPDX-License-Identifier: Apache-2.0
"""The kernel of a call: the fastest, where that was measured, or the first that fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._cached import cached_property
from .._contract.plan import takes_ruled_workspace
from .._contract.shape_rule import call_rule
from .._contract.symbols import UndecidedError
from .._definition.interface import Interface
from .._values.dtype import dtype
from .make_kernel import keyed_kernel, made_kernel
from .op_kernel import OpKernel, reference_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._contract.dtypes import StatedView
    from .._rules.reference import Reference
    from .._tuning.tuned_call import TunedCall


@dataclass(frozen=True, eq=False)
class OpWithKernels(Interface):
    """An op with what its calls may run.

    Args:
        kernels: What calls run: the first that fits.
        forced: The name of the only kernel that calls may run; "" if they choose.
        reference: What the op computes, or None.
        fallback: "reference", which runs where no kernel fits, or nothing.
        tuning: Calls of which the fastest kernel is known.
    """

    kernels: tuple[OpKernel, ...] = ()
    forced: str = ""
    reference: Reference | None = None
    fallback: str = ""
    tuning: tuple[TunedCall, ...] = ()
    _made: list[OpKernel] = field(default_factory=list, init=False, repr=False)

    @property
    def stated(self) -> tuple[StatedView, ...]:
        """The statements of the parameters of the kernel that runs all calls, if one does."""
        return self.kernels[0].stated if self.kernels and self.kernels[0].is_for_all else ()

    @cached_property
    def candidates(self) -> tuple[OpKernel, ...]:
        """The kernels that calls may run."""
        if not self.forced:
            return self.known_kernels if self.fallback else self.kernels
        return tuple(kernel for kernel in self.known_kernels if kernel.name == self.forced)

    @cached_property
    def known_kernels(self) -> tuple[OpKernel, ...]:
        """All kernels; the reference is the last."""
        if self.reference is None:
            return self.kernels
        return (*self.kernels, reference_kernel(self.name))

    @cached_property
    def has_choice(self) -> bool:
        """True if calls may run several kernels, or none."""
        return bool(self.tuning) or not (self.candidates and self.candidates[0].is_for_all)

    @cached_property
    def is_looked_at(self) -> bool:
        """True if a call has to be looked at to know its kernel, or the size of its workspace."""
        return self.has_choice or self.takes_ruled_workspace(self.candidates[0])

    def choose(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> OpKernel:
        """The kernel that a call runs, made if a factory has to.

        Args:
            operands: One `TensorSpec`, None or list of specs per operand. Decisions on symbolic
                sizes are made by these; see `Symbols`.
            attributes: One value per attribute.
            device: Type of the device: see `call_device`.

        Raises:
            NotImplementedError: If none fits, which says why; or if it depends on a size that is
                not known, and not to be guarded, whether one does.
            FactoryError: If a factory fails.
        """
        return self.made(self.select(operands, attributes, device))

    def select(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> OpKernel:
        """The same kernel, which a factory may still have to make."""
        if not self.has_choice:
            return self.candidates[0]
        tuned = _tuned_kernel(self, operands, attributes, device)
        if tuned is not None:
            return keyed_kernel(self, tuned, operands, attributes)
        return choose_in_order(self, operands, attributes, device)

    def kernel_number(self, kernel: OpKernel) -> int:
        """The number of a kernel among the candidates and, behind these, those that were made."""
        if kernel.key is None:
            return self.candidates.index(kernel)
        if kernel not in self._made:
            self._made.append(kernel)
        return len(self.candidates) + self._made.index(kernel)

    def factory_and_reference(self, number: int) -> tuple[int, str]:
        """The number of the factory that made a kernel, and the kernel's reference."""
        made = self._made[number - len(self.candidates)]
        factories = [kernel.factory for kernel in self.candidates]
        return factories.index(made.factory), made.reference

    made = made_kernel
    takes_ruled_workspace = takes_ruled_workspace


def _tuned_kernel(
    definition: OpWithKernels, operands: Sequence[Any], attributes: Sequence[Any], device: str
) -> OpKernel | None:
    """The fastest kernel for a call; None where it was not measured, or one is forced."""
    if definition.forced:
        return None
    try:
        fitting = (c for c in definition.tuning if c.fits(operands, attributes, device))
        name = next((call.kernel for call in fitting), "")
        found = next((k for k in definition.candidates if k.name == name), None)
        if found is None or why_not(definition, found, operands, attributes, device):
            return None
    except UndecidedError:
        return None  # of all sizes, it would be the fastest for one
    return found


def choose_in_order(
    definition: OpWithKernels, operands: Sequence[Any], attributes: Sequence[Any], device: str
) -> OpKernel:
    """The first kernel that fits a call. Args and errors: as for `choose`."""
    undecided: list[str] = []
    reasons: list[str] = []
    for kernel in definition.candidates:
        try:
            reason = why_not(definition, kernel, operands, attributes, device)
        except UndecidedError:
            # Skipped only for one that is right for all sizes.
            undecided.append(f"{kernel.name!r}: {condition_name(kernel.when)}")
            continue
        if not reason:
            return keyed_kernel(definition, kernel, operands, attributes)
        reasons.append(f"{kernel.name!r}: {reason}")
    if undecided:
        raise NotImplementedError(
            f"{definition.name}: kernels: expected conditions that hold for all sizes or for none, "
            f"got {'; '.join(undecided)}; add a kernel without condition behind these, or fix the "
            "size"
        )
    raise NotImplementedError(_no_kernel(definition, reasons))


def _no_kernel(definition: OpWithKernels, reasons: Sequence[str]) -> str:
    if definition.forced:
        known = ", ".join(repr(k.name) for k in definition.known_kernels) or "none"
        found = "; ".join(reasons) or f"an unknown name; known kernels: {known}"
        return f"{definition.name}: expected to run kernel {definition.forced!r}, got {found}"
    found = "; ".join(reasons) or "an op without kernels"
    remedy = "set_reference" if definition.fallback else "add_kernel"
    return (
        f"{definition.name}: kernels: expected one that fits the call, got {found}; add one with "
        f"{remedy}"
    )


def explain_choice(
    definition: OpWithKernels, operands: Sequence[Any], attributes: Sequence[Any], device: str
) -> str:
    """Which kernel a call runs, and of each other one, why not."""
    lines = []
    tuned = _tuned_kernel(definition, operands, attributes, device)
    is_chosen = False
    for kernel in definition.known_kernels:
        reason = why_not(definition, kernel, operands, attributes, device)
        if not reason and definition.forced not in ("", kernel.name):
            reason = f"expected to run kernel {definition.forced!r}"
        elif not reason and kernel not in definition.candidates:
            reason = "expected fallback='reference' to run it where no kernel fits"
        elif not reason and tuned not in (None, kernel):
            reason = f"fits, too, but {tuned and tuned.name!r} was faster"
        if not reason and is_chosen:
            reason = "fits, too, but was added later"
        is_chosen = is_chosen or not reason
        shown = kernel.reference
        if kernel.factory is not None:
            shown = "factory"
            if not reason:
                key = keyed_kernel(definition, kernel, operands, attributes).key
                shown = f"factory, key ({key and key.text})"
        lines.append(f"{kernel.name!r} ({shown}): {reason or 'runs'}")
    return "\n".join(lines) or f"{definition.name} has no kernels"


def why_not(
    definition: OpWithKernels,
    kernel: OpKernel,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    device: str,
) -> str:
    """The reason for which a kernel can't run a call; "" if it fits."""
    if kernel.device and kernel.device != device:
        return f"expected device {kernel.device}, got {device}"
    values = dict(zip((o.name for o in definition.operands), operands, strict=True))
    for name, allowed in kernel.dtypes:
        value = values[name]
        for spec in value if isinstance(value, list) else (value,):
            if spec is not None and dtype(spec.dtype) not in allowed:
                kinds = " or ".join(allowed)
                return f"expected {kinds} for operand {name!r}, got {dtype(spec.dtype)}"
    if kernel.when is None:
        return ""
    condition = condition_name(kernel.when)
    kind = f"kernel {kernel.name!r}: {condition}"
    if call_rule(definition, kernel.when, operands, attributes, kind):
        return ""
    return f"expected {condition} to hold, got a call for which it does not"


def condition_name(when: Any) -> str:
    """The name of a condition in errors."""
    code = getattr(when, "__code__", None)
    name = getattr(when, "__name__", type(when).__name__)
    if code is None:
        return f"its condition {name}"
    file = code.co_filename.rpartition("/")[2]
    return f"its condition {name.strip('<>')} ({file}:{code.co_firstlineno})"
