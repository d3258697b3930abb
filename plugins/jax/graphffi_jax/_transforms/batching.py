# SPDX-License-Identifier: Apache-2.0
"""Batching rules of ops as jax.vmap applies them."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.experimental
import jax.numpy as jnp

import graphffi
from graphffi.plugin import Definition, call_in_batch, structure_of
from graphffi_jax._lowering.call_text import float_text

_WIDE: Final = {"float64", "int64", "uint64", "complex128"}
_CONSTANTS: Final = {int, float, bool, str, type(None), graphffi.dtype, graphffi.Device}
# Older versions have it in jax.experimental.
enable_x64: Final[Any] = (jax if hasattr(jax, "enable_x64") else jax.experimental).enable_x64
_batches: Final = contextvars.ContextVar("graphffi_jax_batches", default=0)


def take_batches() -> int:
    """The number of leading dimensions of all arrays that the call being made got from `vmap`.

    Told once: the call may run at once, and its kernel make others.
    """
    count = _batches.get()
    if count:
        _batches.set(0)
    return count


def as_traced(*dtypes: Any) -> contextlib.AbstractContextManager[Any]:
    """The setting of 64-bit types with which a call of such arrays was traced.

    What is made of the call may be computed later, with another setting.
    """
    is_wide = any(str(kind) in _WIDE for kind in dtypes)
    return enable_x64(True) if is_wide else contextlib.nullcontext()


@dataclass(frozen=True, eq=False)
class OpCall:
    """The parts of a call of an op, from which another call is made.

    Args:
        op: The op.
        defined: What it was defined as when the call was made; rules may have been added since.
        definition: That of the call, which says what its arrays are.
        structure: Of each operand: None for None, -1 for one array, the length of a list.
        attributes: One value per attribute.
    """

    op: graphffi.Op
    defined: Definition
    definition: Definition
    structure: tuple[int | None, ...]
    attributes: tuple[Any, ...]

    @staticmethod
    def make(
        op: graphffi.Op,
        definition: Definition,
        operands: Sequence[Any],
        attributes: Sequence[Any],
    ) -> OpCall:
        """The parts of a call with converted operands: arrays, lists of arrays, None."""
        structure = tuple(map(structure_of, operands))
        return OpCall(op, op.defined, definition, structure, tuple(attributes))

    def with_rules(self) -> Definition:
        """The op's definition with the rules that it has now.

        Raises:
            RuntimeError: If the op was defined anew: the call is one of the former op.
        """
        now = self.op.defined
        if now is not self.defined and now.identity != self.defined.identity:
            raise RuntimeError(
                f"{self.op.name}: expected the op of the trace, got one that was defined anew "
                "since: trace the program again"
            )
        return self.op.definition

    def operands(self, arrays: Sequence[Any]) -> list[Any]:
        """One item per operand, of one per array in the order of the primitive's operands."""
        definitions = self.definition.operands
        found: dict[int, Any] = {}
        items = iter(arrays)
        for mutated in (False, True):  # updated operands come last
            for i, operand in enumerate(definitions):
                if operand.mutated is mutated:
                    found[i] = _take(items, self.structure[i])
        return [found[i] for i in range(len(definitions))]

    def arguments(self, operands: Sequence[Any]) -> list[Any]:
        """One value per parameter of the op, in signature order."""
        return self.definition.in_order(operands, self.attributes)


def run_reference(made_of: OpCall, results: Sequence[tuple[Any, Any]], *arrays: Any) -> list[Any]:
    """The results of a call whose op has a reference, as operations of JAX."""
    definition = made_of.with_rules()
    assert definition.reference is not None
    operands = made_of.operands(arrays)
    specs = [graphffi.TensorSpec(shape, dtype) for shape, dtype in results]
    with as_traced(*(array.dtype for array in arrays), *(dtype for _, dtype in results)):
        return definition.reference.run(definition, operands, made_of.attributes, specs)


def call_key(
    definition: Any, operands: Sequence[Any], attributes: Sequence[Any], batches: int
) -> Any:
    """Equal for calls with the same results; None for calls with symbolic sizes or values."""
    types: list[Any] = [definition, batches, jax.config.jax_enable_x64]  # type: ignore[attr-defined]
    for operand in operands:
        for array in operand if isinstance(operand, list) else (operand,):
            if array is not None and not all(type(size) is int for size in array.shape):
                return None
            types.append(None if array is None else (array.shape, array.dtype))
        types.append(len(operand) if isinstance(operand, list) else -1)
    for value in attributes:
        items = value if isinstance(value, (list, tuple)) else (value,)
        types.append(len(items) if items is value else -1)
        if not all(type(item) in _CONSTANTS for item in items):
            return None
        types.extend((type(i), float_text(i) if type(i) is float else i) for i in items)
    return tuple(types)


