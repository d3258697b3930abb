# SPDX-License-Identifier: Apache-2.0
"""Packages and libraries take the sizes that torch's own exported program takes, and no others."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(IS_TORCH_2_10, reason="its export takes odd sizes of images only"),
]
AUTO = torch.export.Dim.AUTO
B = torch.export.Dim("b")

Shapes = list[tuple[int, ...]]
#: Functions, the shapes of their inputs for sizes that are free, and which sizes are symbols.
PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], Callable[[int, int], Shapes], Any]] = {
    "twice": (lambda x, y: x.repeat(2) + y, lambda n, m: [(n,), (2 * n,)], [{0: B}, {0: 2 * B}]),
    "next": (lambda x, y: F.pad(x, (1, 0)) + y, lambda n, m: [(n,), (n + 1,)], None),
    "cat": (
        lambda x, y, z: torch.cat([x, y]) + z,
        lambda n, m: [(n,), (m,), (n + m,)],
        None,
    ),
    "chunk": (lambda x, y: x.chunk(2)[0] + y, lambda n, m: [(n,), ((n + 1) // 2,)], None),
    "third": (lambda x, y: x[: x.shape[0] // 3 + 2] + y, lambda n, m: [(n,), (n // 3 + 2,)], None),
    "steps": (lambda x, y: x[::3] + y, lambda n, m: [(n,), ((n + 2) // 3,)], None),
    "outer": (
        lambda x, y, z: torch.outer(x, y).reshape(-1) + z,
        lambda n, m: [(n,), (m,), (n * m,)],
        None,
    ),
    "remainder": (
        lambda x, y: F.pad(x, (0, -x.shape[0] % 7)) + y,
        lambda n, m: [(n,), (n + -n % 7,)],
        None,
    ),
    "images": (
        lambda x, y: F.interpolate(x, scale_factor=1.5) + y,
        lambda n, m: [(1, 1, n, m), (1, 1, int(1.5 * n), int(1.5 * m))],
        None,
    ),
    "share": (
        lambda x, y: x.new_ones(torch.sym_int(x.shape[0] * 0.7) + 2) + y,
        lambda n, m: [(n,), (int(n * 0.7) + 2,)],
        None,
    ),
}


class All(torch.nn.Module):
    """The functions, each with inputs of its own."""

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = []
        for function, shapes, _ in PROGRAMS.values():
            count = len(shapes(2, 2))
            results.append(function(*given[:count]))
            given = given[count:]
        return tuple(results)


def shapes_of(choose: Callable[[], int]) -> Shapes:
    """Fitting ones of all inputs."""
    return [s for _, shapes, _ in PROGRAMS.values() for s in shapes(choose(), choose())]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Callable[..., Any]]:
    """The exported program, its package and its library."""
    numbers = iter(range(5, 100))
    example = tuple(map(torch.randn, shapes_of(lambda: next(numbers))))
    dims: list[Any] = []
    for _, shapes, own in PROGRAMS.values():
        free = [{i: AUTO for i, n in enumerate(shape) if n != 1} for shape in shapes(5, 6)]
        dims += own or free
    exported = torch.export.export(All(), example, dynamic_shapes=(tuple(dims),))
    folder = tmp_path_factory.mktemp("sizes")
    package = graphffi_torch.package(exported, folder / "model.pt2")
    library = graphffi.load_module(graphffi_torch.to_library(exported, folder / "model.so"))
    return [exported.module(), graphffi_torch.load_package(package, trust=True), library.main]


def wrong(chosen: random.Random, shapes: Shapes) -> Shapes:
    """The shapes with some sizes changed a little."""
    changed = [list(shape) for shape in shapes]
    for _ in range(chosen.choice((1, 1, 2))):
        shape = chosen.choice(changed)
        i = chosen.choice([i for i, size in enumerate(shape) if size > 1])
        shape[i] = max(2, shape[i] + chosen.choice((-2, -1, 1, 2)))
    return [tuple(shape) for shape in changed]


def outcome(model: Callable[..., Any], given: list[torch.Tensor]) -> Any:
    """The results; None where the model refuses its inputs."""
    try:
        return list(model(*given))
    except (AssertionError, RuntimeError, ValueError) as error:
        return None if "expected" in str(error).lower() or "Guard" in str(error) else math.nan


@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_taken_where_torch_takes_them(
    models: list[Callable[..., Any]], seed: int
) -> None:
    chosen = random.Random(seed)
    taken = 0
    for i in range(40):
        shapes = shapes_of(lambda: chosen.randint(6, 40))
        if i % 2:
            shapes = wrong(chosen, shapes)
        given = list(map(torch.randn, shapes))
        expected, *others = (outcome(model, given) for model in models)
        taken += expected is not None
        for found in others:
            assert (found is None) == (expected is None), shapes
            if found is not None:
                torch.testing.assert_close(found, expected)
    assert taken >= 20
