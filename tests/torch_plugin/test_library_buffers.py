# SPDX-License-Identifier: Apache-2.0
"""Buffers that the methods of a library update: one library serves all tests of runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch

pytestmark = [
    pytest.mark.slow,
]
Forward = Callable[[Any, torch.Tensor], Any]


class Model(torch.nn.Module):
    """A function of a tensor and of buffers, and of parts."""

    def __init__(self, forward: Forward, **held: Any) -> None:
        super().__init__()
        self.function = forward
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def count(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.n.add_(1)
    return x + model.n


def read(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x + model.n


def count_small(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.counted.scalar.add_(1)
    model.counted.pair.add_(x)
    return x + 0


def read_small(model: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + model.counted.scalar, model.counted.pair + 0


def append(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.keys.add_(x)
    return model.keys + model.values * 10


def replace(model: Any, x: torch.Tensor) -> list[torch.Tensor]:
    state = model.state
    before = [
        *(state.clone(), state.to(torch.float32, copy=True), torch.cat([state]), state.repeat(1)),
        *(state.contiguous().clone().view(1, -1), state[1:].clone(), torch.stack([state])[0]),
        *(torch.nn.functional.pad(state, (0, 0)), state.clone().clone()),
    ]
    state.copy_(x)
    return [*before, before[0] + state, state.clone()]


def exported(model: Model) -> torch.export.ExportedProgram:
    return torch.export.export(model, (torch.tensor([1.0, 2.0]),))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    first, second = (Model(count, n=torch.zeros(2)) for _ in range(2))
    # Torch would take buffers without dimensions and of few elements for constants.
    small = Model(count, scalar=torch.zeros(()), pair=torch.zeros(2))
    keys, values = torch.zeros(2, 2)
    methods = {
        "first": first,
        "second": second,
        "constant": Model(read, n=torch.zeros(2)),
        "whole": Model(read, n=torch.zeros(2, dtype=torch.int32)),
        "inner": Model(lambda model, x: x + model.model.n, model=first),
        "renamed": Model(lambda model, x: x + model.other, other=second.n),
        "count_small": Model(count_small, counted=small),
        "read_small": Model(read_small, counted=small),
        "append": Model(append, keys=keys, values=values),
        "replace": Model(replace, state=torch.zeros(2)),
        "fill": Model(lambda model, x: model.v.add_(1) + 0, v=values),
    }
    path = tmp_path_factory.mktemp("buffers") / "buffers.so"
    programs = {name: exported(model) for name, model in methods.items()}
    return graphffi.load_module(graphffi_torch.to_library(programs, path))


@pytest.mark.parametrize("kind", ["library", "package"])
def test_copies_of_a_buffer_keep_the_values_from_before_an_update(
    library: Any, kind: str, tmp_path: Path
) -> None:
    model = Model(replace, state=torch.zeros(2))
    run = library.replace
    if kind == "package":
        path = graphffi_torch.package(exported(model), tmp_path / "model.pt2")
        run = graphffi_torch.load_package(path, trust=True)
    for step in range(1, 4):
        x = torch.tensor([step, 2.0 * step])
        torch.testing.assert_close(list(run(x)), model(x))


def test_buffers_of_one_name_and_content_are_apart(library: Any) -> None:
    x = torch.zeros(2)
    for calls in range(1, 4):
        np.testing.assert_array_equal(library.first(x), [calls, calls])
    np.testing.assert_array_equal(library.second(x), [1.0, 1.0])
    np.testing.assert_array_equal(library.constant(x), [0.0, 0.0])
    np.testing.assert_array_equal(library.whole(x), [0.0, 0.0])
    np.testing.assert_array_equal(library.inner(x), [3.0, 3.0])
    np.testing.assert_array_equal(library.renamed(x), [1.0, 1.0])


def test_small_buffers_that_another_method_updates_are_no_constants(library: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    library.count_small(x)
    library.count_small(x)
    scalar, pair = library.read_small(x)
    np.testing.assert_array_equal(scalar, [3.0, 4.0])
    np.testing.assert_array_equal(pair, [2.0, 4.0])


def test_parts_of_a_tensor_that_do_not_overlap_are_buffers(library: Any) -> None:
    x = torch.tensor([1.0, 2.0])
    np.testing.assert_array_equal(library.append(x), [1.0, 2.0])
    np.testing.assert_array_equal(library.fill(x), [1.0, 1.0])
    np.testing.assert_array_equal(library.append(x), [12.0, 14.0])


SHARED = torch.zeros(2, 2)


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (Model(lambda model, x: x + model.all, all=SHARED), "all"),
        (Model(lambda model, x: x + model.part, part=SHARED[0, :1]), "part"),
        (Model(lambda model, x: x + SHARED[0], n=torch.zeros(2)), "lifted_tensor_0"),
    ],
)
def test_a_part_of_what_another_method_updates_is_refused(
    reader: Model, name: str, tmp_path: Path
) -> None:
    programs = {
        "count": exported(Model(count, n=SHARED[0])),
        "read": exported(reader),
    }
    text = (
        f"graphffi_torch: to_library: read: tensor '{name}': expected memory that no method "
        "updates, or a buffer that is all of it, got memory of 'n', which 'count' updates; "
        "register one tensor as the buffer of both"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        graphffi_torch.to_library(programs, tmp_path / "shared.so")
