# SPDX-License-Identifier: Apache-2.0
"""The same mistake gives the same text and the same exception wherever an op is called."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import graphffi
import graphffi_jax
import graphffi_torch
from graphffi import Tensor
from tests.interop.mistakes import GOOD, MISTAKES

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent


def mistaken(x: Tensor, dim: int) -> Tensor:
    assert dim >= 0, "dim is below 0"
    return graphffi.like(y)  # type: ignore[name-defined]  # noqa: F821


def modelled(x: Tensor) -> Tensor:
    return graphffi.like(3)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    library = graphffi.cpp.build("faulty", sources=[HERE / "faulty.cc"])
    folder = tmp_path_factory.mktemp("libraries")
    removed, rebuilt = folder / "removed.so", folder / "rebuilt.so"
    for copy in (removed, rebuilt):
        shutil.copy(library, copy)

    def define(name: str, kernel: Any) -> Any:
        @graphffi.op(f"faulty::{name}", kernel=kernel, plan="x, out, limit, on_gpu")
        def clamp(x: Tensor, limit: float = 2.0, on_gpu: bool = False) -> Tensor:
            graphffi.check(x.dtype == "float32", f"operand 'x': expected float32, got {x.dtype}")
            graphffi.check(x.ndim == 2, f"operand 'x': expected 2 dimensions, got {x.ndim}")
            graphffi.check(x.size(1) == 3, f"operand 'x': expected 3 columns, got {x.size(1)}")
            return graphffi.like(x)

        return clamp

    @graphffi.op("faulty::shaped", kernel=f"{library}::clamp", plan="x, out")
    def shaped(x: Tensor, size: int, name: str = "float32") -> Tensor:
        return graphffi.empty((size, 2**40), name)

    @graphffi.op("faulty::divided", kernel=f"{library}::clamp", plan="x, out")
    def divided(x: Tensor, parts: int, dim: int = 0) -> Tensor:
        return graphffi.like(x, shape=(x.shape[dim] // parts,))

    @graphffi.op("faulty::squared", kernel=f"{library}::clamp", plan="x, out")
    def squared(x: Tensor, size: int) -> Tensor:
        return graphffi.empty((size * size,), "float32")

    @graphffi.op("faulty::shrunk", kernel=f"{library}::clamp", plan="x, out")
    def shrunk(x: Tensor) -> Tensor:
        return graphffi.like(x, shape=[x.size(0) - 3, x.size(1)])

    @graphffi.op(
        "faulty::typed",
        kernel="faulty.no_such_function",
        dtypes="T, T, T, int32 -> T; T: float32 | bfloat16",
        dims="[n], [n], [n], [n] -> [n]",
    )
    def typed(x: Tensor, w: Tensor, more: list[Tensor], index: Tensor) -> Tensor:
        return graphffi.like(x)

    @graphffi.op("faulty::mistyped", kernel=f"{library}::clamp", plan="x, out", dtypes="T -> int32")
    def mistyped(x: Tensor) -> Tensor:
        return graphffi.like(x, dtype="int64")

    named = graphffi.define_op(
        "faulty::named",
        schema="(Tensor x, dtype kind, Device place='cpu') -> Tensor",
        kernel=f"{library}::clamp",
        plan="x, out",
        infer=lambda x, kind, place: graphffi.like(x),
    )

    plain: Any = {"kernel": f"{library}::clamp", "plan": "x, out"}
    removed_clamp = define("removed", f"{removed}::clamp")
    removed.unlink()
    graphffi.load_module(rebuilt)
    rebuilt.unlink()
    rebuilt.write_bytes(Path(library).read_bytes() + b"built anew")
    return SimpleNamespace(
        removed=removed_clamp,
        rebuilt=f"{rebuilt}::stop",
        divided=divided,
        mistaken=graphffi.op("faulty::mistaken", **plain)(mistaken),
        modelled=graphffi.op("faulty::modelled", **plain)(modelled),
        squared=squared,
        shrunk=shrunk,
        typed=typed,
        mistyped=mistyped,
        named=named,
        clamp=define("clamp", f"{library}::clamp"),
        shaped=shaped,
        no_function=define("no_function", "faulty.no_such_function"),
        no_symbol=define("no_symbol", f"{library}::no_such_symbol"),
        no_library=define("no_library", "/no/such/library.so::clamp"),
    )


def on_host(call: Callable[..., Any], x: np.ndarray) -> None:
    call(x)


def in_torch(call: Callable[..., Any], x: np.ndarray) -> None:
    call(torch.from_numpy(x))


def compiled_static(call: Callable[..., Any], x: np.ndarray) -> None:
    torch._dynamo.reset()
    torch.compile(call, fullgraph=True, dynamic=False, backend="aot_eager")(torch.from_numpy(x))


def compiled_dynamic(call: Callable[..., Any], x: np.ndarray) -> None:
    torch._dynamo.reset()
    torch.compile(call, fullgraph=True, dynamic=True, backend="aot_eager")(torch.from_numpy(x))


def in_jax(call: Callable[..., Any], x: np.ndarray) -> None:
    with graphffi_jax.errors():
        jax.block_until_ready(call(jnp.asarray(x)))


def jitted(call: Callable[..., Any], x: np.ndarray) -> None:
    with graphffi_jax.errors():
        jax.block_until_ready(jax.jit(call)(jnp.asarray(x)))


def exported(call: Callable[..., Any], x: np.ndarray) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return call(x)

    tensor = torch.from_numpy(x)
    torch.export.export(Model(), (tensor,)).module()(tensor)


PATHS = (on_host, in_torch, compiled_static, compiled_dynamic, exported, in_jax, jitted)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_the_same_error_everywhere(ops: SimpleNamespace, mistake: str) -> None:
    make, x, kind, text = MISTAKES[mistake]
    call, told = make(ops), {}

    for path in PATHS:
        with pytest.raises(Exception) as caught:  # noqa: PT011 (which one is the question)
            path(call, x)
        told[path.__name__] = (type(caught.value), caught.value.args[0])
        # The process goes on.
        path(ops.clamp, GOOD)
    assert told == dict.fromkeys(told, (kind, told["on_host"][1]))
    assert text in told["on_host"][1]


@pytest.mark.slow
def test_a_package_raises_what_eager_code_does(ops: SimpleNamespace, tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return ops.no_function(ops.clamp(x))

    def refuse(*_: Any) -> None:
        raise LookupError("faulty::no_function: operand 'x': expected luck, got none")

    good, path = torch.from_numpy(GOOD), str(tmp_path / "model.pt2")
    torch._inductor.aoti_compile_and_package(
        torch.export.export(Model(), (good,)), package_path=path
    )
    package = torch._inductor.aoti_load_package(path)
    kernels = {"missing": None, "refuses": refuse, "good": lambda x, out, *_: out.fill_(7)}
    for kernel in kernels.values():
        if kernel is not None:
            graphffi.register_global_func("faulty.no_such_function", kernel, override=True)
        for x in (good, -good):
            told = [_told(model, x) for model in (Model(), package)]
            assert told[0] == told[1]
    graphffi.remove_global_func("faulty.no_such_function")


def _told(model: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        with graphffi_torch.errors():
            return model(x).tolist()
    except Exception as error:
        return type(error), error.args[0]


@pytest.mark.parametrize("name", ["stop", "stop_as_before_0_1_9"])
@pytest.mark.parametrize("path", PATHS)
def test_a_kernel_that_stops_for_a_signal_raises_what_its_handler_raised(
    ops: SimpleNamespace, path: Callable[..., None], name: str
) -> None:
    library = graphffi.cpp.build("faulty", sources=[HERE / "faulty.cc"])

    def call(x: Any) -> Any:
        return graphffi.call_tvm_ffi(f"{library}::{name}", x, out=graphffi.like(x))

    def interrupt(*_: object) -> None:
        raise TimeoutError("rung")

    old = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(TimeoutError, match="rung"):
            path(call, GOOD)
    finally:
        signal.signal(signal.SIGUSR1, old)
    path(ops.clamp, GOOD)
