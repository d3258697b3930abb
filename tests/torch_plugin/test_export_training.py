# SPDX-License-Identifier: Apache-2.0
"""Training steps as artifacts: made here, trained with by processes that know no op."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi_torch
from tests import differentiable_ops, warm_python

if TYPE_CHECKING:
    from pathlib import Path

RATE = 0.05
ROWS = torch.export.Dim("rows", min=2)


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Model(torch.nn.Module):
    """A layer, a norm and a product; its ops are ours or, with a prefix, plain torch."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self.mul = getattr(differentiable_ops, prefix + "mul")
        self.scale_rows = getattr(differentiable_ops, prefix + "scale_rows")
        self.layer = torch.nn.Linear(3, 3, bias=False)
        self.layer.weight.data = tensor(3, 3, seed=1)
        self.scale = torch.nn.Parameter(tensor(3, seed=2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.layer(x))
        return self.scale_rows(self.mul(hidden, hidden), self.scale, 1e-5)[0]


def make_step(model: torch.nn.Module) -> Any:
    """One step of gradient descent, which updates the parameters in place."""

    def step(parameters: dict[str, Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        leaves = {name: p.detach().requires_grad_() for name, p in parameters.items()}
        loss = torch.nn.functional.mse_loss(functional_call(model, leaves, (x,)), y)
        for p, g in zip(
            parameters.values(), torch.autograd.grad(loss, list(leaves.values())), strict=True
        ):
            p.sub_(RATE * g)
        return loss.detach()

    return step


def parameters_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


TRAIN = """
import sys
import torch
import graphffi_torch

program = torch.export.load(sys.argv[1]).module()
package = graphffi_torch.load_package(sys.argv[2], trust=True)
for model in (program, package):
    parameters, batches = torch.load(sys.argv[3])
    losses = [model(parameters, x, y) for x, y in batches]
    torch.save((losses, parameters), sys.argv[4 if model is program else 5])
"""


@pytest.mark.slow
def test_a_saved_training_step_trains_in_a_process_that_knows_no_op(tmp_path: Path) -> None:
    model, batches = (
        Model(),
        [(tensor(n, 3, seed=n), tensor(n, 3, seed=n + 9)) for n in range(4, 9)],
    )
    arguments = (parameters_of(model), *batches[0])
    graph = make_fx(make_step(model), tracing_mode="symbolic")(*arguments)
    shapes = (dict.fromkeys(arguments[0]), {0: ROWS}, {0: ROWS})
    exported = torch.export.export(
        graph, (parameters_of(model), *batches[0]), dynamic_shapes=shapes
    )
    files = [str(tmp_path / name) for name in ("step.pt2", "package.pt2", "in", "out0", "out1")]
    torch.export.save(graphffi_torch.decompose(exported), files[0])
    graphffi_torch.package(exported, files[1])
    torch.save((parameters_of(model), batches), files[2])
    warm_python.run([sys.executable, "-W", "ignore", "-c", TRAIN, *files], check=True)

    plain = Model("reference_")
    optimizer = torch.optim.SGD(plain.parameters(), lr=RATE)
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(plain(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    for file in files[3:]:
        torch.testing.assert_close(torch.load(file), (losses, parameters_of(plain)))


class Gradient(torch.nn.Module):
    """Asks for a gradient in the module that is exported."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = self.model.mul(self.model.mul(x, self.model.layer.weight), x)
        return torch.autograd.grad(product.sum(), [self.model.layer.weight])[0]


def test_gradients_are_taken_in_exported_modules() -> None:
    x = tensor(3, 3)
    exported = torch.export.export(Gradient(Model()), (x,))
    assert not exported.constants
    for program in (exported, graphffi_torch.decompose(exported)):
        with torch.no_grad():
            torch.testing.assert_close(program.module()(x), x * x)


class SavesAResult(Gradient):
    """A rule that reads a result, ours or torch's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(self.model(x).sum(), [self.model.layer.weight])[0]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # by torch's own checks
@pytest.mark.parametrize("prefix", ["", "reference_"])
def test_torch_still_loses_saved_results_in_exported_modules(prefix: str) -> None:
    """When this fails, docs/gradients.md need not tell users to trace steps with make_fx."""
    with pytest.raises(RuntimeError, match="found a fake tensor in the exported program constant"):
        torch.export.export(SavesAResult(Model(prefix)), (tensor(4, 3),))
