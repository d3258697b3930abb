# SPDX-License-Identifier: Apache-2.0
"""Operators that libraries of exported programs have kernels for: one library serves all tests."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

pytestmark = [
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
            index.scatter_reduce(0, index % ROWS, index - 2**60, "mean", include_self=False),
        ]
        return results


class Selected(torch.nn.Module):
    """Results whose sizes depend on elements."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> list[torch.Tensor]:
        mask = x > 0.5
        results = [x[mask], mask.nonzero(), x[:, mask[0]], x[mask[:, 0], 1:]]
        rows = index[0] % ROWS
        results += [
            x.index_put((rows, index[1]), x[0], accumulate=True),
            x.index_put((mask,), x[mask] * 2),
            index.index_put((rows, index[1]), index[0], accumulate=True),
            mask.index_put((rows,), mask[:1]),
            torch.ops.aten.index_put(x, [None, index[0]], x[:, 1:2]),
        ]
        doubled = x * 2
        return [*results, doubled, doubled[1:], doubled]


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


class Maths(torch.nn.Module):
    """Functions that have vectors' forms in Sleef only."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        functional = torch.nn.functional
        results = []
        for each in (x, x.double()):
            positive, small, other = each.abs() + 0.1, each / 8, each.flip(0)
            results += [functional.softplus(each), functional.logsigmoid(each)]
            results += [functional.mish(each), functional.gelu(each), functional.silu(each)]
            results += [positive.log1p(), each.asinh(), (positive + 1).acosh(), small.atanh()]
            results += [each.logaddexp(other), torch.special.log_ndtr(each), each.expm1()]
            results += [each.atan2(other), each.hypot(other), positive.lgamma(), each.erfc()]
            results += [each.exp2(), positive.log2(), positive.log10(), each.fmod(positive)]
            results += [each.nextafter(other), each.copysign(other), each.sinh(), each.cosh()]
            results += [each.tan(), small.asin(), small.acos(), each.atan(), positive.pow(other)]
            results += [each.sin(), each.cos(), each.tanh(), each.erf(), positive.log()]
        return results


class Empty(torch.nn.Module):
    """Examples without elements, one of which is updated."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        z.add_(1)
        return [x + 1, x.sum(1), x.t(), y.permute(2, 0, 1) * 2, torch.cat([y, y]), x @ z, z.sum(0)]


def without_elements() -> tuple[torch.Tensor, ...]:
    return torch.empty(2, 0), torch.empty(3, 0, 2).transpose(0, 2), torch.empty(0, 4)


class Indexed(torch.nn.Module):
    """Elements by their places, of which the rows' must exist; the cache is updated."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 64)

    def forward(self, x: torch.Tensor, rows: torch.Tensor, cache: torch.Tensor) -> Any:
        padded = torch.nn.functional.pad(x[:, :3][rows], (1, 1))
        results = [x[rows], self.embedding(rows), padded, x.view(-1)[rows + 1] * 2]
        cache.index_copy_(0, rows, x[: rows.shape[0]])
        return results


class Taken(torch.nn.Module):
    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x.view(-1)[places].exp()


class Asserted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async(x.sum() > 0, "expected a sum {")
        return x + 1


class Returned(torch.nn.Module):
    """Operands as results, a view of one, and one that is updated."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> list[torch.Tensor]:
        y.add_(1)
        return [x, x.view(-1)[1:], x[:, :2], y, z]


JAX = """
import sys
import numpy as np
import graphffi, graphffi_jax, jax

x, y, z = np.ones((2, 3), np.float32), np.zeros(4, np.float32), np.zeros(0, np.float32)
returned = graphffi.load_ops(sys.argv[1], namespace="operators").returned
for call in (returned, jax.jit(returned)):
    results = jax.tree.leaves(call(*map(jax.numpy.asarray, (x, y, z))))
    shapes = [each.shape for each in results if (each == 1).all()]
    assert sorted(shapes) == sorted([(2, 3), (5,), (2, 2), (4,), (0,), (4,)]), shapes
"""


