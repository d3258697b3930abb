# SPDX-License-Identifier: Apache-2.0
"""The kernels of an op: what each is, and the checks of what users say of one."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._cached import cached_property
from .._contract.rule_text import RuleText, read_rule
from .._contract.spec import checked_dtype
from .._contract.traits import NO_TRAITS, CallTraits
from .._rules.reference import REFERENCE
from .._values.device import Device
from .._values.dtype import dtype
from .._values.nested import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .._contract.dtypes import StatedView
    from .factory import Factory, Key


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
        key: Of one of these; it is made once it has a reference.
        prebuilt: Changes with those that were made ahead of time.
        stated: What its parameters say of the tensors that they take.
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
    factory: Factory[OpKernel] | None = None
    key: Key | None = None
    prebuilt: str = ""
    stated: tuple[StatedView, ...] = ()

    @property
    def is_reference(self) -> bool:
        """True if it is the op's reference, which graphs hold as what it computes."""
        return self.reference.startswith(_REFERENCES)

    @property
    def is_for_all(self) -> bool:
        """True if it is for any call, so that nothing is to be chosen."""
        return not (self.device or self.dtypes or self.when or self.factory)

    def restricted(self, operands: Sequence[str]) -> OpKernel:
        """The kernel for the devices and data types that its parameters state, or it was given."""
        device = self.device or next((view.device for view in self.stated), "")
        stated = tuple((v.name, v.dtypes) for v in self.stated if v.dtypes and v.name in operands)
        return replace(self, device=device, dtypes=self.dtypes or stated)

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
UNNAMED: Final = "graphffi.Function"
"""The rest of the names of functions that graphs call directly, which one process has."""
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
