# SPDX-License-Identifier: Apache-2.0
"""The kernels of an op: what each is, and which of them a call gets."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from . import _core
from ._cached import cached_property
from ._conditions import UndecidedError
from ._device import Device
from ._dtype import dtype
from ._nested import flat
from ._plan import NO_TRAITS, CallTraits
from ._reference import REFERENCE
from ._rule_text import RuleText, read_rule
from ._shape_rule import call_rule
from ._spec import checked_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._definition import Definition
    from ._factory import Factory, Key


@dataclass(frozen=True, eq=False)
class OpKernel:
    """One kernel of an op.

    Args:
        reference: The string by which graphs name it: ``library.so::symbol``, or the name of a
            global function.
        plan: Plan text over the op's names. Empty: the parameters, then the results.
        workspace: Bytes of scratch memory that a call needs: an int, or a rule that gets what the
            shape rule gets; None for a kernel that needs none, or asks for an unknown amount.
        traits: What a framework may have to know of it.
        release_gil: Whether calls from Python code, compiled code included, release the GIL while
            it runs.
        function: What the reference is to mean, of a kernel that no string named before.
        code: The Python callable that it is, if it is one.
        library_hash: SHA-256 of its library when it was given to the op, if the path is absolute.
        name: Unique among the op's kernels.
        device: Type of the devices that it is for; "" for all.
        dtypes: The data types that it takes, by operand.
        when: Gets what the shape rule gets; whether the kernel is for such calls. None: for all.
        factory: Makes kernels for keys of calls: this is all of them.
        key: Of one of these; it is `made` once it has a reference.
        prebuilt: Changes with those that were made ahead of time.
    """

    reference: str
    plan: str = ""
    workspace: int | Callable[..., Any] | None = None
    traits: CallTraits = NO_TRAITS
    release_gil: bool = True
    function: _core.Function | None = None
    code: Any = None
    library_hash: str = ""
    name: str = ""
    device: str = ""
    dtypes: tuple[tuple[str, tuple[dtype, ...]], ...] = ()
    when: Callable[..., Any] | None = None
    factory: Factory | None = None
    key: Key | None = None
    prebuilt: str = ""

    @property
    def is_reference(self) -> bool:
        """True if it is the op's reference, which graphs hold as what it computes."""
        return self.reference.startswith(_REFERENCES)

    @property
    def is_for_all(self) -> bool:
        """True if it is for any call, so that nothing is to be chosen."""
        return not (self.device or self.dtypes or self.when or self.factory)

    @property
    def handle(self) -> int:
        """The address of the function, where no code tells it from others; else 0."""
        if self.function is None or self.code is not None:
            return 0
        return self.function.__chandle__()

    def install(self) -> None:
        """Makes the reference mean the function.

        So does the name without the digits of its code: programs of other processes, where the op
        may have other code, call what that means where there is no such function.
        """
        if self.function is not None:
            shared = re.sub(r"\.[0-9a-f]{16}(\.\d+)?$", "", self.reference)
            for name in (self.reference, shared):
                _core.register_global_func(name, self.function, override=True)

    def made(self, definition: Definition) -> OpKernel:
        """The kernel that a call runs: made now, if a factory still has to.

        Raises:
            FactoryError: If the factory fails.
        """
        if self.key is None or self.reference or self.factory is None:
            return self
        return self.factory.made(definition, self)

    @cached_property
    def texts(self) -> dict[str, str]:
        """All that tells it from another one, but for rules and code, in words of users."""
        # The names that functions without one get follow from the rest of the definition.
        reference = "" if self.reference.startswith(OWN_NAMES) else self.reference
        return {
            "kernel": f"{self.name} {reference}",
            "kernel library": self.library_hash,
            "plan": self.plan,
            "workspace": "" if callable(self.workspace) else repr(self.workspace),
            "device": self.device,
            "dtypes of kernels": repr(self.dtypes),
            "flag": f"{self.traits} {self.release_gil}",
            "files of a factory": "\n".join(self.factory.depends) if self.factory else "",
            "prebuilt kernels": self.prebuilt,
        }

    @property
    def rules(self) -> dict[str, Any]:
        """Functions and None, of which digests cover the code."""
        size = self.workspace if callable(self.workspace) else None
        return {
            "workspace": size,
            "kernel code": self.code,
            "when": self.when,
            "factory": self.factory and self.factory.make,
            "key": self.factory and self.factory.key,
        }

    def parts(self) -> dict[str, tuple[str, RuleText | None]]:
        """Text and code of each part that tells it from another kernel."""
        codes = {name: read_rule(rule) for name, rule in self.rules.items()}
        names = {**self.texts, **codes}
        return {name: (self.texts.get(name, ""), codes.get(name)) for name in names}


OWN_NAMES: Final = "graphffi.kernel."
"""The beginning of the names of global functions that no user named."""
_REFERENCES: Final = "graphffi.reference."


def reference_kernel(op: str) -> OpKernel:
    """The reference of an op as one of its kernels."""
    return OpKernel(_REFERENCES + op.replace("::", "."), name=REFERENCE)


