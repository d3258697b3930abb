# SPDX-License-Identifier: Apache-2.0
"""The splits of a call by DTensor between devices: along the dimensions that `dims` leaves free."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphffi.plugin import Operand
from graphffi_torch._compiled.dynamo import end_trace, is_wrong_call
from graphffi_torch._operators.operator_schema import argument_values
from graphffi_torch._operators.operators import operator_of
from graphffi_torch._operators.primitive import CALL, CALL_GRAPH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphffi.plugin import CanonicalCall, DefinedOp, Definition


_MIXED: Final = (
    "expected operands that are all DTensors, or none, got both; distribute the others, with "
    "Replicate() where each process has them whole"
)
_known: Final[dict[str, DefinedOp]] = {}
# DTensor has been: what is in sys.modules, another thread may still be importing.
_has_been_imported: Final = threading.Event()


def announce_sharding(op: DefinedOp) -> None:
    """Tells DTensor which placements an op's operator takes; without `dims`, whole tensors only."""
    _known[op.name] = op
    if _has_been_imported.is_set():
        _register(op)


def register_known() -> None:
    """Tells DTensor, which is there now, of all ops; later ones tell it themselves."""
    from torch.distributed.tensor.experimental import register_sharding

    register_sharding([CALL, CALL_GRAPH])(_whole)
    _has_been_imported.set()  # before the table is read: other threads define ops
    for op in tuple(_known.values()):
        _register(op)


def _register(op: DefinedOp) -> None:
    from torch.distributed.tensor.experimental import register_sharding

    definition = op.definition

    def acceptable(*arguments: Any, **keywords: Any) -> list[tuple[list[Any], list[Any]]]:
        values = argument_values(definition, arguments, keywords)
        try:
            return _PlacedCall.of(definition, values).placements()
        except ValueError as error:
            end_trace(error)
            raise

    register_sharding(operator_of(op))(acceptable)


def _whole(func: str, inputs: Any, outputs: Any, *others: Any) -> list[tuple[list[Any], list[Any]]]:
    """Every device makes all of a call that no definition splits."""
    tensors = [tensor for tensor in (*inputs, *outputs) if tensor is not None]
    try:
        for tensor in tensors:
            check_replicated(func, tensor)
    except ValueError as error:
        end_trace(error)
        raise
    whole = _place(None, 0, None)
    return [([], [whole for _ in tensors])]


def check_replicated(subject: str, tensor: Any) -> None:
    """Refuses a tensor of which a device has only a part.

    Raises:
        ValueError: For any other placement than `Replicate`.
    """
    for placement in tensor.placements:
        if not placement.is_replicate():
            raise ValueError(
                f"{subject}: expected DTensors that each device has whole, got {placement}; "
                "redistribute them with Replicate(), or define an op with dims="
            )


def replicated(call: CanonicalCall, results: Sequence[Any]) -> list[Any]:
    """The results of a call without a definition, as DTensors that each device has whole.

    Raises:
        ValueError: If the operands are no such DTensors, too, or the call has a side effect.
    """
    from torch.distributed.tensor import DTensor

    operands = [*call.inputs, *call.mutated]
    for operand in operands:
        if type(operand).__name__ != "DTensor":
            raise ValueError(f"{call.subject}: {_MIXED}")
        check_replicated(call.subject, operand)
    if call.traits is not None and call.traits.has_side_effect:
        raise ValueError(
            f"{call.subject}: expected a call without side effects on DTensors, got "
            f"has_side_effect={call.traits.has_side_effect!r}; pass their to_local()"
        )
    mesh, whole = operands[0].device_mesh, operands[0].placements
    return [DTensor.from_local(result, mesh, whole, run_check=False) for result in results]


def raise_original(subject: str, error: BaseException) -> None:
    """Raises the op's own error where DTensor wrapped it; returns where it did not.

    Where Dynamo traces the call, nothing that comes later could: it drops the cause of an error.
    """
    original = original_error(subject, error) if isinstance(error, RuntimeError) else None
    if original is None or original is error:
        return
    if not is_wrong_call(original):
        end_trace(original)
    raise original from None


