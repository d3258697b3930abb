# SPDX-License-Identifier: Apache-2.0
"""Forward mode by the rules of ops, and both modes inside of each other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

import graphffi

pytest.importorskip("array_api_compat")

from tests import forward_ops as ops
from tests.torch_release import IS_TORCH_2_10

# Of what torch itself does in forward mode.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch._prims_common.check. is deprecated"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node"),
]

numbers = itertools.count()


def tensor(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y, WEIGHT = tensor(0, 4, 3), tensor(1, 4, 3), tensor(2, 3)


def jvp(f: Any) -> Any:
    return lambda *xs: torch.func.jvp(f, xs, xs)


def duals(f: Any) -> Any:
    def run(*xs: Any) -> Any:
        with forward_ad.dual_level():
            result = f(*(forward_ad.make_dual(x, x * 2) for x in xs))
            return tuple(forward_ad.unpack_dual(result))

    return run


def grad_of_duals(f: Any) -> Any:
    def run(*xs: Any) -> Any:
        leaves = [x.clone().requires_grad_() for x in xs]
        return torch.autograd.grad(duals(f)(*leaves)[1], leaves)

    return run


TRANSFORMS = {
    "jvp": jvp,
    "duals": duals,
    "jacfwd": lambda f: torch.func.jacfwd(f, (0, 1, 2)),
    "hessian": lambda f: torch.func.hessian(f, (0, 2)),
    "jacrev of jacfwd": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    "jacfwd of jacfwd": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "grad": lambda f: torch.func.grad(f, (0, 1, 2)),
    "grad of duals": grad_of_duals,
    "linearize": lambda f: lambda *xs: torch.func.linearize(f, *xs)[1](*xs),
    "vmap of jvp": lambda f: (
        lambda x, y, w: torch.vmap(jvp(lambda y: f(x, y, w)))(torch.stack([y, x]))
    ),
    "jvp of vmap": lambda f: (
        lambda x, y, w: jvp(torch.vmap(lambda y: f(x, y, w)))(torch.stack([y, x]))
    ),
    "checkpoint": lambda f: duals(
        lambda *xs: torch.utils.checkpoint.checkpoint(f, *xs, use_reentrant=False)
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_both_modes_are_those_of_plain_torch(name: str) -> None:
    if name == "checkpoint" and IS_TORCH_2_10:
        pytest.skip("needs a newer torch")
    got, expected = (TRANSFORMS[name](ops.use_all(p))(X, Y, WEIGHT) for p in ("", "reference_"))
    torch.testing.assert_close(got, expected, rtol=2e-4, atol=2e-4)


newer = pytest.mark.skipif(IS_TORCH_2_10, reason="needs a newer torch")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["jvp", "grad", pytest.param("jacfwd", marks=newer), pytest.param("hessian", marks=newer)],
)
def test_both_modes_in_compiled_code(name: str) -> None:
    transform = TRANSFORMS[name]
    got = torch.compile(transform(ops.use_all("")), fullgraph=True)(X, Y, WEIGHT)
    expected = transform(ops.use_all("reference_"))(X, Y, WEIGHT)
    torch.testing.assert_close(got, expected, rtol=2e-4, atol=2e-4)


def test_results_without_tangents_have_none() -> None:
    primals, tangents = torch.func.jvp(lambda x: tuple(ops.largest(x)), (X,), (Y,))
    position = X.argmax(-1)
    assert primals[1].equal(position.int())
    torch.testing.assert_close(tangents[0], Y.gather(-1, position[:, None])[:, 0])
    assert not tangents[1].any()
    gradient = torch.func.grad(lambda x: ops.largest(x).value.sum())(X)
    assert gradient.argmax(-1).equal(position)


def define(**options: Any) -> graphffi.Op:
    return graphffi.define_op(
        f"forward::torch{next(numbers)}",
        schema="(Tensor x, Tensor y) -> Tensor",
        kernel=ops.mul.definition.kernels[0].reference,
        infer=lambda x, y: graphffi.like(x),
        **options,
    )


def test_operands_that_do_not_change_get_zeros_and_integers_none() -> None:
    op = graphffi.define_op(
        f"forward::torch{next(numbers)}",
        schema="(Tensor x, Tensor i, Tensor? z, Tensor[] xs, dtype kind) -> Tensor",
        kernel=ops.mul.definition.kernels[0].reference,
        plan="x, x, out",
        infer=lambda x, i, z, xs, kind: graphffi.like(x),
    )
    seen: list[Any] = []

    def forward(saved: Any, x: Any, i: Any, z: Any, xs: Any) -> Any:
        seen[:] = [x, i, z, xs, saved.kind]
        return x

    op.register_jvp(forward)
    i = torch.arange(3)
    torch.func.jvp(lambda x: op(x, i, None, [Y, x, i], "int8"), (X,), (Y.T.contiguous().T,))
    assert [None if t is None else tuple(t.shape) for t in seen[:3]] == [(4, 3), None, None]
    assert seen[3][2] is None
    assert (seen[0].is_contiguous(), seen[4]) == (True, "int8")
    with forward_ad.dual_level():
        op(forward_ad.make_dual(X, Y), i, None, [Y], "int8")
        assert not seen[3][0].any()


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_what_is_not_given_names_what_to_register(mode: str) -> None:
    forward, backward = define(), define()
    forward.register_jvp(lambda saved, x, y: x + y)
    backward.register_vjp(lambda saved, grad: (grad, grad))
    run = torch.compile if mode == "compiled" else lambda f, **_: f
    torch.testing.assert_close(run(jvp(forward), fullgraph=True)(X, Y)[1], X + Y)
    with pytest.raises(
        NotImplementedError,
        match=f"{forward.name}: backward: expected a gradient rule, got none; register one with "
        "register_vjp, or define the op with gradient='reference'",
    ):
        run(forward, fullgraph=True)(X.clone().requires_grad_(), Y).sum().backward()
    with pytest.raises(
        NotImplementedError,
        match=f"{backward.name}: jvp: expected a forward-mode rule, got none; register one with "
        "register_jvp, or define the op with gradient='reference'",
    ):
        run(jvp(backward), fullgraph=True)(X, Y)


@pytest.mark.parametrize(
    ("returned", "kind", "text"),
    [
        ((None,), TypeError, "tangent of 'out': expected a tensor or None, got tuple"),
        (3, TypeError, "tangent of 'out': expected a tensor or None, got int 3"),
        (X[0], ValueError, r"tangent of 'out': expected float32\[4, 3\], got float32\[3\]"),
        (X > 0, TypeError, r"tangent of 'out': expected float32\[4, 3\], got bool\[4, 3\]"),
        (X * 1j, TypeError, r"tangent of 'out': expected float32\[4, 3\], got complex64"),
        (X.numpy(), TypeError, "expected tangents that are torch tensors, got ndarray"),
    ],
    ids=["tuple", "number", "shape", "bool", "complex", "numpy"],
)
def test_wrong_tangents_are_refused(returned: Any, kind: Any, text: str) -> None:
    op = define()
    op.register_jvp(lambda saved, x, y: returned)
    with pytest.raises(kind, match=f"{op.name}: jvp: {text}"):
        jvp(op)(X, Y)


def test_too_few_tangents_are_refused_by_number() -> None:
    op = graphffi.define_op(
        f"forward::torch{next(numbers)}",
        schema="(Tensor x) -> (Tensor a, Tensor b)",
        kernel=ops.mul.definition.kernels[0].reference,
        plan="a, x, b",
        infer=lambda x: (x, x),
    )
    op.register_jvp(lambda saved, x: x)
    with pytest.raises(TypeError, match=f"{op.name}: jvp: expected 2 tangents, for a, b, got"):
        torch.func.jvp(lambda x: op(x)[0], (X,), (Y,))


def test_no_tangent_is_none_of_the_result() -> None:
    op = define()
    op.register_jvp(lambda saved, x, y: None)
    assert duals(op)(X, Y)[1] is None


@pytest.mark.parametrize("transform", [jvp, torch.func.jacfwd, duals])
def test_updates_of_a_result_leave_other_tangents_alone(transform: Any) -> None:
    def copy(x: Any, *results: Any) -> None:
        for result in results:
            torch.from_dlpack(result).copy_(torch.from_dlpack(x))

    op = graphffi.define_op(
        f"forward::torch{next(numbers)}",
        schema="(Tensor x) -> (Tensor a, Tensor b)",
        kernel=copy,
        infer=lambda x: (x, x),
        vmap="broadcast",
    )
    op.register_jvp(lambda saved, x: (x, x))

    def updated(x: torch.Tensor) -> torch.Tensor:
        a, b = op(x)
        a.mul_(3)
        return torch.cat([x * 1, b])

    expected = transform(lambda x: torch.cat([x, x]))(WEIGHT)
    torch.testing.assert_close(transform(updated)(WEIGHT), expected)


def test_what_is_not_saved_is_named() -> None:
    op = define()
    op.register_jvp(lambda saved, x, y: saved.y, save=("x",))
    with pytest.raises(AttributeError, match=r"got 'y'; name it in register_jvp\(save=...\)"):
        jvp(op)(X, Y)


def test_rules_of_ops_that_update_or_save_unknown_names_are_refused() -> None:
    with pytest.raises(TypeError, match="register_jvp: expected a callable, got int 3"):
        define().register_jvp(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="register_jvp: save: expected names of parameters"):
        define().register_jvp(lambda *_: None, save="z")
    options: Any = {
        "schema": "(Tensor(a!) x) -> ()",
        "kernel": ops.mul.definition.kernels[0].reference,
    }
    op = graphffi.define_op(f"forward::torch{next(numbers)}", plan="x, x, x", **options)
    with pytest.raises(ValueError, match="register_jvp: expected an op that returns new tensors"):
        op.register_jvp(lambda saved, x: None)
    with pytest.raises(ValueError, match="gradient='reference': expected an op that returns new"):
        graphffi.define_op("forward::updating", gradient="reference", plan="x, x, x", **options)


def test_rules_for_complex_numbers_are_transposed() -> None:
    op = define(gradient="reference", vmap="broadcast")
    op.set_reference(lambda xp, x, y: x * y)
    # The kernel takes float32 alone: what is differentiated is the reference.
    with op.use_kernel("reference"):
        x, y = torch.complex(X, Y), torch.complex(Y, -2 * X)
        for transform in (jvp, lambda f: lambda *xs: torch.func.vjp(f, *xs)[1](xs[0])):
            torch.testing.assert_close(transform(op)(x, y), transform(ops.reference_mul)(x, y))


def test_a_rule_that_comes_later_is_used_by_compiled_code() -> None:
    op = define(gradient="reference")
    op.set_reference(lambda xp, x, y: x * y)
    function = torch.compile(jvp(op), fullgraph=True)
    torch.testing.assert_close(function(X, Y)[1], 2 * X * Y)
    op.register_jvp(lambda saved, x, y: x + y)
    torch.testing.assert_close(function(X, Y)[1], X + Y)
