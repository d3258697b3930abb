# SPDX-License-Identifier: Apache-2.0
"""An op as its callers see it: names, operands, attributes, results and what is said of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .._cached import cached_property
from .._contract.dims import Dims, parse_dims
from .._contract.dtypes import DTypes, StatedView, parse_dtypes
from .._frameworks.tracing import report_to_tracer
from .._values.describe import counted
from .._values.nested import flat, for_rule
from .binding import BoundCall, bind
from .parameter import MISSING, Attribute, Operand, is_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .._contract.traits import SideEffect


@dataclass(frozen=True, eq=False)
class Interface:
    """An op without what it runs.

    Args:
        name: ``namespace::op``.
        parameters: `Operand` and `Attribute` in signature order.
        results: Names of the results that the op allocates; mutated operands are returned after
            them.
        rule: Gets one `TensorSpec` (None, list) per operand and one value per attribute, in
            signature order; returns the specs of the results.
        result_type: A NamedTuple class for several results, or None.
        doc: What the op computes.
        has_side_effect: Whether calls count for more than their results.
        dims_text: Names of dimensions, or nothing.
        dtypes_text: The data types that the op takes and gives, or nothing.
        strided: Operands that kernels take with any strides; others are row-major for them.
    """

    name: str
    parameters: tuple[Operand | Attribute, ...]
    results: tuple[str, ...]
    rule: Callable[..., Any] | None
    result_type: Any = None
    doc: str = ""
    has_side_effect: SideEffect = False
    dims_text: str = ""
    dtypes_text: str = ""
    strided: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        namespace, separator, base = str(self.name).partition("::")
        if not (separator and is_name(namespace) and is_name(base)):
            raise ValueError(f"graphffi: op name: expected 'namespace::name', got {self.name!r}")
        seen: set[str] = set()
        for name in (*(p.name for p in self.parameters), *self.results):
            if not is_name(name) or name.startswith("graphffi_"):
                raise ValueError(
                    f"{self.name}: expected names of ASCII letters, digits and _ that neither "
                    f"Python nor graphffi reserves, got {name!r}"
                )
            if name in seen:
                raise ValueError(
                    f"{self.name}: expected distinct names of parameters and results, got {name!r} "
                    f"twice; a single result is 'out', several are 'out0', 'out1', …, unless named"
                )
            seen.add(name)
        if unknown := set(self.strided) - {o.name for o in self.operands}:
            raise ValueError(
                f"{self.name}: strided: expected names of operands, got {min(unknown)!r}; "
                f"operands: {', '.join(o.name for o in self.operands)}"
            )
        _ = self.dims, self.dtypes  # which raise if the text is wrong
        self._check_ranks()

    def _check_ranks(self) -> None:
        """Compares the groups of dimensions with the ranks that the kernel's parameters state."""
        if self.dims is None:
            return
        names = (*(operand.name for operand in self.operands), *self.results)
        groups = dict(zip(names, (*self.dims.operands, *self.dims.results), strict=True))
        for view in self.stated:
            group, rank = groups[view.name], view.opt_rank
            least = len(group.names)
            if rank is not None and (rank < least or (rank > least and not group.has_ellipsis)):
                raise TypeError(
                    f"{self.name}: dims {self.dims_text!r}: {view.name!r}: expected "
                    f"{counted(rank, 'dimension')}, which the kernel's parameter takes, "
                    f"got {str(group)!r}"
                )

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The tensor parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Operand))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The other parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Attribute))

    @property
    def is_updating(self) -> bool:
        """True if calls update operands."""
        return any(operand.mutated for operand in self.operands)

    @property
    def stated(self) -> tuple[StatedView, ...]:
        """The statements of the parameters of the kernel that runs all calls, if one does."""
        return ()

    @cached_property
    def signature(self) -> str:
        """``(x, weight, eps=1e-06) -> out`` for messages and digests."""
        parts = []
        for p in self.parameters:
            if p.by_name and "*" not in parts:
                parts.append("*")
            if isinstance(p, Operand):
                default = "" if p.required else " = None"
                parts.append(f"{p.name}: {p.kind}{'!' if p.mutated else ''}{default}")
            else:
                default = "" if p.default is MISSING else f" = {p.default!r}"
                parts.append(f"{p.name}: {p.annotation}{default}")
        return f"({', '.join(parts)}) -> ({', '.join(self.results)})"

    @cached_property
    def dims(self) -> Dims | None:
        """The named dimensions of operands and results, if the op has names for them."""
        if not self.dims_text:
            return None
        return parse_dims(self.name, self.dims_text, self.operands, self.results)

    @cached_property
    def dtypes(self) -> DTypes | None:
        """The data types of operands and results, if the op or its kernel says what they are."""
        if not self.dtypes_text and not self.stated:
            return None
        parts = (self.operands, self.results, self.stated)
        return parse_dtypes(self.name, self.dtypes_text, *parts)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundCall:
        """Matches arguments with parameters.

        Raises:
            TypeError: For missing, unknown, surplus or wrong-typed arguments; all of them in one
                message.
            ValueError: If all that is wrong are values of attributes.
        """
        try:
            return bind(self.name, self.parameters, args, kwargs)
        except (TypeError, ValueError) as error:
            report_to_tracer(type(error).__name__, error.args[0])
            raise

    def in_order(self, operands: Sequence[Any], attributes: Sequence[Any]) -> list[Any]:
        """One value per parameter, in signature order, for a rule."""
        tensors, values = iter(operands), iter(attributes)
        ordered = (next(tensors if isinstance(p, Operand) else values) for p in self.parameters)
        return [for_rule(value) for value in ordered]

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """One value per operand and one per attribute, of one per parameter."""
        pairs = list(zip(self.parameters, values, strict=True))
        return (
            [value for p, value in pairs if isinstance(p, Operand)],
            [value for p, value in pairs if isinstance(p, Attribute)],
        )

    def read(self, operands: Sequence[Any]) -> list[Any]:
        """The tensors among the operands that the op only reads, lists flattened."""
        pairs = zip(self.operands, operands, strict=True)
        return flat([value for operand, value in pairs if not operand.mutated])

    def updated(self, operands: Sequence[Any]) -> list[Any]:
        """The tensors among the operands that the op updates, lists flattened."""
        pairs = zip(self.operands, operands, strict=True)
        return flat([value for operand, value in pairs if operand.mutated])

    def pack_results(
        self, operands: Sequence[Any], fresh: Sequence[Any], mutated: Sequence[Any]
    ) -> Any:
        """Packs the results of a call.

        Args:
            operands: As given to `canonical`.
            fresh: One tensor per result that the op allocates.
            mutated: The updated tensors, flat, in the order of `CanonicalCall.mutated`.

        Returns:
            The results, then the mutated operands: one object if there is one, a tuple otherwise
            (the NamedTuple of the annotation if only results are returned).
        """
        updated = iter(mutated)
        values = list(fresh)
        for operand, value in zip(self.operands, operands, strict=True):
            if not operand.mutated:
                continue
            if isinstance(value, (list, tuple)):
                values.append([next(updated) for _ in value])
            else:
                values.append(None if value is None else next(updated))
        if self.result_type is not None and len(values) == len(self.results):
            return self.result_type(*values)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)
