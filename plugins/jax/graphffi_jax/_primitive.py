# SPDX-License-Identifier: Apache-2.0
"""The JAX primitive of a kernel call: typing, lowering, and what it refuses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import jax
import numpy as np
from jax.experimental import io_callback
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.interpreters import ad, batching, mlir, partial_eval

from graphffi_jax._export.export import check_exportable
from graphffi_jax._library import LOCAL_TARGETS
from graphffi_jax._lowering.call_text import ATTRIBUTE
from graphffi_jax._lowering.kernel_call import KernelCall
from graphffi_jax._refusals import refuse_deleted, refuse_in_kernels, refuse_transpose
from graphffi_jax._sharding.sharding import (
    check_one_device,
    is_local,
    is_partitioned,
    result_shardings,
    sharding_attributes,
)
from graphffi_jax._sharding.varying import result_aval
from graphffi_jax._trace_state import is_tracing
from graphffi_jax._transforms.batching import batch, run_reference
from graphffi_jax._transforms.gradients import (
    has_rules,
    is_zero,
    refused_tangents,
    run_batched,
    tangents_of,
)
from graphffi_jax._transforms.loops import depths, run, sizes
from graphffi_jax._transforms.remat import keep_or_recompute

ResultTypes = tuple[tuple[tuple[Any, ...], Any], ...]
"""Shape and NumPy dtype of each result that XLA allocates."""

_ShapedArray: Final[Any] = jax.core.ShapedArray

call_p: Final[Any] = Primitive("tvm_ffi_call")
call_p.multiple_results = True


def bind(call: KernelCall, operands: Sequence[Any], results: ResultTypes) -> list[Any]:
    """Calls the kernel, eagerly or in a trace.

    Args:
        call: The constant part.
        operands: Arrays that the kernel reads, then those that it updates.
        results: Shapes and dtypes of the results that XLA allocates.

    Returns:
        The results, then the updated arrays.
    """
    refuse_in_kernels(call.subject)
    return list(call_p.bind(*operands, call=call, results=results))


def _run(*operands: Any, call: KernelCall, results: ResultTypes) -> Any:
    """An eager call: a program of its own."""
    try:
        if jax.config.jax_disable_jit:  # type: ignore[attr-defined]
            with jax.disable_jit(False):
                return _program(call, results)(*operands)
        return _program(call, results)(*operands)
    except RuntimeError:
        refuse_deleted(call, operands)
        raise


@functools.lru_cache(maxsize=4096)
def _program(call: KernelCall, results: ResultTypes) -> Callable[..., Any]:
    def program(*operands: Any) -> Any:
        if not _are_traced(operands):  # JAX repeats, without jit, where it found a NaN
            raise FloatingPointError(
                f"{call.subject}: results: expected no NaN (jax_debug_nans) and no infinity "
                "(jax_debug_infs), got one"
            )
        return call_p.bind(*operands, call=call, results=results)

    program.__name__ = program.__qualname__ = call.subject  # in profiles and errors
    return jax.jit(program)


def _are_traced(operands: Sequence[Any]) -> bool:
    return isinstance(operands[0], jax.core.Tracer) if operands else is_tracing()


def _abstract_eval(
    *operands: Any, call: KernelCall, results: ResultTypes
) -> tuple[list[Any], frozenset[Any]]:
    first_mutated = len(operands) - call.num_mutated
    batches = depths(call.loops, len(operands))
    updated = [(a.shape[n:], a.dtype) for a, n in zip(operands, batches, strict=True)]
    batch_shape = sizes(call.loops, [a.shape for a in operands])
    shapes = [((*batch_shape, *s), dtype) for s, dtype in (*results, *updated[first_mutated:])]
    shardings = result_shardings(call, operands, [shape for shape, _ in shapes])
    updates = [*[None] * len(results), *operands[first_mutated:]]
    avals = [
        result_aval(shape, dtype, operands, sharding, operand)
        for (shape, dtype), sharding, operand in zip(shapes, shardings, updates, strict=True)
    ]
    if not call.has_side_effect:
        return avals, frozenset()
    # Both: without the second one, JAX leaves calls out of the gradients of loops.
    return avals, frozenset({_io_effect(is_ordered=call.is_ordered), _debug_effect()})


@functools.cache
def _io_effect(*, is_ordered: bool) -> Any:
    """JAX's control flow admits it, but where `vmap` would run branches that are not taken."""
    return _effect_of(lambda: io_callback(lambda: None, None, ordered=is_ordered))


