# SPDX-License-Identifier: Apache-2.0
"""Eager calls that skip the dispatcher, and everything that must not."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import graphffi
from graphffi import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.arange(6.0).reshape(2, 3)


def is_direct(call: Callable[[], Any]) -> bool:
    """Whether a call never reaches Python's `Op.call_eagerly`."""
    seen: list[str] = []
    slow = inspect.unwrap(graphffi.Op.call_eagerly).__code__

    def profile(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is slow:
            seen.append(event)

    call()  # so that the rule has been asked
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return not seen


DIRECT: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "positional": lambda ops, x: ops.add(x, 3.0),
    "default": lambda ops, x: ops.add(x),
    "int for a float": lambda ops, x: ops.add(x, 3),
    "keywords": lambda ops, x: ops.add(a=3.0, x=x),
    "made-up keywords": lambda ops, x: ops.add(**{"".join("x"): x, "".join("a"): 1.0}),
    "unpacked": lambda ops, x: ops.add(*[x], **{"a": 2.0}),
    "noncontiguous": lambda ops, x: ops.add(x.T),
    "0-d": lambda ops, x: ops.add(x.sum()),
    "empty": lambda ops, x: ops.add(x[:0]),
    "named results": lambda ops, x: ops.split(x),
    "optional": lambda ops, x: ops.masked(x, x[0]),
    "no optional": lambda ops, x: ops.masked(x),
    "None": lambda ops, x: ops.masked(x, None),
    "list": lambda ops, x: ops.total_of([x[0], x[1]], x[0]),
    "tuple": lambda ops, x: ops.total_of((x[0], x[1]), x[0]),
    "empty list": lambda ops, x: ops.total_of([], x[0]),
    "attributes": lambda ops, x: ops.attributes(
        x, n=4, f=0.5, b=False, s="\u00e4", t=torch.int8, d=torch.device("cpu"), ns=[7], o=2
    ),
    "attributes by name": lambda ops, x: ops.attributes(x, t="int8", d="cuda:1", ns=(), o=None),
    "graphffi's dtype": lambda ops, x: ops.attributes(x, t=graphffi.dtype("int8")),
    "in place": lambda ops, x: ops.increment(x.clone()),
    "in place and a result": lambda ops, x: ops.increment_and_copy(x.clone()),
    "parameter": lambda ops, x: ops.add(torch.nn.Parameter(x, requires_grad=False)),
}
NOT_DIRECT: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "requires grad, with a data type": lambda ops, x: ops.attributes(x.clone().requires_grad_()),
    "lazy negative": lambda ops, x: ops.add(torch.complex(x, x).conj().imag),
    "meta": lambda ops, x: ops.add(x.to("meta")),
    "numpy scalar": lambda ops, x: ops.add(x, x.numpy()[0, 0]),
    "SymInt-like": lambda ops, x: ops.attributes(x, n=x.shape[0] == 2 and _Index()),
    "list subclass": lambda ops, x: ops.attributes(x, ns=torch.Size((1, 2))),
    "Device": lambda ops, x: ops.attributes(x, d=graphffi.Device("cpu")),
}


class _Index:
    def __index__(self) -> int:
        return 1


@pytest.mark.parametrize("name", DIRECT)
def test_plain_calls_skip_the_dispatcher_and_give_what_it_gives(ops: Any, name: str) -> None:
    assert is_direct(lambda: DIRECT[name](ops, X))
    direct = DIRECT[name](ops, X)
    with _Nothing():
        assert not is_direct(lambda: DIRECT[name](ops, X))
        dispatched = DIRECT[name](ops, X)
    assert type(direct) is type(dispatched)
    torch.testing.assert_close(direct, dispatched)


@pytest.mark.parametrize("name", NOT_DIRECT)
def test_other_calls_do_not(ops: Any, name: str) -> None:
    assert not is_direct(lambda: NOT_DIRECT[name](ops, X))


