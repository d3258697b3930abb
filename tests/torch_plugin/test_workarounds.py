# SPDX-License-Identifier: Apache-2.0
"""What torch still gets wrong, which graphffi works around.

When a test here fails on a new torch, and no older one is supported, the code that it names may be
dropped. Others of this kind: `test_a_view_of_an_intermediate_is_updated_in_its_place` and
`test_torch_still_loses_saved_results_in_exported_modules`.
"""

from __future__ import annotations

import enum
import operator
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor
from torch._higher_order_ops import utils
from torch._inductor import pattern_matcher
from torch._inductor.utils import is_cudagraph_unsafe_op

import graphffi
import graphffi_torch
from graphffi_torch import _private_names
from graphffi_torch._compiled import inductor as _inductor
from graphffi_torch._compiled import repairs as _repairs
from tests import warm_python
from tests.gil_kernels import load_kernels
from tests.torch_release import IS_TORCH_2_10

BOTH = pytest.mark.parametrize("worked_around", [True, False])
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


@pytest.fixture(autouse=True)
def _compile_anew() -> Any:
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        yield


def fails(run: Any, *args: Any) -> bool:
    """Whether a compiled function fails in the compiler."""
    try:
        torch.compile(run, fullgraph=True)(*args)
    except Exception as error:
        if "AssertionError" in repr(error):
            return True
        raise
    return False


