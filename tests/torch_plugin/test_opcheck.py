# SPDX-License-Identifier: Apache-2.0
"""torch.library.opcheck, all of its tests, on the primitive and on every form of op."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.library import opcheck


def cases() -> dict[str, Any]:
    x = torch.arange(6.0).reshape(2, 3)
    return {
        "add": (x, 2.0),
        "add noncontiguous": (x.T,),
        "add expanded": (torch.ones(1).expand(3),),
        "add 0-d": (torch.tensor(1.0),),
        "add empty": (torch.empty(0, 3),),
        "split": (x,),
        "masked": (x, torch.ones(1)),
        "masked none": (x,),
        "total_of": ([torch.ones(3), torch.ones(3)], torch.ones(3)),
        "total_of empty": ([], torch.ones(3)),
        "attributes": (x,),
        "attributes all": (x, 5, 1.5, False, "x", "int8", "cpu", [4, 5, 6], 9),
        "constants": (x,),
        "increment": (x.clone(),),
        "increment_and_copy": (x.clone(),),
    }


@pytest.mark.parametrize("case", list(cases()))
def test_ops_pass_all_tests(ops: Any, case: str) -> None:
    name = case.split(maxsplit=1)[0]
    assert getattr(ops, name)
    args = cases()[case]
    result = opcheck(getattr(torch.ops.mytest, name).default, args)
    assert set(result.values()) == {"SUCCESS"}


def test_destination_form_passes_all_tests(ops: Any) -> None:
    x = torch.ones(3)
    result = opcheck(torch.ops.mytest.add.out, (x, 2.0), {"out": torch.empty(3)})
    assert set(result.values()) == {"SUCCESS"}


@pytest.mark.parametrize(
    "args",
    [
        ([torch.ones(3), None], [torch.empty(3)], "i0, f0, o0", [], [2.0]),
        ([], [torch.ones(3)], "o0, f0", [], [2.0]),
    ],
    ids=["None among inputs", "no inputs"],
)
def test_primitive_passes_all_tests(kernels: Any, args: Any) -> None:
    kernel = kernels.add if args[0] else kernels.increment
    result = opcheck(torch.ops.tvm_ffi.call.default, (kernel.reference, *args))
    assert set(result.values()) == {"SUCCESS"}
