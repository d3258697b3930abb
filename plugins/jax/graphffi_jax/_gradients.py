# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as JAX applies them: `jax.custom_vjp`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

import graphffi

from ._batching import OpCall
from ._forward_mode import refuse_forward_mode


def call_differentiable(
    made_of: OpCall, run: Callable[..., list[Any]], arrays: Sequence[Any]
) -> list[Any]:
    """Calls an op so that JAX goes back through it by its rule.

    Args:
        made_of: The op, which has a rule and updates nothing, and its attributes.
        run: Runs the kernel on arrays like these.
        arrays: The operands, lists flattened, None left out.

    Returns:
        The results.

    Raises:
        NotImplementedError: In forward mode, when it is run or compiled.
    """
    definition = made_of.op.definition
    vjp = definition.vjp
    assert vjp is not None
    names = [o.name for o in definition.operands]
    specs = [graphffi.TensorSpec(tuple(a.shape), a.dtype) for a in arrays]
    attributes = dict(zip((a.name for a in definition.attributes), made_of.attributes, strict=True))

    @jax.custom_vjp
    def differentiable(*operands: Any) -> tuple[Any, ...]:
        return tuple(run(operands))

    def forward(*operands: Any) -> Any:
        results = differentiable(*operands)  # by its rule again, for gradients of gradients
        values = dict(zip(names, made_of.operands(operands), strict=True))
        values.update(zip(definition.results, results, strict=True))
        return results, {name: values[name] for name in vjp.save if name in values}

    def backward(saved: Any, cotangents: Any) -> tuple[Any, ...]:
        has_none = [jax.dtypes.float0 == c.dtype for c in cotangents]
        given = [None if none else c for c, none in zip(cotangents, has_none, strict=True)]
        returned = vjp.run(definition, {**saved, **attributes}, given)
        gradients = vjp.gradients(definition, made_of.operands(specs), returned)
        return tuple(
            None if g is None else jnp.asarray(g).astype(spec.dtype)
            for g, spec in zip(gradients, specs, strict=True)
        )

    differentiable.defvjp(forward, backward)
    return list(differentiable(*refuse_forward_mode(definition.name, arrays)))
