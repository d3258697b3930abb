# SPDX-License-Identifier: Apache-2.0
"""Calls of kernels in traces: what is known of them besides arrays."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, fields, replace
from typing import Any

import jax
import numpy as np

from graphffi.plugin import CallTraits, OpKernel, packaged_name
from graphffi_jax._choice import OTHERS, device_type
from graphffi_jax._library import TARGET, TARGET_GRAPH
from graphffi_jax._lowering import call_text
from graphffi_jax._transforms.batching import OpCall
from graphffi_jax._transforms.loops import Loops


@dataclass(frozen=True)
class Chosen:
    """A kernel, and what its call alone says.

    Args:
        kernel: Without reference if a factory makes it when the call is lowered.
        lines: Of the call's text: plan, attributes, digest.
        workspace: Bytes of scratch memory that XLA plans for the call: an int or a symbolic
            dimension; None for a kernel that declares none.
    """

    kernel: OpKernel = field(compare=False)
    lines: call_text.Lines
    workspace: Any = None
    _identity: tuple[Any, ...] = field(init=False)  # programs see no more of a kernel

    def __post_init__(self) -> None:
        """Lets equal calls of one reference share their programs."""
        identity = (self.kernel.reference or self.kernel, self.kernel.traits)
        object.__setattr__(self, "_identity", identity)

    @staticmethod
    def make(call: Any, kernel: OpKernel | None = None, workspace: Any = None) -> Chosen:
        """The kernel and the text of a canonical call.

        Raises:
            ValueError: For an integer of more than 64 bits.
        """
        ints = np.asarray(call.ints, np.int64).tolist()
        floats = np.asarray(call.floats, np.float64).tolist()
        lines = (
            *call_text.flags(plan=call.plan, digest=call.digest),
            *(("int", str(value)) for value in ints),
            *(("float", call_text.float_text(value)) for value in floats),
            *(("str", value) for value in call.strs),
        )
        if kernel is None:
            kernel = OpKernel(call.func, traits=call.traits or CallTraits())
        return Chosen(kernel, lines, workspace)


@dataclass(frozen=True)
class KernelCall:
    """One call of a trace, but for its arrays.

    Args:
        subject: The op's or function's name.
        names: ``x, xs[0] -> out``: of the arrays; empty for a call without op.
        num_mutated: How many of the last operands the kernel updates in place.
        kernels: The kernel for each type of devices and for `OTHERS`, or what the error says; of a
            call without op, and where kernels name no devices, for `OTHERS` alone.
        made_of: The op that was called, if it was one.
        loops: Leading dimensions of the operands whose elements are calls of their own.
        batches: How many leading dimensions of all arrays `vmap` added to the op's own.
    """

    subject: str
    names: str
    num_mutated: int
    kernels: tuple[tuple[str, Chosen | str], ...]
    made_of: OpCall | None = field(default=None, compare=False, repr=False)
    loops: Loops = ()
    batches: int = 0

    def __post_init__(self) -> None:
        """Checks that there is a kernel.

        Raises:
            NotImplementedError: If there is none at all.
        """
        kernels = dict(self.kernels)
        if all(isinstance(kernel, str) for kernel in kernels.values()):
            here = device_type(jax.default_backend())
            raise NotImplementedError(str(kernels.get(here, kernels[OTHERS])).replace(OTHERS, here))

    def on(self, platform: str) -> KernelCall:
        """The call on a platform, of a kernel that is made.

        Raises:
            NotImplementedError: If no kernel is for it.
            FactoryError: If a factory fails.
        """
        kernels = dict(self.kernels)
        found = kernels.get(device_type(platform), kernels[OTHERS])
        if isinstance(found, str):
            raise NotImplementedError(found.replace(OTHERS, device_type(platform)))
        if not found.kernel.reference and self.made_of is not None:
            found = replace(found, kernel=self.made_of.op.definition.made(found.kernel))
        return replace(self, kernels=((OTHERS, found),))

    def __hash__(self) -> int:
        """The hash of all but the op, computed once."""
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, f.name) for f in fields(self) if f.compare))

    @functools.cached_property
    def chosen(self) -> Chosen:
        """The kernel; in a trace for several types of devices, one of theirs."""
        return next(kernel for _, kernel in self.kernels if isinstance(kernel, Chosen))

    @property
    def has_side_effect(self) -> bool | str:
        """As of `CallTraits`."""
        return self.chosen.kernel.traits.has_side_effect

    @property
    def is_ordered(self) -> bool:
        """True if calls keep the order of the program."""
        return self.has_side_effect == "ordered"

    @property
    def target(self) -> str:
        """The custom call's target."""
        return TARGET_GRAPH if self.chosen.kernel.traits.allow_cuda_graph else TARGET

    def text(self, arrays: str = "") -> str:
        """The text of the custom call.

        Args:
            arrays: The names of the arrays with their dimensions, if XLA may split the call.
        """
        reference = self.chosen.kernel.reference
        said = call_text.flags(
            kernel=reference,
            library=packaged_name(reference),
            subject="" if self.subject == reference else self.subject,
            arrays=arrays or self.names,
            updated=self.num_mutated,
            owning=self.chosen.kernel.traits.pass_owning_tensor,
            workspace=self.chosen.workspace is not None,
            ordered=self.is_ordered,
            side_effect=bool(self.has_side_effect),
        )
        return call_text.write((*said, *self.chosen.lines))
