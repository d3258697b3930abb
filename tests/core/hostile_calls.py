# SPDX-License-Identifier: Apache-2.0
"""A program that calls every entry point of graphffi with arguments of any kind, at random.

    python hostile_calls.py KERNELS CALLS SEED FIRST

Whatever an argument is, a call may only return or raise one of Python's ordinary exceptions. The
program prints each unexpected one; where it crashes, the last line of the file ``last_call`` in the
current folder says what was called. FIRST skips the calls before it, to come to one fast.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import os
import random
import resource
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hostile_values import fail, make_values, return_itself

import graphffi
import graphffi.cpp
from graphffi import _core, plugin

DEFECTS = (SystemError, AssertionError, UnboundLocalError, NameError)
# Not of the binding: start a compiler or a debugger, hand out the process, or by contract trust
# what they are told.
EXCLUDED = {
    "graphffi.plugin.build_archive",
    "graphffi.plugin.register_framework",
    "_core.register_class",
}
MEMORY_LIMIT = 12 << 30


def is_defect(error: Exception) -> bool:
    """Whether it means a defect of graphffi, whatever the arguments were."""
    return isinstance(error, DEFECTS) or getattr(error, "kind", "") == "InternalError"


class Entry:
    """One thing to call."""

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name, self.call = name, call
        self.keywords: list[str] = []
        with contextlib.suppress(TypeError, ValueError):
            self.keywords = [p for p in inspect.signature(call).parameters if p.isidentifier()]


def public_entries(module: types.ModuleType, prefix: str) -> list[Entry]:
    """The functions and classes of a module, and the methods of its classes, unbound."""
    entries = []
    for name, value in sorted(vars(module).items()):
        if name.startswith("__") or isinstance(value, types.ModuleType) or not callable(value):
            continue
        if module is not _core and name.startswith("_"):
            continue
        entries.append(Entry(f"{prefix}.{name}", value))
        if isinstance(value, type) and not issubclass(value, BaseException):
            for method in sorted(dir(value)):
                function = getattr(value, method, None)
                if (
                    callable(function)
                    and method not in dir(object)
                    and not method.startswith("__class")
                ):
                    entries.append(Entry(f"{prefix}.{name}.{method}", function))
    return [entry for entry in entries if entry.name not in EXCLUDED]


def kernel_entries(kernels: graphffi.Module) -> list[Entry]:
    """The kernels of the tests, and ops of them."""
    names = [
        "echo",
        "type_index",
        "sum",
        "add_one",
        "twice",
        "count_tensors",
        "product",
        "call",
        "count",
        "raise",
    ]
    entries = [Entry(f"kernels.{name}", kernels[name]) for name in names]
    schema = (
        "(Tensor x, Tensor? y, Tensor[] zs, int n=1, float f=0.5, str s='', bool b=True, "
        "int[] ns=[], dtype? d=None)"
    )
    for number, result in ((1, "Tensor"), (2, "(Tensor p, Tensor q)")):
        op = graphffi.define_op(
            f"hostile::op{number}",
            schema=f"{schema} -> {result}",
            kernel=kernels.count,
            infer=lambda x, *_, number=number: (x,) * number,
        )
        entries.append(Entry(op.name, op))
    return entries


def right_calls(kernels: graphffi.Module) -> list[tuple[Entry, list[Any]]]:
    """Calls that succeed, of which an argument or two will be replaced."""
    x = np.ones((2, 3), "float32")
    tensor = graphffi.from_dlpack(x)
    schema = "(Tensor x, float f=0.5) -> Tensor"
    op = graphffi.define_op(
        "hostile::right", schema=schema, kernel=kernels.count, infer=lambda x, _: x
    )

    def export(*args: Any) -> object:
        names = ("stream", "max_version", "dl_device", "copy")
        return tensor.__dlpack__(**dict(zip(names, args, strict=True)))

    def same(x: Any, _: Any) -> Any:
        return x

    def like(shape: Any, dtype: Any, x: Any) -> Any:
        return graphffi.like(x, shape=shape, dtype=dtype)

    calls: list[tuple[Callable[..., Any], list[Any]]] = [
        (_core.call_plan, [kernels.echo, "i0, n0, f0, s0, o0", [x], [x], [1], [1.5], ["s"], "op"]),
        (_core.call_plan, [kernels.count_tensors, "(i0, i1)", [x, x], [], [], [], [], "op"]),
        (_core.check_plan, ["i0, dtype(s0)", (1, 0, 0, 0, 1), "op"]),
        (_core.describe_function, [kernels.echo, "name", "reference", "doc"]),
        (_core.empty, [[2, 3], "float32", "cpu"]),
        (_core.reinterpret, [graphffi.empty([4], "uint8"), "int8"]),
        (kernels.echo, [x, tensor, 1, 2.5, "text", [x, tensor], {"k": [x]}, None]),
        (kernels.count_tensors, [[x, tensor]]),
        (kernels.product, [graphffi.Shape([2, 3])]),
        (kernels.call, [fail, x]),
        (kernels.call, [return_itself, [1, "two"]]),
        (export, [None, (1, 0), (1, 0), None]),
        (graphffi.call_tvm_ffi, [kernels.count, x, 1, "text", [x], None]),
        (graphffi.define_op, ["hostile::again", schema, kernels.count, "x, f, out", same]),
        (op, [x, 0.5]),
        (lambda *args: graphffi.use_stream(*args).__enter__(), ["cuda:1", 64]),
        (graphffi.register_global_func, ["hostile.function", fail]),
        (like, [(2,), "int8", graphffi.TensorSpec((2,), graphffi.dtype("int8"), None)]),
    ]
    return [(Entry(getattr(call, "__name__", None) or "call", call), args) for call, args in calls]


def builtin_entries() -> list[Entry]:
    """The runtime's own functions, where the runtime is ours."""
    if graphffi.runtime_info().kind != "bundled":
        return []
    # Taking the runtime's functions away is allowed, but ends the test.
    names = [
        n for n in graphffi.list_global_func_names() if n.startswith("ffi.") and "Remove" not in n
    ]
    return [Entry(name, graphffi.get_global_func(name)) for name in names]


