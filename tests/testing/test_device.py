# SPDX-License-Identifier: Apache-2.0
"""Checks in memory of a device: tests/gpu has those on a GPU.

Names of a CPU other than "cpu" take the way of a GPU: tensors of torch, copied there and back.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi.testing import find
from graphffi.testing._device import bytes_of

torch = pytest.importorskip("torch")
pytest.importorskip("graphffi_torch")
FAULTS = {
    "writes_after": "out of bounds",
    "unwritten_tail": "unwritten",
    "writes_operand": "undeclared write",
}


def _found(name: str, **options: Any) -> Any:
    source = Path(__file__).resolve().parent / "faults.cc"
    library = graphffi.cpp.build("fault_ops", [source], extra_cflags=["-O1"])
    return find({"op": f"faults::{name}", "library": library}, frameworks=(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_found_in_memory_of_a_device(name: str) -> None:
    report = _found(name, device="cpu:0")
    kinds = {finding.kind for finding in report.findings if finding.path == "cpu:0"}
    assert FAULTS[name] in kinds, str(report)
    assert "'device': 'cpu:0'" in report.findings[0].script


@pytest.mark.slow
@pytest.mark.parametrize("name", ["twice", "append", "strided"])
def test_nothing_is_found_in_a_correct_op_on_a_device(name: str) -> None:
    report = _found(f"good_{name}", device="cpu:0", budget=120)
    assert not report.findings, str(report)
    assert report.num_cases > 5
    assert report.notes == ["leaks, gradients, tangents: not checked on cpu:0"]


def test_a_device_that_breaks_ends_the_process(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def cpu(self) -> None:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nSearch for")

    monkeypatch.setattr("os._exit", sys.exit)
    with pytest.raises(SystemExit, match="70"):
        bytes_of(Broken())
    assert capfd.readouterr().err == "CUDA error: an illegal memory access was encountered\n"


def test_a_device_that_torch_does_not_have_is_refused() -> None:
    device = f"cuda:{torch.cuda.device_count()}"
    text = f"faults::good_twice: check: device: expected one of PyTorch, got '{device}': "
    with pytest.raises(ValueError, match=text):
        _found("good_twice", device=device)


@pytest.mark.parametrize("device", ["tpu", 0])
def test_only_devices_with_tensors_of_torch_are_known(device: Any) -> None:
    text = f"nowhere::op: check: device: expected cpu or cuda, got {device!r}"
    with pytest.raises(ValueError, match=text):
        find({"op": "nowhere::op", "module": "json"}, device=device)
