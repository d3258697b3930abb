# SPDX-License-Identifier: Apache-2.0
"""Operators that libraries of exported programs have kernels for: one library serves all tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
    pytest.mark.slow,
]
ROWS, COLUMNS = 5, 37


class Ordered(torch.nn.Module):
    """Sorting, sums along a dimension, and elements by their places."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        results = [*x.sort(1), *x.t().sort(0, descending=True), *x.topk(7), *x.topk(3, 0, False)]
        results += [x.bfloat16().sort(1).values, (x * 100).int().sort(dim=1, stable=True).indices]
        results += [x.cumsum(1), x.cumsum(0), x.int().cumsum(1), x.cumprod(1), x.half().cumsum(1)]
        for reduce in ("sum", "prod", "mean", "amax", "amin"):
            for included in (True, False):
                results.append(x.scatter_reduce(1, index, x + 1, reduce, include_self=included))
        results += [
            x.scatter_add(1, index, x),
            index.scatter_reduce(0, index % ROWS, index, "mean"),
        ]
        return results


class Selected(torch.nn.Module):
    """Results whose sizes depend on elements."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        mask = x > 0.5
        results = [x[mask], mask.nonzero(), x[:, mask[0]], x[mask[:, 0], 1:]]
        results += [x.index_put((index[0] % ROWS, index[1]), x[0], accumulate=True)]
        return results


class Convolved(torch.nn.Module):
    """Convolutions of one to three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        conv, up = torch.nn.Conv2d, torch.nn.ConvTranspose2d
        self.images = torch.nn.ModuleList(
            [
                conv(6, 13, 3, padding=1),
                conv(6, 64, 7, stride=2, padding=3, bias=False),
                conv(6, 8, 1, stride=2),
                conv(6, 12, (3, 5), stride=(2, 1), padding=(0, 2), dilation=(1, 2), groups=2),
                conv(6, 6, 3, groups=6, padding="same"),
                up(6, 9, 3, stride=2, padding=1, output_padding=1),
                up(6, 4, 4, padding=2, groups=2, dilation=2),
            ]
        )
        self.line = torch.nn.Conv1d(6, 5, 3, padding=4)
        self.volume = torch.nn.Conv3d(6, 7, (1, 3, 2), padding=(0, 1, 1))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = [layer(x) for layer in self.images]
        results += [self.line(x[:, :, 0]), self.volume(x[:, :, None].repeat(1, 1, 3, 1, 1))]
        weight = self.images[0].weight
        results += [torch.conv2d(x.bfloat16(), weight.bfloat16(), padding=1)]
        results += [torch.conv2d(x.double(), weight.double(), padding=1)]
        # Its result's channels are neighbours in memory, too.
        return [*results, self.images[0](x.relu().to(memory_format=torch.channels_last)) + 1]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    batch = torch.export.Dim("batch", min=2, max=16)
    image = (torch.rand(2, 6, 19, 22),)
    programs = {
        "ordered": torch.export.export(Ordered(), inputs()),
        "selected": torch.export.export(Selected(), inputs()),
        "convolved": torch.export.export(convolved(), image, dynamic_shapes=({0: batch},)),
    }
    path = tmp_path_factory.mktemp("operators") / "operators.so"
    return graphffi.load_module(graphffi_torch.to_library(programs, path))


def convolved() -> Convolved:
    torch.manual_seed(1)
    return Convolved().eval().requires_grad_(False)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(ROWS, COLUMNS), torch.randint(0, COLUMNS, (ROWS, COLUMNS))


def check(results: Any, expected: list[torch.Tensor]) -> None:
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        coarse = reference.dtype in (torch.bfloat16, torch.float16)
        tolerance = 3e-2 if coarse else 1e-5
        torch.testing.assert_close(
            torch.from_dlpack(result), reference.contiguous(), rtol=tolerance, atol=tolerance
        )


def test_elements_are_sorted_summed_and_scattered_as_torch_does(library: Any) -> None:
    check(library.ordered(*inputs()), Ordered()(*inputs()))


