# SPDX-License-Identifier: Apache-2.0
"""Direct calls of functions as nodes of graphs, without an op."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi
import graphffi_torch
from tests import warm_python
from tests.torch_plugin.test_mutation import MODES
from tests.torch_release import IS_TORCH_2_10

CALL = torch.ops.tvm_ffi.call.default
KERNELS = r"""
#include <graphffi/view.h>
#include <tvm/ffi/tvm_ffi.h>

#include <string>
#include <vector>

namespace ffi = tvm::ffi;

float* At(const ffi::TensorView& x, int64_t i) {
  int64_t offset = 0;
  for (int d = x.ndim() - 1; d >= 0; --d) {
    offset += i % x.size(d) * x.stride(d);
    i /= x.size(d);
  }
  return static_cast<float*>(x.data_ptr()) + offset;
}

// out = x * a + n, for tensors of any strides.
void affine(ffi::TensorView x, double a, int64_t n, ffi::TensorView out) {
  for (int64_t i = 0; i < x.numel(); ++i) *At(out, i) = *At(x, i) * static_cast<float>(a) + n;
}
// x, y = y, x
void swap(ffi::TensorView x, ffi::TensorView y) {
  for (int64_t i = 0; i < x.numel(); ++i) std::swap(*At(x, i), *At(y, i));
}
// Adds what there is of everything.
void mixed(ffi::Array<ffi::Tensor> xs, ffi::Optional<ffi::TensorView> none, bool b, ffi::String s,
           DLDataType t, DLDevice d, ffi::Array<int64_t> ns, ffi::TensorView out) {
  float sum = (none.has_value() ? 1000.f : 0.f) + (b ? 1.f : 0.f) + s.size() + t.bits +
              static_cast<float>(d.device_type);
  for (int64_t n : ns) sum += n;
  for (int64_t i = 0; i < out.numel(); ++i) {
    *At(out, i) += sum;
    for (const ffi::Tensor& x : xs) *At(out, i) += *At(x, i);
  }
}
void state(graphffi::View<const float> x, graphffi::View<float> out) {
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = x[i] + 1;
}
int64_t count(ffi::TensorView x) { return x.numel(); }
ffi::Any count_untold(ffi::TensorView x) { return x.numel(); }
// affine, whose parameters have names.
extern "C" int __tvm_ffi_affine(void*, const TVMFFIAny*, int32_t, TVMFFIAny*);
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_named(void*, const TVMFFIAny* args, int32_t num_args,
                                                  TVMFFIAny* result) {
  return __tvm_ffi_affine(nullptr, args, num_args, result);
}
extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__metadata_named(void*, const TVMFFIAny*, int32_t,
                                                            TVMFFIAny* result) {
  const std::string text = R"({"parameters": ["x", "a", "n", "out"]})";
  const TVMFFIByteArray bytes = {text.data(), text.size()};
  return TVMFFIStringFromByteArray(&bytes, result);
}
"""


OTHERS = graphffi.from_dlpack(torch.ones(3))


@pytest.fixture(scope="module")
def m() -> Any:
    """Functions without definitions."""
    names = "affine swap mixed state count count_untold".split()
    return graphffi.cpp.load_inline("direct_calls", cpp_sources=KERNELS, functions=names)


def nodes(call: Callable[..., Any], *args: Any) -> list[torch.fx.Node]:
    """The nodes of a graph that calls without definitions become."""
    return make_fx(call)(*args).graph.find_nodes(op="call_function", target=CALL)


def doubled(m: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: (o := torch.empty_like(x), m.affine(x, 1.5, x.shape[0], o))[0] * 2


@pytest.mark.parametrize("mode", MODES)
def test_a_call_is_right_in_every_mode(m: Any, mode: str) -> None:
    run = MODES[mode](doubled(m))
    for size in (3, 4, 7):
        torch.testing.assert_close(run(torch.ones(size)), torch.full((size,), 3.0 + 2 * size))


def test_symbolic_sizes_are_one_graph_with_one_node_a_call(m: Any) -> None:
    counter = CompileCounter()
    run = torch.compile(doubled(m), fullgraph=True, dynamic=True, backend=counter)
    for size in (3, 4, 7):
        run(torch.ones(size))
    assert (counter.frame_count, counter.op_count) == (1, 3)


@pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
def test_make_fx_keeps_a_call(m: Any, tracing_mode: str) -> None:
    graph = make_fx(doubled(m), tracing_mode=tracing_mode)(torch.ones(3))
    (node,) = graph.graph.find_nodes(op="call_function", target=CALL)
    assert isinstance(node.args[4][0], torch.fx.Node) is (tracing_mode == "symbolic")
    torch.testing.assert_close(graph(torch.ones(3)), torch.full((3,), 9.0))


def test_symbolic_trace_keeps_a_call(m: Any) -> None:
    def call(x: Any) -> Any:
        m.affine(x, 2.0, 1, x)
        return x

    graph = torch.fx.symbolic_trace(call)
    assert len(graph.graph.find_nodes(op="call_function", target=CALL)) == 1
    torch.testing.assert_close(graph(torch.ones(3)), torch.full((3,), 3.0))


@pytest.mark.parametrize("mode", MODES)
def test_arguments_of_all_kinds_arrive(m: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(3)
        m.mixed([x, x + 1], None, True, "text", torch.float16, x.device, [1, x.shape[0]], out)
        return out

    torch.testing.assert_close(MODES[mode](call)(torch.ones(3)), torch.full((3,), 29.0))


@pytest.mark.parametrize("mode", MODES)
def test_one_tensor_twice_is_one_tensor_of_the_call(m: Any, mode: str) -> None:
    def call(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        m.affine(x, 2.0, 1, x)
        w = x * 1
        m.affine(w, 2.0, 1, w)
        m.swap(y, y)
        return w + y

    x, y = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(MODES[mode](call)(x, y), torch.full((3,), 8.0))
    assert x.tolist() == [3.0] * 3


@pytest.mark.parametrize("mode", MODES)
def test_views_of_the_same_elements_are_one_tensor_of_the_call(m: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        w = x * 1
        for t in (x, w):
            n = t.shape[0] // 2
            m.affine(t.view(-1, n), 2.0, 1, t.view(-1, n))
            m.affine(t[1:], 2.0, 1, t.detach()[1:])
            m.mixed([t[:n]], None, False, "", torch.float16, t.device, [], t[:n])
        return w

    x, reference = torch.ones(4), torch.ones(4)
    torch.testing.assert_close(MODES[mode](call)(x), call(reference))
    torch.testing.assert_close(x, reference)


@pytest.mark.parametrize("mode", MODES)
def test_views_of_one_base_are_written(m: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        w = x * 2
        m.swap(w[0], w[1])
        m.swap(w.T[0], x[:, 1])
        m.affine(w[:, ::2], 1.0, 5, x[:, 1:3])
        return w

    x, reference = (torch.arange(8.0).reshape(2, 4) for _ in range(2))
    torch.testing.assert_close(MODES[mode](call)(x), call(reference))
    torch.testing.assert_close(x, reference)


@pytest.mark.parametrize("mode", ["aot_eager", "inductor", "dynamic"])
@pytest.mark.parametrize("make", [lambda x: (x[:3], x[1:4]), lambda x: (x[:3], x[0].expand(3))])
def test_other_aliases_are_refused_by_name(m: Any, mode: str, make: Any) -> None:
    x = torch.arange(4.0)
    expected = (
        r"swap: operand 'argument #1': expected (memory of its own|elements that do not over)"
    )
    with pytest.raises(Exception, match=expected):
        MODES[mode](lambda x: m.swap(*make(x)))(x)
    assert x.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("make", [lambda x: x, lambda x: x * 1], ids=["input", "intermediate"])
def test_parts_of_a_tensor_and_of_its_detached_alias_are_refused(m: Any, make: Any) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        w = make(x)
        m.swap(w[:2], w.detach()[2:])
        return w + 0

    with pytest.raises(Exception, match=r"swap: operand 'argument #1': expected memory of its own"):
        MODES["aot_eager"](call)(torch.arange(4.0))


def test_two_inputs_that_are_one_tensor_are_one_tensor_of_the_call(m: Any) -> None:
    run = MODES["inductor"](lambda x, y: m.affine(x, 2.0, 1, y))
    x, y = torch.ones(3), torch.zeros(3)
    run(x, y)
    assert y.tolist() == [3.0] * 3
    run(x, x)
    assert x.tolist() == [3.0] * 3


@pytest.mark.parametrize("mode", ["eager", "aot_eager", "inductor"])
def test_arguments_may_have_the_names_that_the_library_exports(m: Any, mode: str) -> None:
    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(3)
        m.named(x, out=out, n=1, a=2.0)
        return out

    run = call if mode == "eager" else torch.compile(call, fullgraph=True, backend=mode)
    assert run(torch.ones(3)).tolist() == [3.0] * 3


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda m, x: m.named(x, 1.0, n=1, y=x),
            TypeError,
            "named: argument 'y': expected a known name; argument 'out': expected a value, got no",
        ),
        (
            lambda m, x: m.count(x),
            TypeError,
            r"count: expected a function that returns None.*-> int",
        ),
        (lambda m, x: m.affine(x, lambda: 1, 1, x), TypeError, r"affine: argument #1: expected"),
        (lambda m, x: m.affine(x, m, 1, x), TypeError, r"argument #1: expected a tensor.*Module"),
        (lambda m, x: m.affine(x, m.swap, 1, x), TypeError, r"#1: expected a tensor.*Function"),
        (lambda m, x: m.affine(OTHERS, 1.0, 1, x), TypeError, r"a torch.Tensor.*graphffi.Tensor"),
        (lambda m, x: m.affine(x, {}, 1, x), TypeError, r"affine: argument #1: expected a tensor"),
        (lambda m, x: m.affine(x, 1.0, 1, out=x), TypeError, r"positional arguments only.*'out'"),
        (
            lambda m, x: m.affine(1, 2),
            ValueError,
            r"affine: expected a tensor that the function wr",
        ),
    ],
)
def test_what_no_graph_can_hold_is_refused_or_breaks_it(
    m: Any, fullgraph: bool, call: Any, kind: type, text: str
) -> None:
    x = torch.ones(3)
    try:
        expected = call(m, x)
    except Exception as error:
        expected = error
    run = torch.compile(lambda x: call(m, x), fullgraph=fullgraph, backend="eager")
    if IS_TORCH_2_10 and text == "affine: argument #1: expected":
        kind, text = Exception, "Unsupported hasattr call"  # of a Python function's class
    if fullgraph:
        with pytest.raises(kind, match=text):
            run(x)
    elif isinstance(expected, Exception):
        with pytest.raises(type(expected)):
            run(x)
    else:
        assert run(x) == expected


@pytest.mark.parametrize("mode", ["aot_eager", "inductor"])
def test_what_a_function_returns_is_not_lost_in_silence(m: Any, mode: str) -> None:
    def tell(x: Any) -> int:
        return 3

    graphffi.register_global_func("direct.tell", tell, override=True)
    function = graphffi.get_global_func("direct.tell")
    with pytest.raises(Exception, match=r"tell.*result: expected None of a function.*got int"):
        MODES[mode](lambda x: (function(x), x + 1)[1])(torch.ones(3))


def test_a_call_on_what_requires_a_gradient_is_one_error(m: Any) -> None:
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    texts = set()
    for call in (
        lambda x, w: m.affine(w, 1.0, 1, x),
        lambda x, w: graphffi.call_tvm_ffi(m.affine, w, 1.0, 1, x, mutates=[0, 3]),
    ):
        with pytest.raises(NotImplementedError) as caught:
            MODES["inductor"](call)(x, w)
        texts.add(str(caught.value).partition(";")[2])
    assert len(texts) == 1
    with torch.no_grad():
        MODES["inductor"](lambda x, w: m.affine(w, 1.0, 1, x))(x, w)
    assert x.tolist() == [2.0] * 3


@pytest.fixture
def _nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphffi._kernels.declared._declared", {})


@pytest.mark.usefixtures("_nothing_declared")
class TestDeclare:
    """What a declaration says of calls."""

    def test_positions_say_what_is_written(self, m: Any) -> None:
        graphffi.declare(m.affine, writes=(3,))
        x = torch.ones(3)
        (node,) = nodes(lambda x, y: m.affine(x, 1.0, 1, y), x, x.clone())
        assert [len(node.args[1]), len(node.args[2])] == [1, 1]
        (node,) = nodes(lambda x: m.affine(x, 1.0, 1, x), x)
        assert [len(node.args[1]), len(node.args[2])] == [0, 1]  # written, since it is the same

    @pytest.mark.parametrize("tracing_mode", ["real", "fake", "symbolic"])
    def test_another_view_of_what_is_written_is_it(self, m: Any, tracing_mode: str) -> None:
        graphffi.declare(m.affine, writes=(3,))
        trace = make_fx(lambda x: m.affine(x.view(-1), 1.0, 1, x[:]), tracing_mode=tracing_mode)
        (node,) = trace(torch.ones(3)).graph.find_nodes(op="call_function", target=CALL)
        assert [len(node.args[1]), len(node.args[2])] == [0, 1]

    def test_lists_are_written_as_a_whole(self, m: Any) -> None:
        graphffi.declare(m.mixed, writes=[0, 7])
        x = torch.ones(3)
        types = (torch.float16, torch.device("cpu"))
        (node,) = nodes(lambda x, y: m.mixed([x], None, True, "", *types, [], y), x, x.clone())
        assert [len(node.args[1]), len(node.args[2])] == [0, 2]

    def test_cuda_graphs_and_side_effects_have_operators_of_their_own(self, m: Any) -> None:
        graphffi.declare(m.affine, writes=(3,), allow_cuda_graph=True)
        graphffi.declare(m.state, has_side_effect=True)
        x = torch.ones(3)
        graph = make_fx(lambda x, y: (m.affine(x, 1.0, 1, y), m.state(x, y)))(x, x.clone()).graph
        targets = {str(node.target) for node in graph.nodes if node.op == "call_function"}
        assert {"tvm_ffi.call_graph.default", "tvm_ffi.call_effect.default"} <= targets

    def test_another_declaration_is_refused(self, m: Any) -> None:
        graphffi.declare(m.affine, writes=(3,))
        graphffi.declare(m.affine, writes=[3])
        with pytest.raises(ValueError, match=r"affine: expected what was declared before.*\(3,\)"):
            graphffi.declare(m.affine)

    @pytest.mark.parametrize("writes", [3, (-1,), ("out",), "out"])
    def test_wrong_positions_are_refused(self, m: Any, writes: Any) -> None:
        with pytest.raises(TypeError, match=r"writes: expected positions of arguments"):
            graphffi.declare(m.affine, writes=writes)


def test_views_state_what_is_written(m: Any) -> None:
    (node,) = nodes(m.state, torch.ones(3), torch.ones(3))
    assert [len(node.args[1]), len(node.args[2])] == [1, 1]


def test_another_function_is_another_graph(m: Any) -> None:
    def make(by: float) -> Any:
        return graphffi.Function(lambda x: torch.from_dlpack(x).add_(by) and None)

    run = torch.compile(lambda f, x: (f(x), x * 2)[1], fullgraph=True, backend="aot_eager")
    for by in (1.0, 2.0, 3.0):
        function = make(by)
        assert run(function, torch.zeros(1)).item() == 2 * by
        del function  # whose address another one may get
        torch._dynamo.reset() if by == 2.0 else None
    graphffi.register_global_func("direct.f", make(1.0), override=True)
    function = graphffi.get_global_func("direct.f")
    assert run(function, torch.zeros(1)).item() == 2
    graphffi.register_global_func("direct.f", make(5.0), override=True)
    assert run(graphffi.get_global_func("direct.f"), torch.zeros(1)).item() == 10


def test_a_function_that_is_marked_as_constant_may_give_modules_and_functions(m: Any) -> None:
    given = {"module": m, "function": m.affine, "flag": 1}

    @torch.compiler.assume_constant_result
    def get(name: str) -> Any:
        return given[name]

    def call(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        get("module").affine(x, 2.0, get("flag"), out)
        get("function")(out, 2.0, 1, out)
        graphffi.call_tvm_ffi(get("function"), out, 2.0, 1, out * 1, mutates=[3])
        return out

    expected = torch.full((3,), 7.0)
    for fullgraph in (True, False):
        run = torch.compile(call, fullgraph=fullgraph, backend="aot_eager")
        torch.testing.assert_close(run(torch.ones(3)), expected)


class Model(torch.nn.Module):
    """Calls a function."""

    def __init__(self, m: Any) -> None:
        super().__init__()
        self.run = doubled(m)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(x)


LOADED = """
import sys
import torch
import graphffi_torch