class _Nothing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class _Record(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class _Sub(torch.Tensor):
    pass


# Of torch 2.10's profiler, each time.
@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_modes_and_subclasses_see_the_call(ops: Any) -> None:
    with _Record() as record:
        ops.add(X)
    assert record.seen == ["mytest.add.default"]
    assert type(ops.add(X.as_subclass(_Sub))) is _Sub
    assert torch.equal(torch.func.vmap(lambda x: x + 1)(X), ops.add(X))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        ops.add(X)
        ops.increment(X.clone())
    names = [event.name for event in profile.events()]
    assert names.count("mytest::add") == 1
    assert names.count("mytest::increment") == 1


def test_modes_are_those_of_the_thread(ops: Any) -> None:
    seen: list[str] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if "mytest" in str(func):
                seen.append(threading.current_thread().name)
            return func(*args, **(kwargs or {}))

    def call() -> None:
        ops.add(X)
        with Mode():
            ops.add(X)
        ops.add(X)

    with Mode():
        for name in ("first", "second"):
            thread = threading.Thread(target=call, name=name)
            thread.start()
            thread.join()
    assert seen == ["first", "second"]


def test_gradients_are_refused_as_ever(ops: Any) -> None:
    x = X.clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="mytest::add: backward: expected a gradient"):
        ops.add(x).sum().backward()
    with pytest.raises(NotImplementedError, match="mytest::increment: operand 'x'"):
        ops.increment(x)
    with torch.no_grad():
        assert is_direct(lambda: ops.add(x))
        assert not ops.add(x).requires_grad
        assert ops.increment(x) is x


def test_calls_that_record_a_gradient_run_no_python_but_the_rule() -> None:
    seen: list[Any] = []

    def backward(saved: Any, grad: Any) -> Any:
        seen.append(saved)
        grads = [grad * saved.factor for _ in range(2)]
        return grad, None if saved.mask is None else grad, grads

    op = graphffi.define_op(
        "mytest::recorded",
        schema="(Tensor x, Tensor? mask, Tensor[] more, float factor=2.0, int[] sizes=[1, 2], "
        'bool flag=True, str name="n", int? absent=None) -> Tensor',
        kernel=lambda *arguments: torch.from_dlpack(arguments[-1]).copy_(
            torch.from_dlpack(arguments[0])
        ),
        infer=lambda x, *_: graphffi.like(x),
    )
    op.register_vjp(backward, save=("mask",))
    x, y, z = (torch.ones(3, requires_grad=True) for _ in range(3))
    calls: list[Callable[[], Any]] = [
        lambda: op(x, None, [y, z], 3.0, [4, 5, 6], False, "text", 7),
        lambda: op(x, y.detach(), (y, z)),
        lambda: op(X[0], None, [y, z], name="\u00e4"),
        lambda: op(x, None, [X[0], z], sizes=()),
    ]
    for call in calls:
        assert is_direct(call)
        direct = call()
        with _Nothing():
            dispatched = call()
        assert type(direct.grad_fn) is type(dispatched.grad_fn)
        gradients = []
        for result in (direct, dispatched):
            result.sum().backward()
            gradients.append([t.grad for t in (x, y, z)])
            for t in (x, y, z):
                t.grad = None
        torch.testing.assert_close(gradients[0], gradients[1])
        saved, again = seen[-2:]
        names = ("factor", "sizes", "flag", "name", "absent")
        assert [getattr(saved, n) for n in names] == [getattr(again, n) for n in names]
        with torch.no_grad():
            assert not call().requires_grad
    assert seen[0].name == "text"
    assert seen[0].absent == 7


def test_errors_of_recorded_calls_are_those_of_others(ops: Any) -> None:
    x = X.clone().requires_grad_()
    for _ in range(2):
        with pytest.raises(ValueError, match="mytest::fail: operand 'x': expected luck, got none"):
            ops.fail(x, "ValueError")
        with pytest.raises(ValueError, match="expected float32, got float64"):
            ops.add(x.double())


def test_forward_mode_gradients_are_refused(ops: Any) -> None:
    import torch.autograd.forward_ad as forward

    with forward.dual_level():
        dual = forward.make_dual(X, torch.ones_like(X))
        with pytest.raises(NotImplementedError, match="mytest::add: jvp: expected a forward-mode"):
            ops.add(dual)


def test_inference_tensors_stay_in_inference_mode(ops: Any) -> None:
    with torch.inference_mode():
        y = ops.add(X)
        assert is_direct(lambda: ops.add(y))
        assert y.is_inference()
        assert ops.increment(y) is y
    assert not ops.add(y).is_inference()


