# SPDX-License-Identifier: Apache-2.0
"""Programs that tests make libraries for CUDA of, and compare with torch on the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

import graphffi


@dataclass(frozen=True)
class Program:
    """A model with its methods.

    Args:
        methods: Makes them, with the same weights each time, which have one name in all.
        inputs: Makes example inputs by the names of methods.
        dynamic_shapes: Of methods that have some.
        weights: How `to_library` keeps them.
        on_cpu: Names of operands that stay there.
    """

    methods: Callable[[], Mapping[str, torch.nn.Module]]
    inputs: Callable[[], Mapping[str, tuple[torch.Tensor, ...]]]
    dynamic_shapes: Mapping[str, Any] = field(default_factory=dict)
    weights: str = "embed"
    on_cpu: Sequence[str] = ()


class Layers(torch.nn.Module):
    """Products with weights, a softmax, sizes that calls choose."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.into = torch.nn.Linear(32, 48)
        self.out = torch.nn.Linear(48, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.out(torch.relu(self.into(x))).softmax(-1)
        return y, y.sum(0)


class Attention(torch.nn.Module):
    """Attention by products, an operand that is updated, and a buffer that counts."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.project = torch.nn.Linear(16, 48, bias=False)
        self.register_buffer("count", torch.zeros(1))


class Prefill(torch.nn.Module):
    """Fills a cache."""

    def __init__(self, core: Attention) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            each.unflatten(-1, (2, 8)).transpose(0, 1) for each in self.core.project(x).chunk(3, -1)
        )
        cache.copy_(k)
        self.core.count.add_(1)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(0, 1).flatten(1)


class Decode(torch.nn.Module):
    """Reads a cache, and how often one was filled."""

    def __init__(self, core: Attention) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = self.core.project(x).chunk(3, -1)[0]
        scores = (q.unflatten(-1, (2, 1, 8)) * cache.transpose(0, 1)[:, :, None, :].sum(0)).sum(-1)
        return scores.softmax(-1), self.core.count + 0


def attention() -> dict[str, torch.nn.Module]:
    core = Attention()
    return {"prefill": Prefill(core), "decode": Decode(core)}


class Branches(torch.nn.Module):
    """What an element of an operand decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            (x.sum() > 0).reshape(()), lambda x: x * 2 + 1, lambda x: x.cos() - 1, (x,)
        )


class Image(torch.nn.Module):
    """Convolutions."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.second = torch.nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(torch.relu(self.first(x)))).mean((2, 3))


class Calls(torch.nn.Module):
    """An op of a library, which gets the stream, between code of Inductor's."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = scale_op()(x * 2, 3.0)
        return y + 1


class Scaled(torch.nn.Module):
    """A number on the CPU, and a tensor that the program moves."""

    def forward(self, x: torch.Tensor, by: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return x * by + torch.empty_like(x[0]).copy_(bias)


class OnlyCalls(torch.nn.Module):
    """No code of Inductor's, and a result that is an operand."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scale_op()(x, 3.0), x


SCALE: Final = """
int64_t stream_of_scale = -1;
void scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double by, void* stream) {
  TVM_FFI_CHECK(x.device().device_type == kDLCUDA, ValueError) << "expected a tensor on cuda";
  stream_of_scale = reinterpret_cast<int64_t>(stream);
  const auto* from = static_cast<const float*>(x.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(out.data_ptr())[i] = from[i] * static_cast<float>(by);
  }
}
int64_t last_stream() { return stream_of_scale; }
"""


def scale_library() -> str:
    """Of a function on the host, which finds the GPU's memory where it can read it."""
    return graphffi.cpp.build("gpu_scale", cpp_sources=SCALE, functions=["scale", "last_stream"])


@functools.cache
def scale_op() -> Any:
    @graphffi.op("cuda_tests::scale", kernel=f"{scale_library()}::scale", plan="x, out, by, stream")
    def scale(x: graphffi.Tensor, by: float) -> graphffi.Tensor:
        return graphffi.like(x)

    return scale


PROGRAMS: Final = {
    "layers": Program(
        lambda: {"main": Layers()},
        lambda: {"main": (torch.randn(20, 32),)},
        {"main": ({0: torch.export.Dim("rows", min=2, max=64)},)},
    ),
    "attention": Program(
        attention,
        lambda: {
            "prefill": (torch.randn(8, 16), torch.zeros(2, 8, 8)),
            "decode": (torch.randn(1, 16), torch.randn(2, 8, 8)),
        },
        weights="file",
    ),
    "branches": Program(lambda: {"main": Branches()}, lambda: {"main": (torch.randn(5, 7),)}),
    "image": Program(lambda: {"main": Image()}, lambda: {"main": (torch.randn(2, 3, 16, 16),)}),
    "scaled": Program(
        lambda: {"main": Scaled()},
        lambda: {"main": (torch.randn(6, 4), torch.tensor(2.0), torch.randn(4))},
        on_cpu=["by", "bias"],
    ),
    "calls": Program(lambda: {"main": Calls()}, lambda: {"main": (torch.randn(6, 4),)}),
    "only_calls": Program(lambda: {"main": OnlyCalls()}, lambda: {"main": (torch.randn(6, 4),)}),
}
