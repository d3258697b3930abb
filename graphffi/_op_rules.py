# SPDX-License-Identifier: Apache-2.0
"""What an op is given after its definition beside kernels: references and rules of gradients."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from ._jvp import Jvp
from ._reference import Reference
from ._rule_text import rule_text
from ._vjp import Vjp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._definition import Definition
    from ._framework import Framework

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class RulesOfOp:
    """The methods of `Op` that give it references and rules."""

    definition: Definition

    def _extend(
        self,
        change: Callable[[Definition], Definition],
        tell: Callable[[Framework, Any], None],
    ) -> None:
        """Has the op be what `change` makes of its definition; tells frameworks if that differs."""
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

        self._extend(change, lambda framework, op: framework.replace_op(op))
        return function

    def register_vjp(self, backward: Callable[..., Any], *, save: Sequence[str] = ()) -> None:
        """Gives the op a gradient rule, for every framework.

        Args:
            backward: Called as ``backward(saved, *cotangents)``. `saved` has every attribute of the
                op, and what `save` names, as fields. There is one cotangent per result, with its
                shape; None for a result that is no floating-point tensor. Returns one gradient or
                None per tensor operand, in signature order, with the operand's shape: a tuple, or
                the gradient itself if the op has one operand; for a list, a list. Written with
                graphffi's ops and with operators that all frameworks have.
            save: Names of the operands and results that `backward` reads; they stay in memory
                until it has run.

        Raises:
            TypeError: If `backward` is not callable.
            ValueError: If `save` names something unknown, the op updates operands in place, or it
                has another rule.

        Example:
            >>> scale.register_vjp(lambda saved, grad: grad * saved.factor)  # doctest: +SKIP
        """
        self._take_rule("vjp", lambda definition: Vjp.make(definition, backward, save))

    def register_jvp(self, forward: Callable[..., Any], *, save: Sequence[str] = ()) -> None:
        """Gives the op a forward-mode rule, for every framework.

        Args:
            forward: Called as ``forward(saved, *tangents)``. `saved` is that of `register_vjp`.
                There is one tangent per tensor operand, with its shape, zeros if it does not
                change; None for an operand that is no floating-point tensor or was not given, a
                list for a list. Returns one tangent or None per result, with the result's shape: a
                tuple, or the tangent itself if the op has one result. Written with graphffi's ops
                and with operators that all frameworks have.
            save: Names of the operands and results that `forward` reads.

        Raises:
            TypeError: If `forward` is not callable.
            ValueError: If `save` names something unknown, the op updates operands in place, or it
                has another rule.

        Example:
            >>> scale.register_jvp(lambda saved, x: x * saved.factor)  # doctest: +SKIP
        """
        self._take_rule("jvp", lambda definition: Jvp.make(definition, forward, save))

    def _take_rule(self, kind: str, make: Callable[[Definition], Vjp | Jvp]) -> None:
        def change(definition: Definition) -> Definition:
            rule: dict[str, Any] = {kind: make(definition)}
            changed = dataclasses.replace(definition, **rule)
            known = getattr(definition, kind)
            return _unless_other(definition, changed, f"register_{kind}", known=known)

        self._extend(change, lambda framework, op: framework.add_vjp(op))


def _unless_other(
    definition: Definition, changed: Definition, method: str, known: Any
) -> Definition:
    """The changed definition, or the former one if it is equal.

    Raises:
        ValueError: If the op has another rule.
    """
    if known is None:
        return changed
    if definition.digest != changed.digest:
        raise ValueError(
            f"{definition.name}: {method}: expected the registered rule, got another one; "
            "define the op anew with override=True"
        )
    return definition
