# SPDX-License-Identifier: Apache-2.0
"""Calls of a CUDA kernel from PyTorch and JAX: not a part of a full run, since it needs a GPU.

The kernel has one thread, so that a call costs little more than its launch. "Until done" is timed
by the clock and ends when the GPU has no more work; "host" is processor time of this process.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import native
import torch
import torch_cases
import tvm_ffi
from timing import Case, Contender, call

import graphffi
import graphffi_torch

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
SHORT, LONG, ROUNDS = 10, 50, 9
LAUNCHES = 500
UNTIL_DONE = "until done"


def until_done(run: Callable[[], Any], calls: int, wait: Callable[[], None]) -> Callable[[], float]:
    """Nanoseconds for a call, by the clock, until the device has done all of them."""
    run()
    wait()

    def measure() -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        wait()
        return (time.perf_counter() - begin) / calls * 1e9

    return measure


def chain(
    build: Callable[[int], Callable[[], Any]],
    wait: Callable[[], None],
    *,
    is_recorded: bool = False,
) -> Callable[[], float]:
    """The cost of one more call in a graph, until the device is done.

    A recorded call costs the device a microsecond, and entering its graph costs the host a hundred,
    which hides short graphs.
    """
    short, long = (200, 1200) if is_recorded else (SHORT, LONG)
    few, many = (until_done(build(length), 100, wait) for length in (short, long))

    def measure() -> float:
        # The fastest of three turns each: a disturbance must not look like a negative cost.
        small, large = (min(program() for _ in range(3)) for program in (few, many))
        return (large - small) / (long - short)

    return measure


def launch_alone(ours: Any, x: torch.Tensor, *, is_recorded: bool = False) -> Contender:
    """The floor of all calls: launches from C++, or those in a CUDA graph."""
    out = torch.empty_like(x)

    def build(length: int) -> Callable[[], Any]:
        if not is_recorded:
            return lambda: ours.touch_times(x, out, length)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            ours.touch_times(x, out, length)
        return graph.replay

    return Contender(
        "the launch alone", chain(build, torch.cuda.synchronize, is_recorded=is_recorded)
    )


def eager_cases(ours: Any, theirs: Any, ops: dict[str, Any], x: torch.Tensor) -> list[Case]:
    """Calls without a graph."""
    out = torch.empty_like(x)
    write = graphffi.define_op(
        "benchmark_cuda::write", schema="(Tensor x, Tensor(a!) out) -> ()", kernel=ours.touch
    )
    functions = {"graphffi Function": ours.touch, "apache tvm_ffi.Function": theirs.touch}
    written = {"graphffi op": write, "apache tvm_ffi.Function": theirs.touch}
    wait = torch.cuda.synchronize

    def host(f: Any, *args: Any) -> Callable[[], float]:
        names = {"f": f, **{f"a{i}": arg for i, arg in enumerate(args)}}
        measured = call(f"f({', '.join(f'a{i}' for i in range(len(args)))})", names, LAUNCHES)

        def measure() -> float:
            wait()  # a full queue of launches would be waited for
            return measured()

        return measure

    def done(f: Any, *args: Any) -> Callable[[], float]:
        return until_done(lambda: f(*args), LAUNCHES, wait)

    found = []
    for title, contenders, args in (
        ("function of 2 tensors", functions, (x, out)),
        ("op that writes its operand", written, (x, out)),
        ("op that allocates its result", ops, (x,)),
    ):
        for unit, measure in (("host", host), (UNTIL_DONE, done)):
            measured = [Contender(n, measure(f, *args)) for n, f in contenders.items()]
            if unit == UNTIL_DONE:
                measured.append(launch_alone(ours, x))
            found.append(Case(f"CUDA, torch eager: {title}, {unit}", measured, rounds=ROUNDS))
    return found


def graph_cases(launched: Any, ops: dict[str, Any], x: torch.Tensor) -> Iterator[Case]:
    """Calls in torch's graphs, packages and libraries."""
    wait = torch.cuda.synchronize

    def compiled(op: Any, **options: Any) -> Callable[[int], Callable[[], Any]]:
        def build(length: int) -> Callable[[], Any]:
            program = torch_cases.compiled_program(op, length, **options)
            for _ in range(4):  # compiles, warms up, records
                program(x)
            return lambda: program(x)

        return build

    def library(op: Any) -> Callable[[int], Callable[[], Any]]:
        def build(length: int) -> Callable[[], Any]:
            exported = torch.export.export(torch_cases.Chain(op, length), (x,))
            path = native.OUTPUT / f"cuda_chain{length}.so"
            main = graphffi.load_module(graphffi_torch.to_library(exported, path)).main
            return lambda: main(x)

        return build

    def contenders(make: Any, names: Any, **options: Any) -> list[Contender]:
        return [Contender(name, chain(make(ops[name]), wait, **options)) for name in names]

    ours, typed, *_ = ops
    yield Case(
        "CUDA, torch.compile: op in a graph",
        [*contenders(compiled, ops), launch_alone(launched, x)],
        rounds=ROUNDS,
    )
    recorded = contenders(
        lambda op: compiled(op, mode="reduce-overhead"), (ours, typed), is_recorded=True
    )
    yield Case(
        "CUDA, torch.compile, reduce-overhead: op in a graph",
        [*recorded, launch_alone(launched, x, is_recorded=True)],
        rounds=ROUNDS,
    )
    packages = contenders(lambda op: torch_cases.packaged_chain(op, x), (ours, typed))
    packages.append(Contender("graphffi op, to_library", chain(library(ops[ours]), wait)))
    packages.append(launch_alone(launched, x))
    yield Case("CUDA, AOTInductor: op in a package", packages, rounds=ROUNDS)