def test_versions_are_bumped_once(ops: Any) -> None:
    x = torch.zeros(3)
    y = (x * torch.ones(3, requires_grad=True)).exp()
    before = x._version
    ops.increment(x)
    assert x._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda ops: ops.add(), TypeError, "operand 'x': expected a tensor, got nothing"),
        (lambda ops: ops.add(None), TypeError, "operand 'x': expected a tensor, got None"),
        (lambda ops: ops.add(3), TypeError, "operand 'x': expected a tensor, got int 3"),
        (lambda ops: ops.add([X]), TypeError, "operand 'x': expected a tensor, got a list of 1"),
        (lambda ops: ops.add(X, "1"), TypeError, "attribute 'a': expected a float, got str '1'"),
        (lambda ops: ops.add(X, True), TypeError, "attribute 'a': expected a float, got bool"),
        (lambda ops: ops.add(X, X), TypeError, "attribute 'a': expected a float, got float32"),
        (lambda ops: ops.add(X, 1.0, 2.0), TypeError, "expected at most 2 arguments, got 3"),
        (lambda ops: ops.add(X, x=X), TypeError, "argument 'x': expected one value, got two"),
        (lambda ops: ops.add(X, b=1), TypeError, "argument 'b': expected a known name"),
        (lambda ops: ops.add(X, **{"": 1}), TypeError, "argument '': expected a known name"),
        (lambda ops: ops.add(X.double()), ValueError, "expected float32, got float64"),
        (lambda ops: ops.total_of([X, 1], X), TypeError, "expected a tensor at index 1"),
        (lambda ops: ops.total_of(X, X), TypeError, "operand 'xs': expected a list of tensors"),
        (lambda ops: ops.attributes(X, ns=[1.5]), TypeError, "'ns': expected a list of ints"),
        (lambda ops: ops.attributes(X, t="int9x"), TypeError, "'t': expected a dtype, got str"),
        (lambda ops: ops.attributes(X, d="cup"), TypeError, "'d': expected a device, got str"),
        (lambda ops: ops.attributes(X, n=2**63), ValueError, "'n': expected an int of 64 bits"),
        (lambda ops: ops.add(torch.eye(2).to_sparse()), (ValueError, RuntimeError), ""),
    ],
)
def test_wrong_calls_raise_what_they_always_raised(
    ops: Any, call: Any, kind: Any, text: str
) -> None:
    for _ in range(3):
        with pytest.raises(kind) as error:
            call(ops)
        assert text in str(error.value)
    torch.testing.assert_close(ops.add(X), X + 1)


def test_kernels_that_raise_leave_nothing_behind(ops: Any) -> None:
    for kind, expected in (("ValueError", ValueError), ("OddError", graphffi.Error)):
        with pytest.raises(expected, match="mytest::fail: operand 'x': expected luck, got none"):
            ops.fail(X, kind)


def test_outputs_that_share_memory_with_inputs_are_refused() -> None:
    op = graphffi.define_op(
        "mytest::add_into",
        schema="(Tensor x, Tensor(a!) total) -> ()",
        kernel=lambda x, total: None,
    )
    x, y = torch.ones(4), torch.zeros(4)
    assert op(x, y) is y
    with pytest.raises(
        ValueError, match=r"operand 'total': expected memory of its own, got memory shared with op"
    ):
        op(x, x)
    with pytest.raises(ValueError, match="expected elements that do not overlap"):
        op(x, torch.zeros(1).expand(4))


def test_updated_lists_and_absent_operands_come_back() -> None:
    op = graphffi.define_op(
        "mytest::touch_all",
        schema="(Tensor(a!)[] xs, Tensor(b!)? y, Tensor z) -> Tensor",
        kernel=lambda *_: None,
        infer=lambda xs, y, z: graphffi.like(z),
    )
    xs = [torch.ones(1), torch.ones(2)]
    versions = [x._version for x in xs]
    z, updated, y = op(xs, None, X)
    assert is_direct(lambda: op(xs, None, X))
    assert z.shape == X.shape
    assert type(updated) is list
    assert updated is not xs
    assert [a is b for a, b in zip(updated, xs, strict=True)] == [True, True]
    assert y is None
    assert [x._version for x in xs] > versions


def test_versions_of_very_many_tensors_are_bumped() -> None:
    graphffi.register_global_func("mytest.look_at_each", len)
    op = graphffi.define_op(
        "mytest::look_at_each",
        schema="(Tensor(a!)[] outs) -> ()",
        kernel=graphffi.get_global_func("mytest.look_at_each"),
    )
    xs = [torch.zeros(1) for _ in range(1000)]  # more than the blocks that calls keep for later
    for version in (1, 2):
        op(xs)
        assert {x._version for x in xs} == {version}