def main(kernels_path: str, calls: int, seed: int, first: int) -> int:
    """Makes the calls; returns the number of unexpected exceptions."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    kernels = graphffi.load_module(kernels_path)
    values = make_values(kernels)
    entries = kernel_entries(kernels) + builtin_entries()
    modules = {"graphffi": graphffi, "graphffi.plugin": plugin, "_core": _core}
    for prefix, module in modules.items():
        entries += 2 * public_entries(module, prefix)
    of_cpp = (graphffi.cpp.cuda_module, graphffi.cpp.export_library)
    entries += [Entry(f"graphffi.cpp.{function.__name__}", function) for function in of_cpp]
    nearly_right = right_calls(kernels)
    chosen, found = random.Random(seed), 0
    last_call = os.open("last_call", os.O_WRONLY | os.O_CREAT)
    for number in range(calls):
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        if chosen.random() < 0.4:
            entry, right = chosen.choice(nearly_right)
            indices = [chosen.randrange(len(values)) for _ in range(chosen.choice((1, 1, 2)))]
            args = list(right)
            for index in indices:
                args[chosen.randrange(len(args))] = values[index]
        else:
            entry = chosen.choice(entries)
            count = chosen.choice((0, 1, 1, 1, 2, 2, 3, 4, 8))
            indices = [chosen.randrange(len(values)) for _ in range(count)]
            args = [values[i] for i in indices]
            while entry.keywords and args and chosen.random() < 0.3:
                kwargs[chosen.choice(entry.keywords)] = args.pop()
        line = f"{number} {entry.name} values {indices} keywords {sorted(kwargs)}"
        os.pwrite(last_call, line.ljust(400).encode() + b"\n", 0)
        if number < first:
            continue
        try:
            result = entry.call(*args, **kwargs)
            if isinstance(result, (graphffi.Tensor, graphffi.Function)) and chosen.random() < 0.1:
                values.append(result)
        except Exception as error:
            if is_defect(error):
                found += 1
                print(f"{line}: {type(error).__name__}: {error}")
    return found


if __name__ == "__main__":
    path, *numbers = sys.argv[1:]
    sys.stdout.reconfigure(errors="backslashreplace")
    sys.setrecursionlimit(3000)
    status = main(path, *map(int, numbers))
    print(f"{Path(path).name}: {status} unexpected exceptions")
    sys.stdout.flush()
    # What the calls left behind may not be fit for an orderly end; the test is of the calls.
    os._exit(status != 0)
