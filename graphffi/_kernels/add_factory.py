# SPDX-License-Identifier: Apache-2.0
"""`Op.add_factory`, and grids of kernels for factories that ops have already."""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any, TypeVar

from .._contract.traits import checked_traits
from .._definition.defined_op import DefinedOp
from .factory import Factory
from .factory_store import prebuilt_digest
from .kernel import named_kernel
from .op_kernel import OpKernel, checked_device, checked_dtypes, checked_when

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_Make = TypeVar("_Make", bound="Callable[..., Any]")


class FactoriesOfOp(DefinedOp):
    """The method of `Op` that gives it kernels which a function makes."""

    def _take(self, kernel: OpKernel, override: bool) -> None:
        """Gives the op one more kernel."""
        raise NotImplementedError

    def add_factory(
        self,
        *,
        key: Callable[..., Any],
        name: str = "",
        device: str = "",
        dtypes: Mapping[str, Any] | None = None,
        when: Callable[..., Any] | None = None,
        plan: str = "",
        workspace: int | Callable[..., Any] | None = None,
        pass_owning_tensor: bool = False,
        allow_cuda_graph: bool = False,
        depends: Sequence[str | os.PathLike[str]] = (),
        override: bool = False,
    ) -> Callable[[_Make], _Make]:
        """Gives the op kernels that a function makes: one for each key, when a call first needs it.

        The function gets the values of a key. It returns a function, a kernel reference, or the
        path of a library that exports one function, or one with the op's name. It is run once for
        each key in a process, however many threads and frameworks ask. A library that it returns is
        kept for other processes, which wait while one of them makes it. The logger
        ``graphffi.kernels`` tells the progress. A factory that fails is a `FactoryError`; the next
        call tries again.

        Args:
            key: Gets what the shape rule gets; returns a tuple of static facts: ints, floats,
                bools, strings, data types, None. A symbolic size in it becomes a constant of the
                graph, or an error where graphs have no guards.
            name: By which errors tell it from other kernels. Default: that of the function, behind
                the device if one is given.
            device: As for `add_kernel`, like all up to `allow_cuda_graph`.
            dtypes: As for `add_kernel`.
            when: As for `add_kernel`.
            plan: What each of the kernels receives.
            workspace: As for `add_kernel`.
            pass_owning_tensor: As for `add_kernel`.
            allow_cuda_graph: As for `add_kernel`.
            depends: What the kernels are made of beside the key and the code: files, as `Path`, of
                which the content counts, and texts, such as the version of a compiler. What is kept
                is made anew when one of them changes, and so are compiled graphs. Files that
                `graphffi.cpp` compiles have to be among them.
            override: As for `add_kernel`.

        Returns:
            A decorator that gives the function back.

        Raises:
            TypeError: If `key`, `when`, `dtypes` or the function are of another kind.
            ValueError: As `add_kernel` does.

        Example:
            >>> @norm.add_factory(key=lambda x: (x.dtype, x.shape[-1]), depends=[SOURCE])
            ... def tile(dtype, hidden):  # doctest: +SKIP
            ...     return graphffi.cpp.build("norm", [SOURCE], extra_cflags=[f"-DN={hidden}"])
        """
        subject = f"{self.name}: add_factory"
        if not callable(key):
            raise TypeError(f"{subject}: key: expected a callable, got {key!r}")
        if not isinstance(depends, (list, tuple)) or not all(
            isinstance(part, (str, os.PathLike)) for part in depends
        ):
            raise TypeError(
                f"{subject}: depends: expected a list of paths and texts, got {depends!r}"
            )
        operands = [operand.name for operand in self.definition.operands]
        kernel = OpKernel(
            "",
            plan=plan,
            workspace=workspace,
            traits=checked_traits(
                subject, pass_owning_tensor, allow_cuda_graph, self.definition.has_side_effect
            ),
            device=checked_device(subject, device),
            dtypes=checked_dtypes(subject, operands, dtypes),
            when=checked_when(subject, when),
            name=name,
        )

        def decorate(make: _Make) -> _Make:
            if not callable(make):
                raise TypeError(f"{subject}: expected a function that makes kernels, got {make!r}")
            named = named_kernel(kernel, make)
            factory: Factory[OpKernel] = Factory(self.name, named.name, key, make, depends)
            prebuilt = prebuilt_digest(self.name, named.name)
            made = dataclasses.replace(named, factory=factory, prebuilt=prebuilt)
            self._take(made, override)
            return make

        return decorate
