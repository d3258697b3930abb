# SPDX-License-Identifier: Apache-2.0
"""Calls in code that Inductor generates: direct, planned, the ordinary op as the fallback."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch._inductor
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.exc import InductorError
from torch._inductor.utils import run_and_get_code
from torch.nn.attention.flex_attention import flex_attention

import graphffi
from tests import warm_python
from tests.gil_kernels import load_kernels

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X = torch.arange(6.0).reshape(2, 3)


def compiled_code(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, str]:
    """The result of the compiled function and the code that Inductor made of it."""
    compiled = torch.compile(function, fullgraph=True, **options)
    with (
        torch._inductor.config.patch(fx_graph_cache=False),
        torch._functorch.config.patch(enable_autograd_cache=False),
    ):
        result, code = run_and_get_code(compiled, *args)
    return result, code[0]


def chain(ops: Any, x: torch.Tensor) -> torch.Tensor:
    y = ops.add(x * 2, 3.0)
    ops.increment(y, 2.0)
    return ops.attributes(ops.split(y).large, n=x.shape[0])


CHAIN = X * 2 + 3 + 2 + 1 + 2 + 2 + 100 + 3 + 16 + 1000 + 3


@pytest.mark.parametrize("dynamic", [False, True])
def test_ops_are_called_directly(ops: Any, dynamic: bool) -> None:
    result, code = compiled_code(lambda x: chain(ops, x), X, dynamic=dynamic)
    torch.testing.assert_close(result, CHAIN)
    assert code.count("= graphffi_torch_C.call_site_v4(") == 4
    assert "torch.ops.mytest" not in code


def test_results_are_buffers_that_inductor_plans(ops: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = ops.add(x)
        return x

    result, code = compiled_code(program, X)
    torch.testing.assert_close(result, X + 4)
    assert code.count("= empty_strided_cpu((2, 3)") == 2
    assert code.count("# reuse") == 2


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.filterwarnings("ignore:Torchinductor does not support.*complex")
def test_results_without_dimensions_are_not_filled_first(dtype: str) -> None:
    def total(x: Any, out: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x).sum())

    graphffi.register_global_func("mytest.total", total, override=True)
    op = graphffi.define_op(
        f"mytest::total_{dtype}",
        schema="(Tensor x) -> Tensor",
        kernel="mytest.total",
        infer=lambda x: graphffi.like(x, shape=()),
    )
    x = X.to(getattr(torch, dtype))
    result, code = compiled_code(op, x)
    torch.testing.assert_close(result, x.sum())
    assert "graphffi_torch_C.call_site_v4(" in code
    assert "cpp_fused" not in code


def test_the_primitive_is_called_directly(kernels: Any) -> None:
    reference = kernels.add.reference

    def program(x: torch.Tensor) -> Any:
        return graphffi.call_tvm_ffi(reference, x, 2.0, out=graphffi.like(x))

    result, code = compiled_code(program, X)
    torch.testing.assert_close(result, X + 2)
    assert "graphffi_torch_C.call_site_v4(" in code
    assert "torch.ops.tvm_ffi" not in code


def test_results_may_have_sizes_that_only_the_call_before_tells(ops: Any) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return ops.add(ops.split(x[x > 2]).small) + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        result, code = compiled_code(program, X)
    torch.testing.assert_close(result, program(X))
    assert code.count("= graphffi_torch_C.call_site_v4(") == 2


def fresh_outputs(code: str) -> list[int]:
    """Of each site in the code: how many outputs are not checked for shared memory."""
    return [int(count) for count in re.findall(r"call_site_v4\(.*, num_fresh=(\d+)", code)]


def test_only_outputs_that_nothing_else_can_see_go_unchecked(ops: Any, kernels: Any) -> None:
    add, count = torch.ops.tvm_ffi.call.default, kernels.add.reference

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = ops.add(x)
        ops.increment(result)
        fresh, seen, given = torch.empty_like(x), torch.empty(2, 2, 3), x.clone()
        add(count, [x], [fresh], "i0, 1.0, o0")
        row = seen[0]
        add(count, [x], [row], "i0, 1.0, o0")
        add(count, [x], [given], "i0, 1.0, o0")
        return result, fresh, seen[0], given

    results, code = compiled_code(program, X)
    torch.testing.assert_close(results, (X + 2, X + 1, X + 1, X + 1))
    assert sorted(fresh_outputs(code)) == [0, 0, 0, 1, 1]


def test_shared_memory_is_refused_in_compiled_graphs(kernels: Any) -> None:
    @torch.compile(fullgraph=True)
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        torch.ops.tvm_ffi.call(kernels.add.reference, [x], [y], "i0, 1.0, o0")
        return y * 2

    storage = torch.ones(6)
    with pytest.raises(ValueError, match="expected memory of its own, got memory shared"):
        program(storage[:4], storage[1:5])


def test_calls_on_elements_are_refused_by_name(ops: Any) -> None:
    heads = torch.ones(1, 1, 128, 16)

    def program(bias: torch.Tensor) -> Any:
        def score(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
            return score + ops.add(bias[column], 1.0)

        return flex_attention(heads, heads, heads, score_mod=score)

    text = "mytest::add: expected a call on whole tensors, got one in a function that Inductor"
    with pytest.raises(InductorError, match=text):
        torch.compile(program)(torch.ones(128))


def test_special_floats_and_strings_survive(ops: Any) -> None:
    def program(x: torch.Tensor) -> Any:
        return ops.attributes(x, f=float("-inf"), s='a"b\\n\u00e9'), ops.add(x, float("nan"))

    (infinite, nan), _ = compiled_code(program, X)
    assert infinite.eq(float("-inf")).all()
    assert nan.isnan().all()


def test_texts_with_nul_are_whole() -> None:
    seen: list[str] = []
    op = graphffi.define_op(
        "mytest::see_text",
        schema="(Tensor x, str one, str[] many) -> Tensor",
        kernel=lambda x, one, many, y: seen.extend((one, *many)),
        infer=lambda x, one, many: graphffi.like(x),
    )
    texts = ("a\0b", ["\0", "long enough for an object \0 é"])
    op(X, *texts)
    torch.ops.mytest.see_text(X, *texts)
    for options in ({}, {"cpp_wrapper": True}):
        torch.compile(lambda x: op(x, *texts), fullgraph=True, options=options)(X)
    assert seen == [texts[0], *texts[1]] * 4


@pytest.mark.parametrize("mode", ["python", "cpp"])
def test_errors_are_those_of_eager_calls(ops: Any, mode: str) -> None:
    with pytest.raises(ValueError, match="expected luck, got none") as eager:
        ops.fail(X, "ValueError")
    compiled = torch.compile(
        lambda x: ops.fail(x, "ValueError"),
        fullgraph=True,
        options={"cpp_wrapper": mode == "cpp"},
    )
    with pytest.raises(ValueError, match="expected luck, got none") as raised:
        compiled(X)
    assert str(raised.value) == str(eager.value)


class CustomError(BaseException):
    """Of a Python callback."""


def test_cpp_code_raises_the_exceptions_of_callbacks() -> None:
    raised: list[BaseException] = []

    def callback(x: Any, y: Any) -> None:
        if raised:
            raise raised[-1]
        torch.from_dlpack(y).copy_(torch.from_dlpack(x))

    def program(x: torch.Tensor) -> Any:
        y = graphffi.call_tvm_ffi(callback, x + 1, out=graphffi.like(x))
        return torch.cond(x.sum() > 0, lambda y: op(y) + 1, lambda y: y - 1, (y,))

    op = graphffi.define_op(
        "mytest::callback_in_branch",
        schema="(Tensor x) -> Tensor",
        kernel=callback,
        infer=graphffi.like,
    )
    compiled = torch.compile(program, fullgraph=True, options={"cpp_wrapper": True})
    torch.testing.assert_close(compiled(X), X + 2)
    for error in (KeyError("mine"), CustomError("mine"), KeyboardInterrupt()):
        raised.append(error)
        with pytest.raises(type(error)) as caught:
            compiled(X)
        assert caught.value is error
    raised.clear()
    torch.testing.assert_close(compiled(X), X + 2)


def test_calls_keep_the_gil_where_their_kernel_says_so() -> None:
    module = load_kernels()

    def define(release_gil: bool, **kwargs: Any) -> Any:
        module.holds_gil.release_gil = release_gil
        return graphffi.define_op(
            f"mytest::lock_{len(kwargs)}_{release_gil}",
            schema="(Tensor x) -> Tensor",
            kernel=module.holds_gil,
            infer=graphffi.like,
            **kwargs,
        )

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        return [op(x) for op in (kept, released, kept_in_order, released_in_order)]

    kept, released = define(False), define(True)
    kept_in_order, released_in_order = (define(r, has_side_effect=True) for r in (False, True))
    assert kept.definition.digest != released.definition.digest
    x = torch.zeros(1)
    assert [kept(x).item(), released(x).item()] == [1, 0]
    results, code = compiled_code(run, x)
    assert [result.item() for result in results] == [1, 0, 1, 0]
    assert code.count("= graphffi_torch_C.call_site_v4(") == 4


@pytest.mark.slow
def test_the_cpp_wrapper_calls_the_packed_entry(ops: Any) -> None:
    result, code = compiled_code(
        lambda x: chain(ops, x), X, dynamic=True, options={"cpp_wrapper": True}
    )
    torch.testing.assert_close(result, CHAIN)
    assert code.count("graphffi_call(graphffi_site_") == 4
    special, _ = compiled_code(
        lambda x: ops.attributes(x, f=float("-inf"), s='a"b\\n??/\u00e9'),
        X,
        options={"cpp_wrapper": True},
    )
    assert special.eq(float("-inf")).all()


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end:UserWarning")
def test_profilers_see_direct_calls(ops: Any) -> None:
    compiled = torch.compile(ops.add, fullgraph=True)
    compiled(X)
    with torch.profiler.profile() as profile:
        compiled(X)
    assert "mytest::add" in {event.name for event in profile.events()}


PROGRAM = """
import sys
import torch
import graphffi
from graphffi import Tensor