@functools.cache
def _debug_effect() -> Any:
    return _effect_of(lambda: jax.debug.callback(lambda: None))


def _effect_of(callback: Callable[[], Any]) -> Any:
    """The effect of a callback of JAX's, which has no public name."""
    (effect,) = jax.make_jaxpr(callback)().effects
    return effect


def _lower(context: Any, *operands: Any, call: KernelCall, results: Any) -> Any:
    platforms = context.platforms or context.module_context.platforms
    calls = {platform: call.on(platform) for platform in platforms}
    if len(set(calls.values())) == 1:
        return _lower_one(context, operands, calls[platforms[0]], results)

    def choose(*arrays: Any) -> Any:
        branches = {
            platform: functools.partial(call_p.bind, call=call, results=results)
            for platform, call in calls.items()
        }
        return jax.lax.platform_dependent(*arrays, **branches)

    return mlir.lower_fun(choose, multiple_results=True)(context, *operands)


def _lower_one(context: Any, operands: Sequence[Any], call: KernelCall, results: Any) -> Any:
    is_reference = call.chosen.kernel.is_reference
    if call.loops and (is_reference or not is_partitioned(context)):
        return _lower_loops(context, operands, call, results)
    if is_reference and call.made_of is not None:
        compute = functools.partial(run_reference, call.made_of, results)
        return mlir.lower_fun(compute, multiple_results=True)(context, *operands)
    if not call.is_ordered:
        return _lower_call(context, operands, call, results)
    # The token that the call before gave comes first, and so does the one for the call after.
    effect = _io_effect(is_ordered=True)
    tokens = context.tokens_in
    # The abstract value of tokens has no public name; a scalar has the same layout.
    scalar = _ShapedArray((), np.dtype(np.bool_))
    inner = context.replace(
        avals_in=[scalar, *context.avals_in], avals_out=[scalar, *context.avals_out]
    )
    token, *outputs = _lower_call(inner, (tokens.get(effect), *operands), call, results)
    context.set_tokens_out(tokens.update_tokens(mlir.TokenSet({effect: token})))
    return outputs


def _lower_loops(context: Any, operands: Sequence[Any], call: KernelCall, results: Any) -> Any:
    one = replace(call, loops=())

    def loops(*arrays: Any) -> list[Any]:
        return run(lambda a: call_p.bind(*a, call=one, results=results), call.loops, arrays)

    return mlir.lower_fun(loops, multiple_results=True)(context, *operands)


def _lower_call(context: Any, operands: Sequence[Any], call: KernelCall, results: Any) -> Any:
    check_exportable(context, call)
    num_tokens = 1 if call.is_ordered else 0
    first_mutated = len(operands) - call.num_mutated
    first_updated = num_tokens + len(results)
    num_aliases = 0 if call.loops else call.num_mutated  # a loop has results of its own
    aliases = {first_mutated + i: first_updated + i for i in range(num_aliases)}
    arrays = ""
    workspace = call.chosen.workspace
    options: dict[str, Any] = {}
    if call.is_ordered:
        check_one_device(context, call)
    else:
        arrays, options["extra_attributes"] = sharding_attributes(context, call, len(operands))
    if workspace is not None:
        # A result that nobody reads: XLA gives its memory to others as soon as the call is over.
        hidden = _ShapedArray((workspace,), np.dtype(np.uint8))
        context = context.replace(avals_out=[*context.avals_out, hidden])
    if call.is_ordered:
        options["result_types"] = [mlir.token_type(), *map(_tensor_type, context.avals_out[1:])]
    rule = jax.ffi.ffi_lowering(
        LOCAL_TARGETS[call.target] if is_local(context) else call.target,
        operand_output_aliases=aliases,
        has_side_effect=bool(call.has_side_effect),
        **options,
    )
    with _location(context, call.subject):
        outputs = rule(context, *operands, **{ATTRIBUTE: call.text(arrays)})
    return outputs if workspace is None else outputs[:-1]


