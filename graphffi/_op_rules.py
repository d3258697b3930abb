# SPDX-License-Identifier: Apache-2.0
"""What an op is given after its definition beside kernels: references and rules of gradients."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from ._reference import Reference
from ._rule_text import rule_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._schema import Definition

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class RulesOfOp:
    """The methods of `Op` that give it references and rules."""

    definition: Definition

    def _extend(self, change: Callable[[Definition], Definition]) -> None:
        """Has the op be what `change` makes of its definition, which nobody else changes then."""
        raise NotImplementedError

    def set_reference(self, function: _Function) -> _Function:
        """Says what the op computes, in array API code that runs in every framework.

        `graphffi.testing.check` compares the kernels with it.

        Args:
            function: Called as ``function(xp, *arguments)``: with the namespace of the operands'
                framework (of PyTorch, JAX or NumPy, as ``array-api-compat`` gives it), then the
                op's parameters in signature order, attributes of type `graphffi.dtype` as the
                namespace's data types. Returns what the op returns: the results, then the new
                values of operands that the op updates; it changes none.

        Returns:
            The function: this is a decorator.

        Raises:
            TypeError: If it is not callable with these arguments.
            ValueError: If the op has another reference.

        Example:
            >>> @scale.set_reference  # doctest: +SKIP
            ... def reference(xp, x, factor):
            ...     return x * factor
        """

        def change(definition: Definition) -> Definition:
            reference = Reference.make(definition, function)
            known = definition.reference
            if known is None:
                return dataclasses.replace(definition, reference=reference)
            if rule_text(known.function) != rule_text(function):
                raise ValueError(
                    f"{definition.name}: set_reference: expected the reference that is set, got "
                    "another one; define the op anew with override=True"
                )
            return definition

        self._extend(change)
        return function