def test_calls_may_come_from_kernels_of_calls(ops: Any) -> None:
    depth = 0

    def kernel(x: Any, y: Any) -> None:
        nonlocal depth
        depth += 1
        inner = torch.from_dlpack(x)
        torch.from_dlpack(y).copy_(op(inner) if depth < 5 else ops.add(inner, 2.0))

    op = graphffi.define_op(
        "mytest::nested", schema="(Tensor x) -> Tensor", kernel=kernel, infer=graphffi.like
    )
    torch.testing.assert_close(op(X), X + 2)
    assert depth == 5


def test_a_list_may_change_while_its_op_runs() -> None:
    xs = [torch.ones(3)]

    def kernel(given: Any, x: Any, out: Any) -> None:
        xs.clear()
        gc.collect()
        torch.from_dlpack(out).copy_(torch.from_dlpack(given[0]))

    op = graphffi.define_op(
        "mytest::changes_list",
        schema="(Tensor[] xs, Tensor x) -> Tensor",
        kernel=kernel,
        infer=lambda xs, x: graphffi.like(x),
    )
    assert op(xs, torch.zeros(3)).tolist() == [1, 1, 1]


def test_threads_call_at_once(ops: Any) -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(300):
                x = torch.full((seed + 1, i % 7), float(seed))
                torch.testing.assert_close(ops.add(x, float(i)), x + i)
                with pytest.raises(ValueError, match="expected float32"):
                    ops.add(x.double())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def failing(call: Callable[[], Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        call()


def test_no_reference_is_lost_or_kept(ops: Any) -> None:
    x, xs, name = torch.ones(3), [torch.ones(3)], "abcdefgh"
    calls: list[Callable[[], Any]] = [
        lambda: ops.add(x, 1.5),
        lambda: ops.add(a=1.5, x=x),
        lambda: ops.increment(x),
        lambda: ops.split(x),
        lambda: ops.total_of(xs, x),
        lambda: ops.attributes(x, s=name, ns=[1, 2]),
        lambda: failing(lambda: ops.fail(x, "ValueError")),
        lambda: failing(lambda: ops.add(x, "1")),
    ]
    for call in calls:
        call()
        gc.collect()
        before = [sys.getrefcount(o) for o in (x, xs, xs[0], name, None, ops.add, ops.split)]
        for _ in range(200):
            call()
        gc.collect()
        after = [sys.getrefcount(o) for o in (x, xs, xs[0], name, None, ops.add, ops.split)]
        assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True)), (after, before)


def test_the_rule_is_asked_once_for_a_structure(ops: Any) -> None:
    asked = 0

    def rule(x: Any) -> Any:
        nonlocal asked
        asked += 1
        return graphffi.like(x)

    op = graphffi.define_op(
        "mytest::asked", schema="(Tensor x) -> Tensor", kernel=lambda x, y: None, infer=rule
    )
    for size in range(5):
        assert op(torch.ones(size, 2)).shape == (size, 2)
    assert asked == 1
    assert op(torch.ones(2, dtype=torch.int8)).dtype == torch.int8
    assert asked == 2


def test_subclasses_and_replaced_methods_keep_working(ops: Any) -> None:
    class Loud(graphffi.Op):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return "loud", super().__call__(*args, **kwargs)

    loud = Loud(ops.add.definition)
    said, value = loud(X)
    assert said == "loud"
    torch.testing.assert_close(value, X + 1)
    assert ops.add.__name__ == "add"
    assert copy.deepcopy({"op": ops.add})["op"] is ops.add
    assert pickle.loads(pickle.dumps(ops.add)) is ops.add
    ops.add.custom = 3  # ops are ordinary objects
    assert ops.add.custom == 3
    del ops.add.custom


def test_mutated_tensor_annotation(ops: Any) -> None:
    @graphffi.op("mytest::fill_", kernel=lambda x, v: None, mutates=("x",))
    def fill_(x: Tensor, v: float) -> None:
        graphffi.check(x.ndim == 1, f"operand 'x': expected 1 dimension, got {x.ndim}")

    x = torch.ones(2)
    assert fill_(x, 1.0) is x
    with pytest.raises(ValueError, match="mytest::fill_: operand 'x': expected 1 dimension, got 2"):
        fill_(X, 1.0)