def _location(context: Any, name: str) -> Any:
    """Gives XLA's instructions, and so its profiles, the op's name, not the primitive's."""
    stack, place = str(context.name_stack), ir.Location.current
    while _is_named(place):
        place = place.child_loc
    place = ir.Location.name(f"{stack}/{name}" if stack else name, childLoc=place)
    return ir.Location.name(f"{name}:", childLoc=place)


def _is_named(place: Any) -> bool:
    # Early jaxlib (0.6 at least) has one type of all locations; `child_loc` of others ends it.
    return place.is_a_name() if hasattr(place, "is_a_name") else hasattr(place, "child_loc")


def _tensor_type(aval: Any) -> Any:
    unknown = ir.ShapedType.get_dynamic_size()
    dims = [size if isinstance(size, int) else unknown for size in aval.shape]
    return ir.RankedTensorType.get(dims, mlir.dtype_to_ir_type(np.dtype(aval.dtype)))


def _differentiate(
    primals: Any, tangents: Any, *, call: KernelCall, results: Any
) -> tuple[list[Any], list[Any]]:
    """By the op's rule; integers have no tangents. What needs a rule that is missing refuses."""
    outputs = call_p.bind(*primals, call=call, results=results)
    given = [None if is_zero(t) else t for t in tangents]
    if call.made_of is None or call.num_mutated:
        found = refused_tangents(call.subject, outputs, given)
    else:
        # Of each element of what vmap made a batch before the op had a rule.
        step: Any = functools.partial(tangents_of, call.made_of)
        levels = (*call.loops, *[(True,) * len(primals)] * call.batches)
        if levels and has_rules(call.made_of):
            _check_recomputed(call)
        for level in reversed(levels):
            axes = [0 if is_mapped else None for is_mapped in level]
            step = jax.vmap(step, in_axes=(axes, 0, axes))
        found = step(list(primals), list(outputs), given)
    return outputs, [
        ad.Zero(_ShapedArray(o.shape, jax.dtypes.float0)) if t is None else t
        for o, t in zip(outputs, found, strict=True)
    ]


def _check_recomputed(call: KernelCall) -> None:
    """Refuses gradients of elements of a batch where `jax.checkpoint` would not see the call."""
    if call.made_of is not None and not call.made_of.definition.recompute:
        raise NotImplementedError(
            f"{call.subject}: vmap: expected an op that may run again, got recompute=False and a "
            "gradient rule; call it outside of vmap, on the whole batch"
        )


def _batch(
    arrays: Sequence[Any], dims: Sequence[Any], *, call: KernelCall, results: Any
) -> tuple[list[Any], list[int]]:
    rule = functools.partial(batch, call_p, dims=dims, call=call, results=results)
    made_of = call.made_of
    is_traced = any(isinstance(a, jax.core.Tracer) for a in arrays)
    if made_of is None or call.loops or not is_traced or not has_rules(made_of):
        return rule(arrays)
    _check_recomputed(call)
    outputs = run_batched(made_of, lambda given: rule(given)[0], arrays, dims)
    return outputs, [0] * len(outputs)


call_p.def_impl(_run)
call_p.def_effectful_abstract_eval(_abstract_eval)
mlir.register_lowering(call_p, _lower)
batching.primitive_batchers[call_p] = _batch
ad.primitive_jvps[call_p] = _differentiate
partial_eval.partial_eval_jaxpr_custom_rules[call_p] = keep_or_recompute
refuse_transpose(call_p)
