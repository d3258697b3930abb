# SPDX-License-Identifier: Apache-2.0
"""Models as libraries without torch, against AOTInductor packages in torch's C++ loader."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import torch
from timing import Case, Contender, once
from torch import nn
from torch_cases import Chain

import graphffi
import graphffi_torch

sys.path.insert(0, str(native.HERE.parent))
from examples.llama_block import model_torch
from examples.llama_block.config import Config, random_weights
from examples.llama_block_cpp.export import Step

FOLDER = native.OUTPUT / "graph"
LONG = 50
# The positions of the numbers that the programs print.
LOAD, FIRST, CALL, RESIDENT, ANONYMOUS = range(5)
NAMES = ("graphffi, to_library", "AOTInductor, package")


class Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(out) for _ in range(3)])
        is_same = stride == 1 and channels == out
        self.short = None if is_same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Takes images."""
        y = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
        return torch.relu(y + (x if self.short is None else self.norms[2](self.short(x))))


def resnet18() -> nn.Module:
    """The model of torchvision, with random weights."""
    widths = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
    blocks = [block for c, o, s in widths for block in (Block(c, o, s), Block(o, o, 1))]
    first = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    last = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return nn.Sequential(*first, nn.MaxPool2d(3, 2, 1), *blocks, *last)


class Model:
    """An exported model as a library and as a package, and how to call it in the programs.

    Args:
        name: The name of the files.
        module: The model.
        example: The model's arguments.
        operands: The same arguments as text, for the programs.
        calls: How often to call the model in one measurement.
    """

    def __init__(
        self, name: str, module: nn.Module, example: tuple[Any, ...], operands: str, calls: int
    ) -> None:
        exported = torch.export.export(module.eval().requires_grad_(False), example)
        library, package = FOLDER / f"{name}.so", FOLDER / f"{name}.pt2"
        graphffi_torch.to_library(exported, library, weights="file")
        graphffi_torch.package(exported, package)
        self._calls, self._operands = calls, operands.split()
        self._commands = {
            NAMES[0]: [native.graph_host(), library, "__tvm_ffi_main"],
            NAMES[1]: [native.package_host(), package],
        }

    def run(self, name: str, calls: int | None = None) -> list[float]:
        """The numbers that a contender's program prints."""
        runtime = str(Path(graphffi.__file__).parent / "_lib")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": runtime}
        counted = str(self._calls if calls is None else calls)
        command = [*self._commands[name], counted, *self._operands]
        text = subprocess.check_output(command, env=environment, text=True)
        return [float(number) for number in text.split()]

    def contenders(self, value: Callable[[list[float]], float]) -> list[Contender]:
        """Contenders for one of the numbers, or for a value computed from them."""

        def contender(name: str) -> Contender:
            return Contender(name, lambda: value(self.run(name)))

        return [contender(name) for name in NAMES]

    def starting(self) -> list[Contender]:
        """From the start of the process to the end of its first call."""

        def contender(name: str) -> Contender:
            return Contender(name, once(lambda: self.run(name, 0)))

        return [contender(name) for name in NAMES]


def chain_cases(library: Path) -> list[Case]:
    """The cost of a call of a graph, and of a kernel's call in it."""
    op = graphffi.define_op(
        "benchmark_graph::touch",
        schema="(Tensor x) -> Tensor",
        kernel=graphffi.load_module(str(library)).touch,
        infer=graphffi.like,
    )
    one, many = (
        Model(f"chain{n}", Chain(op, n), (torch.ones(16),), "f16", 100_000) for n in (1, LONG)
    )

    def kernel_call(name: str) -> Contender:
        return Contender(name, lambda: (many.run(name)[CALL] - one.run(name)[CALL]) / (LONG - 1))

    return [
        Case("a library of a graph: call, one kernel", one.contenders(lambda v: v[CALL])),
        Case(f"a library of a graph: call, {LONG} kernels", many.contenders(lambda v: v[CALL])),
        Case("a library of a graph: a kernel's call in it", [kernel_call(n) for n in NAMES]),
    ]


def llama_models() -> tuple[Model, Model]:
    """The decoder's steps for a prompt of 64 tokens, and for one."""
    config = Config()
    step = Step(config, random_weights(config))
    cache = f"f1x{config.kv_heads}x{config.capacity}x{config.head_dim}"

    def model(name: str, count: int, calls: int) -> Model:
        caches = model_torch.empty_caches(config, torch.float32)
        example = (torch.zeros(1, count, dtype=torch.int64), torch.arange(count), caches)
        operands = f"i1x{count} i{count}" + f" {cache}" * 2 * config.layers
        return Model(name, step, example, operands, calls)

    return model("prefill", 64, 30), model("decode", 1, 500)


def weights_cases() -> list[Case]:
    """A model of 205 MB."""
    model = Model("weights", nn.Linear(7168, 7168), (torch.ones(1, 7168),), "f1x7168", 0)

    def case(what: str, unit: str, scale: float, value: int) -> Case:
        contenders = model.contenders(lambda v: v[value])
        return Case(f"200 MB of weights: {what}", contenders, unit, scale, rounds=5)

    return [
        case("loading", "ms", 1e-6, LOAD),
        case("first call", "ms", 1e-6, FIRST),
        case("memory", "MB", 1e-6, RESIDENT),
        case("memory that processes do not share", "MB", 1e-6, ANONYMOUS),
    ]


def cases(library: Path) -> list[Case]:
    """All cases of this group, on one thread, in C++ programs."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    warnings.filterwarnings("ignore", category=FutureWarning)
    FOLDER.mkdir(parents=True, exist_ok=True)
    prefill, decode = llama_models()
    resnet = Model("resnet18", resnet18(), (torch.ones(1, 3, 224, 224),), "f1x3x224x224", 10)
    memory = decode.contenders(lambda v: v[RESIDENT])
    graph = "a library of a graph"
    return [
        *chain_cases(library),
        Case(f"{graph}: process start to result, Llama", decode.starting(), "ms", 1e-6, rounds=5),
        Case(f"{graph}: memory, Llama", memory, "MB", 1e-6, rounds=5),
        *(
            Case(f"{graph}: {what}", model.contenders(lambda v: v[CALL]), "µs", 1e-3)
            for what, model in (
                ("Llama, 64 tokens", prefill),
                ("Llama, one token", decode),
                ("resnet18", resnet),
            )
        ),
        *weights_cases(),
    ]