def test_dynamo_wraps_errors_of_traced_code() -> None:
    """`graphffi_torch._compiled.dynamo`."""

    @torch.library.custom_op("workarounds::wrong", mutates_args=())
    def wrong(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @wrong.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        if x.ndim == 1:
            raise ValueError("no")
        return x.clone()

    def backward(context: Any, gradient: torch.Tensor) -> None:
        raise ValueError("no")

    wrong.register_autograd(backward)
    compiled = torch.compile(wrong, fullgraph=True, backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
        compiled(torch.ones(2))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        compiled(torch.ones(2, 2, requires_grad=True))


@BOTH
@pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex")
def test_inductor_leaves_updates_of_complex_tensors_unprepared(
    worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_repairs._without_updates`."""
    _repairs.repair()
    if not worked_around:
        patched: Any = pattern_matcher.fallback_node_due_to_unsupported_type
        monkeypatch.setattr(pattern_matcher, patched.__name__, patched.__wrapped__)
    op = graphffi.define_op(
        f"workarounds::update_complex_{worked_around}",
        schema="(Tensor(a!) x) -> ()",
        kernel=lambda x: None,
    )
    assert fails(lambda x: op(x) * 1, torch.ones(2, dtype=torch.complex64)) != worked_around


REPAIRED_LATE = """
import sys
import torch
import graphffi
import graphffi_torch
import graphffi_torch

if sys.argv[1] == "first":
    import torch._inductor.pattern_matcher
op = graphffi.define_op("late::update", schema="(Tensor(a!) x) -> ()", kernel=lambda x: None)
run = torch.compile(lambda x: op(x) * 1, fullgraph=True)
assert run(torch.ones(2, dtype=torch.complex64)).eq(1).all()
"""


@pytest.mark.slow
@pytest.mark.parametrize("inductor", ["first", "later"])
def test_a_graph_that_needs_repairs_gets_them(inductor: str, tmp_path: Path) -> None:
    program = [sys.executable, "-W", "ignore", "-c", REPAIRED_LATE, inductor]
    warm_python.run(program, check=True, cwd=tmp_path, modules=warm_python.TORCH)


def test_vmap_knows_no_physical_conjugates() -> None:
    """`_gradients._given`."""
    x = torch.zeros(2, 2, dtype=torch.complex64)
    with pytest.warns(UserWarning, match="not yet implemented the batching rule"):
        torch.func.vmap(torch.conj_physical)(x)


@BOTH
def test_inductors_scheduler_forgets_the_order_of_calls_with_side_effects(
    worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_inductor.OrderedCall.get_read_writes`."""
    if not worked_around:
        if VERSION > (2, 13):
            pytest.skip("torch is new enough")
        monkeypatch.delattr(_inductor.OrderedCall, "get_read_writes")
    seen: list[str] = []
    note, copy = (
        graphffi.define_op(
            f"workarounds::{name}_{worked_around}",
            schema=f"(Tensor x, str label) -> {result}",
            kernel=lambda x, label, *_: seen.append(str(label)),
            infer=infer,
            has_side_effect=True,
        )
        for name, result, infer in (
            ("note", "()", None),
            ("copy", "Tensor", lambda x, label: graphffi.like(x)),
        )
    )

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        first = copy(x, "1")
        note(y, "2")
        note(y @ y, "3")
        note(x, "4")
        second = copy(y @ y @ x, "5")
        note(y, "6")
        return second + 1, copy(y, "7") @ second, first

    torch.compile(program, fullgraph=True)(torch.ones(30, 30), torch.ones(30, 30))
    assert (seen == list("1234567")) == worked_around


@BOTH
def test_calls_with_side_effects_do_not_tell_cuda_graphs_what_they_call(
    worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_inductor.OrderedCall.__init__`, which sets `fx_node`."""
    if not worked_around:
        initialize = _inductor.OrderedCall.__init__

        def initialize_only(self: Any, *args: Any, **kwargs: Any) -> None:
            initialize(self, *args, **kwargs)
            self.fx_node = self.origin_node

        monkeypatch.setattr(_inductor.OrderedCall, "__init__", initialize_only)
    found: list[bool] = []
    codegen = _inductor.LoweredCall.codegen

    def record(self: Any, wrapper: Any) -> None:
        found.append(is_cudagraph_unsafe_op(self))
        codegen(self, wrapper)

    monkeypatch.setattr(_inductor.LoweredCall, "codegen", record)
    op = graphffi.define_op(
        f"workarounds::unrecorded_{worked_around}",
        schema="(Tensor x) -> ()",
        kernel=lambda x: None,
        has_side_effect=True,
    )
    torch.compile(lambda x: [op(x), x * 2], fullgraph=True)(torch.ones(2))
    assert found == [worked_around]


@BOTH
@pytest.mark.skipif(VERSION > (2, 13), reason="torch is new enough")
def test_the_only_result_is_taken_from_a_tuple_where_nothing_is_updated(
    worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_inductor._is_indexed`."""
    if not worked_around:
        monkeypatch.setattr(_inductor, "_is_indexed", lambda: False)
    op = graphffi.define_op(
        f"workarounds::maybe_{worked_around}",
        schema="(Tensor x, Tensor(a!)? total) -> Tensor",
        kernel=lambda x, total, out: None,
        infer=lambda x, total: graphffi.like(x),
    )
    assert fails(lambda x: op(x, None), torch.ones(3)) != worked_around


def test_saved_programs_do_not_survive_empty_lists(tmp_path: Path) -> None:
    """The empty tensor of `ns::name.effect`: `ReturnList`, `_make_effect_fake`, `put_back`."""

    @torch.library.custom_op("workarounds::nothing", mutates_args=())
    def nothing(x: torch.Tensor) -> list[torch.Tensor]:
        return []

    nothing.register_fake(lambda x: [])

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            nothing(x)
            return x + 1

    torch.export.save(torch.export.export(Model(), (torch.ones(2),)), tmp_path / "model.pt2")
    with pytest.raises(RuntimeError, match="error when deserializing"):
        torch.export.load(tmp_path / "model.pt2")


@BOTH
@pytest.mark.skipif(VERSION < (2, 11), reason="torch 2.10 has no _get_example_value")
def test_branches_are_not_searched_for_lists_that_they_write(
    kernels: Any, worked_around: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`_repairs._with_lists`."""
    _repairs.repair()
    name = "_get_example_value"
    if not worked_around:
        monkeypatch.setattr(utils, name, getattr(utils, name).__wrapped__)

    reference = kernels.add.reference

    def call(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, 1.0, out=graphffi.like(x))

    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, call, lambda x: x * 2, (x,))

    assert fails(program, torch.ones(2)) != worked_around


def test_side_effects_have_no_public_name() -> None:
    """`_effects.register_side_effect`."""
    assert not hasattr(torch.library, "register_effectful_op")


@pytest.mark.skipif(IS_TORCH_2_10, reason="needs a newer torch")
@pytest.mark.skipif(VERSION >= (2, 15), reason="torch is new enough")
def test_dynamo_does_not_end_at_the_index_of_an_enum() -> None:
    """`_traced_call._plain`."""
    (one,) = enum.IntEnum("Numbers", "ONE")
    run = torch.compile(lambda x: x + operator.index(one), backend="eager")
    with pytest.raises(torch._dynamo.exc.InternalTorchDynamoError, match="RecursionError"):
        run(torch.ones(1))


@pytest.mark.skipif(VERSION < (2, 15), reason="needs a newer torch")
def test_dynamo_cannot_read_the_compilers_configuration() -> None:
    """`_traced_call._is_static_by_default`."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.compiler.config.assume_static_by_default else x

    with pytest.raises(torch._dynamo.exc.Unsupported, match="import_module"):
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(1))


def test_the_oldest_torch_needs_code_of_its_own() -> None:
    """What is for 2.10 only: `env.cc`, `load_package`.

    And for 2.12 and older: `autograd_node.h`.
    """
    assert _private_names.TESTED[0] == (2, 10)


@pytest.mark.slow
def test_torch_keeps_the_gil_while_a_package_runs(tmp_path: Path) -> None:
    """The lock of `graphffi_torch._export.package.Package`."""
    module = load_kernels()
    holds = graphffi.define_op(
        "workarounds::holds_gil",
        schema="(Tensor x) -> Tensor",
        kernel=module.holds_gil,
        infer=graphffi.like,
    )

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return holds(x)

    x, path = torch.zeros(1), tmp_path / "model.pt2"
    graphffi_torch.package(torch.export.export(Model(), (x,)), path)
    assert graphffi_torch.load_package(path, trust=True)(x).item() == 1


def test_torch_takes_zeros_of_both_signs_for_one() -> None:
    """`_dynamo_float`, `_operator_schema.with_signs`, and `_scalar` there."""
    seen: list[str] = []

    @torch.library.custom_op("workarounds::signed", mutates_args=())
    def signed(x: torch.Tensor, by: float = 0.0) -> torch.Tensor:
        seen.append(repr(by))
        return x.clone()

    signed.register_fake(lambda x, by=0.0: x.clone())
    signed.register_autograd(lambda context, gradient: (gradient, None))
    graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: signed(x, -0.0))(torch.ones(2))
    graph(torch.ones(2))
    run = torch.compile(signed, fullgraph=True, backend="eager")
    run(torch.ones(2), 0.0)
    run(torch.ones(2), -0.0)
    assert seen[1:] == ["0.0"] * 3
    seen.clear()
    twice = torch.compile(
        lambda x: signed(x, 0.0) + signed(x, -0.0), fullgraph=True, backend="aot_eager"
    )
    twice(torch.ones(2, requires_grad=True))
    assert len(seen) == 1


def test_inductor_ignores_the_sign_of_negated_inputs() -> None:
    """`_inductor_code.check_call`."""
    run = torch.compile(lambda x: x * 1, fullgraph=True)
    assert run(torch._neg_view(torch.ones(2))).eq(1).all()


def test_inductor_drops_clones_of_updated_tensors() -> None:
    shared = []
    library = torch.library.Library("workarounds", "DEF")
    library.define("note(Tensor x, Tensor(a!) y) -> ()")
    library.impl("note", lambda x, y: shared.append(x.data_ptr() == y.data_ptr()), "CPU")
    library.impl("note", lambda x, y: None, "Meta")

    def program(x: torch.Tensor) -> torch.Tensor:
        torch.ops.workarounds.note(x.clone(), x)
        return x + 0

    torch.compile(program, fullgraph=True)(torch.ones(4))
    # pytorch#198031, which 2.15 has mended: `_with_copies` may go with the versions before
    assert shared == [not torch.__version__.startswith("2.15.")]


def test_inductor_updates_the_beginning_of_a_tensor_for_the_copy_of_a_part() -> None:
    """`_repairs._with_copies`."""

    @torch.library.custom_op("products::increment", mutates_args=("x",))
    def increment(x: torch.Tensor) -> None:
        x.add_(100)

    def program(x: torch.Tensor) -> torch.Tensor:
        part = x[:, 1:] * torch.ones(2, 2)
        increment(part)
        return part + 0

    x = torch.arange(6.0).reshape(2, 3)
    assert not torch.compile(program, fullgraph=True)(x).equal(program(x))


def test_torch_updates_a_view_of_another_type_as_what_it_is_a_view_of() -> None:
    """`_repairs._with_copies_of_typed_views`."""

    @torch.library.custom_op("typed_views::double", mutates_args=("x",))
    def double(x: torch.Tensor) -> None:
        x.mul_(2)

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 1
        double(torch.view_as_complex(y))
        return y

    x = torch.ones(4, 2)
    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    assert not compiled(x).equal(program(x))


@pytest.mark.slow
def test_packages_return_buffers_in_the_place_of_copies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`_repairs._with_copies`."""
    import torch._inductor
    from torch._inductor.fx_passes import post_grad

    class Last(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            last = self.last.clone()
            self.last.copy_(x)
            return last

    original = getattr(post_grad.remove_noop_ops, "__wrapped__", post_grad.remove_noop_ops)
    monkeypatch.setattr(post_grad, "remove_noop_ops", original)
    path = torch._inductor.aoti_compile_and_package(
        torch.export.export(Last(), (torch.ones(3),)), package_path=str(tmp_path / "last.pt2")
    )
    # As in eager code from 2.15 on: `_with_copies` may go with the versions before.
    before = float(not torch.__version__.startswith("2.15."))
    assert torch._inductor.aoti_load_package(path)(torch.ones(3)).tolist() == [before] * 3


def test_compilers_lose_updates_of_a_tensor_and_of_its_detached_alias() -> None:
    """`AreApart` in call_op.cc."""

    @torch.library.custom_op("detached::swap", mutates_args=("x", "y"))
    def swap(x: torch.Tensor, y: torch.Tensor) -> None:
        x.fill_(1)
        y.fill_(2)

    def program(x: torch.Tensor) -> torch.Tensor:
        w = x * 1
        swap(w[:2], w.detach()[2:])
        return w + 0

    run = torch.compile(program, fullgraph=True, backend="aot_eager")
    assert run(torch.zeros(4)).tolist() != program(torch.zeros(4)).tolist() == [1, 1, 2, 2]
