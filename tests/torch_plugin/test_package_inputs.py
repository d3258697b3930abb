# SPDX-License-Identifier: Apache-2.0
"""Inputs of packages' models that differ from those of the export."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphffi_torch
from graphffi_torch._export.package_inputs import Inputs

pytestmark = [
    pytest.mark.slow,
]

Call = tuple[list[Any], dict[str, Any]]
ROWS = torch.export.Dim("rows", min=2, max=8)


class Nested(torch.nn.Module):
    """Reads some inputs in generated code, and others in calls of ops alone."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(
        self,
        x: torch.Tensor,
        d: dict[str, Any],
        image: torch.Tensor,
        state: torch.Tensor,
        *,
        n: float = 2.0,
        mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        self.ops.increment(state)
        y = self.ops.masked(self.ops.add(x * 2, n), mask)
        return {"y": self.ops.add(d["other"]) + y - d["b"][0], "image": image * 2}


def right(rows: int = 2) -> Call:
    x = torch.arange(3.0 * rows).reshape(rows, 3)
    image = torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    d = {"b": [x.clone()], "other": x.clone()}
    return [x, d, image, torch.zeros(2)], {"n": 2.0, "mask": None}


@pytest.fixture(scope="module")
def packaged(ops: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The package's model."""
    args, kwargs = right()
    rows = {0: ROWS}
    exported = torch.export.export(
        Nested(ops),
        tuple(args),
        kwargs,
        dynamic_shapes=(rows, {"b": [rows], "other": rows}, None, None, None, None),
    )
    path = graphffi_torch.package(exported, tmp_path_factory.mktemp("inputs") / "model.pt2")
    return graphffi_torch.load_package(path, trust=True)


def reorder(args: list[Any], kwargs: dict[str, Any]) -> None:
    args[1] = OrderedDict(reversed(args[1].items()))
    args[1]["b"] = (args[1]["b"][0] + 1,)
    kwargs["n"] = 2


def strided(args: list[Any], kwargs: dict[str, Any]) -> None:
    args[3] = torch.zeros(4)[::2]


@pytest.mark.parametrize("change", [lambda args, kwargs: None, reorder, strided])
@pytest.mark.parametrize("rows", [2, 5])
def test_inputs_may_be_nested_in_other_containers(
    ops: Any, packaged: Any, change: Callable[..., None], rows: int
) -> None:
    """And ops read any strides."""
    told = []
    for model in (Nested(ops), packaged):
        args, kwargs = right(rows)
        change(args, kwargs)
        told.append((model(*args, **kwargs), args[3]))
    torch.testing.assert_close(*told)


def test_inputs_are_given_by_position_or_by_name(ops: Any, packaged: Any) -> None:
    names = ("x", "d", "image", "state")
    for num_args in range(len(names) + 1):
        told = []
        for model in (Nested(ops), packaged):
            args, kwargs = right()
            values = {**dict(zip(names, args, strict=True)), **kwargs}
            given = [values.pop(name) for name in names[:num_args]]
            told.append((model(*given, **dict(reversed(values.items()))), args[3]))
        torch.testing.assert_close(*told)


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_loaded_package_is_not_copied(packaged: Any, make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="expected no copy of a loaded model, got one; load the"):
        make(packaged)


def setting(place: int | str, value: Any) -> Callable[..., None]:
    def change(args: list[Any], kwargs: dict[str, Any]) -> None:
        (kwargs if isinstance(place, str) else args)[place] = value  # type: ignore[index]

    return change


X = right()[0][0]
WRONG: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
    "few": (
        lambda args, kwargs: args.pop(),
        TypeError,
        "argument 'state': expected a value, got nothing; parameters: x, d, image, "
        "state, n, mask; given: 3 by position, n, mask",
    ),
    "many": (
        lambda args, kwargs: args.append(3),
        TypeError,
        "argument 'n': expected one value, got two; parameters: .*; given: 5 by position",
    ),
    "surplus": (
        lambda args, kwargs: args.extend([3, 4, 5]),
        TypeError,
        "expected at most 6 arguments, got 7; argument 'n': expected one value, got two",
    ),
    "twice": (setting("x", X), TypeError, "argument 'x': expected one value, got two; parameters"),
    "unknown": (setting("y", X), TypeError, "argument 'y': expected a known name; parameters: x, "),
    "flat": (
        setting(1, X),
        TypeError,
        r"argument 'd': expected a dict with the keys 'b', 'other', ",
    ),
    "key": (
        setting(1, {"b": [X], "c": X}),
        TypeError,
        "argument 'd': expected a dict with the keys 'b', 'other', got a dict with the keys 'b', "
        "'c'",
    ),
    "length": (
        lambda args, kwargs: args[1]["b"].append(X),
        TypeError,
        r"argument 'd'\['b'\]: expected a list or tuple of 1, got a list of 2",
    ),
    "keyword": (
        lambda args, kwargs: kwargs.clear(),
        TypeError,
        "argument 'n': expected a value, got nothing; argument 'mask': expected a value, got "
        "nothing; parameters: x, d, image, state, n, mask; given: 4 by position",
    ),
    "constant": (
        setting("n", 3.0),
        ValueError,
        "input 'n': expected float 2.0 as in the exported program, got float 3.0",
    ),
    "kind of constant": (
        setting("mask", X),
        TypeError,
        r"input 'mask': expected None as in the exported program, got float32\[2, 3\] on cpu",
    ),
    "None": (setting(0, None), TypeError, "input 'x': expected a torch.Tensor, got None"),
    "number": (setting(3, 1.5), TypeError, "input 'state': expected a torch.Tensor, got float 1.5"),
    "array": (
        setting(0, np.ones((2, 3), np.float32)),
        TypeError,
        "input 'x': expected a torch.Tensor, got numpy.ndarray",
    ),
    "dtype": (
        setting(0, X.double()),
        TypeError,
        r"input 'x': expected float32\[rows \(2 to 8\), 3\] on cpu, got float64\[2, 3\] on cpu",
    ),
    "device": (
        setting(0, X.to("meta")),
        ValueError,
        r"input 'x': expected float32\[rows \(2 to 8\), 3\] on cpu, got float32\[2, 3\] on meta",
    ),
    "dimensions": (setting(0, X[0]), ValueError, r"input 'x': .*, got float32\[3\] on cpu"),
    "size": (
        setting(0, torch.ones(2, 4)),
        ValueError,
        r"input 'x': expected float32\[rows=2, 3\] on cpu, got float32\[2, 4\] on cpu",
    ),
    "range": (
        setting(0, torch.ones(9, 3)),
        ValueError,
        r"input 'x': expected float32\[rows \(2 to 8\), 3\] on cpu, got float32\[9, 3\] on cpu",
    ),
    "another size": (
        lambda args, kwargs: args[1]["b"].__setitem__(0, torch.ones(3, 3)),
        ValueError,
        r"input 'd_b_0': expected float32\[rows=2, 3\] on cpu, got float32\[3, 3\] on cpu",
    ),
    "strides": (
        setting(0, X.T.contiguous().T),
        ValueError,
        r"input 'x': expected a contiguous tensor as in the exported program, got the strides "
        r"\[1, 2\]; call .contiguous\(\)",
    ),
    "other strides": (
        setting(2, right()[0][2].contiguous()),
        ValueError,
        r"input 'image': expected the strides \[24, 1, 8, 2\] as in the exported program, got the "
        r"strides \[24, 12, 4, 1\]",
    ),
    "negated": (
        setting(0, torch._neg_view(X)),
        ValueError,
        "input 'x': expected elements as they are in memory, got a lazily conjugated or negated",
    ),
    "sparse": (
        setting(0, X.to_sparse()),
        ValueError,
        r"input 'x': expected a strided tensor, got torch.sparse_coo; call .to_dense\(\)",
    ),
    "of an op": (setting(3, torch.zeros(3)), ValueError, "mytest::increment: operand 'x': expe"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_other_inputs_than_the_exports_are_refused(packaged: Any, mistake: str) -> None:
    change, kind, text = WRONG[mistake]
    args, kwargs = right()
    change(args, kwargs)
    subject = "" if text.startswith("mytest") else "graphffi_torch: package: "
    with pytest.raises(kind, match=f"^{subject}{text}"):
        packaged(*args, **kwargs)


class Updating(torch.nn.Module):
    """Updates one input in a call of an op, and another one in generated code."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(
        self, x: torch.Tensor, pairs: torch.Tensor, states: list[torch.Tensor]
    ) -> torch.Tensor:
        self.ops.increment(states[0])
        states[1].add_(1)
        return self.ops.add(x, 1.0) + pairs[::2]


@pytest.fixture(scope="module")
def updating(ops: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Its package, for sizes of which one is twice the other."""
    rows: Any = torch.export.Dim("rows", min=2, max=8)
    exported = torch.export.export(
        Updating(ops),
        (torch.ones(3), torch.ones(6), [torch.ones(3), torch.ones(3)]),
        dynamic_shapes=({0: rows}, {0: 2 * rows}, [None, None]),
    )
    path = graphffi_torch.package(exported, tmp_path_factory.mktemp("updating") / "model.pt2")
    return graphffi_torch.load_package(path, trust=True)


def test_sizes_may_be_multiples_of_others(updating: Any) -> None:
    states = [torch.zeros(3), torch.zeros(3)]
    for rows in (2, 5, 5):
        result = updating(torch.ones(rows), torch.ones(2 * rows), states)
        torch.testing.assert_close(result, torch.full((rows,), 3.0))
    assert [state[0].item() for state in states] == [3, 3]
    with pytest.raises(
        ValueError,
        match=r"package: input 'pairs': expected float32\[2\*rows=4\] on cpu, got float32\[5\] on",
    ):
        updating(torch.ones(2), torch.ones(5), states)


def test_updated_inputs_have_memory_of_their_own(updating: Any) -> None:
    memory = torch.ones(12)
    separate = [memory[:2], memory[2:6], [memory[6:9], memory[9:]]]
    # Twice, because tensors like those of the last call are not looked at again.
    for _ in range(2):
        torch.testing.assert_close(updating(*separate), torch.full((2,), 3.0))
        memory[:6] = 1
        for x, states, text in (
            (memory[:2], [memory[1:4], memory[9:]], "'states_0': .* shared with input 'x'"),
            (memory[:2], [memory[6:9], memory[4:7]], "'states_0': .* shared with input 'states_1'"),
            (memory[:2], [memory[6:9], memory[3:6]], "'states_1': .* shared with input 'pairs'"),
        ):
            with pytest.raises(ValueError, match=f"^graphffi_torch: package: input {text}; pass a"):
                updating(x, memory[2:6], states)
    assert memory[6:].tolist() == [3.0] * 6


def test_tensors_like_those_of_the_last_call_may_share_memory(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(y)
            return x * 2

    exported = torch.export.export(Model(), (torch.ones(3), torch.ones(3)))
    model = graphffi_torch.load_package(
        graphffi_torch.package(exported, tmp_path / "model.pt2"), trust=True
    )
    memory = torch.ones(6)
    assert model(memory[:3], memory[3:]).tolist() == [4] * 3
    with pytest.raises(ValueError, match=r"'x': .* memory shared with input 'y'; pass a copy$"):
        model(memory[:3], memory[2:5])


def test_one_tensor_for_two_inputs_of_the_example_is_refused(tmp_path: Path) -> None:
    class Difference(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x - 2 * y

    exported = torch.export.export(Difference(), (X, X))
    with pytest.raises(ValueError, match="package: inputs 'x' and 'y': expected a tensor for each"):
        graphffi_torch.package(exported, tmp_path / "model.pt2")


def test_strides_of_dynamic_sizes_are_those_of_the_export(tmp_path: Path) -> None:
    image = torch.rand(2, 3, 6, 6).to(memory_format=torch.channels_last)
    sizes = {i: torch.export.Dim(name) for i, name in ((0, "n"), (2, "h"), (3, "w"))}
    exported = torch.export.export(torch.nn.ReLU(), (image,), dynamic_shapes=[sizes])
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    model = graphffi_torch.load_package(path, trust=True)
    for shape in ((2, 3, 6, 6), (4, 3, 2, 5), (2, 3, 2, 4)):
        other = torch.rand(shape).to(memory_format=torch.channels_last)
        torch.testing.assert_close(model(other), other)
    part = image[:, :, 1:5, 2:]
    text = r"'input': expected the strides \[48, 1, 12, 3\] .*, got the strides \[108, 1, 18, 3\]"
    with pytest.raises(ValueError, match=text):
        model(part)
    part = part.contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(part), part)


@pytest.mark.parametrize("value", [0.0, -0.0])
def test_a_zero_of_the_other_sign_is_another_constant(value: float) -> None:
    described = {
        "args": [{"name": "n", "value": value}],
        "kwargs": {"keys": {}},
        "names": ["n"],
        "conditions": "",
    }
    inputs = Inputs(described)
    assert inputs.arrange((value,), {}) == ([value], {})
    with pytest.raises(ValueError, match=f"input 'n': expected float {value} as in the exported"):
        inputs.arrange((-value,), {})
