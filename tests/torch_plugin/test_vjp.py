# SPDX-License-Identifier: Apache-2.0
"""Gradients by the rules of ops: eager, compiled, functional, twice."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from typing import Any

import pytest
import torch
import torch._dynamo.compiled_autograd
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi
from tests import differentiable_ops as ops

MODES = {
    "eager": lambda f: f,
    "aot": lambda f: torch.compile(f, fullgraph=True, backend="aot_eager"),
    "inductor": lambda f: torch.compile(f, fullgraph=True),
    "dynamic": lambda f: torch.compile(f, fullgraph=True, dynamic=True),
    "breaking": lambda f: torch.compile(f, backend="aot_eager"),
}


def tensor(*shape: int, seed: int = 0) -> torch.Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return values.requires_grad_()


def gradients(f: Any, tensors: list[torch.Tensor]) -> tuple[list[Any], tuple[Any, ...]]:
    """The results of f and the gradients of their sum of squares."""
    results = [r for r in f(*tensors) if r is not None]
    return results, torch.autograd.grad(sum((r * r).sum() for r in results), tensors)


def use_all(family: Any, prefix: str, x: Any, y: Any, weight: Any) -> list[Any]:
    """Every kind of operand and result in one function."""
    mul, scale, combine = (
        getattr(family, prefix + name) for name in ("mul", "scale_rows", "combine")
    )
    scaled, inverse = scale(mul(x, y), weight, 1e-3)
    return [combine([scaled, x], y, [0.5, 2.0]), combine([x * 2], None, [3.0]), inverse]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "breaking"])
def test_gradients_are_those_of_plain_torch(mode: str) -> None:
    f = MODES[mode](lambda *args: use_all(ops, "", *args))
    for rows in (4, 5):
        tensors = [tensor(rows, 3), tensor(rows, 3, seed=1), tensor(3, seed=2)]
        expected = gradients(lambda *args: use_all(ops, "reference_", *args), tensors)
        torch.testing.assert_close(gradients(f, tensors), expected)


@pytest.mark.parametrize("mode", ["eager", "aot"])
def test_results_without_gradients_get_no_cotangent(mode: str) -> None:
    x = tensor(4, 3)
    value, position = MODES[mode](lambda x: tuple(ops.largest(x, 3)))(x)
    assert value.requires_grad
    assert not position.requires_grad
    (grad,) = torch.autograd.grad(value.sum(), x)
    assert grad.argmax(-1).equal(position.long())
    assert grad.sum() == 4


def test_gradients_of_gradients() -> None:
    x, y = tensor(4, 3), tensor(4, 3, seed=1)
    cube = ops.mul(ops.mul(x, y), x)
    (first,) = torch.autograd.grad(cube.sum(), x, create_graph=True)
    torch.testing.assert_close(first, 2 * x * y)
    (second,) = torch.autograd.grad(first.sum(), y, create_graph=True)
    torch.testing.assert_close(second, 2 * x)
    (third,) = torch.autograd.grad(second.sum(), x)
    torch.testing.assert_close(third, torch.full_like(x, 2))


def test_gradients_of_gradients_in_traces() -> None:
    x = tensor(4).detach()

    def cube(x: torch.Tensor) -> torch.Tensor:
        return ops.mul(ops.mul(x, x), x).sum()

    def by_autograd(x: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(cube(leaf), leaf, create_graph=True)
        return torch.autograd.grad(first.sum(), leaf)[0]

    def by_func(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda x: torch.func.grad(cube)(x).sum())(x)

    by_compiler = torch.compile(by_func, fullgraph=True, backend="aot_eager")
    for second in (by_func, by_compiler, make_fx(by_autograd)(x)):
        torch.testing.assert_close(second(x), 6 * x)


@pytest.fixture
def compiled_autograd() -> Any:
    """A context in which backward passes are compiled, and the graphs that they became."""
    graphs: list[torch.fx.GraphModule] = []

    def compiler(graph: torch.fx.GraphModule) -> Any:
        graphs.append(graph)
        return torch.compile(graph, backend="aot_eager")

    torch._dynamo.compiled_autograd.reset()
    yield lambda: torch._dynamo.compiled_autograd._enable(compiler), graphs
    torch._dynamo.compiled_autograd.reset()


@pytest.mark.slow
def test_compiled_autograd_takes_eager_calls(compiled_autograd: Any) -> None:
    enabled, graphs = compiled_autograd
    for rows, count in ((4, 1), (5, 2), (4, 2)):  # rules may depend on sizes
        tensors = [tensor(rows, 3), tensor(rows, 3, seed=1), tensor(3, seed=2)]
        expected = gradients(lambda *args: use_all(ops, "reference_", *args), tensors)
        with enabled():
            got = gradients(lambda *args: use_all(ops, "", *args), tensors)
        torch.testing.assert_close(got, expected)
        assert len(graphs) == count
    for eps in (0.1, 0.5, 0.1):  # attributes do not mix
        x, weight = tensor(4, 3), tensor(3, seed=2)
        (expected,) = torch.autograd.grad(ops.reference_scale_rows(x, weight, eps)[0].sum(), x)
        with enabled():
            ops.scale_rows(x, weight, eps)[0].sum().backward()
        torch.testing.assert_close(x.grad, expected)
    x = tensor(4, 3)
    with enabled():
        ops.largest(x, 3)[0].sum().backward()
    assert x.grad.sum() == 4


def test_compiled_autograd_finds_that_a_rule_is_missing(
    compiled_autograd: Any, op_without_rule: Any
) -> None:
    enabled, _ = compiled_autograd
    result = op_without_rule(tensor(3)).sum()
    message = "gradtest::no_rule: backward: expected a gradient rule, got none"
    with enabled(), pytest.raises(NotImplementedError, match=message):
        result.backward()


def test_compiled_autograd_of_compiled_steps() -> None:
    x = tensor(3)
    with torch._dynamo.config.patch(compiled_autograd=True):
        compiled = torch.compile(lambda x: ops.mul(x, x).sum().backward(), backend="aot_eager")
        compiled(x)
    torch.testing.assert_close(x.grad, 2 * x)


@pytest.fixture(scope="module")
def op_without_rule() -> Any:
    return graphffi.define_op(
        "gradtest::no_rule",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, y: None,
        infer=graphffi.like,
    )


@pytest.mark.parametrize("mode", ["eager", "aot"])
def test_gradients_of_complex_numbers(mode: str) -> None:
    x, y, grad = (torch.complex(tensor(4, seed=i), tensor(4, seed=9 - i)) for i in range(3))
    x, y, grad = x.detach().requires_grad_(), y.detach().requires_grad_(), grad.detach()
    for f in (lambda x, y, mul: mul(x, y), lambda x, y, mul: mul(x.conj(), y).conj()):
        got, expected = (
            torch.autograd.grad(
                MODES[mode](lambda x, y, f=f, mul=mul: f(x, y, mul))(x, y), (x, y), grad
            )
            for mul in (ops.mul_complex, torch.mul)
        )
        torch.testing.assert_close(got, expected)


def test_what_is_saved_is_freed_with_the_graph() -> None:
    results = ops.scale_rows(tensor(4, 3), tensor(3))
    alive = weakref.ref(results.inverse)
    del results
    assert alive() is None


def test_long_chains_are_freed() -> None:
    x, one = tensor(2), torch.ones(2)
    y = x
    for _ in range(30_000):
        y = ops.mul(y, one)
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]
    del y


def test_a_rule_of_undifferentiable_ops_ends_the_chain_with_an_error() -> None:
    x = tensor(4, 3)
    (first,) = torch.autograd.grad((ops.largest(x, 3).value ** 2).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradtest::put: backward: expected a gradient"):
        torch.autograd.grad(first.sum(), x)


def test_only_what_is_saved_is_kept() -> None:
    with _Packed() as kept:
        ops.combine([tensor(3), tensor(3)], None, [1.0, 2.0])
        assert kept == []
        ops.scale_rows(tensor(2, 3), tensor(3))
    assert [tuple(t.shape) for t in kept] == [(2, 3), (3,), (2,)]


class _Packed(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self) -> None:
        self.kept: list[torch.Tensor] = []
        super().__init__(lambda t: self.kept.append(t.detach()) or t.detach(), lambda t: t)

    def __enter__(self) -> list[torch.Tensor]:  # type: ignore[override]
        super().__enter__()
        return self.kept


def test_a_changed_saved_tensor_is_noticed() -> None:
    x, y = tensor(3), torch.ones(3)
    z = ops.mul(x, y)
    y += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_going_back_twice_needs_the_graph_to_be_kept() -> None:
    x = tensor(3)
    z = ops.mul(x, x).sum()
    z.backward(retain_graph=True)
    z.backward()
    torch.testing.assert_close(x.grad, 4 * x)
    with pytest.raises(RuntimeError, match="a second time"):
        z.backward()


def test_checkpoint_recomputes() -> None:
    x = tensor(4, 3)
    z = torch.utils.checkpoint.checkpoint(lambda x: ops.mul(x, x) * x, x, use_reentrant=False)
    (grad,) = torch.autograd.grad(z.sum(), x)
    torch.testing.assert_close(grad, 3 * x * x)


@pytest.mark.parametrize("mode", ["eager", "aot"])
def test_functional_transforms(mode: str) -> None:
    x, y = tensor(4, 3).detach(), tensor(4, 3, seed=1).detach()
    square = MODES[mode](torch.func.grad(lambda x: ops.mul(ops.mul(x, y), x).sum()))
    torch.testing.assert_close(square(x), 2 * x * y)
    _, pull = torch.func.vjp(lambda x: ops.scale_rows(x, x[0])[0], x)
    _, expected = torch.func.vjp(lambda x: ops.reference_scale_rows(x, x[0])[0], x)
    torch.testing.assert_close(pull(y), expected(y))
    jacobian = torch.func.jacrev(lambda x: ops.mul(x, y[0]))(x[0])
    torch.testing.assert_close(jacobian, torch.diag(y[0]))


@pytest.mark.parametrize(
    "transform",
    [
        lambda f, x: torch.func.jvp(f, (x,), (x,)),
        lambda f, x: torch.func.jacfwd(f)(x),
        lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
    ],
)
def test_forward_mode_is_refused_by_name(transform: Any) -> None:
    with pytest.raises(NotImplementedError, match="gradtest::mul: jvp: expected a forward-mode"):
        transform(lambda x: ops.mul(x, x), tensor(3).detach())


def test_forward_mode_through_updates_is_refused_by_name() -> None:
    def f(x: Any) -> Any:
        return ops.accumulate(x * 1, x)

    with pytest.raises(NotImplementedError, match="gradtest::accumulate: jvp: expected a forward"):
        torch.func.jvp(f, (torch.ones(3),), (torch.ones(3),))


def test_dual_numbers_are_refused_by_name() -> None:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(
            NotImplementedError, match="gradtest::mul: jvp: expected a forward-mode"
        ):
            ops.mul(dual, torch.ones(3))
        with pytest.raises(NotImplementedError, match="gradtest::accumulate: jvp: expected a forw"):
            ops.accumulate(torch.ones(3), dual)


def test_graphs_carry_the_digest_that_covers_the_rule() -> None:
    digests = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        digests.extend(n.kwargs.get("graphffi_digest") for n in graph.graph.nodes)
        return graph

    torch.compile(ops.mul, fullgraph=True, backend=backend)(tensor(3), tensor(3))
    expected = ops.mul.definition.traced_digest()
    assert any((digest or "").startswith(expected) for digest in digests)
    without = dataclasses.replace(ops.mul.definition, vjp=None)
    assert ops.mul.definition.digest != without.digest


def test_errors_of_rules_reach_the_caller() -> None:
    returned: list[Any] = []
    op = ops.with_gradients("gradtest::bad_rule", returned)
    for value, kind, message in (
        (ZeroDivisionError("on purpose"), ZeroDivisionError, "on purpose"),
        ((None,), TypeError, "gradtest::bad_rule: backward: expected 2 gradients, for x, y, got 1"),
        (
            (torch.ones(3) * 1j, None),
            TypeError,
            r"expected float32\[3\], got complex64\[3\]; take the part that is right, such as "
            r"\.real$",
        ),
        ((torch.ones(3).int(), None), TypeError, r"expected float32\[3\], got int32\[3\]$"),
        ((torch.ones(1), None), ValueError, r"'x': expected float32\[3\], got float32\[1\]"),
        (
            (torch.ones(3).numpy(), None),
            TypeError,
            "expected gradients that are torch tensors, got nd",
        ),
    ):
        returned.append(value)
        with pytest.raises(kind, match=message) as eager:
            op(tensor(3), tensor(3)).sum().backward()
        for mode in ("aot", "breaking", "dynamic"):
            torch._dynamo.reset()
            with pytest.raises(kind) as traced:
                MODES[mode](op)(tensor(3), tensor(3)).sum().backward()
            assert (type(traced.value), str(traced.value)) == (kind, str(eager.value))
    returned.append((None, torch.ones(3, dtype=torch.float64)))
    y = tensor(3)
    op(tensor(3), y).sum().backward()
    assert y.grad is not None
    assert y.grad.dtype == torch.float32


def test_a_gradient_is_a_floating_point_tensor() -> None:
    op = graphffi.define_op(
        "gradtest::int_gradient",
        schema="(Tensor x) -> Tensor",
        kernel=lambda x, y: None,
        infer=graphffi.like,
    )
    op.register_vjp(lambda saved, grad: grad > 0)
    message = "gradient of 'x': expected float32.3., got bool.3."
    with pytest.raises(TypeError, match=message):
        op(tensor(3)).sum().backward()


def test_threads_go_back_at_the_same_time() -> None:
    failures: list[Exception] = []

    def work(seed: int) -> None:
        try:
            for _ in range(50):
                x = tensor(4, 3, seed=seed)
                ops.mul(x, x).sum().backward()
                torch.testing.assert_close(x.grad, 2 * x)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("rows", [0, 1])
def test_small_tensors(rows: int) -> None:
    x, weight = tensor(rows, 3), tensor(3)
    results = ops.scale_rows(x, weight)
    grads = torch.autograd.grad(results[0].sum(), (x, weight))
    assert [g.shape for g in grads] == [x.shape, weight.shape]
    zero = tensor()
    (grad,) = torch.autograd.grad(ops.mul(zero, zero), zero)
    torch.testing.assert_close(grad, 2 * zero)


def test_opcheck_with_gradients() -> None:
    x, y, weight = tensor(4, 3), tensor(4, 3, seed=1), tensor(3, seed=2)
    torch.library.opcheck(torch.ops.gradtest.mul.default, (x, y))
    torch.library.opcheck(torch.ops.gradtest.scale_rows.default, (x, weight, 1e-3))
    torch.library.opcheck(torch.ops.gradtest.combine.default, ([x, y], None, [1.0, 2.0]))


class Loss(torch.nn.Module):
    """What trains a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(3, seed=2).detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (ops.scale_rows(ops.mul(x, x), self.weight).out ** 2).sum()


