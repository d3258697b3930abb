# SPDX-License-Identifier: Apache-2.0
"""Rules of gradients, of both modes: what they are given, and the check of what they return."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from .._contract.spec import spec_text
from .._values.describe import describe, is_tensor
from .._values.dtype import dtype
from .._values.error import name_rule
from .._values.nested import for_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from .._definition.interface import Interface


class Saved:
    """The values of a call that a rule of gradients gets, by name.

    Every attribute of the op is there, and the operands and results that ``save`` names: tensors,
    lists of tensors, or None for an optional operand that was not given.
    """

    def __init__(self, subject: str, values: Mapping[str, Any], function: str) -> None:
        self.__dict__.update({name: for_rule(value) for name, value in values.items()})
        self.__dict__["__subject__"] = subject
        self.__dict__["__function__"] = function

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(key for key in self.__dict__ if not key.startswith("__"))
        raise AttributeError(
            f"{self.__dict__.get('__subject__', 'graphffi: backward')}: saved value: expected "
            f"{f'one of {known}' if known else 'no name'}, got {name!r}; name it in "
            f"{self.__dict__.get('__function__', 'register_vjp')}(save=...)"
        )


def checked_save(
    definition: Interface, function: str, rule: Any, save: Sequence[str]
) -> tuple[str, ...]:
    """The names that a rule saves, for an op that can have one.

    Raises:
        TypeError: If `rule` is not callable.
        ValueError: If `save` names something unknown, or the op updates an operand in place.
    """
    subject = f"{definition.name}: {function}"
    if not callable(rule):
        raise TypeError(f"{subject}: expected a callable, got {describe(rule)}")
    if not isinstance(save, Iterable):
        raise TypeError(f"{subject}: save: expected names, got {describe(save)}")
    names = (save,) if isinstance(save, str) else tuple(save)
    known = [*(p.name for p in definition.parameters), *definition.results]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"{subject}: save: expected names of parameters and results, got "
            f"{', '.join(map(repr, unknown))}; known names: {', '.join(known)}"
        )
    mutated = [o.name for o in definition.operands if o.mutated]
    if mutated:
        raise ValueError(
            f"{subject}: expected an op that returns new tensors only, got one that updates "
            f"{', '.join(map(repr, mutated))} in place"
        )
    if definition.has_side_effect:
        raise ValueError(f"{subject}: expected an op without side effects, got one that has")
    if not definition.operands or not definition.results:
        raise ValueError(f"{subject}: expected an op with tensor operands and results")
    return names


@dataclass(frozen=True, eq=False)
class DerivativeRule:
    """A rule that takes derivatives from a call's results to its operands, or the other way.

    Args:
        function: Called with a `Saved` and one derivative per result or operand; returns one per
            operand or result: a tuple, or the derivative itself if there is one. A derivative is
            None for what is no floating-point tensor or was not given, a list for a list.
        save: Names of the operands and results that the rule reads.

    Attributes:
        REGISTERED_BY: The method of `Op` that takes such rules.
        NAME: By which errors tell it from the other kind of rules.
        RETURNED: What it returns, in the singular.
    """

    REGISTERED_BY: ClassVar[str]
    NAME: ClassVar[str]
    RETURNED: ClassVar[str]

    function: Callable[..., Any]
    save: tuple[str, ...]

    @classmethod
    def make(cls, definition: Interface, function: Any, save: Sequence[str]) -> Self:
        """A checked rule for an op.

        Raises:
            TypeError: If `function` is not callable.
            ValueError: If `save` names something unknown, or the op updates an operand in place.
        """
        return cls(function, checked_save(definition, cls.REGISTERED_BY, function, save))

    def run(self, definition: Interface, values: Mapping[str, Any], given: Sequence[Any]) -> Any:
        """Runs the rule; gives what it returns, for `checked`.

        Args:
            definition: Of the op.
            values: Saved operands, saved results and all attributes by name.
            given: One tensor, None or list per result or operand.
        """
        saved = Saved(f"{definition.name}: {self.NAME}", values, self.REGISTERED_BY)
        try:
            return self.function(saved, *given)
        except Exception as error:
            name_rule(error, definition.name, self.NAME)
            raise

    def checked(self, definition: Interface, specs: Sequence[Any], returned: Any) -> list[Any]:
        """The derivatives of these tensors that the rule returned, checked.

        Returns:
            One derivative or None per tensor, lists flattened.

        Raises:
            TypeError: If there are more or fewer, or one is of another kind or data type.
            ValueError: If one has another shape than its tensor.
        """
        check = _Check(f"{definition.name}: {self.NAME}", self.RETURNED)
        return check.run(self._names(definition), specs, returned)

    def _names(self, definition: Interface) -> Sequence[str]:
        raise NotImplementedError


class Vjp(DerivativeRule):
    """A gradient rule (vector-Jacobian product): from cotangents of results to gradients."""

    REGISTERED_BY = "register_vjp"
    NAME = "backward"
    RETURNED = "gradient"

    def _names(self, definition: Interface) -> Sequence[str]:
        return [operand.name for operand in definition.operands]


class Jvp(DerivativeRule):
    """A forward-mode rule (Jacobian-vector product): from operands' tangents to results'."""

    REGISTERED_BY = "register_jvp"
    NAME = "jvp"
    RETURNED = "tangent"

    def _names(self, definition: Interface) -> Sequence[str]:
        return definition.results


class _Check:
    """Collects the gradients or tangents that a rule returned, and what is wrong with them.

    Args:
        subject: Begins error messages.
        kind: ``gradient`` or ``tangent``.
    """

    def __init__(self, subject: str, kind: str) -> None:
        self._subject = subject
        self._kind = kind
        self._flat: list[Any] = []
        self._problems: list[str] = []
        self._wrong_type = False

    def run(self, names: Sequence[str], specs: Sequence[Any], returned: Any) -> list[Any]:
        """See `DerivativeRule.checked`."""
        values = (returned,) if len(names) == 1 else returned
        if not isinstance(values, (tuple, list)) or len(values) != len(names):
            got = len(values) if isinstance(values, (tuple, list)) else describe(returned)
            raise TypeError(
                f"{self._subject}: expected {len(names)} {self._kind}s, for {', '.join(names)}, "
                f"got {got}"
            )
        for name, spec, value in zip(names, specs, values, strict=True):
            self._add_all(name, spec, value)
        if self._problems:
            kind = TypeError if self._wrong_type else ValueError
            raise kind(f"{self._subject}: {'; '.join(self._problems)}")
        return self._flat

    def _add_all(self, name: str, spec: Any, value: Any) -> None:
        """Takes what was returned for a tensor or a list of tensors; None for nothing."""
        if not isinstance(spec, list):
            self._add(name, spec, value)
            return
        if value is None:
            value = [None] * len(spec)
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            got = len(value) if isinstance(value, (list, tuple)) else describe(value)
            self._problem(name, f"a list of {len(spec)} {self._kind}s", str(got))
            return
        for i, (item, item_spec) in enumerate(zip(value, spec, strict=True)):
            self._add(f"{name}[{i}]", item_spec, item)

    def _add(self, name: str, spec: Any, value: Any) -> None:
        if value is not None:
            self._check(name, spec, value)
        if spec is not None:
            self._flat.append(value)

    def _check(self, name: str, spec: Any, value: Any) -> None:
        if spec is not None and is_tensor(value) and is_floating(spec.dtype):
            is_right = converts(value.dtype, spec.dtype)
            if is_right and tuple(value.shape) == tuple(spec.shape):
                return
            got = spec_text(value)
            if dtype(value.dtype).startswith("complex") and not is_right:
                got += "; take the part that is right, such as .real"
            self._problem(name, spec_text(spec), got, wrong_type=not is_right)
        elif spec is None:
            self._problem(name, "None, as there is no such operand in the call", describe(value))
        elif not is_floating(spec.dtype):
            self._problem(name, f"None for {dtype(spec.dtype)}", describe(value))
        else:
            self._problem(name, "a tensor or None", describe(value))

    def _problem(self, name: str, expected: str, got: str, *, wrong_type: bool = True) -> None:
        self._wrong_type = self._wrong_type or wrong_type
        self._problems.append(f"{self._kind} of {name!r}: expected {expected}, got {got}")


@functools.cache
def converts(given: Any, wanted: Any) -> bool:
    """True if a gradient of one data type may stand for one of another: no part of it is lost."""
    is_real = not dtype(given).startswith("complex")
    return is_floating(given) and (is_real or dtype(wanted).startswith("complex"))


@functools.cache
def is_floating(value: Any) -> bool:
    """True if tensors of a data type can have gradients."""
    return dtype(value).startswith(("float", "bfloat", "complex"))
