# SPDX-License-Identifier: Apache-2.0
"""Updates through inputs of graphs that share memory, layouts of any kind, and transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import graphffi
from tests.torch_plugin.test_mutation import MODES

every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def accumulate() -> graphffi.Op:
    """total += x, for tensors of any layout."""

    def kernel(total: Any, x: Any) -> None:
        torch.from_dlpack(total).add_(torch.from_dlpack(x))

    graphffi.register_global_func("mytest.accumulate", kernel, override=True)
    return graphffi.define_op(
        "mytest::accumulate",
        schema="(Tensor(a!) total, Tensor x) -> ()",
        kernel="mytest.accumulate",
    )


def run(mode: str, f: Callable[..., Any], *args: torch.Tensor) -> Any:
    return MODES[mode](f)(*args)


@every_mode
def test_two_inputs_that_are_views_of_one_base(accumulate: Any, mode: str) -> None:
    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        accumulate(a, torch.ones(3))
        accumulate(b, torch.full((3,), 10.0))
        return a + b

    base = torch.zeros(5)
    result = run(mode, call, base[:3], base[2:])
    assert base.tolist() == [1, 1, 11, 10, 10]
    assert result.tolist() == [12, 11, 21]


@every_mode
def test_one_tensor_that_is_two_inputs(accumulate: Any, mode: str) -> None:
    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        accumulate(a, torch.ones(3))
        return b * 2

    x = torch.zeros(3)
    assert run(mode, call, x, x).tolist() == [2.0] * 3
    assert x.tolist() == [1.0] * 3


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.T,
    "stepped": lambda x: x[:, ::2],
    "column": lambda x: x[:, 1],
    "diagonal": lambda x: x.as_strided((3,), (5,)),
    "empty": lambda x: x[:, :0],
    "0-d": lambda x: x[1, 2],
}


@every_mode
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", ["input", "intermediate"])
def test_tensors_of_any_layout_are_updated_in_place(
    accumulate: Any, mode: str, layout: str, where: str
) -> None:
    def call(x: torch.Tensor, add: Callable[..., Any]) -> Any:
        w = x * 2 if where == "intermediate" else x
        view = LAYOUTS[layout](w)
        add(view, (view * 3).clone())
        return w + 0

    x, reference = torch.arange(12.0).reshape(3, 4), torch.arange(12.0).reshape(3, 4)
    expected = call(reference, torch.Tensor.add_)
    torch.testing.assert_close(run(mode, lambda x: call(x, accumulate), x), expected)
    torch.testing.assert_close(x, reference)


@pytest.mark.parametrize("mode", ["eager", "inductor", "dynamic"])
def test_updates_of_sizes_that_only_the_data_knows(accumulate: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        large = x[x > 1]
        accumulate(large, large * 2)
        return large

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = MODES[mode](call)
        assert compiled(torch.arange(5.0)).tolist() == [6, 9, 12]
        assert compiled(torch.arange(4.0)).tolist() == [6, 9]
        assert compiled(torch.zeros(3)).tolist() == []


@every_mode
def test_expanded_operands_are_read(accumulate: Any, mode: str) -> None:
    def call(x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        accumulate(x, row.expand(2, 3))
        return x + 0

    x = torch.zeros(2, 3)
    assert run(mode, call, x, torch.arange(3.0)).tolist() == x.tolist() == [[0, 1, 2]] * 2


# aot_eager makes a call that returns new tensors of each, so that nothing is shared.
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "aot_eager"])
@pytest.mark.parametrize(
    ("operands", "message"),
    [
        (lambda base: (base[:4], base[2:6]), "got memory shared with operand 'x'"),
        (lambda base: (base[:1].expand(4), base[4:]), "got a tensor whose strides"),
        (lambda base: (base[:4].unfold(0, 2, 1), base[4:].view(2, 2)), "got a tensor whose"),
    ],
    ids=["overlapping", "expanded", "windows"],
)
def test_updates_of_what_is_shared_are_refused(
    accumulate: Any, mode: str, operands: Any, message: str
) -> None:
    def call(base: torch.Tensor) -> torch.Tensor:
        accumulate(*operands(base))
        return base + 0

    base = torch.arange(8.0)
    with pytest.raises(Exception, match=f"mytest::accumulate: .*'total'.*{message}"):
        run(mode, call, base)
    assert base.tolist() == list(range(8))


@every_mode
def test_branches_of_cond_update_what_they_made(accumulate: Any, mode: str) -> None:
    def updated(x: torch.Tensor) -> torch.Tensor:
        w = x.clone()
        accumulate(w[0], x[1])
        return w

    def call(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, updated, lambda x: x * 2, (x,))

    x = torch.ones(2, 2)
    assert run(mode, call, x).tolist() == [[2.0, 2.0], [1.0, 1.0]]
    assert run(mode, call, -x).tolist() == [[-2.0, -2.0]] * 2
    assert x.tolist() == [[1.0, 1.0]] * 2


def test_fake_tensors_follow_the_rule_and_call_no_kernel() -> None:
    def never(*_: Any) -> None:
        raise AssertionError("a kernel was called")

    graphffi.register_global_func("mytest.never", never, override=True)
    op = graphffi.define_op(
        "mytest::never",
        schema="(Tensor(a!) total, Tensor? x, Tensor[] xs) -> Tensor",
        kernel="mytest.never",
        infer=lambda total, x, xs: graphffi.empty((total.shape[0], len(xs)), "int32"),
    )
    mode = FakeTensorMode(shape_env=torch.fx.experimental.symbolic_shapes.ShapeEnv())
    for x in (mode.from_tensor(torch.ones(2, 3)), mode.from_tensor(torch.ones(2, 3).T)):
        result, total = op(x, None, [x, x])
        assert total is x
        assert type(result) is type(x)
        assert (result.shape[0], result.shape[1]) == (x.shape[0], 2)
        assert result.dtype == torch.int32


def test_fake_tensors_are_refused_by_the_rule_of_the_op(ops: Any) -> None:
    with (
        FakeTensorMode(),
        pytest.raises(ValueError, match="mytest::add: operand 'x': expected float32, got int32"),
    ):
        ops.add(torch.empty(3, dtype=torch.int32))


def test_functionalize_refuses_updates_as_it_does_those_of_any_operator(accumulate: Any) -> None:
    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="only support functionalizing operators whose outputs"):
        torch.func.functionalize(lambda x: accumulate(x, torch.ones(3)))(x)
    assert x.tolist() == [0.0] * 3


def test_gradients_through_updates_are_refused(accumulate: Any) -> None:
    def through(x: torch.Tensor) -> torch.Tensor:
        w = x * 1
        accumulate(w, x)
        return w.sum()

    def beside(x: torch.Tensor) -> torch.Tensor:
        w = torch.zeros(3)
        accumulate(w, x.detach())
        return (w * x).sum()

    x = torch.arange(3.0)
    with pytest.raises(NotImplementedError, match="mytest::accumulate: operand 'total', 'x'"):
        torch.func.grad(through)(x)
    torch.testing.assert_close(torch.func.grad(beside)(x), x)
    with pytest.raises(NotImplementedError, match="mytest::accumulate: jvp: expected a forward"):
        torch.func.jvp(lambda x: accumulate(x.clone(), x), (x,), (x,))


@every_mode
def test_autocast_leaves_operands_as_they_are(ops: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> Any:
        return ops.add(x, 1.0), (x @ x).dtype

    with torch.autocast("cpu", dtype=torch.bfloat16):
        result, product = run(mode, call, torch.zeros(2, 2))
    assert (result.dtype, product) == (torch.float32, torch.bfloat16)


def _reverse(y: Any, x: Any) -> None:
    torch.from_dlpack(y).copy_(torch.from_dlpack(x).flip(0))


def _update_copy(call: Any, x: torch.Tensor) -> Any:
    y = x.clone()
    call(y, x)
    return y


def _update_source(call: Any, x: torch.Tensor) -> Any:
    x = x + 1
    y = x.clone()
    call(x, y)
    return y + x


def _update_input(call: Any, x: torch.Tensor) -> Any:
    y = x.clone()
    call(x, y)
    return y


def _update_part(call: Any, x: torch.Tensor) -> Any:
    y = x.clone()
    call(y[1:], x[1:])
    return y


def _update_both(call: Any, x: torch.Tensor) -> Any:
    y = x.clone()
    z = y.clone()
    call(z, y)
    call(y, z)
    return y, z


def _forget_copy(call: Any, x: torch.Tensor) -> Any:
    call(x, x.clone())
    return x + 0


def _forget_source(call: Any, x: torch.Tensor) -> Any:
    y = x.clone()
    call(x, y)
    z = x.clone()
    call(y, z)
    return x + 0, y, z


CLONES = [_update_copy, _update_source, _update_input, _update_part, _update_both]
CLONES += [_forget_copy, _forget_source]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("is_op", [True, False], ids=["op", "function"])
@pytest.mark.parametrize("program", CLONES)
def test_clones_of_what_is_updated_are_kept(program: Any, is_op: bool, dynamic: bool) -> None:
    graphffi.register_global_func("clones.reverse", _reverse, override=True)
    op = graphffi.define_op(
        "clones::reverse", schema="(Tensor(a!) y, Tensor x) -> ()", kernel="clones.reverse"
    )

    def call(y: torch.Tensor, x: torch.Tensor) -> None:
        op(y, x) if is_op else graphffi.call_tvm_ffi("clones.reverse", y, x, mutates=[0])

    found, expected = torch.arange(4.0), torch.arange(4.0)
    run = torch.compile(lambda x: program(call, x), fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(run(found), program(call, expected))
    torch.testing.assert_close(found, expected)


@pytest.fixture(scope="module")
def combine() -> graphffi.Function:
    """out = x + 10 * y, without a definition."""

    def kernel(x: Any, y: Any, out: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x) + 10 * torch.from_dlpack(y))

    function = graphffi.Function(kernel)
    graphffi.declare(function, writes=(2,))
    return function


class Combined(torch.nn.Module):
    """Reads two tensors by a direct call."""

    def __init__(self, combine: Any) -> None:
        super().__init__()
        self.combine = combine

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        self.combine(x.view(-1), y[:], out)
        return out


def _alias(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x.detach()


@pytest.mark.parametrize("mode", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_inputs_of_one_memory_may_be_of_two_in_a_later_call(
    combine: Any, mode: str, dynamic: bool
) -> None:
    run = torch.compile(Combined(combine), fullgraph=True, backend=mode, dynamic=dynamic)
    x = torch.arange(4.0)
    assert run(*_alias(x)).tolist() == [0, 11, 22, 33]
    assert run(x, x + 5).tolist() == [50, 61, 72, 83]
    assert run(x, x).tolist() == [0, 11, 22, 33]


@pytest.mark.parametrize("strict", [False, True])
def test_exported_programs_read_what_they_are_given(combine: Any, strict: bool) -> None:
    x = torch.arange(4.0)
    program = torch.export.export(Combined(combine), _alias(x), strict=strict)
    assert program.module()(x, x + 5).tolist() == [50, 61, 72, 83]


def test_inputs_of_one_memory_are_two_of_a_call_that_writes(combine: Any) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        combine(x, x, y)

    run = torch.compile(call, fullgraph=True, backend="eager")
    x = torch.arange(4.0)
    with pytest.raises(ValueError, match=r"#2': expected memory of its own"):
        run(*_alias(x))
    y = x + 5
    run(x, y)
    assert y.tolist() == [0, 11, 22, 33]
    assert x.tolist() == [0, 1, 2, 3]


def test_views_within_a_graph_are_one_tensor_though_inputs_share_memory(combine: Any) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> None:
        _, part = x.chunk(2)
        combine(x[2:], y, part)

    for backend in ("eager", "aot_eager"):
        base = torch.arange(6.0)
        torch.compile(call, fullgraph=True, backend=backend)(base[:4], base[4:])
        assert base.tolist() == [0, 1, 42, 53, 4, 5]
