# SPDX-License-Identifier: Apache-2.0
"""One of two processes that share DTensors; run by test_dtensor.py with its rank and a file."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import torch.distributed as dist

import graphffi
from graphffi import Tensor


def normalize(x: Any, weight: Any, out: Any) -> None:
    x, weight = torch.from_dlpack(x), torch.from_dlpack(weight)
    torch.from_dlpack(out).copy_(x / x.pow(2).mean(-1, keepdim=True).sqrt() * weight)


def accumulate(x: Any, xs: Any, total: Any) -> None:
    for item in (x, *xs):
        if item is not None:
            torch.from_dlpack(total).add_(torch.from_dlpack(item))


def weigh(x: Any, weight: Any, out: Any, double: Any) -> None:
    x, weight = torch.from_dlpack(x), torch.from_dlpack(weight)
    torch.from_dlpack(out).copy_(x * weight)
    torch.from_dlpack(double).copy_(x * 2)


graphffi.register_global_func("dtensor.weigh", weigh)
graphffi.register_global_func("dtensor.normalize", normalize)
graphffi.register_global_func("dtensor.accumulate", accumulate)
NORMALIZE = graphffi.get_global_func("dtensor.normalize")
graphffi.declare(NORMALIZE, writes=(2,))


@graphffi.op("dtensor::norm", kernel="dtensor.normalize", dims="... [h], [h] -> ... [h]")
def norm(x: Tensor, weight: Tensor) -> Tensor:
    return graphffi.like(x)


@graphffi.op("dtensor::whole", kernel="dtensor.normalize")
def whole(x: Tensor, weight: Tensor) -> Tensor:
    hidden = x.size(-1)
    got = weight.size(0)
    graphffi.check(got == hidden, f"operand 'weight': expected {hidden}, got {got}")
    return graphffi.like(x)


@graphffi.op(
    "dtensor::accumulate",
    kernel="dtensor.accumulate",
    plan="x, xs, total",
    mutates="total",
    dims="b [h], b [h], b [h]",
)
def accumulated(x: Tensor | None, xs: list[Tensor], total: Tensor) -> None:
    pass


weighed = graphffi.define_op(
    "dtensor::weighed",
    schema="(Tensor x, Tensor weight) -> (Tensor out, Tensor double)",
    kernel="dtensor.weigh",
    infer=lambda x, weight: (graphffi.like(x), graphffi.like(x)),
    dims="b h, h -> b h, b h",
)
weighed.register_vjp(
    lambda saved, grad, grad_double: (
        grad * saved.weight + grad_double * 2,
        (grad * saved.x).sum(0),
    ),
    save=("x", "weight"),
)


def check_gradients(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.manual_seed(0)
    x, weight = torch.randn(4, 6), torch.randn(6)
    for given in (Shard(0), Replicate()):
        shards = distribute_tensor(x, mesh, [given]).requires_grad_()
        everywhere = distribute_tensor(weight, mesh, [Replicate()]).requires_grad_()
        for i, expected in ((0, (weight.expand(4, 6), x.sum(0))), (1, (x * 0 + 2, weight * 0))):
            total = weighed(shards, everywhere)[i].sum()
            for got, want in zip(
                torch.autograd.grad(total, (shards, everywhere)), expected, strict=True
            ):
                torch.testing.assert_close(got.full_tensor(), want)


def check_results(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    torch.manual_seed(0)
    x, weight = torch.randn(4, 6, 8), torch.randn(8)
    expected = norm(x, weight)
    everywhere = distribute_tensor(weight, mesh, [Replicate()])
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    for given, got in (
        (Shard(0), Shard(0)),
        (Shard(1), Shard(1)),
        (Shard(2), Replicate()),
        (Replicate(), Replicate()),
    ):
        for call in (norm, compiled):
            y = call(distribute_tensor(x, mesh, [given]), everywhere)
            assert y.placements == (got,), (given, y.placements)
            torch.testing.assert_close(y.full_tensor(), expected)
    y = whole(distribute_tensor(x, mesh, [Shard(0)]), everywhere)
    assert y.placements == (Replicate(),)
    torch.testing.assert_close(y.full_tensor(), expected)


def check_updates(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    ones = torch.ones(4, 6)
    for given, other in ((Shard(0), Replicate()), (Replicate(), Shard(0)), (Shard(0), Shard(1))):
        total = distribute_tensor(torch.zeros(4, 6), mesh, [given])
        x = distribute_tensor(ones, mesh, [other])
        returned = accumulated(x, [x, x], total)
        assert returned is total
        accumulated(None, [], total)
        assert total.placements == (given,)
        torch.testing.assert_close(total.full_tensor(), ones * 3)
    plane = init_device_mesh("cpu", (1, 2))
    for where, placements, text in (
        (mesh, [Shard(1)], "got S"),
        (plane, [Shard(0), Replicate()], "placed alike on all dimensions of the mesh"),
    ):
        total = distribute_tensor(torch.zeros(4, 6), where, placements)
        x = distribute_tensor(ones, where, [Replicate()] * where.ndim)
        refusal = f"dtensor::accumulate: expected operands that are updated in place.*{text}"
        with pytest.raises(ValueError, match=refusal):
            accumulated(x, [], total)
        assert total.full_tensor().sum() == 0


def check_calls_without_definition(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def call(x: Any, weight: Any) -> Any:
        return graphffi.call_tvm_ffi("dtensor.normalize", x, weight, out=graphffi.like(x))

    def call_primitive(x: Any, weight: Any) -> Any:
        out = torch.empty_like(x)
        torch.ops.tvm_ffi.call("dtensor.normalize", [x, weight], [out])
        return out

    def call_directly(x: Any, weight: Any) -> Any:
        out = torch.empty_like(x)
        NORMALIZE(x, weight, out)
        return out

    x, weight = torch.randn(4, 8), torch.randn(8)
    expected = norm(x, weight)
    x, weight = (distribute_tensor(t, mesh, [Replicate()]) for t in (x, weight))
    part = distribute_tensor(torch.ones(4, 8), mesh, [Shard(0)])
    for run in (call, call_primitive, call_directly):
        for step in (run, torch.compile(run, fullgraph=True, backend="aot_eager")):
            y = step(x, weight)
            assert y.placements == (Replicate(),)
            torch.testing.assert_close(y.to_local(), expected)
            # DTensor wraps the error of an operator that eager code calls by its own name.
            kind = RuntimeError if step is call_primitive else ValueError
            with pytest.raises(kind, match=r"^dtensor\.normalize: expected DTensors that each"):
                step(part, weight)


def check_errors(mesh: Any) -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def call(x: Any) -> Any:
        return graphffi.call_tvm_ffi("dtensor.norm", x, out=graphffi.like(x))

    def effect(x: Any) -> Any:
        return graphffi.call_tvm_ffi("dtensor.norm", x, out=graphffi.like(x), has_side_effect=True)

    def mixed(x: Any, y: Any) -> Any:
        return graphffi.call_tvm_ffi("dtensor.norm", x, y, out=graphffi.like(x))

    x = distribute_tensor(torch.ones(4, 6), mesh, [Shard(0)])
    short = distribute_tensor(torch.ones(5), mesh, [Replicate()])
    for run, operands, kind, text in (
        (norm, (x, short), ValueError, "dtensor::norm: operand 'weight': expected size 6 of 'h'"),
        (whole, (x, short), ValueError, "dtensor::whole: operand 'weight': expected 6, got 5"),
        (norm, (x, torch.ones(6)), ValueError, "dtensor::norm: expected operands that are all DT"),
        (
            call,
            (x,),
            ValueError,
            "dtensor.norm: expected DTensors that each device has whole, got ",
        ),
        (effect, (short,), ValueError, "dtensor.norm: expected a call without side effects on DT"),
        (mixed, (short, torch.ones(5)), ValueError, "dtensor.norm: expected operands that are all"),
    ):
        with pytest.raises(kind) as eager:
            run(*operands)
        assert str(eager.value).startswith(text)
        with pytest.raises(kind) as traced:
            torch.compile(run, fullgraph=True, backend="aot_eager")(*operands)
        assert (type(traced.value), str(traced.value)) == (kind, str(eager.value))


def main() -> None:
    rank, store = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    from torch.distributed.tensor import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    check_results(mesh)
    # Torch 2.10's DTensor refuses operators that return nothing.
    if not torch.__version__.startswith("2.10."):
        check_updates(mesh)
        check_calls_without_definition(mesh)
    check_gradients(mesh)
    check_errors(mesh)
    dist.destroy_process_group()


main()
