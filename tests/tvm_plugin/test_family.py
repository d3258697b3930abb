# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in Relax modules: equal to eager code, or refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map

from tests.families.calls import flatten
from tests.families.op_family import Member, members
from tests.torch_plugin.test_family import TorchArrays, check_equal, torch_view
from tests.tvm_plugin.relax_modules import convert, export, runner

# Of TVM itself about complex inputs and programs without results, and of graphffi.
REFUSALS = (
    "input_type torch.complex64 is not handled yet",
    "expected a dtype that TVM has, got complex64",
    "Exported graph produced no Relax outputs",
    "expected an op with results, got one without, which TVM drops",
)


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_member(member: Member, dynamic: bool) -> None:
    op, made = member.define("family_tvm", override=True), member.make_call(0)
    operands, join = member.split(made.build(torch_view))
    kinds = [p for p in member.parameters if p.is_operand]

    def function(*tensors: Any) -> Any:
        given = iter(tensors)
        own = [
            None
            if operand is None
            else tree_map(torch.clone, next(given))
            if p.mutated
            else next(given)
            for operand, p in zip(operands, kinds, strict=True)
        ]
        return flatten([member.apply(made, op, join(*own))])

    args = [operand for operand in operands if operand is not None]
    shapes = tree_map(lambda x: dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO), args)
    program = export(function, args, shapes if dynamic else None)
    try:
        call = runner(convert(program))
    except (NotImplementedError, ValueError) as error:
        if not str(error).endswith(REFUSALS):
            raise
        pytest.skip(str(error))
    for variant in range(2 if dynamic else 1):
        varied = member.make_call(variant, pattern=0)
        got = call(*member.split(varied.build(torch_view))[0])
        check_equal(got, member.reference(TorchArrays(), varied.build(torch_view)))
