# SPDX-License-Identifier: Apache-2.0
"""Calls from PyTorch: a function, an op, an op in a compiled graph, with gradients."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import torch
import tvm_ffi
from timing import Case, Contender, call, chain

import graphffi

SHORT, LONG = 10, 50
MANY = 1_000


def custom_op(kernel: Any, name: str = "touch") -> Any:
    """The usual binding today: `torch.library.custom_op` around apache-tvm-ffi's function."""

    @torch.library.custom_op(f"benchmark_custom::{name}", mutates_args=())
    def touch(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        kernel(x, out)
        return out

    touch.register_fake(torch.empty_like)
    return touch


def compiled_program(op: Callable[[Any], Any], length: int, **options: Any) -> Callable[[Any], Any]:
    """A compiled program that calls `op` as often as given, each call on the result of the last.

    From text, so that every program has code of its own: compiled variants of shared code would be
    told apart by guards at each run.
    """
    names: dict[str, Any] = {"op": op}
    body = "".join("    value = op(value)\n" for _ in range(length))
    exec(f"def program(value):\n{body}    return value", names)
    return torch.compile(names["program"], fullgraph=True, **options)


def compiled_chain(op: Callable[[Any], Any], x: torch.Tensor) -> Callable[[int], Callable[[], Any]]:
    """Builds compiled programs that call `op`."""

    def build(length: int) -> Callable[[], Any]:
        program = compiled_program(op, length)
        return lambda: program(x)

    return build


class Chain(torch.nn.Module):
    """Calls of an op, one after the other."""

    def __init__(self, op: Callable[[Any], Any], length: int) -> None:
        super().__init__()
        self.op, self.length = op, length

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        """Takes float32[16]."""
        for _ in range(self.length):
            value = self.op(value)
        return value


def packaged_chain(op: Callable[[Any], Any], x: torch.Tensor) -> Callable[[int], Callable[[], Any]]:
    """Builds AOTInductor packages that call `op` one call after the other."""

    def build(length: int) -> Callable[[], Any]:
        import torch._inductor

        exported = torch.export.export(Chain(op, length), (x,))
        package = torch._inductor.aoti_load_package(
            torch._inductor.aoti_compile_and_package(exported)
        )
        return lambda: package(x)

    return build


def compile_time(op: Callable[[Any], Any], x: torch.Tensor, calls: int) -> Callable[[], float]:
    """Measures the cost of compiling one call, in nanoseconds, in a program of `calls` calls."""

    def measure() -> float:
        torch.compiler.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            begin = time.process_time()
            compiled_program(op, calls)(x)
        return (time.process_time() - begin) / calls * 1e9

    return measure


def differentiable_ops(ours: Any, theirs: Any) -> dict[str, Callable[[Any], Any]]:
    """Ops whose gradient is a call of the same kernel."""

    def define(name: str) -> Any:
        return graphffi.define_op(
            f"benchmark::{name}",
            schema="(Tensor x) -> Tensor",
            kernel=ours.touch,
            infer=graphffi.like,
        )

    op, backward = define("touch_vjp"), define("touch_backward")
    op.register_vjp(lambda saved, grad: backward(grad))

    custom = custom_op(theirs.touch, "touch_autograd")
    custom_backward = custom_op(theirs.touch, "touch_backward")
    custom.register_autograd(lambda context, grad: custom_backward(grad))
    return {"graphffi op": op, "torch.library.custom_op": custom}


def with_gradient(call: Callable[[Any], Any], x: torch.Tensor) -> Callable[[], Any]:
    """Calls forward and backward."""
    leaf, cotangent = x.clone().requires_grad_(), torch.ones_like(x)
    return lambda: torch.autograd.grad(call(leaf), (leaf,), (cotangent,))


def recording(measure: Callable[[], float]) -> Callable[[], float]:
    """The same in grad mode."""
    return torch.enable_grad()(measure)


def gradient_cases(ours: Any, theirs: Any, x: torch.Tensor) -> list[Case]:
    """Forward and backward of an op, in eager code and in a graph."""

    def in_graph(op: Callable[[Any], Any]) -> Callable[[int], Callable[[], Any]]:
        return lambda length: with_gradient(compiled_program(op, length), x)

    ops = differentiable_ops(ours, theirs)
    others = {
        "C++ autograd::Function": torch.ops.benchmark_typed.touch_vjp.default,
        "torch.neg": torch.neg,
    }
    with torch.enable_grad():
        eager = [
            Contender(name, recording(call("f()", {"f": with_gradient(op, x)}, 2_000)))
            for name, op in {**ops, **others}.items()
        ]
        graph = [
            Contender(name, recording(chain(in_graph(op), SHORT, LONG, 100)))
            for name, op in ops.items()
        ]
    return [
        Case("torch eager: op and its gradient", eager),
        Case("torch.compile: op and its gradient in a graph", graph),
    ]


def in_place_op(function: Any, count: int, *, release_gil: bool = True) -> Any:
    """An op of that many tensors, of which it writes the last."""
    operands = ", ".join(f"Tensor x{i}" for i in range(count - 1))
    function.release_gil = release_gil
    op = graphffi.define_op(
        f"benchmark::write_{count}_{'free' if release_gil else 'held'}",
        schema=f"({operands}, Tensor(a!) out) -> ()",
        kernel=function,
    )
    function.release_gil = True
    return op


def calls_of(count: int, contenders: dict[str, Any]) -> list[Contender]:
    """Calls of each with that many tensors."""
    tensors = {f"x{i}": torch.ones(16) for i in range(count)}
    statement = f"f({', '.join(tensors)})"
    return [
        Contender(name, call(statement, {**tensors, "f": f}, 5_000))
        for name, f in contenders.items()
    ]


@torch.enable_grad()
def in_grad_mode(write: Any, theirs: Any) -> list[Contender]:
    """Calls in grad mode, with views, which then carry autograd metadata."""
    names = {"x": torch.ones(32)[:16], "out": torch.empty(32)[:16]}
    contenders = {"graphffi op": write, "apache tvm_ffi.Function": theirs.touch}
    return [
        Contender(name, recording(call("f(x, out)", {**names, "f": f})))
        for name, f in contenders.items()
    ]


def recorder_case(function: Any, names: dict[str, Any]) -> Case:
    """Calls without the recorder, and the same calls recorded at level 1."""
    plain = call("f(x, out)", {**names, "f": function}, 2_000)

    def recorded() -> float:
        with tempfile.TemporaryDirectory() as folder, graphffi.record(folder):
            return plain()

    contenders = [Contender("graphffi Function", plain), Contender("recorded, level 1", recorded)]
    return Case("torch eager: function, recorder off and on", contenders)


def by_argument_count(ours: Any, theirs: Any, count: int) -> Case:
    """Calls with that many tensors, of which the last is written."""
    contenders = {
        "graphffi op, in place": in_place_op(ours.touch_many, count),
        "graphffi Function": ours.touch_many,
        "apache tvm_ffi.Function": theirs.touch_many,
    }
    return Case(f"torch eager: {count} tensors", calls_of(count, contenders))


def holding_the_gil(ours: Any, theirs: Any, count: int) -> Case:
    """The same calls of an op that keeps the GIL while its kernel runs."""
    contenders = {
        "graphffi op, release_gil=False": in_place_op(ours.touch_many, count, release_gil=False),
        "apache tvm_ffi.Function": theirs.touch_many,
    }
    return Case(f"torch eager: {count} tensors, GIL held", calls_of(count, contenders))


def raw_call(reference: str) -> Callable[[Any], Any]:
    """A call of a kernel by its reference, without an op."""
    primitive = torch.ops.tvm_ffi.call.default

    def call_by_reference(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        primitive(reference, [x], [out], "i0, o0")
        return out

    return call_by_reference


def direct_call(function: Any) -> Callable[[Any], Any]:
    """A direct call of a function, without an op."""

    def call_directly(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        function(x, out)
        return out

    return call_directly


def direct_case(ours: Any, op: Any, x: torch.Tensor) -> Case:
    """Direct calls in a graph, against an op; that of which nothing is declared writes both."""
    graphffi.declare(ours.touch_many, writes=(1,))
    contenders = {
        "direct call": direct_call(ours.touch),
        "direct call, declared": direct_call(ours.touch_many),
        "graphffi op": op,
    }
    graph = [Contender(n, chain(compiled_chain(f, x), SHORT, LONG)) for n, f in contenders.items()]
    return Case("torch.compile: direct call in a graph", graph)


def raw_cases(ours: Any, op: Any, x: torch.Tensor, out: torch.Tensor) -> list[Case]:
    """Calls by reference, against an op in graphs and packages, and a handwritten operator."""
    graphffi.register_global_func("benchmark.touch", ours.touch)
    raw, of_library = raw_call("benchmark.touch"), raw_call(ours.touch.reference)
    contenders = {"global function": raw, "library.so::symbol": of_library, "graphffi op": op}
    boxed = torch.ops.benchmark_boxed.call.default
    eager = {
        "torch.ops.tvm_ffi.call": (torch.ops.tvm_ffi.call.default, "benchmark.touch"),
        "generic boxed op": (boxed, "touch"),
    }
    names = {"x": x, "out": out, "call": graphffi.call_tvm_ffi, "like": graphffi.like}
    helper = {
        "call_tvm_ffi, result": "call('benchmark.touch', x, out=like(x))",
        "call_tvm_ffi, in place": "call('benchmark.touch', x, out, mutates=[1])",
    }
    return [
        Case(
            "torch.compile: raw call in a graph",
            [Contender(n, chain(compiled_chain(f, x), SHORT, LONG)) for n, f in contenders.items()],
        ),
        Case(
            "AOTInductor: raw call in a package",
            [Contender(n, chain(packaged_chain(f, x), SHORT, LONG)) for n, f in contenders.items()],
        ),
        Case(
            "torch eager: raw call",
            [
                Contender(
                    n, call(f"f({name!r}, [x], [out], 'i0, o0', [], [], [], '')", {**names, "f": f})
                )
                for n, (f, name) in eager.items()
            ],
        ),
        Case(
            "torch eager: graphffi.call_tvm_ffi",
            [Contender(n, call(statement, names, 5_000)) for n, statement in helper.items()],
        ),
    ]


def cases(library: Path) -> list[Case]:
    """All cases of this group, on one CPU thread and without gradients."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    # Warnings of torch's modules about each other.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="dynamo_pgo")
    ours = graphffi.load_module(str(library))
    theirs = tvm_ffi.load_module(str(library))
    for source in ("typed_op.cc", "boxed_op.cc"):
        torch.ops.load_library(str(native.torch_op(source)))
    op = graphffi.define_op(
        "benchmark::touch",
        schema="(Tensor x) -> Tensor",
        kernel=ours.touch,
        infer=graphffi.like,
    )
    custom, typed = custom_op(theirs.touch), torch.ops.benchmark_typed.touch.default
    x, out = torch.ones(16), torch.empty(16)
    names = {"x": x, "out": out}
    eager = [
        Contender("graphffi op", call("f(x)", {**names, "f": op})),
        Contender("torch.library.custom_op", call("f(x)", {**names, "f": custom}, 5_000)),
        Contender("typed C++ op", call("f(x)", {**names, "f": typed})),
    ]
    write, held = in_place_op(ours.touch, 2), in_place_op(ours.touch, 2, release_gil=False)
    apache = Contender("apache tvm_ffi.Function", call("f(x, out)", {**names, "f": theirs.touch}))
    in_place = [Contender("graphffi op", call("f(x, out)", {**names, "f": write})), apache]
    in_place_held = [
        Contender("graphffi op, release_gil=False", call("f(x, out)", {**names, "f": held})),
        apache,
    ]
    graph = [
        Contender("graphffi op", chain(compiled_chain(op, x), SHORT, LONG)),
        Contender("typed C++ op", chain(compiled_chain(typed, x), SHORT, LONG)),
        Contender("torch.library.custom_op", chain(compiled_chain(custom, x), SHORT, LONG)),
    ]
    packages = [
        Contender("graphffi op", chain(packaged_chain(op, x), SHORT, LONG)),
        Contender("typed C++ op", chain(packaged_chain(typed, x), SHORT, LONG)),
    ]
    function = [
        Contender("graphffi Function", call("f(x, out)", {**names, "f": ours.touch})),
        apache,
    ]
    compiling = [
        Contender("graphffi op", compile_time(op, x, MANY)),
        Contender("typed C++ op", compile_time(typed, x, MANY)),
    ]
    many = [
        Contender("graphffi op", chain(compiled_chain(op, x), SHORT, MANY, 30)),
        Contender("typed C++ op", chain(compiled_chain(typed, x), SHORT, MANY, 30)),
    ]
    return [
        Case("torch eager: function of 2 tensors", function),
        recorder_case(ours.touch, names),
        Case("torch eager: op that allocates its result", eager),
        Case("torch eager: op that writes its operand", in_place),
        Case("torch eager: op that writes its operand, grad mode on", in_grad_mode(write, theirs)),
        Case("torch eager: op that writes its operand, GIL held", in_place_held),
        *(by_argument_count(ours, theirs, count) for count in (3, 8, 14, 51)),
        *(holding_the_gil(ours, theirs, count) for count in (3, 8)),
        Case("torch.compile: op in a graph", graph),
        Case(f"torch.compile: op in a graph of {MANY:,} calls", many),
        Case("AOTInductor: op in a package", packages),
        Case(
            f"torch.compile: compiling one of {MANY:,} calls",
            compiling,
            unit="ms",
            scale=1e-6,
            rounds=2,
        ),
        direct_case(ours, op, x),
        *raw_cases(ours, op, x, out),
        *gradient_cases(ours, theirs, x),
    ]
