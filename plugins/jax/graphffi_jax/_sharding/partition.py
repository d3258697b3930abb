# SPDX-License-Identifier: Apache-2.0
"""XLA's partitioner of custom calls: parts of a call, or an error where it can't be split."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.mlir import ir
from jax.interpreters import mlir

from graphffi_jax._errors import kept
from graphffi_jax._library import TARGET, TARGET_GRAPH
from graphffi_jax._lowering import call_text
from graphffi_jax._lowering.call_dims import CallDims, check_parts
from graphffi_jax._private_names import PRIVATE_NAMES, find_private, missing
from graphffi_jax._sharding.part import part_program
from graphffi_jax._sharding.tiling import (
    HloSharding,
    choose_splits,
    make_sharding,
    read_splits,
    splits_of,
)


def register_partitioners() -> None:
    """Makes XLA ask for the split of calls in programs for several devices.

    All that it has to know is in the calls' attributes: it works for programs that another process
    made, too. Warns where JAX lacks a private name for it: such programs are refused then.
    """
    lost = missing(PRIVATE_NAMES)
    if lost:
        warnings.warn(
            f"graphffi: jax {jax.__version__} has no {', '.join(lost)}: calls in programs of "
            "several devices need jax.shard_map",
            RuntimeWarning,
            stacklevel=2,
        )
        return
    register_in_plugins = find_private("jax._src.xla_bridge.register_plugin_callbacks")
    register_partitioner = find_private("jaxlib.xla_client.register_custom_call_partitioner")
    for target in (TARGET, TARGET_GRAPH):
        register = functools.partial(
            register_partitioner,
            target,
            lambda sharding, *_: sharding,
            functools.partial(_partition, target),
            _infer,
            can_side_effecting_have_replicated_sharding=True,
        )
        register()
        register_in_plugins(register)


def _partition(
    target: str,
    operand_shapes: Sequence[Any],
    operand_shardings: Sequence[Any],
    result_shape: Any,
    result_sharding: Any,
    config: bytes,
) -> tuple[bytes, list[Any], Any]:
    """The call that each device runs, and the shardings of its operands and result."""
    module, operands, result = _partitioned(
        target,
        tuple(operand_shapes),
        tuple(operand_shardings),
        result_shape,
        result_sharding,
        config,
    )
    return module, list(operands), result


@functools.lru_cache(maxsize=1024)
def _partitioned(
    target: str,
    operand_shapes: tuple[Any, ...],
    operand_shardings: tuple[Any, ...],
    result_shape: Any,
    result_sharding: Any,
    config: bytes,
) -> tuple[bytes, tuple[Any, ...], Any]:
    # Kept, because programs have many equal calls, and a context of MLIR costs milliseconds.
    results = _shapes(result_shape)
    result_shardings = _shardings(result_sharding, result_shape)
    shapes = [*operand_shapes, *results]
    shardings = [*operand_shardings, *result_shardings]
    lines = _read(config)
    dims = _dims(lines, operand_shapes, results)
    # In jax.shard_map the arrays are parts already.
    if not any(sharding.is_manual() for sharding in shardings):
        splits = [
            read_splits(sharding, len(shape.dimensions()))
            for sharding, shape in zip(shardings, shapes, strict=True)
        ]
        _check(lines, dims, operand_shapes, splits[: len(operand_shapes)])
        chosen = choose_splits(dims, [shape.dimensions() for shape in shapes], splits)
        arrays = zip((*dims.operands, *dims.results), shardings, strict=True)
        shardings = [make_sharding(splits_of(array, chosen), s) for array, s in arrays]
        tiled = zip(shardings, shapes, strict=True)
        shapes = [sharding.tile(shape) for sharding, shape in tiled]
    count = len(operand_shapes)
    module = part_program(target, lines, dims, shapes[:count], shapes[count:])
    return module.encode(), tuple(shardings[:count]), _packed(result_shape, shardings[count:])


def _infer(
    operand_shapes: Sequence[Any],
    operand_shardings: Sequence[Any],
    result_shape: Any,
    config: bytes,
) -> Any:
    """The sharding of the result, for versions that do not ask Shardy's rule."""
    results = _shapes(result_shape)
    replicated = HloSharding.replicate()
    # None: nothing is known yet. An exception would end the process.
    operand_shardings = [replicated if s is None else s for s in operand_shardings]
    if any(sharding.is_manual() for sharding in operand_shardings):
        return _packed(result_shape, [HloSharding.manual()] * len(results))
    try:
        dims = _dims(_read(config), operand_shapes, results)
    except ValueError:  # which _partition will raise
        return _packed(result_shape, [replicated] * len(results))
    splits = [
        read_splits(sharding, len(shape.dimensions()))
        for sharding, shape in zip(operand_shardings, operand_shapes, strict=True)
    ]
    splits += [[None] * len(shape.dimensions()) for shape in results]
    shapes = (*operand_shapes, *results)
    chosen = choose_splits(dims, [shape.dimensions() for shape in shapes], splits)
    return _packed(
        result_shape, [make_sharding(splits_of(a, chosen), replicated) for a in dims.results]
    )


def _read(config: bytes) -> call_text.Lines:
    with mlir.make_ir_context():
        try:
            return call_text.read(TARGET, ir.DictAttr(ir.Attribute.parse(config.decode())))
        except ValueError as error:
            raise kept(error) from None


def _dims(lines: call_text.Lines, operands: Sequence[Any], results: Sequence[Any]) -> CallDims:
    ranks = [[len(shape.dimensions()) for shape in side] for side in (operands, results)]
    arrays = dict(lines).get("arrays", "")
    if "(" not in arrays:
        return CallDims.unnamed(*ranks)
    dims = CallDims.parse(arrays)
    problem = dims.problem(*ranks)
    if problem is not None:  # of a call that was written by hand
        raise kept(ValueError(f"{_subject(lines)}: arrays: {problem}, got '{dims}'"))
    return dims


def _check(
    lines: call_text.Lines, dims: CallDims, operands: Sequence[Any], splits: Sequence[Any]
) -> None:
    shapes = [shape.dimensions() for shape in operands]
    parts = [[1 if s is None else s.num_parts for s in found] for found in splits]
    try:
        check_parts(_subject(lines), dims, shapes, parts)
    except ValueError as error:
        raise kept(error) from None


def _shapes(shape: Any) -> list[Any]:
    return list(shape.tuple_shapes()) if shape.is_tuple() else [shape]


def _shardings(sharding: Any, shape: Any) -> list[Any]:
    if not shape.is_tuple():
        return [sharding]
    # An empty tuple of results has a sharding all the same.
    return list(sharding.tuple_elements())[: len(shape.tuple_shapes())]


def _packed(shape: Any, shardings: list[Any]) -> Any:
    if shape.is_tuple():
        return HloSharding.tuple_sharding(shape, shardings)
    return shardings[0]


def _subject(lines: call_text.Lines) -> str:
    found = dict(lines)
    return found.get("subject") or found["kernel"]
