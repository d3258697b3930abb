# SPDX-License-Identifier: Apache-2.0
"""README's first kernel, as printed, gives the right result or raises: never another."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from graphffi_jax._transforms.batching import enable_x64

if TYPE_CHECKING:
    from collections.abc import Callable

README = Path(__file__).resolve().parents[2] / "README.md"
BASE = np.arange(12).reshape(3, 4)
INPUTS = {
    "float32": BASE.astype("float32"),
    "float64": BASE.astype("float64"),
    "float16": BASE.astype("float16"),
    "int64": BASE,
    "complex64": BASE.astype("complex64"),
    "x.T": BASE.astype("float32").T,
    "x[::2]": BASE.astype("float32")[::2],
    "x[:, ::2]": BASE.astype("float32")[:, ::2],
    "0-d": np.array(3, "float32"),
    "empty": np.empty((0, 4), "float32"),
}
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def block(language: str, text: str) -> str:
    return next(code for kind, code in BLOCKS if kind == language and text in code)


@pytest.fixture(scope="module")
def readme(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module that README's code makes, which it builds in its folder."""
    module = ModuleType("readme")
    folder = tmp_path_factory.mktemp("readme")
    (folder / "kernels.cc").write_text(block("cpp", "AddOne"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(block("python", "demo::add_one"), module.__dict__)
    return module


def on_host(call: Callable[..., Any], x: np.ndarray) -> Any:
    return call(x)


def in_torch(call: Callable[..., Any], x: np.ndarray) -> Any:
    return call(torch.from_numpy(x)).numpy()


def compiled(call: Callable[..., Any], x: np.ndarray) -> Any:
    torch._dynamo.reset()
    return torch.compile(call, fullgraph=True, backend="aot_eager")(torch.from_numpy(x)).numpy()


def in_jax(call: Callable[..., Any], x: np.ndarray) -> Any:
    with enable_x64(True):
        return np.asarray(call(jnp.asarray(x)))


def jitted(call: Callable[..., Any], x: np.ndarray) -> Any:
    with enable_x64(True):
        return np.asarray(jax.jit(call)(jnp.asarray(x)))


@pytest.mark.parametrize("path", [on_host, in_torch, compiled, in_jax, jitted])
@pytest.mark.parametrize("name", INPUTS)
def test_the_first_kernel_is_right_or_refuses(
    readme: Any, name: str, path: Callable[..., Any]
) -> None:
    x = INPUTS[name]
    if x.dtype == np.float32:
        np.testing.assert_array_equal(path(readme.add_one, x), x + 1)
        return
    with pytest.raises(TypeError) as caught:
        path(readme.add_one, x)
    expected = f"demo::add_one: operand 'x': expected float32, got {x.dtype}"
    assert caught.value.args[0] == expected


@pytest.mark.parametrize(
    "framework",
    [pytest.param("torch", marks=pytest.mark.slow), "jax"],  # Inductor compiles C++
)
def test_the_programs_print_what_they_say(
    readme: Any, framework: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = block("python", f"import {framework}\n")
    exec(program, {"add_one": readme.add_one})
    (said,) = re.findall(r"print\(.*\)  # (.*)", program)
    assert capsys.readouterr().out.strip() == said
