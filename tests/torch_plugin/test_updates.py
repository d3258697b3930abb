# SPDX-License-Identifier: Apache-2.0
"""Updates of what an exported program holds: packages and libraries refuse those that are lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphffi
import graphffi_torch
from graphffi_torch.plugin import functional

CLOSURE = torch.zeros(2)


@pytest.fixture(scope="module")
def ops() -> Any:
    def increment(xs: Any) -> None:
        raise AssertionError("no program runs")

    graphffi.register_global_func("mytest.updates.increment", increment, override=True)
    for name, kind in (("update", "Tensor(a!)"), ("update_all", "Tensor(a!)[]")):
        graphffi.define_op(
            f"mytest::{name}", schema=f"({kind} n) -> ()", kernel="mytest.updates.increment"
        )
    return torch.ops.mytest


class Model(torch.nn.Module):
    """A function of a tensor, a buffer and tensors that share its memory, and a parameter."""

    def __init__(self, function: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        memory = torch.zeros(3)
        self.register_buffer("count", memory[:2])
        self.register_buffer("shared", memory[1:])
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.attribute = torch.zeros(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.function(self, x)
        return x + 1


def without_gradients(model: Any, x: torch.Tensor) -> None:
    with torch.no_grad():
        model.weight.mul_(2)


HELD: dict[str, tuple[Callable[[Any, torch.Tensor], Any], str, str, str]] = {
    "a tensor of a closure": (
        lambda model, x: graphffi_ops().update(CLOSURE),
        "mytest::update",
        "operand 'n'",
        "the constant 'lifted_tensor_0'",
    ),
    "a view of one": (
        lambda model, x: graphffi_ops().update(CLOSURE.view(2, 1)[1:]),
        "mytest::update",
        "operand 'n'",
        "the constant 'lifted_tensor_0'",
    ),
    "one in a list": (
        lambda model, x: graphffi_ops().update_all([x + 1, CLOSURE]),
        "mytest::update_all",
        "operand 'n[1]'",
        "the constant 'lifted_tensor_0'",
    ),
    "one that a kernel without an op updates": (
        lambda model, x: graphffi.call_tvm_ffi("mytest.updates.increment", CLOSURE, mutates=(0,)),
        "graphffi_torch: kernel 'mytest.updates.increment'",
        "an updated operand",
        "the constant 'lifted_tensor_0'",
    ),
    "an attribute that is no buffer": (
        lambda model, x: model.attribute.add_(x),
        "aten::add_",
        "operand 'self'",
        "the constant 'attribute'",
    ),
    "a result": (
        lambda model, x: torch.add(x, x, out=CLOSURE),
        "aten::add",
        "operand 'out'",
        "the constant 'lifted_tensor_0'",
    ),
    "a parameter": (without_gradients, "aten::mul_", "operand 'self'", "the parameter 'weight'"),
}


def graphffi_ops() -> Any:
    return torch.ops.mytest


@pytest.fixture(params=["package", "to_library"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[Any], Any]]:
    if request.param == "package":
        return "package", lambda program: graphffi_torch.package(program, tmp_path / "model.pt2")
    return "to_library: main", lambda program: graphffi_torch.to_library(
        program, tmp_path / "model.so"
    )


@pytest.mark.usefixtures("ops")
@pytest.mark.parametrize("case", HELD)
def test_an_update_of_what_is_no_buffer_is_refused(case: str, make: Any) -> None:
    function, subject, operand, got = HELD[case]
    name, make_file = make
    program = torch.export.export(Model(function), (torch.ones(2),))
    text = (
        f"{subject}: {name}: {operand}: expected an input or a buffer of the program, since the "
        f"call updates it, got {got}; make the tensor a buffer with register_buffer"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        make_file(program)


@pytest.mark.usefixtures("ops")
def test_an_update_of_memory_that_has_two_names_is_refused(make: Any) -> None:
    name, make_file = make
    program = torch.export.export(
        Model(lambda model, x: graphffi_ops().update(model.count)), (torch.ones(2),)
    )
    text = (
        f"mytest::update: {name}: operand 'n': expected memory of its own, since the call updates "
        "it, got 'count', which shares memory with 'shared'; use one of them everywhere"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        make_file(program)


def test_an_update_of_a_parameter_is_refused_after_decompositions(make: Any) -> None:
    name, make_file = make
    program = torch.export.export(Model(without_gradients), (torch.ones(2),))
    with pytest.raises(ValueError, match=f"{name}: parameter 'weight': expected no updates, got"):
        make_file(program.run_decompositions({}))


class Trained(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight = self.weight.add_(x)
        return weight + 1


def test_an_update_of_a_parameter_is_refused_in_a_loaded_program(tmp_path: Path) -> None:
    file = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(Trained(), (torch.ones(2),)), file)
    program = torch.export.load(file)
    text = "parameter 'weight': expected no updates, got"
    with pytest.raises(ValueError, match=f"to_library: main: {text}"):
        graphffi_torch.to_library(program, tmp_path / "model.so")
    with pytest.raises(ValueError, match=f"export: {text}"):
        functional("export", program)


class Literals(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = torch.tensor([1.0, 2.0])
        steps[0] = 5.0
        with torch.no_grad():
            more = torch.tensor([10.0, 20.0]).add_(x)
        return x * steps + more


def test_tensors_of_the_programs_code_are_new_in_each_run(make: Any) -> None:
    name, make_file = make
    x = torch.tensor([1.0, 2.0])
    path = make_file(torch.export.export(Literals(), (x,)))
    if name == "package":
        model = graphffi_torch.load_package(path, trust=True)
    else:
        model = graphffi.load_module(path).main
    for _ in range(2):
        torch.testing.assert_close(model(x), torch.tensor([16.0, 26.0]))


def test_torch_still_gives_copies_of_such_tensors_their_memory() -> None:
    """`input_memory` of `graphffi_torch._export.updates`."""
    program = torch.export.export(Literals(), (torch.ones(2),))
    lifted = program.graph.find_nodes(
        op="call_function", target=torch.ops.aten.lift_fresh_copy.default
    )[0]
    (source,) = lifted.all_input_nodes
    memory = lifted.meta["val"].untyped_storage()
    assert memory is source.meta["val"].untyped_storage()
