# SPDX-License-Identifier: Apache-2.0
"""The same mistake gives the same text and the same exception wherever an op is called."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import graphffi
import graphffi_jax
import graphffi_torch
from graphffi import Tensor

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


def as_float32(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) else x.astype("float32")


def as_bfloat16(x: Any) -> Any:
    return x.bfloat16() if isinstance(x, torch.Tensor) else x.astype(ml_dtypes.bfloat16)


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
GOOD = np.ones((2, 3), "float32")
# What is wrong: the call, its tensor, the exception and its whole text.
MISTAKES: dict[str, tuple[Callable[[Any], Any], np.ndarray, type[Exception], str]] = {
    "dtype": (
        lambda ops: ops.clamp,
        GOOD.astype("int32"),
        ValueError,
        "faulty::clamp: operand 'x': expected float32, got int32",
    ),
    "rank": (
        lambda ops: ops.clamp,
        np.ones(3, "float32"),
        ValueError,
        "faulty::clamp: operand 'x': expected 2 dimensions, got 1",
    ),
    "data type": (
        lambda ops: lambda x: ops.typed(x, x, [], x),
        np.ones(3, "float16"),
        TypeError,
        "faulty::typed: operand 'x': expected float32 or bfloat16, got float16; operand 'w': "
        "expected float32 or bfloat16, got float16; operand 'index': expected int32, got float16",
    ),
    "data types that differ": (
        lambda ops: lambda x: ops.typed(as_float32(x), as_bfloat16(x), [], x),
        np.ones(3, "int32"),
        TypeError,
        "faulty::typed: operand 'w': expected float32 as in operand 'x', got bfloat16",
    ),
    "data type of an item": (
        lambda ops: lambda x: ops.typed(as_float32(x), as_float32(x), [as_float32(x), x], x),
        np.ones(3, "int32"),
        TypeError,
        "faulty::typed: operand 'more[1]': expected float32 or bfloat16, got int32",
    ),
    "shape of an item": (
        lambda ops: (
            lambda x: ops.typed(as_float32(x), as_float32(x), [as_float32(x), as_float32(x)[:2]], x)
        ),
        np.ones(3, "int32"),
        ValueError,
        "faulty::typed: operand 'more[1]': expected size 3 of 'n' as in operand 'x', got 2",
    ),
    "rule's data type": (
        lambda ops: ops.mistyped,
        GOOD,
        TypeError,
        "faulty::mistyped: shape rule: result 'out': expected int32, got int64",
    ),
    "shape": (
        lambda ops: ops.clamp,
        np.ones((2, 5), "float32"),
        ValueError,
        "faulty::clamp: operand 'x': expected 3 columns, got 5",
    ),
    "device": (
        lambda ops: lambda x: ops.clamp(x, on_gpu=True),
        GOOD,
        ValueError,
        "faulty::clamp: operand 'x': expected a tensor on cuda, got cpu",
    ),
    "count": (
        lambda ops: lambda x: ops.clamp(x, 2.0, False, 1),
        GOOD,
        TypeError,
        "faulty::clamp: expected at most 3 arguments, got 4",
    ),
    "plan": (lambda ops: lambda x: ops.divided(x, 1), GOOD, TypeError, "divided: Mismatched numbe"),
    "missing operand": (
        lambda ops: lambda x: (x, ops.clamp()),
        GOOD,
        TypeError,
        "faulty::clamp: operand 'x': expected a tensor, got nothing",
    ),
    "operand": (
        lambda ops: lambda x: (x, ops.clamp("x")),
        GOOD,
        TypeError,
        "faulty::clamp: operand 'x': expected a tensor, got str 'x'",
    ),
    "attribute": (
        lambda ops: lambda x: ops.clamp(x, limit="high"),
        GOOD,
        TypeError,
        "faulty::clamp: attribute 'limit': expected a float, got str 'high'; "
        "known attributes: limit, on_gpu",
    ),
    "size as a bool": (
        lambda ops: lambda x: ops.clamp(x, on_gpu=x.shape[0]),
        GOOD,
        TypeError,
        "faulty::clamp: attribute 'on_gpu': expected a bool, got int 2; "
        "known attributes: limit, on_gpu",
    ),
    "size as an operand": (
        lambda ops: lambda x: (x, ops.clamp(x.shape[0])),
        GOOD,
        TypeError,
        "faulty::clamp: operand 'x': expected a tensor, got int 2",
    ),
    "sizes as a dtype and a device": (
        lambda ops: lambda x: ops.named(x, x.shape[0], x.shape[1]),
        GOOD,
        TypeError,
        "faulty::named: attribute 'kind': expected a dtype, got int 2; attribute 'place': expected "
        "a device, got int 3; known attributes: kind, place",
    ),
    "unknown dtype": (
        lambda ops: lambda x: ops.named(x, "quaternion"),
        GOOD,
        TypeError,
        "faulty::named: attribute 'kind': expected a dtype, got str 'quaternion'; "
        "known attributes: kind, place",
    ),
    "dtype that only the runtime knows": (
        lambda ops: lambda x: ops.named(x, "bool8"),
        GOOD,
        TypeError,
        "faulty::named: attribute 'kind': expected a dtype, got str 'bool8'; "
        "known attributes: kind, place",
    ),
    "unknown device": (
        lambda ops: lambda x: ops.named(x, "float32", "nowhere"),
        GOOD,
        TypeError,
        "faulty::named: attribute 'place': expected a device, got str 'nowhere'; "
        "known attributes: kind, place",
    ),
    "right dtype beside a mistake": (
        lambda ops: lambda x: ops.named(x, "float32", place=3),
        GOOD,
        TypeError,
        "faulty::named: attribute 'place': expected a device, got int 3; "
        "known attributes: kind, place",
    ),
    "unknown attribute": (
        lambda ops: lambda x: ops.clamp(x, bound=1.0),
        GOOD,
        TypeError,
        "faulty::clamp: argument 'bound': expected a known name; "
        "known attributes: limit, on_gpu; operands: x",
    ),
    "several": (
        lambda ops: lambda x: ops.clamp(x, limit=None, bound=1.0),
        GOOD,
        TypeError,
        "faulty::clamp: attribute 'limit': expected a float, got None; argument 'bound': expected "
        "a known name; known attributes: limit, on_gpu; operands: x",
    ),
    "float beyond doubles": (
        lambda ops: lambda x: ops.clamp(x, 10**400),
        GOOD,
        ValueError,
        f"faulty::clamp: attribute 'limit': expected a float, got int 1{'0' * 56}..., which is too "
        "large; known attributes: limit, on_gpu",
    ),
    "int beyond 64 bits": (
        lambda ops: lambda x: ops.shaped(x, 2**63),
        GOOD,
        ValueError,
        "faulty::shaped: attribute 'size': expected an int of 64 bits, got int 9223372036854775808",
    ),
    "values and types": (
        lambda ops: lambda x: ops.shaped(x, -(2**63) - 1, None),
        GOOD,
        TypeError,
        "faulty::shaped: attribute 'size': expected an int of 64 bits, got int "
        "-9223372036854775809; attribute 'name': expected a str, got None",
    ),
    "text": (
        lambda ops: lambda x: ops.shaped(x, 1, "\ud800"),
        GOOD,
        ValueError,
        r"faulty::shaped: attribute 'name': expected Unicode text, got str '\ud800'",
    ),
    "negative size": (
        lambda ops: lambda x: ops.shaped(x, -1),
        GOOD,
        ValueError,
        "faulty::shaped: shape rule: result 'out': expected sizes of 0 or more, got (-1, ",
    ),
    "size below 0": (
        lambda ops: ops.shrunk,
        GOOD,
        ValueError,
        "faulty::shrunk: shape rule: result 'out': expected sizes of 0 or more, got (-1, 3)",
    ),
    "rule that divides by zero": (
        lambda ops: lambda x: ops.divided(x, 0),
        GOOD,
        ZeroDivisionError,
        "faulty::divided: shape rule: integer division or modulo by zero",
    ),
    "rule without a tensor as model": (
        lambda ops: ops.modelled,
        GOOD,
        TypeError,
        "faulty::modelled: shape rule: like: expected a tensor or a TensorSpec, got int 3",
    ),
    "rule that asks for too many dimensions": (
        lambda ops: lambda x: ops.divided(x, 2, dim=5),
        GOOD,
        IndexError,
        "faulty::divided: shape rule: tuple index out of range",
    ),
    "rule with an assertion": (
        lambda ops: lambda x: ops.mistaken(x, -1),
        GOOD,
        AssertionError,
        "faulty::mistaken: shape rule: dim is below 0",
    ),
    "rule with an unknown name": (
        lambda ops: lambda x: ops.mistaken(x, 0),
        GOOD,
        NameError,
        "faulty::mistaken: shape rule: name 'y' is not defined",
    ),
    "too many elements": (
        lambda ops: lambda x: ops.shaped(x, 2**40),
        GOOD,
        ValueError,
        "faulty::shaped: shape rule: result 'out': expected fewer than 2**59 elements, got "
        "(1099511627776, 1099511627776)",
    ),
    "size beyond 64 bits": (
        lambda ops: lambda x: ops.squared(x, 2**40),
        GOOD,
        ValueError,
        "faulty::squared: shape rule: result 'out': expected fewer than 2**59 elements, got "
        "(1208925819614629174706176,)",
    ),
    "size of a call below 0": (
        lambda ops: (
            lambda x: graphffi.call_tvm_ffi("faulty.f", x, out=graphffi.empty((-1,), "float32"))
        ),
        GOOD,
        ValueError,
        "faulty.f: result 0: expected sizes of 0 or more, got (-1,)",
    ),
    "result's dtype": (
        lambda ops: lambda x: ops.shaped(x, 1, "quaternion"),
        GOOD,
        TypeError,
        "faulty::shaped: shape rule: result 'out': dtype: expected a name such as float32, ",
    ),
    "positions": (
        lambda ops: lambda x: graphffi.call_tvm_ffi("faulty.f", x, mutates=[1]),
        GOOD,
        ValueError,
        "faulty.f: mutates: expected positions of arguments, a list of ints below 1, got [1]",
    ),
    "argument": (
        lambda ops: lambda x: graphffi.call_tvm_ffi("faulty.f", x, 2j, out=graphffi.like(x)),
        GOOD,
        TypeError,
        "faulty.f: argument #1: expected a tensor, None, int, float, bool, str, dtype, Device or a "
        "list, got complex 2j",
    ),
    "argument beyond 64 bits": (
        lambda ops: lambda x: graphffi.call_tvm_ffi("faulty.f", x, 2**63, out=graphffi.like(x)),
        GOOD,
        ValueError,
        "faulty.f: argument #1: expected an int of 64 bits, got int 9223372036854775808",
    ),
    "argument's text": (
        lambda ops: lambda x: graphffi.call_tvm_ffi("faulty.f", x, "\udfff", out=graphffi.like(x)),
        GOOD,
        ValueError,
        r"faulty.f: argument #1: expected Unicode text, got str '\udfff'",
    ),
    "value": (
        lambda ops: lambda x: ops.clamp(x, -1.0),
        GOOD,
        ValueError,
        "faulty::clamp: attribute 'limit': expected at least 0, got -1",
    ),
    "data": (
        lambda ops: ops.clamp,
        -GOOD,
        IndexError,
        "faulty::clamp: operand 'x': expected no negative",
    ),
    "function": (lambda ops: ops.no_function, GOOD, KeyError, "faulty.no_such_function"),
    "symbol": (lambda ops: ops.no_symbol, GOOD, KeyError, "no_such_symbol"),
    "library": (lambda ops: ops.no_library, GOOD, RuntimeError, "/no/such/library.so"),
    "removed library": (lambda ops: ops.removed, GOOD, RuntimeError, "expected a file, got none"),
    "library built anew": (
        lambda ops: lambda x: graphffi.call_tvm_ffi(ops.rebuilt, x, out=graphffi.like(x)),
        GOOD,
        RuntimeError,
        "rebuilt.so': expected the file in use, got a newer one; load it with "
        "graphffi.load_module, or define its ops again with override=True",
    ),
    "kernel": (
        lambda ops: lambda x: graphffi.call_tvm_ffi(3, x, out=graphffi.like(x)),
        GOOD,
        TypeError,
        "graphffi.call_tvm_ffi: kernel: expected a graphffi.Function, a callable or a kernel "
        "reference, got int 3",
    ),
    "result": (
        lambda ops: lambda x: graphffi.call_tvm_ffi("faulty.f", x, out=3),
        GOOD,
        TypeError,
        "faulty.f: out: expected graphffi.like(...), graphffi.empty(...) or a list of these, got "
        "int 3",
    ),
}


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


@pytest.mark.slow
def test_a_missing_plugin_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_PLUGINS],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for_torch, for_jax = (
        f"expected the plugin for {name}, graphffi_{name}, got none; install graphffi with "
        f"GRAPHFFI_BUILD_{name.upper()}=1 where {name} is installed"
        for name in ("torch", "jax")
    )
    assert done.stdout.splitlines() == [
        f"ModuleNotFoundError nowhere::f: {for_torch}",
        f"ModuleNotFoundError nowhere.f: {for_torch}",
        f"ModuleNotFoundError nowhere::f: {for_torch}",
        f"Unsupported ModuleNotFoundError('nowhere::f: {for_torch}')",
        f"Unsupported ModuleNotFoundError('nowhere.f: {for_torch}')",
        f"ModuleNotFoundError nowhere::f: {for_jax}",
        f"ModuleNotFoundError nowhere::f: {for_jax}",
    ]


# Without the plugin, torch.compile wraps exceptions in its own.
WITHOUT_PLUGINS = """
import sys

sys.modules["graphffi_torch"] = sys.modules["graphffi_jax"] = None
import jax, torch, graphffi

f = graphffi.define_op("nowhere::f", schema="(Tensor(a!) x) -> ()", kernel="nowhere.f")
raw = lambda x: graphffi.call_tvm_ffi("nowhere.f", x, mutates=[0])
t, j = torch.ones(3), jax.numpy.ones(3)
calls = [
    lambda: f(t),
    lambda: raw(t),
    lambda: torch.compile(lambda x: f(x))(t),
    lambda: torch.compile(f, fullgraph=True)(t),
    lambda: torch.compile(raw, fullgraph=True)(t),
    lambda: f(j),
    lambda: jax.jit(f)(j),
]
for call in calls:
    try:
        call()
    except Exception as error:
        text = str(error)
        if isinstance(error, torch._dynamo.exc.Unsupported):
            (text,) = (line for line in text.splitlines() if "raised exception" in line)
            text = text.partition("raised exception ")[2]
        print(type(error).__name__, text)
"""


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