@pytest.fixture(scope="module")
def library(path: str) -> Any:
    return graphffi.load_module(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    batch = torch.export.Dim("batch", min=2, max=16)
    image = (torch.rand(2, 6, 19, 22),)
    programs = {
        "ordered": torch.export.export(Ordered(), inputs()),
        "selected": torch.export.export(Selected(), inputs()),
        "returned": torch.export.export(Returned(), returned_inputs()),
        "indexed": torch.export.export(indexed(), index_inputs(), dynamic_shapes=INDEX_SHAPES),
        "taken": torch.export.export(Taken(), (torch.rand(9, 64), torch.arange(40))),
        "asserted": torch.export.export(Asserted(), (torch.ones(3),)),
        "empty": torch.export.export(Empty(), without_elements()),
        "maths": torch.export.export(Maths(), (maths_input(),)),
        "convolved": torch.export.export(convolved(), image, dynamic_shapes=({0: batch},)),
    }
    return graphffi_torch.to_library(programs, tmp_path_factory.mktemp("operators") / "made.so")


INDEX_SHAPES = (None, {0: torch.export.Dim("rows", min=2, max=9)}, None)


def indexed() -> Indexed:
    torch.manual_seed(2)
    return Indexed().requires_grad_(False)


def index_inputs(*rows: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(3)
    return torch.rand(9, 64), torch.tensor(rows or (1, 8, 3)), torch.zeros(9, 64)


def returned_inputs() -> tuple[torch.Tensor, ...]:
    return torch.ones(2, 3), torch.zeros(4), torch.zeros(0)


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
        tolerance = 3e-2 if coarse else 1e-5 if reference.is_floating_point() else 0
        torch.testing.assert_close(
            torch.from_dlpack(result), reference.contiguous(), rtol=tolerance, atol=tolerance
        )


def maths_input() -> torch.Tensor:
    return torch.linspace(-4, 4, 83)  # whole vectors, and some elements more


def test_functions_of_elements_are_those_of_torch(library: Any) -> None:
    check(library.maths(maths_input()), Maths()(maths_input()))


def test_results_share_no_memory(library: Any) -> None:
    for _ in range(3):  # the first run learns where results are
        *_, whole, part, same = library.selected(*inputs())
        expected = part.clone()
        whole.zero_()
        torch.testing.assert_close(part, expected, rtol=0, atol=0)
        torch.testing.assert_close(same[1:], expected, rtol=0, atol=0)


def test_operands_have_no_elements_where_the_examples_have_none(library: Any) -> None:
    check(library.empty(*without_elements()), Empty()(*without_elements()))
    with pytest.raises(
        ValueError, match=r"expected float32\[2, 0\] on cpu, got float32\[2, 1\] on"
    ):
        library.empty(torch.empty(2, 1), *without_elements()[1:])


def test_operands_that_a_program_returns_are_copied(library: Any) -> None:
    for given in (returned_inputs(), [each.numpy() for each in returned_inputs()]):
        results = [np.from_dlpack(each) for each in library.returned(*given)]
        places = [np.empty(each.shape, np.float32) for each in results]
        library.returned_into(*returned_inputs(), *places)
        for result, place in zip(results, places, strict=True):
            np.testing.assert_array_equal(result, np.ones_like(place))
            np.testing.assert_array_equal(result, place)
            assert not any(np.shares_memory(result, np.asarray(each)) for each in given)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
def test_jax_gets_copies_of_operands_that_a_program_returns(path: str) -> None:
    subprocess.run([sys.executable, "-c", JAX, path], check=True)


THREADS = """
import sys
import graphffi, numpy as np

library = graphffi.load_module(sys.argv[1])
x, cache, rows = np.ones((9, 64), np.float32), np.zeros((9, 64), np.float32), np.arange(2, 8)
for row in (9, 10**12, -10):
    rows[:] = row
    try:
        library.indexed(x, rows, cache)
    except IndexError as error:
        assert f"got {row}" in str(error), error
    else:
        raise AssertionError("no error")
    assert not cache.any()
"""


@pytest.mark.parametrize("threads", ["1", "5"])
def test_a_place_that_does_not_exist_is_an_error_and_nothing_is_written(
    path: str, threads: str
) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    subprocess.run([sys.executable, "-c", THREADS, path], check=True, env=environment)


def test_an_error_of_a_place_says_which_and_how_many_there_are(library: Any) -> None:
    cache = index_inputs()[2]
    check(library.indexed(*index_inputs()[:2], cache), indexed()(*index_inputs()))
    torch.testing.assert_close(cache[[1, 8, 3]], index_inputs()[0][:3])
    for row in (9, 10**12, -10):
        with pytest.raises(IndexError, match=rf"expected one into (9|10) elements, got {row}\Z"):
            library.indexed(*index_inputs(1, row))
    x, places = torch.rand(9, 64), torch.arange(40)
    for place, got in ((576, "576"), (-577, "-1, counted from the first element")):
        places[33] = place
        with pytest.raises(IndexError, match=f"expected one into 576 elements, got {got}"):
            library.taken(x, places)


def test_what_a_program_asserts_is_an_error(library: Any) -> None:
    with pytest.raises(RuntimeError, match=r"expected a sum \{"):
        library.asserted(-torch.ones(3))
    assert library.asserted(torch.ones(3)).tolist() == [2.0] * 3


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
