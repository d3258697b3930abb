# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops: what they are given, and the check of what they return."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._describe import describe, is_tensor
from ._dtype import dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._definition import Definition


class Saved:
    """The values of a call that a rule of gradients gets, by name.

    Every attribute of the op is there, and the operands and results that ``save`` names: tensors,
    lists of tensors, or None for an optional operand that was not given.
    """

    def __init__(
        self, subject: str, values: Mapping[str, Any], function: str = "register_vjp"
    ) -> None:
        self.__dict__.update(values)
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
    definition: Definition, function: str, rule: Any, save: Sequence[str]
) -> tuple[str, ...]:
    """What a rule saves, for an op that can have one.

    Raises:
        TypeError: If `rule` is not callable.
        ValueError: If `save` names something unknown, or the op updates an operand in place.
    """
    subject = f"{definition.name}: {function}"
    if not callable(rule):
        raise TypeError(f"{subject}: expected a callable, got {describe(rule)}")
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
class Vjp:
    """A gradient rule (vector-Jacobian product).

    Args:
        backward: Called with a `Saved` and one cotangent per result (None for results that are no
            floating-point tensors); returns one gradient or None per tensor operand, in signature
            order: a tuple, or the gradient itself if the op has one operand. The gradient of a
            list is a list of gradients and None.
        save: Names of the operands and results that the rule reads.
    """

    backward: Callable[..., Any]
    save: tuple[str, ...]

    @staticmethod
    def make(definition: Definition, backward: Any, save: Sequence[str]) -> Vjp:
        """A checked rule for an op.

        Raises:
            TypeError: If `backward` is not callable.
            ValueError: If `save` names something unknown, or the op updates an operand in place.
        """
        return Vjp(backward, checked_save(definition, "register_vjp", backward, save))

    def run(
        self, definition: Definition, values: Mapping[str, Any], cotangents: Sequence[Any]
    ) -> Any:
        """What the rule returns, for `gradients`.

        Args:
            definition: Of the op.
            values: Saved operands, saved results and all attributes by name.
            cotangents: One tensor or None per result.
        """
        return self.backward(Saved(f"{definition.name}: backward", values), *cotangents)

    def gradients(self, definition: Definition, specs: Sequence[Any], returned: Any) -> list[Any]:
        """What the rule returned, checked.

        Args:
            definition: Of the op.
            specs: Shape and dtype of each operand of the call: a `TensorSpec`, None, a list.
            returned: By `run`.

        Returns:
            One gradient or None per tensor among the operands, lists flattened.

        Raises:
            TypeError: If the rule returns something else than a gradient or None per operand.
            ValueError: If a gradient has another shape than its operand.
        """
        subject = f"{definition.name}: backward"
        operands = definition.operands
        per_operand = (returned,) if len(operands) == 1 else returned
        if not isinstance(per_operand, (tuple, list)) or len(per_operand) != len(operands):
            got = len(per_operand) if isinstance(per_operand, (tuple, list)) else describe(returned)
            raise TypeError(
                f"{subject}: expected {len(operands)} gradients, for "
                f"{', '.join(o.name for o in operands)}, got {got}"
            )
        check = _GradientCheck(subject)
        for operand, spec, gradient in zip(operands, specs, per_operand, strict=True):
            check.add_operand(operand.name, spec, gradient)
        return check.finish()


class _GradientCheck:
    """Collects the gradients of tensors, and what is wrong with them."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.flat: list[Any] = []
        self.problems: list[str] = []
        self.wrong_type = False

    def add_operand(self, name: str, spec: Any, gradient: Any) -> None:
        if not isinstance(spec, list):
            self._add(name, spec, gradient)
            return
        if gradient is None:
            gradient = [None] * len(spec)
        if not isinstance(gradient, (list, tuple)) or len(gradient) != len(spec):
            got = len(gradient) if isinstance(gradient, (list, tuple)) else describe(gradient)
            self._problem(name, f"a list of {len(spec)} gradients", str(got))
            return
        for i, (item, item_spec) in enumerate(zip(gradient, spec, strict=True)):
            self._add(f"{name}[{i}]", item_spec, item)

    def _add(self, name: str, spec: Any, gradient: Any) -> None:
        if gradient is not None:
            self._check(name, spec, gradient)
        if spec is not None:
            self.flat.append(gradient)

    def _check(self, name: str, spec: Any, gradient: Any) -> None:
        if spec is not None and is_tensor(gradient) and is_floating(spec.dtype):
            is_right = converts(gradient.dtype, spec.dtype)
            if is_right and tuple(gradient.shape) == tuple(spec.shape):
                return
            expected = f"{dtype(spec.dtype)}[{', '.join(map(str, spec.shape))}]"
            got = f"{dtype(gradient.dtype)}[{', '.join(map(str, gradient.shape))}]"
            if dtype(gradient.dtype).startswith("complex") and not is_right:
                got += "; take the part that is right, such as .real"
            self._problem(name, expected, got, wrong_type=not is_right)
        elif spec is None:
            self._problem(name, "None, as there is no such operand in the call", describe(gradient))
        elif not is_floating(spec.dtype):
            self._problem(name, f"None for {dtype(spec.dtype)}", describe(gradient))
        else:
            self._problem(name, "a tensor or None", describe(gradient))

    def _problem(self, name: str, expected: str, got: str, *, wrong_type: bool = True) -> None:
        self.wrong_type = self.wrong_type or wrong_type
        self.problems.append(f"gradient of {name!r}: expected {expected}, got {got}")

    def finish(self) -> list[Any]:
        if self.problems:
            kind = TypeError if self.wrong_type else ValueError
            raise kind(f"{self.subject}: {'; '.join(self.problems)}")
        return self.flat


@functools.cache
def converts(given: Any, wanted: Any) -> bool:
    """Whether a gradient of one data type may stand for one of another: no part of it is lost."""
    is_real = not dtype(given).startswith("complex")
    return is_floating(given) and (is_real or dtype(wanted).startswith("complex"))


@functools.cache
def is_floating(value: Any) -> bool:
    """Whether tensors of a data type can have gradients."""
    return dtype(value).startswith(("float", "bfloat", "complex"))
