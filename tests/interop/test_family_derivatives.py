# SPDX-License-Identifier: Apache-2.0
"""Both modes of differentiation of the family of random ops, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from tests.families.calls import Call, View, flatten, numpy_view
from tests.families.op_family import Member, members
from tests.families.reference import WideModule

pytest.importorskip("array_api_compat")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex"),
]

MEMBERS = [member for member in members() if member.is_differentiable]
Derivatives = tuple[float, list[np.ndarray]]


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    """JAX with 64-bit dtypes, which members have."""
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


@pytest.fixture(scope="module")
def ops() -> dict[int, Any]:
    return {member.number: member.define_for_both_modes("family_modes") for member in MEMBERS}


def is_inexact(x: Any) -> bool:
    return isinstance(x, np.ndarray) and (x.dtype.kind in "fc" or x.dtype.name == "bfloat16")


def copied(base: np.ndarray, view: View) -> np.ndarray:
    return np.array(numpy_view(base, view))


class Case:
    """A number made of a call's results, as a function of its arrays that can have gradients."""

    def __init__(self, member: Member, call: Call) -> None:
        self.member, self.call = member, call
        self.args = call.build(copied)
        self.chosen = [x for x in flatten(self.args) if is_inexact(x)]
        numbers = np.random.default_rng(member.number)
        self.directions = [numbers.integers(0, 3, x.shape).astype(x.dtype) for x in self.chosen]

    def with_arrays(self, arrays: list[Any], other: Callable[[Any], Any]) -> list[Any]:
        """The arguments of the call, with these in the place of those that have gradients."""
        rest = iter(arrays)

        def one(value: Any) -> Any:
            if isinstance(value, list):
                return [one(item) for item in value]
            if not isinstance(value, np.ndarray):
                return value
            return next(rest) if is_inexact(value) else other(value)

        return [one(arg) for arg in self.args]

    def difference(self, step: float) -> float:
        """The central one, along the directions; of functions of second degree it is exact."""

        def wide(x: np.ndarray) -> np.ndarray:
            return x.astype("complex128")

        def at(factor: float) -> float:
            pairs = zip(self.chosen, self.directions, strict=True)
            moved = self.with_arrays([wide(x) + factor * wide(d) for x, d in pairs], lambda x: x)
            # Rules of shapes and data types see those of the call.
            results = self.reference(moved)
            return sum(float((weights(r) * r).sum().real) for r in results)

        return (at(step) - at(-step)) / (2 * step)

    def reference(self, args: list[Any]) -> list[Any]:
        kinds = [str(r.dtype) for r in self.member.expected(self.call)]
        arrays = WideModule()
        found = self.member.reference(arrays, args)
        return [
            r for r, kind in zip(found, kinds, strict=True) if "float" in kind or "compl" in kind
        ]


def weights(result: Any) -> np.ndarray:
    return (np.arange(result.size) % 5 + 1.0).reshape(result.shape)


def by_torch(case: Case, op: Any, wrap: Callable[..., Any]) -> Derivatives:
    def tensor(x: np.ndarray) -> torch.Tensor:
        if x.dtype.name != "bfloat16":
            return torch.from_numpy(x.copy())
        return torch.from_numpy(x.view("int16").copy()).view(torch.bfloat16)

    primals, tangents = (tuple(map(tensor, xs)) for xs in (case.chosen, case.directions))
    leaves, tree = tree_flatten(case.with_arrays(list(primals), tensor))
    places = [i for i, leaf in enumerate(leaves) if any(leaf is p for p in primals)]

    def run(*arrays: torch.Tensor) -> torch.Tensor:
        changed = dict(zip(places, arrays, strict=True))
        args = tree_unflatten([changed.get(i, leaf) for i, leaf in enumerate(leaves)], tree)
        total = torch.zeros((), dtype=torch.float64)
        for r in flatten([case.member.apply(case.call, op, args)]):
            if r.dtype.is_floating_point or r.dtype.is_complex:
                weight = (torch.arange(r.numel()) % 5 + 1).reshape(r.shape)
                total = total + (r.to(torch.complex128) * weight).real.sum()
        return total

    _, forward = wrap(lambda *xs: torch.func.jvp(run, xs, tangents))(*primals)
    back = wrap(torch.func.grad(run, tuple(range(len(primals)))))(*primals)
    # Torch's gradients of complex numbers are conjugated.
    return float(forward), [g.to(torch.complex128).conj().resolve_conj().numpy() for g in back]


def by_jax(case: Case, op: Any, wrap: Callable[..., Any]) -> Derivatives:
    def run(*arrays: Any) -> Any:
        total = jnp.zeros((), "float64")
        for r in flatten([case.member.apply(case.call, op, case.with_arrays(arrays, jnp.asarray))]):
            if jnp.issubdtype(r.dtype, jnp.inexact):
                total = total + (r.astype("complex128") * weights(r)).real.sum()
        return total

    primals, tangents = (tuple(map(jnp.asarray, xs)) for xs in (case.chosen, case.directions))
    _, forward = wrap(lambda *xs: jax.jvp(run, xs, tangents))(*primals)
    back = wrap(lambda *xs: jax.vjp(run, *xs)[1](jnp.ones((), "float64")))(*primals)
    return float(forward), [np.asarray(g, "complex128") for g in back]


WAYS = {
    "torch": (by_torch, lambda f: f),
    "torch.compile": (by_torch, lambda f: torch.compile(f, fullgraph=True, dynamic=False)),
    "jax": (by_jax, lambda f: f),
    "jax.jit": (by_jax, jax.jit),
}


@pytest.mark.parametrize(
    "way",
    [pytest.param(w, marks=pytest.mark.slow) if w == "torch.compile" else w for w in WAYS],
)
@pytest.mark.parametrize("member", MEMBERS, ids=lambda m: str(m.number))
def test_both_modes_are_what_finite_differences_give(member: Member, ops: Any, way: str) -> None:
    derivatives, wrap = WAYS[way]
    for variant in range(1 if way == "torch.compile" else 2):
        case = Case(member, member.make_call(variant))
        if not case.chosen:
            continue
        expected = case.difference(1.0)
        forward, gradients = derivatives(case, ops[member.number], wrap)
        pairs = zip(gradients, case.directions, strict=True)
        back = sum(float((g * d.astype("complex128")).sum().real) for g, d in pairs)
        tolerance = 0.02 * max(abs(expected), 1.0)  # of data types with 8 bits
        assert forward == pytest.approx(expected, abs=tolerance)
        assert back == pytest.approx(expected, abs=tolerance)
