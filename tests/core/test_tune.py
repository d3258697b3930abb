# SPDX-License-Identifier: Apache-2.0
"""Which kernel is the fastest: how it is found, written and put into force."""

from __future__ import annotations

import fcntl
import itertools
import json
import logging
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi._tuning import tune as _tune
from graphffi._tuning import tuning as _tuning

numbers = itertools.count()
SCHEMA = "(Tensor x, int n=0) -> Tensor"


class FakeClock:
    """Time that kernels alone take."""

    def __init__(self) -> None:
        self.now = 0.0
        self.random = random.Random(0)

    def __call__(self) -> float:
        return self.now

    def kernel(self, seconds: float, factor: float = 2, noise: float = 0.0) -> Callable[..., None]:
        """One that takes that long, or up to `noise` of it longer."""

        def kernel(x: Any, out: Any) -> None:
            np.from_dlpack(out)[...] = np.from_dlpack(x) * factor
            self.now += seconds * (1 + noise * self.random.random())

        return kernel


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    found = FakeClock()
    monkeypatch.setattr(_tune, "clock", found)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tuning.json"


def define(name: str = "", **options: Any) -> graphffi.Op:
    name = name or f"tune::op{next(numbers)}"
    return graphffi.define_op(name, schema=SCHEMA, infer=lambda x, n: graphffi.like(x), **options)


def with_kernels(op: graphffi.Op, **kernels: Any) -> graphffi.Op:
    for name, kernel in kernels.items():
        op.add_kernel(kernel, name=name, plan="x, out")
    return op


