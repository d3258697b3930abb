# SPDX-License-Identifier: Apache-2.0
"""Direct calls in code of FlashInfer's shape, in a process of apache's runtime."""

from __future__ import annotations

import pytest

from tests.torch_plugin.test_apache_calls import run

pytestmark = [pytest.mark.needs("tvm_ffi"), pytest.mark.slow]

BEGIN = """
import torch
import graphffi_torch
from tests import flashinfer_shape as fi

CALL = torch.ops.tvm_ffi.call.default


def keep(name, *keys):
    getter = getattr(fi, name)
    made = {key: getter(*key) for key in keys or [()]}
    setattr(fi, name, lambda *key: made[key])


keep("get_module")
keep("get_activation", ("silu",))
keep("get_function", ("rope",))
decode = fi.Decode(torch.zeros(4))


def layer(decode, x, residual, w, positions, cache):
    fi.fused_add_rmsnorm(x, residual, w)
    q, k, v = x[:, :4] * 1, x[:, 4:] * 1, x[:, 4:] + 1
    fi.rope_inplace(positions, q, k, 2)
    fi.append(k, v, cache)
    o = decode.run(q, cache)
    return fi.rmsnorm(fi.silu_and_mul(torch.cat([o, o + 1], 1)), w[:4])


def inputs(rows):
    sizes = (rows, 8), (rows, 8), (8,), (rows,), (rows, 2, 4)
    return [torch.arange(float(torch.Size(s).numel())).reshape(s) for s in sizes]
"""
LAYER = """
from torch._dynamo.backends.registry import lookup_backend

calls = []


def counting(graph, examples):
    calls.append(len(graph.graph.find_nodes(op="call_function", target=CALL)))
    return lookup_backend(backend)(graph, examples)


def compare(rows, pages):
    decode.plan(rows, pages)
    given, expected = inputs(rows), inputs(rows)
    torch.testing.assert_close(compiled(decode, *given), layer(decode, *expected))
    torch.testing.assert_close(given, expected)


for backend in ("aot_eager", "inductor"):
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counting)
    compare(3, 7)
    with torch.compiler.set_stance("fail_on_recompile"):
        compare(5, 7)
        compare(4, 9)
assert set(calls) == {6}, calls
"""


def test_a_layer_is_one_graph_with_one_node_a_call() -> None:
    run(BEGIN + LAYER)
