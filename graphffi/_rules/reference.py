# SPDX-License-Identifier: Apache-2.0
"""References of ops: what an op computes, in array API code that runs in every framework."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .._contract.spec import spec_text
from .._values.describe import counted, describe, is_tensor
from .._values.dtype import dtype
from .._values.error import name_rule
from .._values.nested import flat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._contract.spec import TensorSpec
    from .._definition.interface import Interface

REFERENCE: Final = "reference"
"""The name of the reference among an op's kernels, and the value of options that ask for it."""


def checked_choice(op: str, option: str, value: Any) -> str:
    """An option that may ask for the reference.

    Raises:
        ValueError: If it is something else.
    """
    if value not in ("", None, REFERENCE):
        raise ValueError(f"{op}: {option}: expected {REFERENCE!r} or nothing, got {value!r}")
    return value or ""


@dataclass(frozen=True, eq=False)
class Reference:
    """The reference of an op.

    Args:
        function: Gets the namespace of the operands' framework, then the op's parameters in order;
            returns what the op returns.
    """

    function: Callable[..., Any]

    @staticmethod
    def make(definition: Interface, function: Any) -> Reference:
        """A checked reference for an op.

        Raises:
            TypeError: If `function` is not callable with a namespace and the op's parameters.
        """
        subject = f"{definition.name}: set_reference"
        names = [p.name for p in definition.parameters]
        expected = f"{subject}: expected a callable of ({', '.join(('xp', *names))})"
        if not callable(function):
            raise TypeError(f"{expected}, got {describe(function)}")
        try:
            found = inspect.signature(function)
        except (TypeError, ValueError):  # of C
            return Reference(function)
        try:
            found.bind(None, *names)
        except TypeError as error:
            raise TypeError(f"{expected}, got one of {found}: {error}") from None
        return Reference(function)

    def call(
        self, definition: Interface, operands: Sequence[Any], attributes: Sequence[Any]
    ) -> list[Any]:
        """The values that the function returns: one per result and per operand that the op updates.

        Args:
            definition: Of the op.
            operands: Tensors of one framework, None or lists.
            attributes: One value per attribute.

        Raises:
            ModuleNotFoundError: If there is no package that gives the namespace.
            TypeError: If it returns another number of values.
        """
        subject = f"{definition.name}: {REFERENCE}"
        xp = namespace_of(subject, flat(operands))
        constants = [_as_dtypes(xp, value) for value in attributes]
        try:
            returned = self.function(xp, *definition.in_order(operands, constants))
        except Exception as error:
            name_rule(error, definition.name, REFERENCE)
            raise
        count = len(definition.results) + sum(o.mutated for o in definition.operands)
        return _several(subject, returned, count)

    def run(
        self,
        definition: Interface,
        operands: Sequence[Any],
        attributes: Sequence[Any],
        specs: Sequence[TensorSpec],
    ) -> list[Any]:
        """The values that the function returns, checked.

        Returns:
            The results, then the new values of the operands that the op updates, flat.

        Raises:
            ModuleNotFoundError: As `call`.
            TypeError: Likewise, or for another data type.
            ValueError: For another shape.
        """
        found = self.call(definition, operands, attributes)
        expected: list[tuple[str, Any]] = [
            (f"result {name!r}", spec) for name, spec in zip(definition.results, specs, strict=True)
        ]
        for operand, value in zip(definition.operands, operands, strict=True):
            if operand.mutated:
                expected.append((f"operand {operand.name!r}", value))
        checked: list[Any] = []
        for (name, spec), value in zip(expected, found, strict=True):
            checked += _checked(f"{definition.name}: {REFERENCE}: {name}", value, spec)
        return checked


def is_narrow(kind: Any) -> bool:
    """True if references compute in float32 in place of a data type, where results are compared."""
    found = dtype(kind)
    return found.startswith(("float", "bfloat")) and found.bits < 32


def namespace_of(subject: str, tensors: Sequence[Any]) -> Any:
    """The namespace of the array API for tensors of one framework.

    Raises:
        ModuleNotFoundError: If `array-api-compat` is not installed.
    """
    try:
        import array_api_compat
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{subject}: expected the package array-api-compat, got none; "
            "pip install array-api-compat",
            name="array_api_compat",
        ) from None
    if not tensors:
        import array_api_compat.numpy

        return array_api_compat.numpy
    return array_api_compat.array_namespace(*tensors)


def _as_dtypes(xp: Any, value: Any) -> Any:
    """An attribute with the namespace's data types in the place of graphffi's."""
    if isinstance(value, (list, tuple)):
        return [_as_dtypes(xp, item) for item in value]
    if not isinstance(value, dtype):
        return value
    found = getattr(xp, str(value), None)
    return getattr(sys.modules.get("ml_dtypes"), str(value), value) if found is None else found


def _several(subject: str, returned: Any, count: int) -> list[Any]:
    values = returned if count != 1 and isinstance(returned, (tuple, list)) else [returned]
    if count == 0 and returned is None:
        return []
    if len(values) != count:
        got = len(values) if values is returned else describe(returned)
        raise TypeError(f"{subject}: expected {counted(count, 'result')}, got {got}")
    return list(values)


def _checked(subject: str, value: Any, spec: Any) -> list[Any]:
    """The value that the function returned for a tensor, a list or None, if it is like these.

    Returns:
        The tensors: none for None.
    """
    if isinstance(spec, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            raise TypeError(
                f"{subject}: expected a list of {len(spec)} tensors, got {describe(value)}"
            )
        return [t for pair in zip(value, spec, strict=True) for t in _checked(subject, *pair)]
    if spec is None:
        return []
    if not is_tensor(value):
        raise TypeError(f"{subject}: expected a tensor, got {describe(value)}")
    expected, got = spec_text(spec), spec_text(value)
    if dtype(value.dtype) != dtype(spec.dtype):
        raise TypeError(f"{subject}: expected {expected}, got {got}")
    sizes = zip(value.shape, spec.shape, strict=False)
    if len(value.shape) != len(spec.shape) or any(_differ(*pair) for pair in sizes):
        raise ValueError(f"{subject}: expected {expected}, got {got}")
    return [value]


def _differ(a: Any, b: Any) -> bool:
    """True if two sizes differ, of which symbolic ones are left to the tracer."""
    return type(a) is int and type(b) is int and a != b