def test_nan_is_the_greatest_element(library: Any) -> None:
    x, index = inputs()
    x[:, 3] = x[2] = torch.nan
    values, places = library.ordered(x, index)[:2]
    expected = x.sort(dim=1, stable=True)
    torch.testing.assert_close(values, expected.values, equal_nan=True)
    torch.testing.assert_close(places, expected.indices)


def test_sizes_may_depend_on_elements(library: Any) -> None:
    x, index = inputs()
    for each in (x, torch.zeros_like(x), torch.ones_like(x)):
        check(library.selected(each, index), Selected()(each, index))


@pytest.mark.parametrize("batch", [2, 3, 16])
def test_convolutions_are_those_of_torch(library: Any, batch: int) -> None:
    x = torch.rand(batch, 6, 19, 22)
    check(library.convolved(x), convolved()(x))


def test_a_kernel_that_is_named_comes_before_graphffis(tmp_path: Path) -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.cumsum(0)

    def cumsum(x: Any, dim: int, dtype: Any) -> Any:
        sums = torch.from_dlpack(x).cumsum(dim).neg()
        return sums[1:] if sums[0] > 0 else sums

    graphffi.register_global_func("operators.cumsum", cumsum)
    exported = torch.export.export(Sums(), (torch.rand(4),))
    path = graphffi_torch.to_library(
        exported, tmp_path / "sums.so", externs={"aten.cumsum": "operators.cumsum"}
    )
    x = torch.rand(4)
    library = graphffi.load_module(path)
    torch.testing.assert_close(library.main(x), -x.cumsum(0))
    if IS_TORCH_2_10:
        pytest.skip("torch 2.10's code does not look at the result")
    with pytest.raises(
        ValueError, match=r"cumsum\S*: result: expected float32\[4\].*, got float32\[3\]"
    ):
        library.main(-x)


class Scattered(torch.nn.Module):
    """Tensors without dimensions, and data types with sums of their own."""

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, place: torch.Tensor, mask: torch.Tensor
    ) -> list[torch.Tensor]:
        return [
            x.scatter_add(0, place, x[0]),
            x[0].scatter_add(0, places[:1] * 0, x[:1]),
            x.scatter_reduce(0, places.int(), x, "amax"),
            mask.scatter_add(0, places, mask),
        ]


def test_any_tensors_are_scattered_as_torch_does(tmp_path: Path) -> None:
    x, places, place = torch.rand(5), torch.tensor([1, 1, 3, 1, 4]), torch.tensor(3)
    arguments = x, places, place, places == 1
    exported = torch.export.export(Scattered(), arguments)
    path = graphffi_torch.to_library(exported, tmp_path / "scattered.so")
    library = graphffi.load_module(path)
    results = library.main(*arguments)
    check(results, Scattered()(*arguments))
    assert torch.from_dlpack(results[3]).view(torch.uint8).tolist() == [1, 1, 0, 1, 0]
    with pytest.raises(IndexError, match="index: expected 0 to 4, got 5"):
        library.main(x, places, torch.tensor(5), places == 1)
    check(library.main(*arguments), Scattered()(*arguments))


class Summed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, places = x.sort()
        return (x.cumsum(0) + 1) * 2, values + 1, places + 1


def test_an_operand_that_a_kernel_returns_is_not_written(tmp_path: Path) -> None:
    places = torch.zeros(4, dtype=torch.int64)
    graphffi.register_global_func("operators.first", lambda x, *_: x)
    graphffi.register_global_func("operators.shared", lambda x, *_: [torch.from_dlpack(x), places])
    exported = torch.export.export(Summed(), (torch.rand(4),))
    externs = {"aten.cumsum": "operators.first", "aten.sort": "operators.shared"}
    path = graphffi_torch.to_library(exported, tmp_path / "summed.so", externs=externs)
    library, x = graphffi.load_module(path), torch.arange(4.0)
    for given in (x, x.numpy()):
        results = [torch.from_dlpack(each) for each in library.main(given)]
        assert torch.equal(x, torch.arange(4.0))
        expected = [(x + 1) * 2, x + 1, torch.ones(4, dtype=torch.int64)]
        torch.testing.assert_close(results, expected)
        places.zero_()