def jax_cases(library: Path, ours: Any, theirs: Any, floor: torch.Tensor) -> Iterator[Case]:
    """Chains in JAX, with and without XLA's command buffers."""
    import jax
    import jax_tvm_ffi
    from jax_cases import ffi_call

    x = jax.numpy.ones(16)
    handlers = ctypes.CDLL(str(native.xla_cuda_handler(library)))

    def wait() -> None:
        (x + 1).block_until_ready()  # the device's work is done in order

    def contender(name: str, op: Any, *, is_recorded: bool) -> Contender:
        options = {"xla_gpu_graph_min_graph_size": 1} if is_recorded else {}

        def build(length: int) -> Callable[[], Any]:
            def program(value: Any) -> Any:
                for _ in range(length):
                    value = op(value)
                return value

            compiled = jax.jit(program).lower(x).compile(options)
            compiled(x)
            return lambda: compiled(x)

        return Contender(name, chain(build, wait, is_recorded=is_recorded))

    for is_recorded in (True, False):
        title = "recorded" if is_recorded else "not recorded"
        target = f"peer.cuda_{title.replace(' ', '_')}"
        jax_tvm_ffi.register_ffi_target(
            target, theirs.touch, ["args", "rets"], platform="gpu", allow_cuda_graph=is_recorded
        )
        op = graphffi.define_op(
            f"benchmark_cuda::{'recorded' if is_recorded else 'touch_jax'}",
            schema="(Tensor x) -> Tensor",
            kernel=ours.touch,
            infer=graphffi.like,
            allow_cuda_graph=is_recorded,
        )
        handler = handlers.touch_recorded if is_recorded else handlers.touch
        raw = target.replace("peer", "raw")
        jax.ffi.register_ffi_target(raw, jax.ffi.pycapsule(handler), platform="CUDA")
        contenders = {
            "graphffi op": op,
            "jax-tvm-ffi": ffi_call(target),
            "raw XLA FFI handler": ffi_call(raw),
        }
        measured = [contender(n, f, is_recorded=is_recorded) for n, f in contenders.items()]
        measured.append(launch_alone(ours, floor, is_recorded=is_recorded))
        yield Case(f"CUDA, jax.jit: op, {title}", measured, rounds=ROUNDS)


def cases() -> Iterator[Case]:
    """All cases for which there are a GPU and packages."""
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks: cuda: expected a GPU for torch, got none")
    torch.set_grad_enabled(False)
    torch._dynamo.config.recompile_limit = 64  # torch takes the programs for variants of one
    warnings.filterwarnings("ignore", category=FutureWarning)
    library = Path(graphffi.cpp.build("benchmark_cuda", [native.source("cuda_kernels.cu")]))
    ours, theirs = graphffi.load_module(library), tvm_ffi.load_module(str(library))
    torch.ops.load_library(str(native.typed_cuda_op(library)))
    op = graphffi.define_op(
        "benchmark_cuda::touch_ours",
        schema="(Tensor x) -> Tensor",
        kernel=ours.touch,
        infer=graphffi.like,
        allow_cuda_graph=True,
    )
    ops = {
        "graphffi op": op,
        "typed C++ op": torch.ops.benchmark_typed_cuda.touch.default,
        "torch.library.custom_op": torch_cases.custom_op(theirs.touch, "touch_cuda"),
    }
    x = torch.ones(16, device="cuda")
    yield from eager_cases(ours, theirs, ops, x)
    yield from graph_cases(ours, ops, x)
    if importlib.util.find_spec("jax_tvm_ffi"):
        yield from jax_cases(library, ours, theirs, x)
