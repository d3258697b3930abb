# SPDX-License-Identifier: Apache-2.0
"""The constant part of a kernel call: what a program holds of it besides arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import numpy as np

from graphffi.plugin import CallTraits, OpKernel, packaged_name
from graphffi_jax._choice import OTHERS, device_type
from graphffi_jax._library import TARGET, TARGET_GRAPH
from graphffi_jax._transforms.batching import OpCall
from graphffi_jax._transforms.loops import Loops


@dataclass(frozen=True)
class KernelCall:
    """One call of a program, but for its arrays: the attributes of the custom call.

    Args:
        func: Kernel reference.
        plan: Plan text over i0…, o0…, n0…, f0…, s0…
        ints: 64-bit integers, packed, so that equal means equal bits.
        floats: Doubles, packed.
        strs: Strings.
        num_mutated: How many of the last operands the kernel updates in place.
        subject: The op's or function's name.
        digest: Changes with the definition: compiled programs are not reused for another one.
        traits: Which tensors the kernel gets, and whether it may be recorded.
        workspace: Bytes of scratch memory that XLA plans for the call: an int or a symbolic
            dimension; None for a kernel that declares none.
        made_of: The op that was called, if it was one.
        loops: Leading dimensions of the operands whose elements are calls of their own.
        batches: How many leading dimensions of all arrays `vmap` added to the op's own.
        names: Of the arrays, for errors of ``GRAPHFFI_DEBUG=1``.
        choices: Of an op whose kernels differ between devices: the call for each type of devices
            and for `OTHERS`, or what the error says. Empty if this is the call for all.
        unmade: Of a kernel that a factory makes when the call is lowered: `func` is empty.
        is_reference: Whether it is the reference of the op that runs, as operations of JAX.
    """

    func: str
    plan: str
    ints: bytes
    floats: bytes
    strs: tuple[str, ...]
    num_mutated: int
    subject: str
    digest: str
    traits: CallTraits
    workspace: Any = None
    made_of: OpCall | None = field(default=None, compare=False, repr=False)
    loops: Loops = ()
    batches: int = 0
    names: str = ""
    choices: tuple[tuple[str, KernelCall | str], ...] = ()
    unmade: OpKernel | None = None
    is_reference: bool = False

    @staticmethod
    def of_each(calls: dict[str, KernelCall | str]) -> KernelCall:
        """One call of those for each type of devices.

        Raises:
            NotImplementedError: If there is none at all.
        """
        made = [call for call in calls.values() if isinstance(call, KernelCall)]
        if not made:
            here = device_type(jax.default_backend())
            raise NotImplementedError(str(calls.get(here, calls[OTHERS])).replace(OTHERS, here))
        return made[0] if len(calls) == 1 else replace(made[0], choices=tuple(calls.items()))

    def on(self, platform: str) -> KernelCall:
        """The call on a platform, of a kernel that is made.

        Raises:
            NotImplementedError: If no kernel is for it.
            FactoryError: If a factory fails.
        """
        if not self.choices:
            return self._made()
        calls = dict(self.choices)
        found = calls.get(device_type(platform), calls[OTHERS])
        if isinstance(found, str):
            raise NotImplementedError(found.replace(OTHERS, device_type(platform)))
        return replace(found._made(), loops=self.loops)

    def _made(self) -> KernelCall:
        if self.unmade is None or self.made_of is None:
            return self
        kernel = self.made_of.op.definition.made(self.unmade)
        return replace(self, func=kernel.reference, unmade=None)

    @staticmethod
    def make(
        call: Any, made_of: OpCall | None = None, workspace: Any = None, batches: int = 0
    ) -> KernelCall:
        """The constant part of a canonical call.

        Raises:
            ValueError: For an integer of more than 64 bits, or a string that is no Unicode.
        """
        return KernelCall(
            func=call.func,
            plan=call.plan,
            ints=np.asarray(call.ints, np.int64).tobytes(),
            floats=np.asarray(call.floats, np.float64).tobytes(),
            strs=tuple(call.strs),
            num_mutated=len(call.mutated),
            subject=call.subject,
            digest=call.digest,
            traits=call.traits or CallTraits(),
            workspace=workspace,
            made_of=made_of,
            batches=batches,
            names=call.names,
        )

    def __hash__(self) -> int:
        """The hash of all but the op, computed once."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare))

    @property
    def is_ordered(self) -> bool:
        """True if calls keep the order of the program."""
        return self.traits.has_side_effect == "ordered"

    @property
    def target(self) -> str:
        """The custom call's target."""
        return TARGET_GRAPH if self.traits.allow_cuda_graph else TARGET

    def attributes(self) -> dict[str, Any]:
        """The attributes of the custom call; empty ones are left out."""
        texts = {
            "func": self.func,
            "library": packaged_name(self.func),
            "plan": self.plan,
            "strs": "".join(f"{len(text.encode())}:{text}" for text in self.strs),
            "subject": self.subject if self.subject != self.func else "",
            "digest": self.digest,
            "names": self.names,
        }
        found: dict[str, Any] = {name: text for name, text in texts.items() if text}
        if self.ints:
            found["ints"] = np.frombuffer(self.ints, np.int64)
        if self.floats:
            found["floats"] = np.frombuffer(self.floats, np.float64)
        if self.is_ordered:
            found["ordered"] = True
        if self.traits.pass_owning_tensor:
            found["pass_owning_tensor"] = True
        if self.workspace is not None:
            found["workspace"] = True
        if self.num_mutated:
            found["mutated"] = np.int64(self.num_mutated)
        return found
