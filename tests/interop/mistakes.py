# SPDX-License-Identifier: Apache-2.0
"""Mistakes in calls of the ops of test_errors_everywhere, and what every framework says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import torch

import graphffi

if TYPE_CHECKING:
    from collections.abc import Callable


def as_float32(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) else x.astype("float32")


def as_bfloat16(x: Any) -> Any:
    return x.bfloat16() if isinstance(x, torch.Tensor) else x.astype(ml_dtypes.bfloat16)


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
