# SPDX-License-Identifier: Apache-2.0
"""Models of several kinds as libraries: every host computes what torch does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

import graphffi
import graphffi_torch
from tests.torch_release import IS_TORCH_2_10

pytestmark = [
    pytest.mark.filterwarnings("ignore:The tensor attributes self.lstm:UserWarning"),
    pytest.mark.slow,
]


class Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
        )
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        is_same = stride == 1 and channels == out
        self.short = nn.Identity() if is_same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.second(self.first(x)) + self.short(x))


def resnet18() -> nn.Module:
    widths = [(64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    blocks = [b for c, o, s in widths for b in (Block(c, o, s), Block(o, o, 1))]
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        *(nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)),
    )


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 64, 8, 8)
        self.places = nn.Parameter(torch.rand(17, 64))
        self.token = nn.Parameter(torch.rand(1, 1, 64))
        layer = nn.TransformerEncoderLayer(64, 4, 128, 0.0, "gelu", batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layers(x)[:, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


class Flexible(nn.Module):
    """An encoder's attention whose scores lose with distance."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results = []
        for values in (self.project(x), self.project(x).bfloat16()):
            q, k, v = values.view(x.shape[0], x.shape[1], 3, 4, 16).permute(2, 0, 3, 1, 4)
            y = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s - (i - j).abs() * 0.1)
            results.append(y.transpose(1, 2).flatten(2).float())
        return torch.stack(results)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (resnet18, (1, 3, 64, 64)),
    "vision_transformer": (VisionTransformer, (2, 3, 32, 32)),
    "lstm": (Recurrent, (3, 5, 12)),
    "flex_attention": (Flexible, (2, 100, 64)),
}
HOST = r"""
#include <stdio.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>

int __tvm_ffi_main(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);

/* Reads elements of a float32 tensor of the sizes that are given, writes those of the result. */
int main(int argc, char** argv) {
  int64_t shape[8], count = 1;
  for (int i = 1; i < argc; ++i) count *= shape[i - 1] = atoi(argv[i]);
  float* x = malloc((size_t)count * sizeof(*x));
  if (fread(x, sizeof(*x), (size_t)count, stdin) != (size_t)count) return 1;
  DLTensor view = {x, {kDLCPU, 0}, argc - 1, {kDLFloat, 32, 1}, shape, NULL, 0};
  TVMFFIAny arg = {0}, result = {0};
  arg.type_index = kTVMFFIDLTensorPtr;
  arg.v_ptr = &view;
  if (__tvm_ffi_main(NULL, &arg, 1, &result) != 0) return 2;
  const DLTensor* y = TVMFFITensorGetDLTensorPtr(result.v_obj);
  count = 1;
  for (int i = 0; i < y->ndim; ++i) count *= y->shape[i];
  fwrite(y->data, sizeof(float), (size_t)count, stdout);
  TVMFFIObjectDecRef(result.v_obj);
  free(x);
  return 0;
}
"""
NUMPY = """
import sys
import graphffi, numpy as np
x = np.frombuffer(sys.stdin.buffer.read(), np.float32).reshape([int(n) for n in sys.argv[2:]])
sys.stdout.buffer.write(np.from_dlpack(graphffi.load_module(sys.argv[1]).main(x)).tobytes())
assert "torch" not in sys.modules
"""
JAX = """
import sys
import graphffi, graphffi_jax, jax, numpy as np
x = np.frombuffer(sys.stdin.buffer.read(), np.float32).reshape([int(n) for n in sys.argv[2:]])
y = jax.jit(graphffi.load_ops(sys.argv[1]).main)(x)
sys.stdout.buffer.write(np.asarray(y).tobytes())
assert "torch" not in sys.modules
"""


@pytest.fixture(scope="module", params=MODELS)
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    """A model's library, an input, and torch's result."""
    if request.param in ("vision_transformer", "flex_attention") and IS_TORCH_2_10:
        pytest.skip("torch 2.10 does not decompose attention, or generate code for flex attention")
    torch.manual_seed(0)
    make, shape = MODELS[request.param]
    model = make().eval().requires_grad_(False)
    x = torch.rand(shape)
    path = tmp_path_factory.mktemp(request.param) / "model.so"
    graphffi_torch.to_library(torch.export.export(model, (x,)), path)
    return SimpleNamespace(path=path, x=x, expected=model(x))


def check(built: SimpleNamespace, result: object) -> None:
    values = np.asarray(result, np.float32).reshape(built.expected.shape)
    coarse = len(built.expected) if built.expected.ndim < 4 else 1  # the rest is of bfloat16
    torch.testing.assert_close(
        torch.from_numpy(values)[:coarse], built.expected[:coarse], rtol=1e-3, atol=1e-4
    )
    torch.testing.assert_close(torch.from_numpy(values), built.expected, rtol=2e-2, atol=2e-2)


def run(built: SimpleNamespace, *command: object) -> object:
    """The elements that a program writes, which gets the input's sizes and elements."""
    words = [*map(str, command), *map(str, built.x.shape)]
    done = subprocess.run(words, input=built.x.numpy().tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).copy()


def test_torch_gets_what_the_model_gives(built: SimpleNamespace) -> None:
    check(built, graphffi.load_module(built.path).main(built.x).numpy())


def test_numpy_gets_what_the_model_gives_without_torch(built: SimpleNamespace) -> None:
    check(built, run(built, sys.executable, "-c", NUMPY, built.path))


def test_jax_gets_what_the_model_gives_without_torch(built: SimpleNamespace) -> None:
    pytest.importorskip("jax")
    check(built, run(built, sys.executable, "-c", JAX, built.path))


def test_a_program_in_c_gets_what_the_model_gives(built: SimpleNamespace) -> None:
    folder, runtime = built.path.parent, Path(graphffi.runtime_info().path)
    (folder / "host.c").write_text(HOST)
    link = [built.path, runtime, f"-Wl,-rpath,{runtime.parent}:{folder}"]
    flags = ["-std=gnu11", f"-I{graphffi.cpp.include_path()}", "-Wl,--allow-shlib-undefined"]
    command = ["cc", *flags, folder / "host.c", "-o", folder / "host", *link]
    subprocess.run([*map(str, command)], check=True)
    check(built, run(built, folder / "host"))