run = graphffi_torch.load_package(sys.argv[1], trust=True)
for size in (3, 4, 7):
    torch.testing.assert_close(run(torch.ones(size)), torch.full((size,), 3.0 + 2 * size))
"""


@pytest.mark.slow
@pytest.mark.parametrize("strict", [True, False])
def test_artifacts_call_functions(m: Any, tmp_path: Path, strict: bool) -> None:
    sizes = {"x": {0: torch.export.Dim("n")}}
    exported = torch.export.export(Model(m), (torch.ones(5),), dynamic_shapes=sizes, strict=strict)
    assert len(exported.graph.find_nodes(op="call_function", target=CALL)) == 1
    package = graphffi_torch.package(exported, tmp_path / "model.pt2")
    warm_python.run([sys.executable, "-c", LOADED, package], check=True, modules=warm_python.TORCH)
    library = graphffi.load_module(
        graphffi_torch.to_library(exported, tmp_path / "model.so") or tmp_path / "model.so"
    )
    torch.testing.assert_close(library.main(torch.ones(4)), torch.full((4,), 11.0))


def program(seed: int, m: Any) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A program of direct calls between views, aliases and updates."""
    choose = random.Random(seed)
    views: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x,
        lambda x: x[:2, :2],
        lambda x: x[1:3, 1:3],
        lambda x: x[2:, 2:],
        lambda x: x.T[:2, 2:],
        lambda x: x[::2, ::2],
        lambda x: x.reshape(2, 8)[:, :2],
        lambda x: x.detach()[2:, :2],
        lambda x: x[0].expand(2, 4)[:, :2],
        lambda x: x[1, :2] + torch.zeros(2, 2),
    ]
    steps = []
    for _ in range(choose.randint(2, 6)):
        kind = choose.choice(["affine", "affine", "swap", "add", "new", "alias"])
        places = choose.randrange(9), choose.randrange(9)
        pick = choose.randrange(1, len(views)), choose.randrange(1, len(views))
        if choose.random() < 0.2:
            pick = 0, 0
        steps.append((kind, places, pick, choose.randint(1, 3)))

    def run(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        tensors = [x, y, x * 1]
        for kind, (i, k), (v, w), n in steps:
            a, b = (views[p](tensors[j % len(tensors)]) for p, j in ((v, i), (w, k)))
            if kind == "affine":
                m.affine(a, 0.5, n, b)
            elif kind == "swap":
                m.swap(a, b)
            elif kind == "add":
                tensors[i % len(tensors)].mul_(0.5).add_(n)
            elif kind == "new":
                tensors.append(tensors[i % len(tensors)] * n)
            else:
                tensors.append(tensors[i % len(tensors)].view(4, 4))
        return torch.stack([t.sum() for t in tensors]) + tensors[-1][0, 0]

    return run


@pytest.mark.slow
def test_random_programs_are_right_or_refused(m: Any) -> None:
    refused = 0
    for seed in range(40):
        run = program(seed, m)
        given = torch.rand(4, 4), torch.rand(4, 4)
        eager = [x.clone() for x in given]
        expected = run(*eager)
        for backend in ("aot_eager", "inductor") if seed % 20 == 0 else ("aot_eager",):
            torch._dynamo.reset()
            compiled = [x.clone() for x in given]
            error = None
            try:
                got = torch.compile(run, fullgraph=True, backend=backend)(*compiled)
            except Exception as raised:
                error = str(raised)
            if error is not None:
                assert "operand 'argument #" in error, (seed, backend, error)
                refused += 1
                continue
            torch.testing.assert_close(got, expected, msg=f"{seed} {backend}")
            torch.testing.assert_close(compiled, eager, msg=f"{seed} {backend}")
    assert refused < 30
