# SPDX-License-Identifier: Apache-2.0
"""The family of random ops as nodes of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.families.calls import flatten, numpy_view
from tests.families.op_family import Member, members
from tests.onnxruntime_plugin.models import session_for


@pytest.mark.parametrize("member", members(), ids=lambda m: str(m.number))
def test_a_member_gives_the_reference(member: Member) -> None:
    op = member.define("family_onnx")
    call = member.make_call(0)
    args = call.build(numpy_view)
    named: dict[str, Any] = dict(zip((p.name for p in member.parameters), args, strict=True))
    is_last = [p.is_list for p in member.parameters if p.is_operand]
    if any(is_last[:-1]):
        with pytest.raises(NotImplementedError, match=f"{op.name}: operand .*: expected a list"):
            session_for(op, **named)
        return
    tensors = flatten([v for v, p in zip(args, member.parameters, strict=True) if p.is_operand])
    if any(t.dtype == "complex64" for t in (*tensors, *member.expected(call))):
        with pytest.raises(NotImplementedError, match=f"{op.name}: .*, got complex64"):
            session_for(op, **named)
        return
    if not member.expected(call):
        with pytest.raises(NotImplementedError, match=f"{op.name}: expected a call with results"):
            session_for(op, **named)
        return
    run = session_for(op, **named)
    for variant in range(3):  # other sizes
        call = member.make_call(variant, pattern=0)
        args = call.build(numpy_view)
        named = dict(zip((p.name for p in member.parameters), args, strict=True))
        tensors = [named[p.name] for p in member.parameters if p.is_operand]
        expected = member.expected(call)
        for actual, wanted in zip(run(*tensors), expected, strict=True):
            assert actual.dtype == wanted.dtype
            np.testing.assert_array_equal(actual, wanted)
