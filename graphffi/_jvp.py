# SPDX-License-Identifier: Apache-2.0
"""Forward-mode rules of ops: what they are given, and the check of what they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._describe import describe, is_tensor
from ._dtype import dtype
from ._vjp import Saved, checked_save, converts, is_floating

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ._definition import Definition


@dataclass(frozen=True, eq=False)
class Jvp:
    """A forward-mode rule (Jacobian-vector product).

    Args:
        forward: Called with a `Saved` and one tangent per tensor operand (None for operands that
            are no floating-point tensors or were not given, a list for a list); returns one tangent
            or None per result: a tuple, or the tangent itself if the op has one result.
        save: Names of the operands and results that the rule reads.
    """

    forward: Callable[..., Any]
    save: tuple[str, ...]

    @staticmethod
    def make(definition: Definition, forward: Any, save: Sequence[str]) -> Jvp:
        """A checked rule for an op.

        Raises:
            TypeError: If `forward` is not callable.
            ValueError: If `save` names something unknown, or the op updates an operand in place.
        """
        return Jvp(forward, checked_save(definition, "register_jvp", forward, save))

    def run(
        self, definition: Definition, values: Mapping[str, Any], tangents: Sequence[Any]
    ) -> Any:
        """What the rule returns, for `tangents`.

        Args:
            definition: Of the op.
            values: Saved operands, saved results and all attributes by name.
            tangents: One tensor, None or list per operand.
        """
        return self.forward(Saved(f"{definition.name}: jvp", values, "register_jvp"), *tangents)

    def tangents(self, definition: Definition, specs: Sequence[Any], returned: Any) -> list[Any]:
        """What the rule returned, checked.

        Args:
            definition: Of the op.
            specs: Shape and dtype of each result.
            returned: By `run`.

        Returns:
            One tangent or None per result.

        Raises:
            TypeError: If the rule returns something else than a tangent or None per result.
            ValueError: If a tangent has another shape than its result.
        """
        subject, results = f"{definition.name}: jvp", definition.results
        values = (returned,) if len(results) == 1 else returned
        if not isinstance(values, (tuple, list)) or len(values) != len(results):
            got = len(values) if isinstance(values, (tuple, list)) else describe(returned)
            raise TypeError(
                f"{subject}: expected {len(results)} tangents, for {', '.join(results)}, got {got}"
            )
        problems: list[str] = []
        wrong_type = False
        for name, spec, tangent in zip(results, specs, values, strict=True):
            problem, is_type = _problem(spec, tangent)
            wrong_type = wrong_type or is_type
            problems += [f"tangent of {name!r}: {problem}"] if problem else []
        if problems:
            raise (TypeError if wrong_type else ValueError)(f"{subject}: {'; '.join(problems)}")
        return list(values)


def _problem(spec: Any, tangent: Any) -> tuple[str, bool]:
    """What is wrong with the tangent of a result, and whether it is its type."""
    if tangent is None:
        return "", False
    if not is_floating(spec.dtype):
        return f"expected None for {dtype(spec.dtype)}, got {describe(tangent)}", True
    if not is_tensor(tangent):
        return f"expected a tensor or None, got {describe(tangent)}", True
    is_right = converts(tangent.dtype, spec.dtype)
    if is_right and tuple(tangent.shape) == tuple(spec.shape):
        return "", False
    expected = f"{dtype(spec.dtype)}[{', '.join(map(str, spec.shape))}]"
    got = f"{dtype(tangent.dtype)}[{', '.join(map(str, tangent.shape))}]"
    return f"expected {expected}, got {got}", not is_right
