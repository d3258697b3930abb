# SPDX-License-Identifier: Apache-2.0
"""Rules of gradients as JAX applies them: one for tangents, one for the transpose of that map."""

from __future__ import annotations

import contextlib
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
from graphffi.plugin import Definition, backward_rule, forward_rule
from graphffi_jax._sharding.varying import mesh_axes, result_aval, vary, varying_axes
from graphffi_jax._transforms.batching import OpCall, as_array, as_traced, in_front

# JAX differentiates forward, then transposes where it was asked for reverse mode: only what runs
# the tangents, or compiles them, knows that nobody did, and refuses without a forward-mode rule.
tangents_p: Final[Any] = Primitive("tvm_ffi_tangents")
tangents_p.multiple_results = True


_REFERENCE: Final = (
    "or define the op with gradient='reference'; an op with side effects can have none"
)
_BACKWARD: Final = (
    "backward: expected a gradient rule",
    f"register one with register_vjp, {_REFERENCE}",
)
_FORWARD: Final = (
    "jvp: expected a forward-mode rule",
    f"register one with register_jvp, {_REFERENCE}",
)
_NEW_TENSORS: Final = (
    "define an op that returns new tensors without side effects, which can have one"
)


def _missing(subject: str, expected: str, remedy: str) -> NotImplementedError:
    return NotImplementedError(f"{subject}: {expected}, got none; {remedy}")