def _take(items: Iterator[Any], structure: int | None) -> Any:
    if structure is None:
        return None
    return next(items) if structure < 0 else [next(items) for _ in range(structure)]


def as_array(value: Any) -> Any:
    """An argument of a primitive's rule as an array: JAX passes Python numbers, too."""
    return value if isinstance(value, jax.Array) else jnp.asarray(value)


def in_front(arrays: Sequence[Any], dims: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The size of a batch, and the arrays with its dimension in front.

    Args:
        arrays: Of which one at least is batched.
        dims: Of each, where the batch dimension is; None if it is not batched.
    """
    pairs = list(zip(map(as_array, arrays), dims, strict=True))
    size = next(array.shape[dim] for array, dim in pairs if dim is not None)
    # Where nothing is to be moved, jnp.moveaxis takes time, and an entry of a cache of JAX's.
    return size, [a if d in (None, 0) else jnp.moveaxis(a, d, 0) for a, d in pairs]


def batch(
    primitive: Any, arrays: Sequence[Any], dims: Sequence[Any], *, call: Any, results: Any
) -> tuple[list[Any], list[int]]:
    """The primitive's rule for one more dimension, which is in front of all outputs.

    Raises:
        NotImplementedError: If the call is not one of an op with a rule.
    """
    made_of: OpCall | None = call.made_of
    batched = [d is not None for d in dims]
    size, front = in_front(arrays, dims)
    if call.loops:
        return _loop(primitive, front, batched, call, results)
    rule = None if made_of is None else made_of.with_rules().vmap
    if made_of is None or rule is None:
        raise NotImplementedError(
            f"{call.subject}: vmap: expected a batching rule, got none; define the op with "
            "vmap='sequential', or with vmap='broadcast' if its kernel takes leading batch "
            "dimensions"
        )
    flags = [False if f is None else f for f in made_of.operands(batched)]
    values = made_of.arguments(made_of.operands(front))

    def repeat(array: Any) -> Any:
        return jnp.broadcast_to(array, (size, *array.shape))

    def element() -> list[graphffi.TensorSpec]:
        return [graphffi.TensorSpec(shape, dtype) for shape, dtype in results]

    with _one_more_batch(call, rule):
        returned = call_in_batch(made_of.op, size, flags, values, repeat, element)
    if returned is NotImplemented:
        return _loop(primitive, front, batched, call, results)
    outputs = jax.tree.leaves(returned)
    if len(outputs) != len(results) + call.num_mutated:
        raise TypeError(
            f"{call.subject}: vmap: expected {len(results) + call.num_mutated} results, got "
            f"{len(outputs)}"
        )
    num_read = len(front) - call.num_mutated
    _check_updated(
        call.subject, size, front[num_read:], batched[num_read:], outputs[len(results) :]
    )
    return outputs, [0] * len(outputs)


def _check_updated(
    subject: str,
    size: Any,
    arrays: Sequence[Any],
    batched: Sequence[bool],
    updated: Sequence[Any],
) -> None:
    """Refuses what a rule of the user's returns for an operand that it left without batch."""
    for array, is_batched, output in zip(arrays, batched, updated, strict=True):
        shape = array.shape if is_batched else (size, *array.shape)
        if output.shape != shape:
            expected, got = (", ".join(map(str, s)) for s in (shape, output.shape))
            raise ValueError(
                f"{subject}: vmap: updated operand: expected [{expected}] with the batch in front, "
                f"got [{got}]"
            )


@contextlib.contextmanager
def _one_more_batch(call: Any, rule: Any) -> Iterator[None]:
    """Says of the call that the rule ``"broadcast"`` makes that it may be split along the batch."""
    token = _batches.set(call.batches + 1 if rule == "broadcast" else 0)
    try:
        yield
    finally:
        _batches.reset(token)


def _loop(
    primitive: Any, arrays: Sequence[Any], batched: Sequence[bool], call: Any, results: Any
) -> tuple[list[Any], list[int]]:
    """One call per element of the batch."""
    looped = dataclasses.replace(call, loops=(tuple(batched), *call.loops))
    outputs = primitive.bind(*arrays, call=looped, results=results)
    return outputs, [0] * len(outputs)
