# SPDX-License-Identifier: Apache-2.0
"""References and rules of gradients, which an op is given after its definition."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._contract.rule_text import read_rule
from .._definition.defined_op import DefinedOp
from .derivatives import DerivativeRule, Jvp, Vjp
from .reference import Reference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._definition.definition import Definition
    from .._frameworks.framework import Framework

_Function = TypeVar("_Function", bound="Callable[..., Any]")


class RulesOfOp(DefinedOp):
    """The methods of `Op` that give it references and rules."""

    def _extend(
        self,
        change: Callable[[Definition], Definition],
        tell: Callable[[Framework, DefinedOp, Definition], None],
    ) -> None:
        """Gives the op the definition that `change` makes of its own.

        Args:
            change: Returns another definition, or the same object, which changes nothing.
            tell: Tells a framework: gets the op and its former definition, too.
        """
        raise NotImplementedError

    @overload
    def set_reference(self, function: _Function, *, override: bool = False) -> _Function: ...
    @overload
    def set_reference(
        self, function: None = None, *, override: bool = False
    ) -> Callable[[_Function], _Function]: ...
    def set_reference(
        self, function: _Function | None = None, *, override: bool = False
    ) -> _Function | Callable[[_Function], _Function]:
        """Says what the op computes, in array API code that runs in every framework.

        `graphffi.testing.check` compares the kernels with it.

        Args:
            function: Called as ``function(xp, *arguments)``: with the namespace of the operands'
                framework (of PyTorch, JAX or NumPy, as ``array-api-compat`` gives it), then the
                op's parameters in signature order, attributes of type `graphffi.dtype` as the
                namespace's data types. Returns what the op returns: the results, then the new
                values of operands that the op updates; it changes none.
            override: Replaces the reference that the op has.

        Returns:
            The function: this is a decorator, also with arguments.

        Raises:
            TypeError: If it is not callable with these arguments.
            ValueError: If the op has another reference, unless `override` is given.

        Example:
            >>> @scale.set_reference  # doctest: +SKIP
            ... def reference(xp, x, factor):
            ...     return x * factor
        """
        if function is None:
            return lambda function: self.set_reference(function, override=override)

        def change(definition: Definition) -> Definition:
            reference = Reference.make(definition, function)
            known = definition.reference
            if known is None or override:
                return dataclasses.replace(definition, reference=reference)
            if read_rule(known.function) != read_rule(function):
                raise ValueError(
                    f"{definition.name}: set_reference: expected the reference that is set, got "
                    "another one; pass override=True to replace it"
                )
            return definition

        self._extend(change, lambda framework, op, _: framework.replace_op(op))
        return function

    def register_vjp(
        self, backward: Callable[..., Any], *, save: Sequence[str] = (), override: bool = False
    ) -> None:
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
            override: Replaces the rule that the op has. Results that were computed before keep the
                former one.

        Raises:
            TypeError: If `backward` is not callable.
            ValueError: If `save` names something unknown, the op updates operands in place, or it
                has another rule and `override` is not given.

        Example:
            >>> scale.register_vjp(lambda saved, grad: grad * saved.factor)  # doctest: +SKIP
        """
        self._take_rule("vjp", lambda definition: Vjp.make(definition, backward, save), override)

    def register_jvp(
        self, forward: Callable[..., Any], *, save: Sequence[str] = (), override: bool = False
    ) -> None:
        """Gives the op a forward-mode rule, for every framework.

        Args:
            forward: Called as ``forward(saved, *tangents)``. `saved` is that of `register_vjp`.
                There is one tangent per tensor operand, with its shape, zeros if it does not
                change; None for an operand that is no floating-point tensor or was not given, a
                list for a list. Returns one tangent or None per result, with the result's shape: a
                tuple, or the tangent itself if the op has one result. Written with graphffi's ops
                and with operators that all frameworks have.
            save: Names of the operands and results that `forward` reads.
            override: Replaces the rule that the op has.

        Raises:
            TypeError: If `forward` is not callable.
            ValueError: If `save` names something unknown, the op updates operands in place, or it
                has another rule and `override` is not given.

        Example:
            >>> scale.register_jvp(lambda saved, x: x * saved.factor)  # doctest: +SKIP
        """
        self._take_rule("jvp", lambda definition: Jvp.make(definition, forward, save), override)

    def _take_rule(
        self, kind: str, make: Callable[[Definition], DerivativeRule], override: bool
    ) -> None:
        def change(definition: Definition) -> Definition:
            rule: dict[str, Any] = {kind: make(definition)}
            changed = dataclasses.replace(definition, **rule)
            if getattr(definition, kind) is None or override:
                return changed
            if definition.identity != changed.identity:
                raise ValueError(
                    f"{definition.name}: register_{kind}: expected the registered rule, got "
                    "another one; pass override=True to replace it"
                )
            return definition

        def tell(framework: Framework, op: DefinedOp, former: Definition) -> None:
            is_first = getattr(former, kind) is None
            (framework.add_vjp if is_first else framework.replace_op)(op)

        self._extend(change, tell)