def checked_dtypes(
    subject: str, operands: Sequence[str], given: Mapping[str, Any] | None
) -> tuple[tuple[str, tuple[dtype, ...]], ...]:
    """The checked value of `add_kernel(dtypes=...)`.

    Raises:
        ValueError: If it names no operand, or something that is no data type.
        TypeError: If it is no mapping.
    """
    if given is None:
        return ()
    if not hasattr(given, "items"):
        raise TypeError(f"{subject}: dtypes: expected data types by operand, got {given!r}")
    found = []
    for name, kinds in given.items():
        if name not in operands:
            raise ValueError(
                f"{subject}: dtypes: expected names of operands, got {name!r}; operands: "
                f"{', '.join(operands)}"
            )
        listed = kinds if isinstance(kinds, (tuple, list)) else (kinds,)
        where = f"{subject}: dtypes: operand {name!r}"
        if not listed:
            raise ValueError(f"{where}: expected data types, got none")
        found.append((name, tuple(checked_dtype(where, kind) for kind in listed)))
    return tuple(found)


def checked_device(subject: str, device: Any) -> str:
    """The checked value of `add_kernel(device=...)`: a type of devices, "" for all.

    Raises:
        ValueError: If there is no such type, or it has an index.
    """
    if device is None or device == "":
        return ""
    try:
        found = Device(device)
    except (TypeError, ValueError) as error:
        text = str(error).removeprefix("graphffi: ")
        raise type(error)(f"{subject}: {text}") from None
    if str(device) != found.type:
        raise ValueError(
            f"{subject}: device: expected a type of devices, such as 'cuda', got {device!r}"
        )
    return found.type


def checked_when(subject: str, when: Any) -> Any:
    """The checked value of `add_kernel(when=...)`.

    Raises:
        TypeError: If it is no condition.
    """
    if when is not None and not callable(when):
        raise TypeError(f"{subject}: when: expected a callable, got {when!r}")
    return when


def call_device(operands: Sequence[Any], results: Sequence[Any] = ()) -> str:
    """The type of the device of a call: the first one of its tensors that is not the CPU."""
    tensors = (*flat(operands), *results)
    types = (Device(t.device).type for t in tensors if t.device is not None)
    return next((kind for kind in types if kind != "cpu"), "cpu")


def choose_kernel(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any], device: str
) -> OpKernel:
    """The kernel of a call: the fastest, where that was measured, or the first that fits.

    That of a factory may be still to be made.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand, whose sizes may be symbolic.
        attributes: One value per attribute.
        device: Type of the device of the call.

    Raises:
        NotImplementedError: If none does; or if it depends on a size that is not known, and not to
            be guarded, whether one does.
    """
    tuned = _tuned_kernel(definition, operands, attributes, device)
    if tuned is not None:
        return _keyed(definition, tuned, operands, attributes)
    return choose_in_order(definition, operands, attributes, device)


def _tuned_kernel(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any], device: str
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
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any], device: str
) -> OpKernel:
    """The first kernel that fits a call. Args and errors: as for `choose_kernel`."""
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
            return _keyed(definition, kernel, operands, attributes)
        reasons.append(f"{kernel.name!r}: {reason}")
    if undecided:
        raise NotImplementedError(
            f"{definition.name}: kernels: expected conditions that hold for all sizes or for none, "
            f"got {'; '.join(undecided)}; add a kernel without condition behind these, or fix the "
            "size"
        )
    raise NotImplementedError(_no_kernel(definition, reasons))


def _keyed(
    definition: Definition, kernel: OpKernel, operands: Sequence[Any], attributes: Sequence[Any]
) -> OpKernel:
    if kernel.factory is None:
        return kernel
    return kernel.factory.keyed(definition, kernel, operands, attributes)


def _no_kernel(definition: Definition, reasons: Sequence[str]) -> str:
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
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any], device: str
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
                key = kernel.factory.keyed(definition, kernel, operands, attributes).key
                shown = f"factory, key ({key and key.text})"
        lines.append(f"{kernel.name!r} ({shown}): {reason or 'runs'}")
    return "\n".join(lines) or f"{definition.name} has no kernels"


def forced_kernel(op: str) -> str:
    """The kernel of an op that the environment forces, or ""."""
    text = os.environ.get("GRAPHFFI_KERNELS", "")
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    for name, _, kernel in pairs:
        if not ("::" in name and kernel.strip()):
            raise ValueError(
                f"graphffi: GRAPHFFI_KERNELS: expected namespace::op=kernel, …, got {text!r}"
            )
    return next((kernel.strip() for name, _, kernel in pairs if name.strip() == op), "")


def why_not(
    definition: Definition,
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


def kernel_parts(
    mine: Sequence[OpKernel], its: Sequence[OpKernel]
) -> dict[str, tuple[list[Any], list[Any]]]:
    """Each part of the kernels of two definitions."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for side, kernels in enumerate((mine, its)):
        for kernel in kernels:
            for name, part in kernel.parts().items():
                found.setdefault(name, ([], []))[side].append(part)
    return found