def original_error(subject: str, error: BaseException) -> Exception | None:
    """The op's own error that DTensor wrapped in one of its own."""
    if "got mixed torch.Tensor and DTensor" in str(error):
        return ValueError(f"{subject}: {_MIXED}")
    cause: BaseException | None = error
    while cause is not None:
        if is_wrong_call(cause) or (
            isinstance(cause, (TypeError, ValueError, NotImplementedError))
            and str(cause).startswith(f"{subject}: ")
        ):
            assert isinstance(cause, Exception)
            return cause
        # The context without `from None` is what the caller was handling before.
        cause = cause.__cause__ or (cause.__context__ if cause.__suppress_context__ else None)
    return None


@dataclass(frozen=True)
class _Argument:
    """One argument of a call: its tensors, none for attributes, and their dimensions."""

    tensors: tuple[Any, ...]
    group: Any
    is_mutated: bool


@dataclass(frozen=True)
class _PlacedCall:
    """A call as DTensor sees it: shapes and placements."""

    definition: Definition
    arguments: list[_Argument]

    @staticmethod
    def of(definition: Definition, values: Sequence[Any]) -> _PlacedCall:
        groups: Any = iter([None] * len(definition.operands))
        if definition.dims is not None:
            groups = iter(definition.dims.operands)
        arguments = []
        for parameter, value in zip(definition.parameters, values, strict=True):
            if isinstance(parameter, Operand):
                items = value if isinstance(value, (list, tuple)) else (value,)
                tensors = tuple(item for item in items if item is not None)
                arguments.append(_Argument(tensors, next(groups), parameter.mutated))
            else:
                arguments.append(_Argument((), None, False))
        return _PlacedCall(definition, arguments)

    def placements(self) -> list[tuple[list[Any], list[Any]]]:
        """Every way to place results and arguments along one dimension of the mesh."""
        names: dict[str | None, None] = {None: None}  # no split at all comes first
        for argument in self.arguments:
            for tensor in argument.tensors:
                names.update(dict.fromkeys(self._free_dims(argument.group, tensor.ndim)))
        current = self._mutated_placement()
        found = [
            (self._results(name), self._inputs(name))
            for name in names
            if current is None or self._written(name) == current
        ]
        if not found:
            dims = "" if self.definition.dims is None else f" {self.definition.dims.text!r}"
            raise ValueError(
                f"{self.definition.name}: expected operands that are updated in place to be split "
                f"along free dimensions of dims{dims}, got {current}; redistribute them before the "
                "call"
            )
        return found

    def _free_dims(self, group: Any, ndim: int) -> list[str]:
        if group is None or self.definition.dims is None:
            return []
        whole = self.definition.dims.whole
        return [name for name in group.positions(ndim) if name not in whole]

    def _results(self, name: str | None) -> list[Any]:
        dims = self.definition.dims
        if dims is None:
            return [_place(None, 0, None) for _ in self.definition.results]
        leading = max(
            (
                t.ndim - len(a.group.names)
                for a in self.arguments
                for t in a.tensors
                if a.group.has_ellipsis
            ),
            default=0,
        )
        return [
            _place(group, len(group.names) + leading * group.has_ellipsis, name)
            for group in dims.results
        ]

    def _inputs(self, name: str | None) -> list[Any]:
        inputs: list[Any] = []
        for argument in self.arguments:
            inputs.extend(_place(argument.group, t.ndim, name) for t in argument.tensors)
            if not argument.tensors:
                inputs.append(None)
        return inputs

    def _written(self, name: str | None) -> Any:
        """The placements of the updated operands; all have every free dimension."""
        return next(
            _place(a.group, t.ndim, name) for a in self.arguments if a.is_mutated for t in a.tensors
        )

    def _mutated_placement(self) -> Any:
        """The one placement of all operands that are updated, or None if there are none.

        DTensor would move such an operand to where a rule wants it, and update the copy.
        """
        tensors = [t for a in self.arguments if a.is_mutated for t in a.tensors]
        placements = dict.fromkeys(p for tensor in tensors for p in tensor.placements)
        if len(placements) > 1:
            raise ValueError(
                f"{self.definition.name}: expected operands that are updated in place to be placed "
                f"alike on all dimensions of the mesh, got {', '.join(map(str, placements))}; "
                "redistribute them before the call"
            )
        return next(iter(placements), None)


def _place(group: Any, ndim: int, name: str | None) -> Any:
    """The placement of a tensor if the call is split along a dimension of that name."""
    from torch.distributed.tensor import Replicate, Shard

    position = None if group is None else group.positions(ndim).get(name)
    return Replicate() if position is None else Shard(position)