version = sys.argv[1]
mod = graphffi.cpp.load_inline("cache_test", cpp_sources=r'''
#include <tvm/ffi/tvm_ffi.h>
void fill(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  for (int64_t i = 0; i < y.numel(); ++i) static_cast<float*>(y.data_ptr())[i] = VERSION;
}
'''.replace("VERSION", version[0]), functions=["fill"])

if version == "1":
    rule = lambda x: graphffi.like(x)
else:
    rule = lambda x: graphffi.like(x, shape=(x.shape[0] * 2,))
fill = graphffi.define_op(
    "cachetest::fill", schema="(Tensor x) -> Tensor", kernel=mod.fill, infer=rule
)
from torch._dynamo.utils import counters
y = torch.compile(lambda x: fill(x) + 1, fullgraph=True)(torch.ones(3))
print(y.tolist(), counters["aot_autograd"]["autograd_cache_hit"] > 0)
"""


def run_program(tmp_path: Path, text: str, *args: str, **env: str) -> str:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), **env}
    command = [sys.executable, "-c", text, *args]
    return warm_python.run(command, check=True, env=environment).stdout.strip()


@pytest.mark.slow
def test_a_changed_rule_or_kernel_is_not_served_from_a_cache(tmp_path: Path) -> None:
    assert run_program(tmp_path, PROGRAM, "1") == "[2.0, 2.0, 2.0] False"
    assert run_program(tmp_path, PROGRAM, "1") == "[2.0, 2.0, 2.0] True"
    assert run_program(tmp_path, PROGRAM, "2") == "[3.0, 3.0, 3.0, 3.0, 3.0, 3.0] False"


@pytest.mark.slow
def test_calls_through_the_dispatcher_can_be_asked_for(tmp_path: Path) -> None:
    program = PROGRAM + (
        "from torch._inductor.utils import run_and_get_code\n"
        "torch._dynamo.reset()\n"
        "print('torch.ops.cachetest' in "
        "run_and_get_code(torch.compile(lambda x: fill(x)), torch.ones(2))[1][0])\n"
    )
    assert run_program(tmp_path, program, "1", GRAPHFFI_INDUCTOR="0").endswith("True")


@pytest.mark.slow
def test_another_word_for_the_path_of_calls_is_refused() -> None:
    env = os.environ | {"GRAPHFFI_INDUCTOR": "off"}
    command = [sys.executable, "-c", "import graphffi_torch"]
    done = warm_python.run(command, env=env)
    assert "ImportError: graphffi: GRAPHFFI_INDUCTOR: expected 0 or 1, got 'off'" in done.stderr


WITHOUT_LOWERINGS = """
import sys
import torch
import graphffi
import graphffi_torch