# Of torch 2.10's own reader of .pt2 files.
@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_an_exported_model_can_be_trained(tmp_path: Any) -> None:
    model, x = Loss(), tensor(4, 3).detach()
    rows = torch.export.Dim("rows")
    torch.export.save(
        torch.export.export(model, (x,), dynamic_shapes=[{0: rows}]), tmp_path / "m.pt2"
    )
    loaded = torch.export.load(tmp_path / "m.pt2").module()
    for data in (x, tensor(7, 3).detach()):
        for m in (model, loaded):
            m.zero_grad()
            m(data).backward()
        torch.testing.assert_close(loaded.weight.grad, model.weight.grad)


def test_a_training_step_can_be_a_graph() -> None:
    def step(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        scaled = ops.scale_rows(x, weight.requires_grad_()).out
        return torch.autograd.grad((scaled**2).sum(), weight)[0]

    weight, x = tensor(3).detach(), tensor(4, 3).detach()
    graph = make_fx(step)(weight, x)
    assert "gradtest.scale_rows" in graph.code
    weight, x = tensor(3, seed=5).detach(), tensor(4, 3, seed=6).detach()
    torch.testing.assert_close(graph(weight, x), step(weight, x))


@pytest.mark.parametrize("mode", ["eager", "aot"])
def test_rules_compute_in_the_types_of_the_op_under_autocast(mode: str) -> None:
    seen = []

    @graphffi.op(f"gradtest::typed_{mode}", kernel=ops.mul.definition.kernels[0].reference)
    def op(x: graphffi.Tensor, y: graphffi.Tensor) -> graphffi.Tensor:
        return graphffi.like(x)

    def backward(saved: Any, grad: Any) -> Any:
        seen.append((grad @ saved.y).dtype)
        return grad * saved.y, grad * saved.x

    def forward(saved: Any, x: Any, y: Any) -> Any:
        seen.append((x @ saved.y).dtype)
        return x * saved.y + saved.x * y

    op.register_vjp(backward, save=("x", "y"))
    op.register_jvp(forward, save=("x", "y"))
    x, y = tensor(3, 3), tensor(3, 3, seed=1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ y).dtype == torch.bfloat16
        torch.autograd.grad(MODES[mode](op)(x, y).sum(), [x, y])
        with torch.autograd.forward_ad.dual_level():
            op(torch.autograd.forward_ad.make_dual(x.detach(), y.detach()), y.detach())
    assert seen == [torch.float32] * 2
