# SPDX-License-Identifier: Apache-2.0
"""Calls a kernel that strays, on every path; prints what each call gave, as JSON.

Run with the library, a folder, the names of paths and the modes, and ``GRAPHFFI_DEBUG=1``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import graphffi
import graphffi_jax
import graphffi_torch
from graphffi import Tensor
from graphffi_jax._transforms.batching import enable_x64

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY, FOLDER, PATHS, MODES = sys.argv[1:]
X = np.array([1, 2, 3], np.float32)


@graphffi.op(
    "debugged::stray",
    kernel=f"{LIBRARY}::stray",
    plan="x, cache, which, workspace, out",
    mutates=("cache",),
    workspace=16,
)
def stray(x: Tensor, cache: Tensor, which: Tensor) -> Tensor:
    return graphffi.like(x)


def operands(mode: int) -> tuple[Any, Any, Any]:
    return X.copy(), np.zeros(2, np.float32), np.array(mode, np.int64)


def on_host(mode: int) -> Any:
    return stray(*operands(mode))


def with_torch(call: Callable[..., Any]) -> Callable[[int], Any]:
    return lambda mode: call(*map(torch.from_numpy, operands(mode)))


def with_jax(call: Callable[..., Any]) -> Callable[[int], Any]:
    def run(mode: int) -> Any:
        with graphffi_jax.errors(), enable_x64(True):
            return jax.block_until_ready(call(*map(jnp.asarray, operands(mode))))

    return run


class Model(torch.nn.Module):
    def forward(self, *tensors: torch.Tensor) -> Any:
        return stray(*tensors)


def package() -> Any:
    program = torch.export.export(Model(), tuple(map(torch.from_numpy, operands(0))))
    path = str(Path(FOLDER) / "model.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    model = torch._inductor.aoti_load_package(path)

    def run(*tensors: torch.Tensor) -> Any:
        with graphffi_torch.errors():
            return model(*tensors)

    return run


def node() -> Callable[[int], Any]:
    from tests.onnxruntime_plugin.models import session_for

    session = session_for(stray, *operands(0))

    def run(mode: int) -> Any:
        try:
            return session(*operands(mode))
        except Exception as error:  # of ONNX Runtime's; its text ends with kind and text
            raise RuntimeError(str(error).rpartition("RuntimeError: ")[2]) from None

    return run


def told(path: Callable[[int], Any], mode: int) -> Any:
    try:
        return [np.asarray(array).tolist() for array in path(mode)]
    except Exception as error:
        return [type(error).__name__, error.args[0]]


makers: dict[str, Callable[[], Callable[[int], Any]]] = {
    "host": lambda: on_host,
    "torch": lambda: with_torch(stray),
    "compiled": lambda: with_torch(torch.compile(stray, fullgraph=True)),
    "package": lambda: with_torch(package()),
    "jax": lambda: with_jax(stray),
    "jitted": lambda: with_jax(jax.jit(stray)),
    "node": node,
}
paths = {name: makers[name]() for name in PATHS.split()}
print(json.dumps({n: [told(path, int(m)) for m in MODES.split()] for n, path in paths.items()}))
