# SPDX-License-Identifier: Apache-2.0
"""The family of random ops in programs of PyTorch that are exported as models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import graphffi
import graphffi_onnxruntime
from tests.families.calls import flatten, numpy_view
from tests.families.op_family import Member, members
from tests.onnxruntime_plugin.models import run as run_arrays
from tests.onnxruntime_plugin.models import session_of

torch = pytest.importorskip("torch")
if importlib.util.find_spec("onnxscript") is None:
    pytest.skip("needs onnxscript", allow_module_level=True)

from tests.torch_plugin.test_family import Several  # noqa: E402 - needs torch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
]

REFUSALS = (
    "operand .*: expected a list of tensors as the last operand",
    "(operand|result) .*: expected a data type that kernels have in ONNX Runtime, got complex64",
)


@pytest.fixture(scope="module")
def family() -> dict[int, graphffi.Op]:
    return {member.number: member.define("family_onnx_export") for member in members()}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_members_of_the_family_give_what_eager_code_gives(
    family: dict[int, graphffi.Op], dynamic: bool, tmp_path: Path
) -> None:
    calls = {m: m.make_call(0) for m in members() if not _is_refused(m)}
    module = Several(calls, family)
    exported = torch.export.export(
        module, module.operands(), dynamic_shapes=module.sizes() if dynamic else None
    )
    path = graphffi_onnxruntime.export(exported, tmp_path / "model.onnx")
    session = session_of(path, path)
    for variant in range(2 if dynamic else 1):
        calls = {m: m.make_call(variant, pattern=0) for m in calls}
        arguments = {m: call.build(numpy_view) for m, call in calls.items()}
        got = iter(run_arrays(session, flatten([m.split(a)[0] for m, a in arguments.items()])))
        for m, call in calls.items():
            for wanted in m.expected(call):  # results, then what is updated
                actual = next(got)
                assert actual.dtype == wanted.dtype, m.number
                np.testing.assert_array_equal(actual, wanted, f"member {m.number}")


def _is_refused(member: Member) -> bool:
    """True if no model can hold the calls of a member."""
    call = member.make_call(0)
    args = call.build(numpy_view)
    operands = [p for p in member.parameters if p.is_operand]
    tensors = flatten([*member.split(args)[0], *member.expected(call)])
    is_complex = any(t.dtype == "complex64" for t in tensors)
    return is_complex or any(p.is_list for p in operands[:-1])


@pytest.mark.parametrize(
    "member", [m for m in members() if _is_refused(m)], ids=lambda m: str(m.number)
)
def test_other_members_are_refused_by_name(
    family: dict[int, graphffi.Op], member: Member, tmp_path: Path
) -> None:
    module = Several({member: member.make_call(0)}, family)
    exported = torch.export.export(module, module.operands())
    expected = f"family_onnx_export::member{member.number}: ({'|'.join(REFUSALS)})"
    with pytest.raises(NotImplementedError, match=expected):
        graphffi_onnxruntime.export(exported, tmp_path / "model.onnx")
