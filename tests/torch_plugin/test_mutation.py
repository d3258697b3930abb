# SPDX-License-Identifier: Apache-2.0
"""Operands that are updated in place, and tensors that share memory: eager and in graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphffi
import graphffi_torch
from graphffi import Tensor

MODES = {
    "eager": lambda f: f,
    "aot_eager": lambda f: torch.compile(f, fullgraph=True, backend="aot_eager"),
    "inductor": lambda f: torch.compile(f, fullgraph=True),
    "dynamic": lambda f: torch.compile(f, fullgraph=True, dynamic=True),
}


@pytest.fixture(scope="module")
def maybe(kernels: Any) -> graphffi.Op:
    """Updates an operand that may be absent, and gives a result."""

    @graphffi.op(
        "mytest::maybe_update", kernel=kernels.masked, plan="x, cache, out", mutates=("cache",)
    )
    def maybe_update(x: Tensor, cache: Tensor | None = None) -> Tensor:
        return graphffi.like(x)

    return maybe_update


@pytest.fixture(scope="module")
def lists(kernels: Any) -> graphffi.Op:
    """Updates each tensor of a list."""

    def increment_all(*xs: Any) -> None:
        for x in xs[0]:
            torch.from_dlpack(x).add_(1)

    graphffi.register_global_func("mytest.increment_all", increment_all, override=True)
    return graphffi.define_op(
        "mytest::increment_all", schema="(Tensor(a!)[] xs) -> ()", kernel="mytest.increment_all"
    )


def two_views(ops: Any, x: torch.Tensor) -> Any:
    ops.increment(x[0])
    ops.increment(x[1], 10.0)
    return x * 2


def overlapping_views(ops: Any, x: torch.Tensor) -> Any:
    flat = x.view(-1)
    ops.increment(flat[1:5])
    ops.increment(flat[2:4], 10.0)
    return flat + x.reshape(-1)


def view_of_an_intermediate(ops: Any, x: torch.Tensor) -> Any:
    w = x * 3
    ops.increment(w[1])
    return w, w.sum()


def update_then_read_an_alias(ops: Any, x: torch.Tensor) -> Any:
    alias = x.view(-1)
    before = alias.sum()
    ops.increment(x, 2.0)
    return before, alias.clone()


def twice(ops: Any, x: torch.Tensor) -> Any:
    ops.increment(ops.increment(x), 3.0)
    return x.clone()


def result_of_an_update(ops: Any, x: torch.Tensor) -> Any:
    before, after = ops.increment_and_copy(x[:, 0].clone())
    return before + after


def copies_that_change_no_value(ops: Any, x: torch.Tensor) -> Any:
    part = x[:, 1:]
    copies = [part * 1, part + 0, part * torch.ones(2, 2), x[1:] / 1.0, part.repeat(1, 1)]
    for copy in copies:
        ops.increment(copy)
    return *copies, x * 2


def empty(ops: Any, x: torch.Tensor) -> Any:
    w = x[:0].clone()
    ops.increment(w)
    return w


def expected(f: Callable[..., Any], x: torch.Tensor) -> Any:
    """With torch's own operators."""

    class Ops:
        @staticmethod
        def increment(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
            return x.add_(by)

        @staticmethod
        def increment_and_copy(x: torch.Tensor) -> Any:
            return x.clone(), x.add_(1)

    return f(Ops, x)


FUNCTIONS = (
    two_views,
    overlapping_views,
    view_of_an_intermediate,
    update_then_read_an_alias,
    twice,
    result_of_an_update,
    copies_that_change_no_value,
    empty,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_updates_are_seen_where_torch_would_see_them(
    ops: Any, function: Callable[..., Any], mode: str
) -> None:
    x, reference = (torch.arange(6.0).reshape(2, 3) for _ in range(2))
    got = MODES[mode](lambda x: function(ops, x))(x)
    torch.testing.assert_close(got, expected(function, reference))
    torch.testing.assert_close(x, reference)


@pytest.mark.parametrize("mode", MODES)
def test_an_operand_to_update_may_be_absent(maybe: Any, mode: str) -> None:
    x = torch.ones(3)
    got, absent = MODES[mode](lambda x: maybe(x, None))(x)
    torch.testing.assert_close(got, x)
    assert absent is None
    got, cache = MODES[mode](maybe)(x, torch.full((1,), 2.0))
    torch.testing.assert_close(got, x + 2)
    assert cache.tolist() == [2.0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_lists_are_updated(lists: Any, mode: str, count: int) -> None:
    def call(x: torch.Tensor) -> Any:
        xs = [x[i] for i in range(count)]
        return lists(xs), x * 2

    x = torch.zeros(3, 2)
    updated, doubled = MODES[mode](call)(x)
    assert [t.tolist() for t in updated] == [[1.0, 1.0]] * count
    torch.testing.assert_close(doubled, x * 2)
    assert x[:, 0].tolist() == [1.0] * count + [0.0] * (3 - count)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_whose_results_nobody_reads_still_updates(ops: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        ops.increment_and_copy(x)
        ops.add(x)  # dead, and may go
        return x + 0

    x = torch.zeros(3)
    torch.testing.assert_close(MODES[mode](call)(x), torch.ones(3))
    assert x.tolist() == [1.0] * 3


@pytest.mark.parametrize("mode", MODES)
def test_both_branches_of_cond_call_ops(ops: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: ops.add(x, 1.0), lambda x: ops.add(x, 5.0), (x,))

    run = MODES[mode](call)
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 2.0))
    torch.testing.assert_close(run(-torch.ones(3)), torch.full((3,), 4.0))


@pytest.mark.parametrize("mode", ["eager", "inductor", "dynamic"])
def test_sizes_that_only_the_data_knows(ops: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        return ops.attributes(ops.add(x[x > 1]), n=2)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = MODES[mode](call)
        for x in (torch.arange(4.0), torch.arange(9.0), torch.zeros(2)):
            torch.testing.assert_close(run(x), x[x > 1] + 1 + call_offset())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex")
def test_updates_of_types_that_inductor_lacks(mode: str) -> None:
    def increment(x: Any) -> None:
        torch.from_dlpack(x).add_(1j)

    graphffi.register_global_func("mytest.increment_complex", increment, override=True)
    op = graphffi.define_op(
        "mytest::increment_complex",
        schema="(Tensor(a!) x) -> ()",
        kernel="mytest.increment_complex",
    )

    def call(x: torch.Tensor) -> Any:
        w = x * 2
        op(w[1])
        return op(x), w

    x = torch.ones(2, 2, dtype=torch.complex64)
    updated, w = MODES[mode](call)(x)
    assert x.tolist() == updated.tolist() == [[1 + 1j] * 2] * 2
    assert w.tolist() == [[2] * 2, [2 + 1j] * 2]


def call_offset() -> float:
    """What `attributes` adds by its defaults, with n=2."""
    return 2 + 2.0 + 100 + 3 + 16 + 1000 + 3


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("mode", ["eager", "inductor"])
def test_grad_modes(ops: Any, context: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> Any:
        w = x.clone()
        ops.increment(w)
        return ops.add(w, 1.0)

    with context():
        torch.testing.assert_close(MODES[mode](call)(torch.zeros(3)), torch.full((3,), 2.0))
    with torch.inference_mode():
        x = torch.zeros(3)
    torch.testing.assert_close(ops.add(x), torch.ones(3))


def test_updates_of_inference_tensors_stay_in_inference_mode(
    ops: Any, lists: graphffi.Op, kernels: Any
) -> None:
    with torch.inference_mode():
        x = torch.zeros(3)
        lists([ops.increment(x), torch.zeros(3)])
    name = "expected a tensor that may be updated outside of inference mode"
    for call, subject in (
        (lambda: ops.increment(x), "mytest::increment: operand 'x'"),
        (lambda: torch.ops.mytest.increment(x), "mytest::increment: operand 'x'"),
        (lambda: lists([torch.zeros(3), x]), "operand 'xs'"),
        (lambda: torch.ops.tvm_ffi.call("mytest.increment_all", [], [x]), "operand 'outputs'"),
    ):
        with torch.no_grad(), pytest.raises(RuntimeError, match=f"{subject}: {name}"):
            call()
    assert x.tolist() == [2.0] * 3


def test_updates_of_tensors_that_need_gradients_are_refused(ops: Any) -> None:
    x = torch.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="mytest::increment"):
        ops.increment(x)
    with torch.no_grad():
        ops.increment(x)
    assert x.tolist() == [1.0] * 3


def test_updates_bump_the_version(ops: Any) -> None:
    x = torch.zeros(3)
    y = torch.ones(3, requires_grad=True)
    product = x * y
    ops.increment(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.parametrize("mode", ["eager", "aot_eager"])
def test_functionalisation_sees_results_of_ops(ops: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = ops.add(x)
        y.view(-1)[0] = 9.0
        return y

    functional = (
        torch.func.functionalize(MODES[mode](call)) if mode == "eager" else MODES[mode](call)
    )
    assert functional(torch.zeros(2, 2)).tolist() == [[9.0, 1.0], [1.0, 1.0]]


class Wrapped(torch.Tensor):
    """A subclass that goes through __torch_function__ only."""


class Counting(torch.Tensor):
    """A subclass with __torch_dispatch__, around a plain tensor."""

    calls: list[str]

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Counting:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        seen.append(str(func))
        unwrap = torch.utils._pytree.tree_map_only(
            Counting, lambda t: t.inner, (args, kwargs or {})
        )
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, Counting, func(*unwrap[0], **unwrap[1])
        )


seen: list[str] = []


def test_subclasses_of_tensors(ops: Any) -> None:
    x = torch.zeros(3).as_subclass(Wrapped)
    assert ops.add(x).tolist() == [1.0] * 3
    seen.clear()
    y = ops.add(Counting(torch.zeros(3)), 2.0)
    assert isinstance(y, Counting)
    assert y.inner.tolist() == [2.0] * 3
    assert seen == ["mytest.add.default"]


def test_parameters_and_buffers(ops: Any) -> None:
    module = torch.nn.Module()
    module.register_buffer("state", torch.zeros(3))
    ops.increment(module.state)
    assert module.state.tolist() == [1.0] * 3
    weight = torch.nn.Parameter(torch.zeros(3), requires_grad=False)
    assert ops.increment(weight) is weight
    assert ops.add(weight).tolist() == [2.0] * 3


SHARED: dict[str, Callable[[torch.Tensor], tuple[Any, ...]]] = {
    "the input": lambda x: (x, x),
    "a part of the input": lambda x: (x[:2], x[1:3]),
    "one element of several": lambda x: (x[::2], x[2:]),
    "an expanded output": lambda x: (x[:2], torch.zeros(1).expand(2)),
}


@pytest.mark.parametrize("case", SHARED)
def test_an_output_that_shares_memory_is_refused(kernels: Any, case: str) -> None:
    x, out = SHARED[case](torch.arange(4.0))
    before = out.clone()
    with pytest.raises(ValueError, match=r"expected (memory of its own|elements that)"):
        torch.ops.tvm_ffi.call(kernels.add.reference, [x], [out], "i0, f0, o0", [], [1.0], [])
    torch.testing.assert_close(out, before)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "pairs as complex": torch.view_as_complex,
    "a part of pairs as complex": lambda x: torch.view_as_complex(x[1:]),
    "real parts": lambda x: torch.view_as_complex(x)[0].real,
    "bits": lambda x: x.view(torch.int16),
}


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex")
@pytest.mark.parametrize(
    ("case", "mode"),  # torch 2.13's Inductor refuses bits
    [(case, mode) for case in VIEWS for mode in ("aot_eager", "inductor") if case != "bits"]
    + [("bits", "aot_eager")],
)
def test_views_of_another_type_are_updated(case: str, mode: str) -> None:
    def double(x: Any) -> None:
        seen.append((x.dtype, x.shape))
        torch.from_dlpack(x).mul_(2)

    seen: list[Any] = []
    op = graphffi.define_op(
        "mytest::double_view",
        schema="(Tensor(a!) x) -> ()",
        kernel=double,
        strided=True,
        override=True,
    )

    def call(x: torch.Tensor) -> torch.Tensor:
        y = x.view(3, 2, 2) * 1
        op(VIEWS[case](y))
        return y

    x = torch.arange(1.0, 13).half() if case == "bits" else torch.arange(1.0, 13)
    expected = call(x)
    torch.testing.assert_close(MODES[mode](call)(x), expected, rtol=0, atol=0)
    module = torch.nn.Module()
    module.forward = call
    exported = torch.export.export(module, (x,)).run_decompositions()
    torch.testing.assert_close(exported.module()(x), expected, rtol=0, atol=0)
    assert seen == [seen[0]] * 3


def test_two_updated_operands_that_share_memory_are_refused(lists: Any) -> None:
    x = torch.zeros(4)
    with pytest.raises(ValueError, match="expected memory of its own, got memory shared"):
        lists([x[:3], x[2:]])
    assert x.tolist() == [0.0] * 4


def test_inputs_may_share_memory(ops: Any) -> None:
    x = torch.ones(3)
    assert ops.total_of([x, x, x], x).tolist() == [3.0] * 3


#: Names that torch's own functions for operators that update something have, too.
NAMES = [("mode", "_mutable_op"), ("self", "_all_bases"), ("_x_base_index", "updating_mode")]


@pytest.mark.parametrize("names", NAMES, ids=str)
def test_parameters_have_any_names(names: tuple[str, str]) -> None:
    def scale(x: Any, factor: int, dtype: Any) -> None:
        assert str(dtype) == "float32"
        torch.from_dlpack(x).mul_(factor)

    first, second = names
    op = graphffi.define_op(
        f"names::scale_{first}",
        schema=f"(Tensor(a!) x, int {first}, dtype {second}) -> ()",
        kernel="mytest.scale_by_name",
        plan=f"x, {first}, {second}",
    )
    graphffi.register_global_func("mytest.scale_by_name", scale, override=True)

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            op(y, **{second: torch.float32, first: 3})
            return y * 2

    x = torch.ones(3)
    program = torch.export.export(Model(), (x,)).run_decompositions()
    for model in (Model(), torch.compile(Model(), fullgraph=True), program.module()):
        assert model(x).tolist() == [12.0] * 3


class Counts(torch.nn.Module):
    """Counts its calls in a buffer without dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.count


@pytest.mark.slow
def test_a_package_counts_its_calls_in_a_buffer(tmp_path: Path) -> None:
    exported = torch.export.export(Counts(), (torch.zeros(2),))
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    model = graphffi_torch.load_package(path, trust=True)
    assert [model(torch.zeros(2)).tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]


class UpdatesARow(torch.nn.Module):
    """Adds one row of its input to the other, which begins at as many elements as it has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return graphffi.call_tvm_ffi("mytest.add_row", x[0], x[1], mutates=(1,)) * 2


@pytest.mark.slow
def test_a_row_of_an_input_is_updated_in_a_package(tmp_path: Path) -> None:
    def add_row(row: Any, total: Any) -> None:
        np.from_dlpack(total)[:] += np.from_dlpack(row)

    graphffi.register_global_func("mytest.add_row", add_row)
    columns = {"x": {1: torch.export.Dim("columns", min=1)}}
    exported = torch.export.export(UpdatesARow(), (torch.zeros(2, 3),), dynamic_shapes=columns)
    path = graphffi_torch.package(exported, tmp_path / "model.pt2")
    x = torch.arange(10.0).reshape(2, 5)
    assert graphffi_torch.load_package(path, trust=True)(x).tolist() == [10, 14, 18, 22, 26]
    assert x.tolist() == [[0, 1, 2, 3, 4], [5, 7, 9, 11, 13]]