def array(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


def chosen(op: graphffi.Op, *arguments: Any) -> str:
    (line,) = (line for line in op.explain(*arguments).splitlines() if line.endswith(": runs"))
    return line.split("'")[1]


def test_the_fastest_kernel_is_found_and_put_into_force(
    arrays: Any, clock: FakeClock, path: Path
) -> None:
    op = with_kernels(define(), slow=clock.kernel(3e-3), fast=clock.kernel(1e-3))
    x, other = arrays.make(array(3, 4)), arrays.make(array(5, 4))
    (found,) = graphffi.tune(op, [(x,)], path)
    assert (found.kernel, found.wrong) == ("fast", {})
    assert found.seconds == pytest.approx({"slow": 3e-3, "fast": 1e-3})
    assert chosen(op, x) == "slow"
    graphffi.use_tuning(path)
    assert [chosen(op, x), chosen(op, x, 1), chosen(op, other)] == ["fast", "slow", "slow"]
    before = clock.now
    for _ in range(2):
        op(x), op(other)
    assert clock.now - before == pytest.approx(2 * 1e-3 + 2 * 3e-3)
    with op.use_kernel("slow"):
        assert chosen(op, x) == "slow"


def test_compiled_code_runs_the_fastest_kernel(arrays: Any, clock: FakeClock, path: Path) -> None:
    op = with_kernels(define(), slow=clock.kernel(3e-3), fast=clock.kernel(1e-3))
    compile_: Callable[..., Any] = lambda function: function  # noqa: E731
    if arrays.name == "torch":
        import torch

        def compile_(function: Any) -> Any:
            return torch.compile(function, fullgraph=True, dynamic=True)
    elif arrays.name == "jax":
        import jax

        compile_ = jax.jit
    x, other = arrays.make(array(3, 4)), arrays.make(array(5, 4))
    function = compile_(lambda value: op(value) * 1)
    function(x)
    graphffi.tune(op, [(x,)], path)
    graphffi.use_tuning(path)
    before = clock.now
    np.asarray(function(x)), np.asarray(function(other))
    assert clock.now - before == pytest.approx(1e-3 + 3e-3)


def test_the_faster_of_two_is_picked_where_speeds_differ(clock: FakeClock, path: Path) -> None:
    picked = 0
    for seed in range(20):
        clock.random.seed(seed)
        slow, fast = 1e-5 * 1.3, 1e-5
        kernels = {"slow": clock.kernel(slow, noise=0.5), "fast": clock.kernel(fast, noise=0.5)}
        op = with_kernels(define(), **dict(sorted(kernels.items(), reverse=seed % 2 == 0)))
        (found,) = graphffi.tune(op, [(array(3),)], path, seconds=1e-3)
        picked += found.kernel == "fast"
    assert picked >= 19


def test_a_kernel_that_disagrees_is_named_and_never_picked(
    clock: FakeClock, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(x: Any, out: Any) -> None:
        raise ValueError("no such tile")

    op = with_kernels(
        define(), right=clock.kernel(2e-3), wrong=clock.kernel(1e-6, factor=3), broken=broken
    )
    with caplog.at_level(logging.INFO, "graphffi.kernels"):
        (found,) = graphffi.tune(op, [(array(3),)], path)
    assert found.kernel == "right"
    assert found.wrong["wrong"].startswith("result 0: expected ")
    assert found.wrong["broken"] == "ValueError: no such tile"
    assert f"{op.name}: tune: kernel 'wrong' is wrong for (float32[3], n=0): " in caplog.text
    assert f"{op.name}: tuned case 1 of 1, (float32[3], n=0): 'right' 2.00 ms; 0 s" in caplog.text


def test_the_reference_says_what_is_right(clock: FakeClock, path: Path) -> None:
    pytest.importorskip("array_api_compat")
    op = with_kernels(define(), wrong=clock.kernel(1e-6, factor=3), right=clock.kernel(1e-3))
    op.set_reference(lambda xp, x, n: x * 2)
    (found,) = graphffi.tune(op, [(array(3),)], path)
    assert (found.kernel, list(found.wrong)) == ("right", ["wrong"])
    with pytest.raises(ValueError, match=r"expected a kernel that is right for .*, got 'wrong': "):
        graphffi.tune(with_kernels(_with_reference(), wrong=clock.kernel(1, 3)), [array(3)], path)


def _with_reference() -> graphffi.Op:
    op = define()
    op.set_reference(lambda xp, x, n: x * 2)
    return op


def test_kernels_of_factories_are_measured(clock: FakeClock, path: Path) -> None:
    op = with_kernels(define(), slow=clock.kernel(3e-3))
    op.add_factory(name="tile", key=lambda x, n: x.shape[0], plan="x, out")(
        lambda size: clock.kernel(1e-3 * size)
    )
    found = graphffi.tune(op, [(array(2),), (array(4),)], path)
    assert [one.kernel for one in found] == ["tile", "slow"]
    graphffi.use_tuning(path)
    assert [chosen(op, array(n)) for n in (2, 4)] == ["tile", "slow"]


def test_tensors_of_the_runtime_are_left_as_they_are(clock: FakeClock, path: Path) -> None:
    def kernel(cache: Any, x: Any) -> None:
        np.from_dlpack(cache)[...] += np.from_dlpack(x)
        clock.now += 1e-3

    op = graphffi.define_op(
        f"tune::op{next(numbers)}", schema="(Tensor(a!) cache, Tensor x) -> ()", kernel=kernel
    )
    cache = array(3)
    (found,) = graphffi.tune(op, [(graphffi.from_dlpack(cache), array(3))], path)
    assert not found.wrong
    np.testing.assert_array_equal(cache, array(3))


def test_lists_and_updated_operands_are_measured(clock: FakeClock, path: Path) -> None:
    def kernel(cache: Any, x: Any, y: Any) -> None:
        np.from_dlpack(cache)[...] += np.from_dlpack(x) + np.from_dlpack(y)
        clock.now += 1e-3

    name = f"tune::op{next(numbers)}"
    op = graphffi.define_op(name, schema="(Tensor(a!) cache, Tensor[] xs, Tensor? z) -> ()")
    for kernel_name in ("one", "two"):
        op.add_kernel(
            lambda cache, xs, z: kernel(cache, *xs), name=kernel_name, plan="cache, xs, z"
        )
    case = {"cache": array(3), "xs": [array(3), array(3)], "z": None}
    kept = case["cache"].copy()
    (found,) = graphffi.tune(op, [case], path)
    assert set(found.seconds) == {"one", "two"}
    assert found.case == "(float32[3], [float32[3], float32[3]], None)"
    np.testing.assert_array_equal(case["cache"], kept)
    entry = json.loads(path.read_text())["ops"][name][0]
    call = _tuning.tuned_call(entry)
    spec = graphffi.TensorSpec((3,), "float32")
    assert call.fits([spec, [spec, spec], None], [], "cpu")
    wide = graphffi.TensorSpec((4,), "float32")
    others = ([spec, [spec], None], [spec, [spec, wide], None], [spec, spec, None])
    for operands in (*others, [spec, [spec, spec], spec], [wide, [spec, spec], None]):
        assert not call.fits(operands, [], "cpu")


def test_a_file_keeps_other_cases_and_ops(clock: FakeClock, path: Path) -> None:
    ops = [with_kernels(define(), one=clock.kernel(1e-3)) for _ in range(2)]
    for op in ops:
        for n in (3, 4, 3):
            graphffi.tune(op, [(array(n),)], path, seconds=1e-3)
    found = json.loads(path.read_text())["ops"]
    shapes = [["float32", 4]], [["float32", 3]]
    assert {name: tuple(e["operands"] for e in entries) for name, entries in found.items()} == {
        op.name: shapes for op in ops
    }
    assert found[ops[0].name][0]["versions"]["numpy"] == np.__version__


def test_a_file_tells_minus_zero_from_zero_and_knows_nan(clock: FakeClock, path: Path) -> None:
    def kernel(x: Any, scale: float, out: Any, seconds: float) -> None:
        np.from_dlpack(out)[...] = 0
        clock.now += seconds

    op = graphffi.define_op(
        f"tune::op{next(numbers)}",
        schema="(Tensor x, float scale) -> Tensor",
        infer=lambda x, scale: graphffi.like(x),
    )
    op.add_kernel(lambda *values: kernel(*values, 2), name="slow", plan="x, scale, out")
    op.add_kernel(
        lambda x, scale, out: kernel(x, scale, out, 2 - math.copysign(1, scale)),
        name="mixed",
        plan="x, scale, out",
    )
    scales = (0.0, -0.0, math.nan)
    for _ in range(2):
        found = graphffi.tune(op, [(array(3), scale) for scale in scales], path, seconds=1e-3)
        assert [one.kernel for one in found] == ["mixed", "slow", "mixed"]
    entries = json.loads(path.read_text())["ops"][op.name]
    assert [repr(entry["attributes"]) for entry in entries] == ["[0.0]", "[-0.0]", "[nan]"]
    graphffi.use_tuning(path)
    assert [chosen(op, array(3), scale) for scale in scales] == ["mixed", "slow", "mixed"]


def test_an_op_that_is_defined_later_is_tuned(clock: FakeClock, path: Path) -> None:
    kernels = {"slow": clock.kernel(3e-3), "fast": clock.kernel(1e-3)}
    op = with_kernels(define(), **kernels)
    graphffi.tune(op, [(array(3),)], path)
    other = f"tune::op{next(numbers)}"
    path.write_text(path.read_text().replace(op.name, other))
    graphffi.use_tuning(path)
    later = with_kernels(define(other), **kernels)
    assert chosen(later, array(3)) == "fast"
    assert graphffi.define_op(other, schema=SCHEMA, infer=later.definition.rule) is later


def test_calls_that_an_op_does_not_take_any_more_are_logged(
    clock: FakeClock, path: Path, caplog: Any
) -> None:
    op = with_kernels(define(), one=clock.kernel(1e-3))
    graphffi.tune(op, [(array(3),)], path)

    def when(*_: Any) -> bool:
        raise RuntimeError("another op")

    define(op.name, override=True)
    op.add_kernel(clock.kernel(1e-3), name="one", plan="x, out", when=when, override=True)
    with caplog.at_level("INFO", "graphffi.kernels"):
        graphffi.use_tuning(path)
    assert f"{op.name}: a call that was measured fits the op no longer" in caplog.text
    assert "another op" in caplog.text


def test_only_ops_that_run_other_kernels_are_replaced(clock: FakeClock, path: Path) -> None:
    torch = pytest.importorskip("torch")
    compiled = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    first = {"fast": clock.kernel(1e-3), "slow": clock.kernel(3e-3)}
    same = with_kernels(define(), **first)
    other = with_kernels(define(), **dict(reversed(first.items())))
    x = torch.ones(3)
    functions = [torch.compile(lambda x, op=op: op(x), backend=backend) for op in (same, other)]
    for op in (same, other):
        graphffi.tune(op, [(x,)], path)
    digests = [op.definition.digest for op in (same, other)]
    for function in functions:
        function(x)
    assert len(compiled) == 2
    for _ in range(2):
        graphffi.use_tuning(path)
        for function in functions:
            function(x)
        assert len(compiled) == 3  # the one of `other`
    assert same.definition.digest == digests[0]
    assert other.definition.digest != digests[1]


def test_what_was_measured_on_other_devices_is_refused(clock: FakeClock, path: Path) -> None:
    op = with_kernels(define(), one=clock.kernel(1e-3))
    graphffi.tune(op, [(array(3),)], path)
    text = json.loads(path.read_text())
    text["ops"][op.name][0]["device name"] = "A Machine"
    path.write_text(json.dumps(text))
    with pytest.raises(ValueError, match=r"expected calls that were measured on '.*', got 'A Mach"):
        graphffi.use_tuning(path)


def test_a_file_that_is_refused_leaves_the_one_in_force(clock: FakeClock, path: Path) -> None:
    op = with_kernels(define(), slow=clock.kernel(3e-3), fast=clock.kernel(1e-3))
    graphffi.tune(op, [(array(3),)], path)
    graphffi.use_tuning(path)
    other = path.with_name("other.json")
    other.write_text(path.read_text().replace('"device name": "', '"device name": "not '))
    with pytest.raises(ValueError, match="expected calls that were measured on"):
        graphffi.use_tuning(other)
    again = define(op.name, dims="n -> n", override=True)
    op = with_kernels(again, slow=clock.kernel(1), fast=clock.kernel(1))
    assert chosen(op, array(3)) == "fast"


def test_nobody_else_writes_a_file_from_when_it_is_read(
    clock: FakeClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def checked(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            with open(f"{path}.lock", "w") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(function.__name__)
            return function(*arguments)

        return call

    for function in (_tune.read_tuning, _tune.write_text):
        monkeypatch.setattr(_tune, function.__name__, checked(function))
    graphffi.tune(with_kernels(define(), one=clock.kernel(1e-3)), [(array(3),)], path)
    assert seen == ["read_tuning", "write_text"]


def test_a_file_may_be_put_into_force_while_a_kernel_is_forced(
    clock: FakeClock, path: Path
) -> None:
    op = with_kernels(define(), slow=clock.kernel(3e-3), fast=clock.kernel(1e-3))
    graphffi.tune(op, [(array(3),)], path)
    with op.use_kernel("fast"):
        graphffi.use_tuning(path)
    assert chosen(op, array(3)) == "fast"


ENTRY = {"operands": [], "attributes": [], "device": "cpu", "device name": "", "kernel": "a"}


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", '{"format": 1}', '{"format": 1, "ops": []}'),
        *(
            f'{{"format": 1, "ops": {{"a": {entries}}}}}'
            for entries in ("5", "[5]", '[{"device": 1}]')
        ),
        *(
            json.dumps({"format": 1, "ops": {"a": [ENTRY | {key: wrong}]}})
            for key, wrong in (
                *(("operands", 3), ("operands", [3]), ("operands", [["float32", "4"]])),
                *(("attributes", None), ("device", [1]), ("device name", [1]), ("kernel", 3)),
            )
        ),
    ],
)
def test_a_file_of_something_else_is_refused_and_kept(
    text: str, clock: FakeClock, path: Path
) -> None:
    path.write_text(text)
    expected = rf"graphffi: tuning: expected a file that graphffi\.tune wrote, got '{path}'"
    with pytest.raises(ValueError, match=expected):
        graphffi.use_tuning(path)
    with pytest.raises(ValueError, match=expected):
        graphffi.tune(with_kernels(define(), one=clock.kernel(1e-3)), [(array(3),)], path)
    assert path.read_text() == text


def test_wrong_files_and_cases_are_refused(path: Path, clock: FakeClock) -> None:
    with pytest.raises(FileNotFoundError, match="use_tuning: expected a file, got"):
        graphffi.use_tuning(path)
    path.write_text('{"format": 0}')
    with path.open() as file:
        with pytest.raises(TypeError):
            graphffi.use_tuning(file.fileno())  # type: ignore[arg-type]
        assert file.read() == '{"format": 0}'  # it is open still
    with pytest.raises(ValueError, match=r"expected a file that graphffi\.tune wrote, got"):
        graphffi.use_tuning(path)
    op = define()
    op.add_kernel(clock.kernel(1), name="one", plan="x, out", device="cuda")
    with pytest.raises(ValueError, match=r"expected a kernel that fits \(float32\[3\], n=0\), got"):
        graphffi.tune(op, [(array(3),)], path)
    for seconds in (math.nan, math.inf, 0, -1):
        with pytest.raises(ValueError, match=f"tune: seconds: expected more than 0, got {seconds}"):
            graphffi.tune(op, [(array(3),)], path, seconds=seconds)
    for folder in ("", "/", path.parent):
        with pytest.raises(
            ValueError, match=f"tune: path: expected that of a file, got '{folder}'"
        ):
            graphffi.tune(op, [(array(3),)], folder)
    with pytest.raises(ValueError, match="tune: cases: expected at least one"):
        graphffi.tune(op, [], path)


def test_a_kernel_is_no_op(tmp_path: Path) -> None:
    kernel: Any = graphffi.get_global_func("ffi.Shape")
    with pytest.raises(TypeError, match="graphffi: tune: expected an op, got"):
        graphffi.tune(kernel, [], tmp_path / "tuning.json")
    with pytest.raises(TypeError, match="graphffi: prebuild: expected an op, got"):
        graphffi.prebuild(kernel, [], tmp_path)


def test_the_environment_puts_a_file_into_force(
    clock: FakeClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = {"slow": clock.kernel(3e-3), "fast": clock.kernel(1e-3)}
    op = with_kernels(define(), **kernels)
    graphffi.tune(op, [(array(3),)], path)
    other = f"tune::op{next(numbers)}"
    path.write_text(path.read_text().replace(op.name, other))
    monkeypatch.setenv("GRAPHFFI_TUNING", str(path))
    assert chosen(with_kernels(define(other), **kernels), array(3)) == "fast"


@pytest.mark.parametrize("is_defined_first", [True, False])
def test_a_file_of_the_program_wins_over_one_of_the_environment(
    is_defined_first: bool, clock: FakeClock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = {"first": clock.kernel(1e-3), "second": clock.kernel(1e-3)}
    measured = with_kernels(define(), **kernels)
    graphffi.tune(measured, [(array(3),)], path)
    (entry,) = json.loads(path.read_text())["ops"][measured.name]
    name, other = (f"tune::op{next(numbers)}" for _ in range(2))

    def write(to: Path, kernel: str, *ops: str) -> None:
        found = {op: [entry | {"kernel": kernel}] for op in ops}
        to.write_text(json.dumps({"format": 1, "ops": found}))

    environment = path.with_name("environment.json")
    write(environment, "second", name, other)
    write(path, "first", name)
    monkeypatch.setenv("GRAPHFFI_TUNING", str(environment))
    if not is_defined_first:
        graphffi.use_tuning(path)
    op = with_kernels(define(name), **kernels)
    if is_defined_first:
        assert chosen(op, array(3)) == "second"
        graphffi.use_tuning(path)
    assert chosen(op, array(3)) == "first"
    assert chosen(with_kernels(define(other), **kernels), array(3)) == "second"


def test_a_file_that_the_environment_names_has_to_be_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHFFI_TUNING", str(path))
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="GRAPHFFI_TUNING: expected a file, got"):
            define()
