# SPDX-License-Identifier: Apache-2.0
"""Forward-mode rules of ops: what they are given, and the check of what they return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._vjp import DerivativeCheck, Saved, checked_save

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
        check = DerivativeCheck(f"{definition.name}: jvp", "tangent")
        for name, spec, tangent in check.split(definition.results, specs, returned):
            check.add(name, spec, tangent)
        return check.finish()
