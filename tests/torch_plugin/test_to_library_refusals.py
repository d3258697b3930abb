# SPDX-License-Identifier: Apache-2.0
"""Programs that to_library refuses, and odd ones that it takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from graphffi_torch._standalone import to_library as _standalone
from tests.torch_release import IS_TORCH_2_10

pytestmark = pytest.mark.slow


def test_operators_without_code_are_refused_together(tmp_path: Path) -> None:
    class Refused(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.kthvalue(1).values, torch.linalg.svd(x.cumsum(0).reshape(3, 3))[1]

    exported = torch.export.export(Refused(), (torch.rand(9),))
    with pytest.raises(NotImplementedError) as raised:
        graphffi_torch.to_library(exported, tmp_path / "model.so")
    text = str(raised.value)
    refused = re.findall(r"(aten\.\w+) in 'main' \(test_to_library_refusals\.py:\d+\)", text)
    assert sorted(refused) == ["aten._linalg_svd", "aten.kthvalue"]
    assert text.count("aten.") == 3  # and in what to do
    assert "externs={'aten.<operator>': 'library.so::function'}" in text


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
def test_complex_tensors_are_refused_by_their_data_type(tmp_path: Path) -> None:
    class Doubled(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.complex(x, x) * 2

    exported = torch.export.export(Doubled(), (torch.rand(9),))
    with pytest.raises(NotImplementedError, match="generates no code for complex tensors"):
        graphffi_torch.to_library(exported, tmp_path / "model.so")


def test_calls_of_kernels_are_refused_where_they_are_not_lowered(
    ops: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Adds(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return ops.add(x, 1.0)

    exported = torch.export.export(Adds(), (torch.rand(9),))
    monkeypatch.setenv("GRAPHFFI_INDUCTOR", "0")
    monkeypatch.setattr(_standalone, "has", lambda feature: False)
    text = r"without calls of kernels \((GRAPHFFI_INDUCTOR=0|private.*)\), got calls of .*::add"
    with pytest.raises(NotImplementedError, match=text):
        graphffi_torch.to_library(exported, tmp_path / "model.so")


@pytest.mark.skipif(IS_TORCH_2_10, reason="its code for such floats does not compile")
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz"])
def test_programs_take_small_floats_and_empty_dicts(name: str, tmp_path: Path) -> None:
    class Reshaped(torch.nn.Module):
        def forward(self, x: torch.Tensor, options: dict[str, torch.Tensor]) -> dict[str, Any]:
            return {"y": [x.reshape(-1).clone()], "none": dict(options)}

    dtype = getattr(torch, name)
    x = torch.arange(6.0).reshape(2, 3).to(dtype)
    exported = torch.export.export(Reshaped(), (x, {}))
    graphffi_torch.to_library(exported, tmp_path / "model.so", isa="avx2")
    library = graphffi.load_module(tmp_path / "model.so")
    results = library.main(x, {})
    assert (list(results), dict(results["none"])) == (["y", "none"], {})
    assert results["y"][0].dtype == dtype
    assert results["y"][0].float().tolist() == list(range(6))
    with pytest.raises(
        TypeError, match="argument 'options': expected an empty dict, got a list of 0"
    ):
        library.main(x, [])
    with pytest.raises(
        ValueError, match="argument 'options': expected an empty dict, got a dict of 1"
    ):
        library.main(x, {"y": x})
