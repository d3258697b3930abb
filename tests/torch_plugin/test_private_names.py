# SPDX-License-Identifier: Apache-2.0
"""Torch without its private names, and programs without the plugin's ops."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
import torch

from graphffi_torch import _private_names as names
from tests import warm_python

ROOT = Path(__file__).resolve().parents[2]


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = warm_python.run(command, check=True, cwd=ROOT, modules=warm_python.TORCH)
    return done.stdout.strip()


@pytest.mark.parametrize("row", names.TABLE, ids=lambda row: row.name)
def test_a_hidden_name_is_missed_by_its_features_alone(
    row: names.PrivateName, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {feature: names.why_without(feature) for feature in names.WITHOUT}
    is_there = names.is_there
    monkeypatch.setattr(names, "is_there", lambda name: name != row.name and is_there(name))
    for other in names.TABLE:
        if other.name == row.name:
            expected[other.feature] = f"expected {row.name}, got none"
    assert {feature: names.why_without(feature) for feature in names.WITHOUT} == expected


def test_an_untested_torch_is_used_without_private_names(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    with caplog.at_level(logging.WARNING, "graphffi_torch"):
        assert not names.has.__wrapped__("lowerings")
    (record,) = caplog.records
    assert record.getMessage() == (
        "graphffi_torch: lowerings: expected torch 2.10 to 2.15, got 2.99.0; compiled graphs call "
        "ops through the dispatcher, which is slower"
    )


HIDDEN = """
import sys

from tests.hidden_names import hide_features

hide_features(sys.argv[1])
import torch

import graphffi

notes = []

def add_to(x, a, y):
    torch.from_dlpack(y).copy_(torch.from_dlpack(x) + a)

def note_sum(x):
    notes.append(float(torch.from_dlpack(x).sum()))

def update_by(x, by):
    torch.from_dlpack(x).add_(by)

graphffi.register_global_func("hidden.note", note_sum)
graphffi.register_global_func("hidden.add", add_to)
graphffi.register_global_func("hidden.update", update_by)
add = graphffi.define_op(
    "hidden::add", schema="(Tensor x, float a=1.0) -> Tensor", kernel="hidden.add",
    plan="x, a, out", infer=lambda x, a: graphffi.like(x),
)
update = graphffi.define_op(
    "hidden::update", schema="(Tensor(a!) x, float by) -> ()", kernel="hidden.update"
)
note = graphffi.define_op(
    "hidden::note", schema="(Tensor x) -> ()", kernel="hidden.note", has_side_effect=True
)

def step(x):
    y = add(x * 2, a=3)
    update(y, 2.0)
    note(y)
    z = graphffi.call_tvm_ffi("hidden.add", y, 1.0, out=graphffi.like(y))
    return torch.cond(z.sum() > 0, lambda z: add(z), lambda z: z * 2, (z,))

x = torch.ones(3)
for dynamic in (False, True):
    assert torch.compile(step, fullgraph=True, dynamic=dynamic)(x).eq(9).all()
assert notes == [21.0, 21.0], notes

def note_twice(x):
    note(x)
    note(x)
    return x * 2

notes.clear()
torch.compile(note_twice, fullgraph=True, backend="aot_eager")(torch.ones(3, requires_grad=True))
assert notes == [3.0, 3.0], notes
for fullgraph in (False, True):
    try:
        torch.compile(lambda x: add(x, "b"), fullgraph=fullgraph, backend="eager")(x)
    except Exception as error:
        text = "hidden::add: attribute 'a': expected a float, got str 'b'"
        assert text in str(error) or sys.argv[1] == "errors" and fullgraph, error
    else:
        raise AssertionError("expected an error")
"""


@pytest.mark.slow
@pytest.mark.parametrize("feature", sorted(names.WITHOUT.keys() - {"packages"}))
def test_without_a_feature_results_are_the_same(feature: str) -> None:
    run(HIDDEN, feature)


OTHERS = """
import sys
import types

import torch
from torch._inductor.utils import run_and_get_code

if sys.argv[1] == "with":
    import graphffi
    import graphffi_torch

    @graphffi.op("others::f", kernel="others.f")
    def f(x: graphffi.Tensor) -> graphffi.Tensor:
        return graphffi.like(x)

@torch.library.custom_op("others::update", mutates_args=("x",))
def update(x: torch.Tensor) -> None:
    x.add_(1)

def program(x):
    w = x * 3
    update(w[1])
    return torch.cond(w.sum() > 0, lambda w: w.sin(), lambda w: w.cos(), (w,))

result, code = run_and_get_code(
    torch.compile(program, fullgraph=True, dynamic=True), torch.ones(3, 2)
)
print(*code)
import torch._dynamo.variables.builder
import torch._higher_order_ops.utils
import torch._inductor.pattern_matcher

def is_graphffis(value):
    if not isinstance(value, types.FunctionType):
        return False
    return "graphffi" in value.__globals__.get("__name__", "")

for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "torch" and module is not None:
        for attribute, value in sorted(vars(module).items()):
            owned = vars(value).values() if isinstance(value, type) else ()
            if is_graphffis(value) or any(is_graphffis(v) for v in owned):
                print("patched:", name, attribute)
ours = ("tvm_ffi", "others.f")
lowered = (str(o) for o in torch._inductor.lowering.lowerings)
print(*sorted(o for o in lowered if " at 0x" not in o and not o.startswith(ours)))
"""


@pytest.mark.slow
def test_programs_of_others_are_compiled_as_without_the_plugin() -> None:
    output = run(OTHERS, "with")
    assert "patched:" not in output
    assert output == run(OTHERS, "without")
