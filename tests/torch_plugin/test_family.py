# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in PyTorch: eager, compiled, exported, and through opcheck."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import graphffi
from tests.families.calls import Call, View, flatten
from tests.families.op_family import Member, members

NAMESPACE = "family_torch"
# Inductor says so of every graph with complex tensors in it.
pytestmark = pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex")


def torch_view(base: np.ndarray, view: View) -> torch.Tensor:
    is_bfloat16 = view.dtype == "bfloat16"  # which NumPy does not know
    flat = torch.from_numpy(base.view("int16") if is_bfloat16 else base)
    flat = flat.view(torch.bfloat16) if is_bfloat16 else flat
    return flat.as_strided(view.shape, view.strides, view.offset)


def differentiable_view(base: np.ndarray, view: View) -> torch.Tensor:
    """The view as a leaf that gets a gradient, if it can."""
    x = torch_view(base, view)
    return x.requires_grad_() if x.dtype.is_floating_point or x.dtype.is_complex else x


class TorchArrays:
    """What the reference needs of PyTorch."""

    def full(self, size: int, value: float) -> torch.Tensor:
        return torch.full((size,), value, dtype=torch.complex128)

    def widen(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1).to(torch.complex128)

    def narrow(self, x: torch.Tensor, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        to = getattr(torch, dtype)
        if to.is_complex:
            return x.to(to).reshape(shape)
        x = x.real
        if to is torch.bool:
            return (x != 0).reshape(shape)
        if not to.is_floating_point:
            x = x.to(torch.int64)  # wraps around, where a float would not
        return x.to(to).reshape(shape)


@pytest.fixture(scope="module")
def ops() -> dict[int, graphffi.Op]:
    return {member.number: member.define(NAMESPACE) for member in members()}


def caller(member: Member, call: Call, op: Any) -> Callable[..., Any]:
    """A function of the arguments as a list: what is compiled and exported."""

    def run(*args: Any) -> Any:
        return member.apply(call, op, args)

    return run


def check(member: Member, call: Call, run: Callable[..., Any]) -> None:
    """What a call returns and what it updates, against the reference."""
    args = call.build(torch_view)
    check_call(member, call, args, run(*args))


def check_call(member: Member, call: Call, args: list[Any], results: Any) -> None:
    """The same, of a call that was made with `args`."""
    expected = member.reference(TorchArrays(), call.build(torch_view))
    check_equal(flatten([results]), expected)
    mutated = flatten([a for p, a in zip(member.parameters, args, strict=True) if p.mutated])
    check_equal(mutated, expected[len(member.results) :])


def check_equal(got: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    """The same shapes, dtypes and elements, exactly."""
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
class TestMember:
    """One member in every mode; the calls of a mode differ in sizes."""

    def test_eager(self, member: Member, ops: Any) -> None:
        for variant in range(3):
            call = member.make_call(variant)
            check(member, call, caller(member, call, ops[member.number]))

    @pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
    def test_compiled(self, member: Member, ops: Any, dynamic: bool) -> None:
        call = member.make_call(0)
        run = caller(member, call, ops[member.number])
        compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
        for variant in range(2 if dynamic else 1):
            check(member, member.make_call(variant), compiled)

    def test_exported(self, member: Member, ops: Any) -> None:
        call = member.make_call(0)

        class Module(torch.nn.Module):
            def forward(self, *args: Any) -> Any:
                return member.apply(call, ops[member.number], args)

        program = torch.export.export(Module(), tuple(call.build(torch_view)))
        check(member, call, program.module())
        check(member, call, program.run_decompositions().module())

    def test_exported_with_symbolic_sizes(self, member: Member, ops: Any) -> None:
        calls = {member: member.make_call(0)}
        module = Several(calls, ops)
        program = torch.export.export(module, module.operands(), dynamic_shapes=module.sizes())
        for variant in range(2):
            check_several({member: member.make_call(variant, pattern=0)}, program.module())

    def test_opcheck(self, member: Member, ops: Any) -> None:
        call = member.make_call(0)
        # To test gradients, opcheck adds the results up, which takes those of one type.
        dtypes = {result.dtype for result in member.expected(call)}
        is_checkable = member.is_differentiable and len(dtypes) == 1
        make = differentiable_view if is_checkable else torch_view
        operator = getattr(getattr(torch.ops, NAMESPACE), f"member{member.number}").default
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of opcheck about what it tests
            result = torch.library.opcheck(operator, tuple(call.build(make)))
        assert set(result.values()) == {"SUCCESS"}


class Several(torch.nn.Module):
    """One call of each of several members, whose operands are given one after the other."""

    def __init__(self, calls: dict[Member, Call], ops: dict[int, graphffi.Op]) -> None:
        super().__init__()
        self.parts = [
            (member, call, ops[member.number], *member.split(call.build(torch_view)))
            for member, call in calls.items()
        ]

    def operands(self) -> tuple[Any, ...]:
        return tuple(part[3] for part in self.parts)

    def sizes(self) -> Any:
        """Symbolic ones for all dimensions but those of 0 and 1."""

        def of(x: Any) -> Any:
            return None if x is None else dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO)

        return (tree_map(of, self.operands()),)

    def forward(self, *operands: Any) -> Any:
        return [
            member.apply(call, op, join(*own))
            for (member, call, op, _, join), own in zip(self.parts, operands, strict=True)
        ]


def check_several(calls: dict[Member, Call], run: Callable[..., Any]) -> None:
    """A call of several members, against the references; names those that differ."""
    arguments = {member: call.build(torch_view) for member, call in calls.items()}
    results = run(*(member.split(args)[0] for member, args in arguments.items()))
    wrong = []
    for (member, args), got in zip(arguments.items(), results, strict=True):
        try:
            check_call(member, calls[member], args, got)
        except AssertionError as error:
            wrong.append(f"member {member.number}: {error}")
    assert not wrong, "\n".join(wrong)


TOGETHER = 10  # members of a package: each package takes the compiler of C++
GROUPS = [members()[i : i + TOGETHER] for i in range(0, len(members()), TOGETHER)]


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=lambda g: f"{g[0].number}-{g[-1].number}")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_packaged(group: list[Member], ops: Any, tmp_path: Path, dynamic: bool) -> None:
    module = Several({member: member.make_call(0) for member in group}, ops)
    shapes = module.sizes() if dynamic else None
    program = torch.export.export(module, module.operands(), dynamic_shapes=shapes)
    path = str(tmp_path / "members.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    package = torch._inductor.aoti_load_package(path)
    for variant in range(2 if dynamic else 1):
        check_several({member: member.make_call(variant, pattern=0) for member in group}, package)


def gradients(member: Member, call: Call, run: Callable[..., Any]) -> list[torch.Tensor]:
    """Those of a weighted sum of the results, with respect to each tensor; zeros where none is."""
    args = call.build(differentiable_view)
    results = [r for r in flatten([run(*args)]) if r.requires_grad]
    if results:
        torch.autograd.backward(results, [cotangent(r) for r in results])
    operands = [x for x in flatten(args) if isinstance(x, torch.Tensor)]
    return [torch.zeros(x.shape, dtype=x.dtype) if x.grad is None else x.grad for x in operands]


def cotangent(result: torch.Tensor) -> torch.Tensor:
    """Small integers."""
    values = (torch.arange(result.numel()) % 5).reshape(result.shape)
    return (values * (1 + 2j) if result.is_complex() else values).to(result.dtype)


@pytest.mark.parametrize(
    "member", [m for m in members() if m.is_differentiable], ids=lambda m: str(m.number)
)
class TestGradients:
    """Those of members that update nothing, against autograd of the reference."""

    def check(self, member: Member, call: Call, run: Callable[..., Any]) -> None:
        got = gradients(member, call, run)
        wanted = gradients(member, call, lambda *args: member.reference(TorchArrays(), args))
        torch.testing.assert_close(got, wanted)

    def test_eager(self, member: Member, ops: Any) -> None:
        for variant in range(3):
            call = member.make_call(variant)
            self.check(member, call, caller(member, call, ops[member.number]))

    @pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
    def test_compiled(self, member: Member, ops: Any, dynamic: bool) -> None:
        call = member.make_call(0)
        run = caller(member, call, ops[member.number])
        compiled = torch.compile(run, fullgraph=True, dynamic=dynamic)
        for variant in range(2 if dynamic else 1):
            self.check(member, member.make_call(variant), compiled)


Loss = Callable[[list[torch.Tensor], list[Any]], torch.Tensor]


class Scalar:
    """A number made of a call's results, as a function of its tensors: what torch.func takes."""

    def __init__(self, member: Member, call: Call, op: Any) -> None:
        self.member, self.call, self.op = member, call, op
        operands, self.join = member.split(call.build(torch_view))
        flat, self.tree = tree_flatten(operands)
        self.is_chosen = [is_inexact(x) for x in flat]

    def tensors(self, call: Call) -> tuple[list[torch.Tensor], list[Any]]:
        """Those of a call that can have gradients, and all other operands."""
        flat, _ = tree_flatten(self.member.split(call.build(torch_view))[0])
        flags = list(zip(flat, self.is_chosen, strict=True))
        return [x for x, chosen in flags if chosen], [x for x, chosen in flags if not chosen]

    def _args(self, chosen: list[torch.Tensor], others: list[Any]) -> list[Any]:
        rest, inexact = iter(others), iter(chosen)
        flat = [next(inexact) if flag else next(rest) for flag in self.is_chosen]
        return self.join(*tree_unflatten(flat, self.tree))

    def of_op(self, chosen: list[torch.Tensor], others: list[Any]) -> torch.Tensor:
        args = self._args(chosen, others)
        return weighted_sum([self.member.apply(self.call, self.op, args)])

    def of_reference(self, chosen: list[torch.Tensor], others: list[Any]) -> torch.Tensor:
        return weighted_sum(self.member.reference(TorchArrays(), self._args(chosen, others)))


def is_inexact(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def weighted_sum(tensors: Any) -> torch.Tensor:
    """Of all elements that can have gradients: the real part."""
    total = torch.zeros((), dtype=torch.float64)
    for x in filter(is_inexact, flatten(tensors)):
        total = total + (cotangent(x).to(torch.complex128) * x).real.sum()
    return total


def second_gradients(loss: Loss) -> Callable[..., list[torch.Tensor]]:
    """The gradients of a weighted sum of the gradients, by torch.func."""

    def slope(chosen: list[torch.Tensor], others: list[Any]) -> torch.Tensor:
        return weighted_sum(torch.func.grad(loss)(chosen, others))

    return torch.func.grad(slope)


def recorded_second_gradients(loss: Loss) -> Callable[..., list[torch.Tensor]]:
    """The same by double backward."""

    def run(chosen: list[torch.Tensor], others: list[Any]) -> list[torch.Tensor]:
        leaves = [x.detach().requires_grad_() for x in chosen]
        first = recorded_gradients(loss(leaves, others), leaves, create_graph=True)
        return recorded_gradients(weighted_sum(first), leaves, create_graph=False)

    return run


def recorded_gradients(
    total: torch.Tensor, leaves: list[torch.Tensor], *, create_graph: bool
) -> list[torch.Tensor]:
    if not total.requires_grad:
        return [torch.zeros_like(x) for x in leaves]
    return list(
        torch.autograd.grad(total, leaves, create_graph=create_graph, materialize_grads=True)
    )


MODES = {
    "eager": lambda run: run,
    "static": lambda run: torch.compile(run, fullgraph=True, dynamic=False),
    "dynamic": lambda run: torch.compile(run, fullgraph=True, dynamic=True),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "member", [m for m in members() if m.is_differentiable], ids=lambda m: str(m.number)
)
@pytest.mark.parametrize("mode", MODES)
class TestGradientsOfFunctions:
    """Gradients of gradients, and batches of gradients, against torch's of the reference."""

    def test_second(self, member: Member, ops: Any, mode: str) -> None:
        call = member.make_call(0)
        scalar = Scalar(member, call, ops[member.number])
        run = MODES[mode](second_gradients(scalar.of_op))
        for variant in range(1 if mode == "static" else 2):
            tensors = scalar.tensors(member.make_call(variant))
            wanted = second_gradients(scalar.of_reference)(*tensors)
            torch.testing.assert_close(run(*tensors), wanted)
            if mode == "eager":
                got = recorded_second_gradients(scalar.of_op)(*tensors)
                torch.testing.assert_close(got, wanted)

    def test_vmap_of_grad(self, member: Member, ops: Any, mode: str) -> None:
        call = member.make_call(0)
        scalar = Scalar(member, call, ops[member.number])
        rows = [scalar.tensors(call.with_values(seed)) for seed in range(3)]
        # In front, at the end, or not at all.
        places = iter([0, *random.Random(member.number).choices((0, -1, None), k=100)])
        in_dims = tree_map(lambda x: None if x is None else next(places), rows[0])
        batch = tree_map(
            lambda dim, *xs: xs[0] if dim is None else torch.stack(xs, dim), in_dims, *rows
        )
        run = MODES[mode](torch.func.vmap(torch.func.grad(scalar.of_op), in_dims=in_dims))
        got = run(*batch)
        for i in range(3):
            row = tree_map(
                lambda dim, x, i=i: x if dim is None else x.select(dim, i), in_dims, batch
            )
            wanted = torch.func.grad(scalar.of_reference)(*row)
            torch.testing.assert_close([x[i] for x in got], wanted)


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
def test_vmap(member: Member, ops: Any) -> None:
    calls = [member.make_call(0).with_values(seed) for seed in range(3)]
    operands = [member.split(call.build(torch_view))[0] for call in calls]
    _, join = member.split(calls[0].build(torch_view))
    batch = tree_map(lambda *xs: None if xs[0] is None else torch.stack(xs), *operands)
    in_dims = tree_map(lambda x: None if x is None else 0, tuple(batch))

    def run(*one: Any) -> Any:
        # vmap takes no None from a function.
        return flatten([member.apply(calls[0], ops[member.number], join(*one))])

    got = torch.func.vmap(run, in_dims=in_dims)(*batch)
    for i, call in enumerate(calls):
        check_equal(
            [x[i] for x in got],
            member.reference(TorchArrays(), call.build(torch_view)),
        )