torch.__version__ = "2.99.0"  # as if the private names were others
add = graphffi.define_op(
    "untested::add", schema="(Tensor x, float a, int n) -> Tensor", kernel=sys.argv[1],
    plan="x, a, out", infer=lambda x, a, n: graphffi.like(x),
)
update = graphffi.define_op(
    "untested::update", schema="(Tensor(a!) x, float by) -> ()", kernel=sys.argv[2]
)

class Model(torch.nn.Module):
    def forward(self, x):
        y = add(x * 2, 1.0, x.shape[0])
        update(y, 2.0)
        return y + 1

rows = torch.export.Dim("rows", min=2)
with torch.no_grad():
    exported = torch.export.export(Model(), (torch.ones(2, 3),), dynamic_shapes=[{0: rows}])
    path = graphffi_torch.package(exported, sys.argv[3])
    models = [
        torch.compile(Model(), fullgraph=True),
        torch.compile(Model(), fullgraph=True, dynamic=True),
        graphffi_torch.load_package(path, trust=True),
    ]
    for model in models:
        for size in (4, 7):
            assert model(torch.ones(size, 3)).eq(6).all()
"""


@pytest.mark.slow
def test_whole_programs_compile_without_the_lowerings(kernels: Any, tmp_path: Path) -> None:
    references = [kernels.add.reference, kernels.increment.reference]
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT_LOWERINGS]
    command += [*references, tmp_path / "p.pt2"]
    done = warm_python.run(command, check=True, modules=warm_python.TORCH)
    assert done.stderr.count("compiled graphs call ops through the dispatcher") == 1


def test_other_sizes_and_ints_do_not_recompile(ops: Any) -> None:
    graphs = CompileCounterWithBackend("inductor")
    compiled = torch.compile(
        lambda x, n: ops.attributes(x, n=n), fullgraph=True, dynamic=True, backend=graphs
    )
    for rows, n in ((2, 5), (4, 7), (9, -3)):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(compiled(x, n), x + n + 2 + 100 + 3 + 16 + 1000 + 3)
    assert graphs.frame_count == 1


def test_without_dynamic_sizes_and_ints_compile_anew_once(ops: Any) -> None:
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, n: ops.attributes(x, n=n), fullgraph=True, backend=graphs)
    for rows, n in ((2, 5), (4, 7), (9, -3), (11, 12)):
        x = torch.ones(rows, 3)
        torch.testing.assert_close(compiled(x, n), x + n + 2 + 100 + 3 + 16 + 1000 + 3)
    assert graphs.frame_count == 2


def test_another_float_compiles_anew_and_the_same_does_not(ops: Any) -> None:
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ops.add, fullgraph=True, dynamic=False, backend=graphs)
    for a, count in ((0.5, 1), (0.5, 1), (0.25, 2), (0.5, 2)):
        torch.testing.assert_close(compiled(X, a), X + a)
        assert graphs.frame_count == count