@dataclass(frozen=True)
class _Rules:
    """A call's rules: forward, which is linear in the tangents, and its transpose.

    Args:
        made_of: The call.
        definition: Of its op when it was differentiated: a later one may save something else.
        specs: Of its operands, one for each array.
        results: Of its results.
        saved: The structure of what the rules read, operands and results by name.
        levels: Batches around the call, outermost first: which of the saved arrays have one.
    """

    made_of: OpCall
    definition: Definition
    specs: tuple[TensorSpec, ...]
    results: tuple[TensorSpec, ...]
    saved: Any
    levels: tuple[tuple[bool, ...], ...] = ()

    def go_back(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The gradients of the operands, or None.

        Raises:
            NotImplementedError: Without rule.
        """
        with self._as_traced():
            given = [as_array(c) for c in cotangents]
            return self._in_batches(self._go_back_one)([as_array(s) for s in saved], given)

    def go_forward(self, saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the results that have some; an operand that does not change has None.

        Raises:
            NotImplementedError: Without rule.
        """
        with self._as_traced():
            given = [None if t is None else as_array(t) for t in tangents]
            return self._in_batches(self._go_forward_one)([as_array(s) for s in saved], given)

    def _as_traced(self) -> contextlib.AbstractContextManager[Any]:
        return as_traced(*(spec.dtype for spec in (*self.specs, *self.results)))

    def in_batch(self, level: tuple[bool, ...]) -> _Rules:
        """The rules of a batch of such calls."""
        return dataclasses.replace(self, levels=(level, *self.levels))

    def _in_batches(self, step: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        for level in reversed(self.levels):
            axes = [0 if is_batched else None for is_batched in level]
            step = jax.vmap(step, in_axes=(axes, 0))
        return step

    def _values(self, saved: list[Any], names: Sequence[str]) -> dict[str, Any]:
        """The values that a rule sees: those that it saves, and attributes."""
        found = jax.tree.unflatten(self.saved, saved)
        values = {name: found[name] for name in names if name in found}
        attributes = (a.name for a in self.definition.attributes)
        return {**values, **dict(zip(attributes, self.made_of.attributes, strict=True))}

    def _go_back_one(self, saved: list[Any], cotangents: list[Any]) -> list[Any]:
        definition = self.definition
        rule = backward_rule(definition)
        if rule is None:
            raise _missing(definition.name, *_BACKWARD)
        rest = iter(cotangents)
        given = [next(rest) if has_tangent(spec.dtype) else None for spec in self.results]
        returned = rule.run(definition, self._values(saved, rule.save), given)
        operands = self.made_of.operands(self.specs)
        gradients = rule.checked(definition, operands, returned)
        return [
            None if g is None else jnp.asarray(g).astype(spec.dtype)
            for g, spec in zip(gradients, self.specs, strict=True)
        ]

    def _go_forward_one(self, saved: list[Any], tangents: list[Any]) -> list[Any]:
        definition = self.definition
        rule = forward_rule(definition)
        if rule is None:
            raise _missing(definition.name, *_FORWARD)
        given = [
            jnp.zeros(spec.shape, spec.dtype) if t is None and has_tangent(spec.dtype) else t
            for t, spec in zip(tangents, self.specs, strict=True)
        ]
        values = self._values(saved, rule.save)
        returned = rule.run(definition, values, self.made_of.operands(given))
        found = rule.checked(definition, self.results, returned)
        return [
            jnp.zeros(spec.shape, spec.dtype) if t is None else jnp.asarray(t).astype(spec.dtype)
            for t, spec in zip(found, self.results, strict=True)
            if has_tangent(spec.dtype)
        ]


@dataclass(frozen=True)
class _NoRules:
    """In the place of rules, for a call that can have none."""

    subject: str

    def go_back(self, saved: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Refuses."""
        raise _missing(self.subject, _BACKWARD[0], _NEW_TENSORS)

    def go_forward(self, saved: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Refuses."""
        raise _missing(self.subject, _FORWARD[0], _NEW_TENSORS)

    def in_batch(self, level: tuple[bool, ...]) -> _NoRules:
        """The same."""
        return self


def has_tangent(dtype: Any) -> bool:
    """True if arrays of a data type have tangents."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def is_zero(tangent: Any) -> bool:
    """True if a tangent is JAX's symbol of zeros, or that of what has none."""
    return type(tangent) is ad.Zero or jax.typeof(tangent).dtype == jax.dtypes.float0


def has_rules(made_of: OpCall) -> bool:
    """True if a call can be differentiated, in one mode at least."""
    definition = made_of.with_rules()
    return backward_rule(definition) is not None or forward_rule(definition) is not None


def tangents_of(
    made_of: OpCall, primals: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Tangents of a call's results, which are computed by one rule and transposed by the other.

    Args:
        made_of: The call; where its op has no rule, what needs one is refused.
        primals: Its operands.
        outputs: Its results.
        tangents: Of the operands; None for those that have none.

    Returns:
        A tangent for each result of a floating-point type, None for others.
    """
    definition = made_of.with_rules()
    names = [o.name for o in definition.operands]
    values = dict(zip(names, made_of.operands(primals), strict=True))
    values.update(zip(definition.results, outputs, strict=True))
    of_modes = (backward_rule(definition), forward_rule(definition))
    wanted = {name for rule in of_modes if rule is not None for name in rule.save}
    saved, structure = jax.tree.flatten({n: v for n, v in values.items() if n in wanted})
    specs, results = (
        tuple(TensorSpec(tuple(aval.shape), aval.dtype) for aval in map(jax.typeof, arrays))
        for arrays in (primals, outputs)
    )
    rules = _Rules(made_of, definition, specs, results, structure)
    return _bind(rules, saved, outputs, tangents)


def refused_tangents(subject: str, outputs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Tangents that nothing can compute or transpose. Args: as for `tangents_of`."""
    return _bind(_NoRules(subject), (), outputs, tangents)


def _bind(
    rules: _Rules | _NoRules, saved: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    avals = [jax.typeof(o) for o in outputs if has_tangent(o.dtype)]
    given = [t for t in tangents if t is not None]
    if not avals or not given:
        return [None] * len(outputs)
    found = iter(
        tangents_p.bind(
            *saved,
            *given,
            rules=rules,
            wanted=tuple(t is not None for t in tangents),
            results=tuple((a.shape, a.dtype, a.sharding) for a in avals),
        )
    )
    return [next(found) if has_tangent(o.dtype) else None for o in outputs]


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
        given = [None if is_zero(t) else t for t in tangents]
        of_elements = jax.vmap(
            functools.partial(tangents_of, made_of), in_axes=(list(dims), 0, list(dims))
        )
        found = of_elements(list(primals), list(outputs), given)
        return outputs, tuple(
            np.zeros(o.shape, jax.dtypes.float0) if t is None else t
            for o, t in zip(outputs, found, strict=True)
        )

    return list(batched(*arrays))


def _run(*arrays: Any, rules: _Rules | _NoRules, wanted: Sequence[bool], results: Any) -> list[Any]:
    count = len(arrays) - sum(wanted)
    given = iter(arrays[count:])
    tangents = [next(given) if is_wanted else None for is_wanted in wanted]
    return rules.go_forward(arrays[:count], tangents)


def _differentiate(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    """Forward again: through what the rule computes."""
    active = [i for i, tangent in enumerate(tangents) if not is_zero(tangent)]

    def run(*values: Any) -> list[Any]:
        changed = dict(zip(active, values, strict=True))
        return _run(*(changed.get(i, p) for i, p in enumerate(primals)), **params)

    return jax.jvp(run, [primals[i] for i in active], [tangents[i] for i in active])


def transpose(
    function: Callable[..., Any], primals: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Gradients of a function."""
    return list(jax.vjp(function, *primals)[1](tuple(cotangents)))


def push_forward(
    function: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    """Tangents of a function's results; None for those of integers."""
    found = jax.jvp(function, list(primals), list(tangents))[1]
    return [None if is_zero(tangent) else tangent for tangent in found]


def _abstract_eval(*arrays: Any, results: Sequence[Any], **_: Any) -> list[Any]:
    return [result_aval(shape, dtype, arrays, sharding) for shape, dtype, sharding in results]


def _transpose(
    cotangents: Sequence[Any],
    *arrays: Any,
    rules: _Rules | _NoRules,
    wanted: Sequence[bool],
    results: Sequence[Any],
) -> list[Any]:
    count = len(arrays) - sum(wanted)
    given = [ad.instantiate_zeros(c) for c in cotangents]  # type: ignore[no-untyped-call]
    gradients = rules.go_back(arrays[:count], given)
    asked = (g for g, is_wanted in zip(gradients, wanted, strict=True) if is_wanted)
    linear = zip(asked, arrays[count:], strict=True)
    return [*[None] * count, *(_cotangent(g, a.aval) for g, a in linear)]


def _cotangent(gradient: Any, aval: Any) -> Any:
    return ad.Zero(aval) if gradient is None else vary(gradient, varying_axes(aval))


def _batch(
    arrays: Sequence[Any],
    dims: Sequence[Any],
    *,
    rules: _Rules | _NoRules,
    wanted: Sequence[bool],
    results: Sequence[Any],
) -> tuple[list[Any], list[int]]:
    size, front = in_front(arrays, dims)
    count = len(arrays) - sum(wanted)
    of_batch = next(jax.typeof(a) for a, d in zip(front, dims, strict=True) if d is not None)
    for i in range(count, len(arrays)):  # the transpose of this sums the gradients
        if dims[i] is None:
            front[i] = _repeat(front[i], size, of_batch)
    level = tuple(d is not None for d in dims[:count])
    outputs = tangents_p.bind(
        *front,
        rules=rules.in_batch(level),
        wanted=wanted,
        results=tuple(
            ((size, *shape), dtype, _in_batch(sharding, of_batch))
            for shape, dtype, sharding in results
        ),
    )
    return outputs, [0] * len(outputs)


def _repeat(array: Any, size: Any, of_batch: Any) -> Any:
    """The array for each element of a batch, which is split as another one is."""
    repeated = jnp.broadcast_to(array, (size, *array.shape))
    if mesh_axes(of_batch)[0] is None:
        return repeated
    reshard: Any = jax.sharding.reshard
    return reshard(repeated, _in_batch(jax.typeof(array).sharding, of_batch))


def _in_batch(sharding: Any, of_batch: Any) -> jax.sharding.NamedSharding:
    """A sharding with that of the batch in front, where meshes have explicit axes."""
    mesh = of_batch.sharding.mesh if sharding.mesh.empty else sharding.mesh
    make_spec: Any = jax.sharding.PartitionSpec
    return jax.sharding.NamedSharding(mesh, make_spec(mesh_axes(of_batch)[0], *sharding.spec))


tangents_p.def_impl(_run)
tangents_p.def_abstract_eval(_abstract_eval)
mlir.register_lowering(tangents_p, mlir.lower_fun(_run, multiple_results=True))
batching.primitive_batchers[tangents_p] = _batch
ad.primitive_jvps[tangents_p] = _differentiate
ad.primitive_transposes[tangents_p] = _transpose
