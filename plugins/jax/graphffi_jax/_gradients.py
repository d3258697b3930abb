# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as JAX applies them: linear maps of which only the transpose is known."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from graphffi import TensorSpec

from ._batching import OpCall
from ._varying import result_aval, vary, varying_axes

# JAX differentiates forward, then transposes where it was asked for reverse mode: only what runs
# the tangents, or compiles them, knows that nobody did, and refuses.
tangents_p: Final[Any] = Primitive("tvm_ffi_tangents")
tangents_p.multiple_results = True


@dataclass(frozen=True, eq=False)
class _Backward:
    """A call's gradient rule.

    Args:
        made_of: The call, whose op has a rule.
        specs: Of its operands, one for each array.
        results: Which of the results have tangents.
        saved: The structure of what the rule reads, operands and results by name.
        levels: Batches around the call, outermost first: which of the saved arrays have one.
    """

    made_of: OpCall
    specs: tuple[TensorSpec, ...]
    results: tuple[bool, ...]
    saved: Any
    levels: tuple[tuple[bool, ...], ...] = ()

    def run(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the operands, or None."""
        step: Callable[..., list[Any]] = self._run_one
        for level in reversed(self.levels):
            axes = [0 if is_batched else None for is_batched in level]
            step = jax.vmap(step, in_axes=(axes, 0))
        return step(list(saved), list(cotangents))

    def _run_one(self, saved: list[Any], cotangents: list[Any]) -> list[Any]:
        definition = self.made_of.op.definition
        assert definition.vjp is not None
        attributes = (a.name for a in definition.attributes)
        values = jax.tree.unflatten(self.saved, saved)
        values.update(zip(attributes, self.made_of.attributes, strict=True))
        rest = iter(cotangents)
        given = [next(rest) if is_present else None for is_present in self.results]
        returned = definition.vjp.run(definition, values, given)
        gradients = definition.vjp.gradients(
            definition, self.made_of.operands(self.specs), returned
        )
        return [
            None if g is None else jnp.asarray(g).astype(spec.dtype)
            for g, spec in zip(gradients, self.specs, strict=True)
        ]


def tangents_of(
    made_of: OpCall, primals: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Tangents of a call's results, which can be transposed and nothing else.

    Args:
        made_of: The call; its op has a gradient rule.
        primals: Its operands.
        outputs: Its results.
        tangents: Of the operands; None for those that have none.

    Returns:
        A tangent for each result of a floating-point type, None for others.
    """
    definition = made_of.op.definition
    assert definition.vjp is not None
    names = [o.name for o in definition.operands]
    values = dict(zip(names, made_of.operands(primals), strict=True))
    values.update(zip(definition.results, outputs, strict=True))
    saved, structure = jax.tree.flatten(
        {name: values[name] for name in definition.vjp.save if name in values}
    )
    is_inexact = tuple(jnp.issubdtype(o.dtype, jnp.inexact) for o in outputs)
    specs = tuple(TensorSpec(tuple(p.shape), p.dtype) for p in primals)
    avals = (jax.typeof(o) for o, present in zip(outputs, is_inexact, strict=True) if present)
    found = iter(
        tangents_p.bind(
            *saved,
            *(t for t in tangents if t is not None),
            backward=_Backward(made_of, specs, is_inexact, structure),
            wanted=tuple(t is not None for t in tangents),
            results=tuple((a.shape, a.dtype, a.sharding) for a in avals),
        )
    )
    return [next(found) if present else None for present in is_inexact]


def run_batched(
    made_of: OpCall,
    run: Callable[[Sequence[Any]], list[Any]],
    arrays: Sequence[Any],
    dims: Sequence[Any],
) -> list[Any]:
    """Runs what `vmap` made of a call, whose gradients are those of its elements.

    Args:
        made_of: The call of one element; its op has a gradient rule.
        run: Runs the batch: gives the results, with the batch dimension in front.
        arrays: The operands.
        dims: Of each, where the batch dimension is; None if it is not batched.
    """

    @jax.custom_jvp
    def batched(*operands: Any) -> tuple[Any, ...]:
        return tuple(run(operands))

    @batched.defjvp
    def _differentiate(primals: Any, tangents: Any) -> Any:
        outputs = batched(*primals)
        given = [None if t.dtype == jax.dtypes.float0 else t for t in tangents]
        of_elements = jax.vmap(
            functools.partial(tangents_of, made_of), in_axes=(list(dims), 0, list(dims))
        )
        found = of_elements(list(primals), list(outputs), given)
        return outputs, tuple(
            np.zeros(o.shape, jax.dtypes.float0) if t is None else t
            for o, t in zip(outputs, found, strict=True)
        )

    return list(batched(*arrays))


def _refuse(*_: Any, backward: _Backward, **__: Any) -> Any:
    raise NotImplementedError(
        f"{backward.made_of.op.name}: jvp: expected reverse-mode differentiation, got forward "
        "mode; use jax.vjp, jax.grad or jax.jacrev"
    )


def _abstract_eval(*arrays: Any, results: Sequence[Any], **_: Any) -> list[Any]:
    return [result_aval(shape, dtype, arrays, sharding) for shape, dtype, sharding in results]


def _transpose(
    cotangents: Sequence[Any],
    *arrays: Any,
    backward: _Backward,
    wanted: Sequence[bool],
    results: Sequence[Any],
) -> list[Any]:
    count = len(arrays) - sum(wanted)
    given = [ad.instantiate_zeros(c) for c in cotangents]  # type: ignore[no-untyped-call]
    gradients = backward.run(arrays[:count], given)
    asked = (g for g, is_wanted in zip(gradients, wanted, strict=True) if is_wanted)
    linear = zip(asked, arrays[count:], strict=True)
    return [*[None] * count, *(_cotangent(g, a.aval) for g, a in linear)]


def _cotangent(gradient: Any, aval: Any) -> Any:
    return ad.Zero(aval) if gradient is None else vary(gradient, varying_axes(aval))


def _batch(
    arrays: Sequence[Any],
    dims: Sequence[Any],
    *,
    backward: _Backward,
    wanted: Sequence[bool],
    results: Sequence[Any],
) -> tuple[list[Any], list[int]]:
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    count = len(arrays) - sum(wanted)
    front = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(arrays, dims, strict=True)]
    for i in range(count, len(arrays)):  # the transpose of this sums the gradients
        if dims[i] is None:
            front[i] = jnp.broadcast_to(front[i], (size, *front[i].shape))
    level = tuple(d is not None for d in dims[:count])
    outputs = tangents_p.bind(
        *front,
        backward=dataclasses.replace(backward, levels=(level, *backward.levels)),
        wanted=wanted,
        results=tuple(((size, *shape), dtype, None) for shape, dtype, _ in results),
    )
    return outputs, [0] * len(outputs)


tangents_p.def_impl(_refuse)
tangents_p.def_abstract_eval(_abstract_eval)
mlir.register_lowering(tangents_p, lambda _, *arrays, **params: _refuse(**params))
batching.primitive_batchers[tangents_p] = _batch
ad.primitive_jvps[tangents_p] = lambda primals, tangents, **params: _refuse(**params)
ad.primitive_transposes[tangents_p] = _transpose
