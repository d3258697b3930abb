# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in PyTorch: eager, compiled, exported, and through opcheck."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

import graphffi
from tests.families.op_family import Call, Member, View, flatten, members

NAMESPACE = "family_torch"


def torch_view(base: np.ndarray, view: View) -> torch.Tensor:
    return torch.from_numpy(base).as_strided(view.shape, view.strides, view.offset)


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
    got = flatten([run(*args)])
    expected = member.expected(call)
    assert len(got) == len(expected)
    for actual, wanted in zip(got, expected, strict=True):
        assert str(actual.dtype) == f"torch.{wanted.dtype}"
        np.testing.assert_array_equal(actual.numpy(), wanted)
    mutated = flatten([a for p, a in zip(member.parameters, args, strict=True) if p.mutated])
    for actual, wanted in zip(mutated, expected[len(member.results) :], strict=True):
        np.testing.assert_array_equal(actual.numpy(), wanted)


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

    @pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch copies its own
    def test_exported(self, member: Member, ops: Any) -> None:
        call = member.make_call(0)

        class Module(torch.nn.Module):
            def forward(self, *args: Any) -> Any:
                return member.apply(call, ops[member.number], args)

        program = torch.export.export(Module(), tuple(call.build(torch_view)))
        check(member, call, program.module())
        check(member, call, program.run_decompositions().module())

    def test_opcheck(self, member: Member, ops: Any) -> None:
        call = member.make_call(0)
        operator = getattr(getattr(torch.ops, NAMESPACE), f"member{member.number}").default
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of opcheck about what it tests
            result = torch.library.opcheck(operator, tuple(call.build(torch_view)))
        assert set(result.values()) == {"SUCCESS"}


# Each takes the compiler of C++.
@pytest.mark.parametrize(
    "member", [m for m in members() if m.number % 20 == 0], ids=lambda m: str(m.number)
)
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_packaged(member: Member, ops: Any, tmp_path: Path) -> None:
    call = member.make_call(0)
    operands, join = member.split(call.build(torch_view))

    class Module(torch.nn.Module):
        def forward(self, *operands: Any) -> Any:
            return member.apply(call, ops[member.number], join(*operands))

    program = torch.export.export(Module(), tuple(operands))
    path = str(tmp_path / "member.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    package = torch._inductor.aoti_load_package(path)
    check(member, call, lambda *args: package(*member.split(args)[0]))


@pytest.mark.parametrize(
    "member", [m for m in members() if not m.updates], ids=lambda m: str(m.number)
)
def test_vmap(member: Member, ops: Any) -> None:
    call = member.make_call(0)
    operands, join = member.split(call.build(torch_view))

    def stack(x: Any) -> Any:
        return None if x is None else torch.stack([x, x + 1, x * 2])

    def dim(x: Any) -> int | None:
        return None if x is None else 0

    batch = tree_map(stack, operands)

    def run(*one: Any) -> Any:
        return member.apply(call, ops[member.number], join(*one))

    got = flatten([torch.func.vmap(run, in_dims=tree_map(dim, tuple(batch)))(*batch)])
    for i in range(3):
        expected = flatten([run(*tree_map(lambda x, i=i: None if x is None else x[i], batch))])
        for actual, wanted in zip(got, expected, strict=True):
            torch.testing.assert_close(actual[i], wanted, rtol=0, atol=0)
