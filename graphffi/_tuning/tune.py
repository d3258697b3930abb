# SPDX-License-Identifier: Apache-2.0
"""Measures the kernels of an op that fit a call, and compares what they compute."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._build.cache import locked, write_text
from .._contract.spec import described, spec_text
from .._definition.op import check_op
from .._frameworks.framework import framework_of
from .._kernels.choice import why_not
from .._kernels.op_kernel import call_device
from .._log import kernel_log
from .._rules.reference import is_narrow
from .._values.nested import flat, per_tensor
from .tuned_call import TunedCall
from .tuning import FORMAT, device_name, read_tuning

if TYPE_CHECKING:
    from .._definition.binding import BoundCall
    from .._definition.definition import Definition
    from .._definition.op import Op
    from .._frameworks.framework import Framework
    from .._kernels.op_kernel import OpKernel

clock: Callable[[], float] = time.perf_counter
# A sample is as many calls as take about that long, so that the clock's steps don't count.
_SAMPLE: Final = 1e-3
_FEWEST_ROUNDS: Final = 5


@dataclass(frozen=True)
class Tuned:
    """The findings of `tune` for one case.

    Args:
        case: Data types, shapes and attributes, in words.
        kernel: The name of the fastest one that is right.
        seconds: Of one call, by kernel, of those that are right.
        wrong: What is wrong with others, by kernel.
    """

    case: str
    kernel: str
    seconds: dict[str, float]
    wrong: dict[str, str]


def tune(
    op: Op,
    cases: Iterable[Any],
    path: str | os.PathLike[str],
    *,
    seconds: float = 0.5,
) -> list[Tuned]:
    """Measures the kernels that fit calls, and writes which is the fastest for each.

    Results are compared with the op's reference, or with those of the first kernel that fits if
    there is none. A kernel that disagrees is never the fastest; it is named in the log and in what
    is returned. The file is written after each case, and keeps what it has of other calls and ops:
    `use_tuning` puts it into force. Calls are eager ones of the tensors' framework. The logger
    ``graphffi.kernels`` tells the progress.

    Args:
        op: The op.
        cases: A tuple of arguments for each call, or a mapping of names to them. Their contents
            are those that are computed with.
        path: Of the file.
        seconds: How long each kernel is measured for each case.

    Returns:
        What was found, one for each case.

    Raises:
        TypeError: If `op` is none.
        ValueError: If there is no case; if no kernel fits a case, or none is right; if `path` or
            `seconds` is none.

    Example:
        >>> cases = [(torch.randn(n, 4096), weight) for n in (1, 64)]  # doctest: +SKIP
        >>> graphffi.tune(rms_norm, cases, "tuning.json")  # doctest: +SKIP
        >>> graphffi.use_tuning("tuning.json")  # doctest: +SKIP
    """
    check_op("graphffi: tune", op)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{op.name}: tune: seconds: expected more than 0, got {seconds}")
    target = Path(path)
    if not target.name or target.is_dir():
        raise ValueError(f"{op.name}: tune: path: expected that of a file, got '{path}'")
    listed = list(cases)
    if not listed:
        raise ValueError(f"{op.name}: tune: cases: expected at least one")
    found = []
    start = clock()
    for i, case in enumerate(listed):
        bound = _bind(op, case)
        tuned, call = _tune_case(op, bound, seconds)
        _write(op, target, tuned, call)
        found.append(tuned)
        times = ", ".join(f"{name!r} {_duration(t)}" for name, t in tuned.seconds.items())
        rest = (clock() - start) / (i + 1) * (len(listed) - i - 1)
        kernel_log().info(
            "%s: tuned case %d of %d, %s: %s; %d s left", op.name, i + 1, len(listed), tuned.case,
            times, math.ceil(rest),
        )  # fmt: skip
    return found


def _bind(op: Op, case: Any) -> BoundCall:
    if isinstance(case, Mapping):
        return op.definition.bind((), dict(case))
    return op.definition.bind(tuple(case) if isinstance(case, (tuple, list)) else (case,), {})


def _tune_case(op: Op, bound: BoundCall, seconds: float) -> tuple[Tuned, TunedCall]:
    definition = op.definition
    operands = [described(operand) for operand in bound.operands]
    specs = definition.infer(operands, bound.attributes)
    device = call_device(operands, specs)
    fitting = [
        kernel
        for kernel in definition.kernels
        if not why_not(definition, kernel, operands, bound.attributes, device)
    ]
    case = _describe(definition, operands, bound.attributes)
    if not fitting:
        raise ValueError(f"{op.name}: tune: expected a kernel that fits {case}, got none")
    callers, wrong = _right_callers(op, bound, fitting)
    for name, text in wrong.items():
        kernel_log().warning("%s: tune: kernel %r is wrong for %s: %s", op.name, name, case, text)
    if not callers:
        listed = "; ".join(f"{name!r}: {text}" for name, text in wrong.items())
        raise ValueError(
            f"{op.name}: tune: expected a kernel that is right for {case}, got {listed}"
        )
    times = _measure(callers, seconds)
    fastest = min(times, key=lambda name: times[name])
    call = TunedCall.of(operands, bound.attributes, device, fastest)
    return Tuned(case, fastest, times, wrong), call


def _right_callers(
    op: Op, bound: BoundCall, kernels: Sequence[OpKernel]
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Callers of the kernels whose results are correct, and the errors of the others."""
    from ..testing._compare import difference

    framework = framework_of(op.name, bound.tensors())
    callers: dict[str, Callable[[], Any]] = {}
    wrong: dict[str, str] = {}
    expected = _expected(framework, op.definition, bound)
    for kernel in kernels:
        call = _caller(framework, op.definition, bound, kernel)
        try:
            got = [framework.to_numpy(value) for value in call()]
        except Exception as error:
            wrong[kernel.name] = f"{type(error).__name__}: {error}"
            continue
        if expected is None:
            expected = got
        names = [f"result {i}" for i in range(len(got))]
        like = [one.astype(a.dtype) for one, a in zip(expected, got, strict=False)]
        if text := difference(like, got, names):
            wrong[kernel.name] = text
        else:
            callers[kernel.name] = call
    return callers, wrong


def _expected(framework: Framework, definition: Definition, bound: BoundCall) -> list[Any] | None:
    """The results of the reference on arrays of NumPy, in float32 at least."""
    if definition.reference is None:
        return None

    @per_tensor
    def wide(tensor: Any) -> Any:
        array = framework.to_numpy(tensor)
        return array.astype("float32") if is_narrow(array.dtype) else array.copy()

    operands = [wide(operand) for operand in bound.operands]
    return flat(definition.reference.call(definition, operands, bound.attributes))


def _caller(
    framework: Framework, definition: Definition, bound: BoundCall, kernel: OpKernel
) -> Callable[[], list[Any]]:
    """A function that calls one kernel on copies of updated operands, and waits for results."""
    forcing = dataclasses.replace(definition, forced=kernel.name, tuning=())
    own = _with_copies(framework, definition, bound)

    def call() -> list[Any]:
        results = flat(framework.call_as(forcing, own))
        framework.wait(results)
        return results

    return call


def _with_copies(framework: Framework, definition: Definition, bound: BoundCall) -> BoundCall:
    """The call with copies of what it updates."""
    copy = per_tensor(framework.copy)
    operands = (
        copy(value) if operand.mutated else value
        for operand, value in zip(definition.operands, bound.operands, strict=True)
    )
    return dataclasses.replace(bound, operands=tuple(operands))


def _measure(callers: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Seconds of a call of each: the least of many samples, as others only slow it down."""
    counts = {name: _count(call) for name, call in callers.items()}
    least = dict.fromkeys(callers, math.inf)
    end = clock() + seconds * len(callers)
    rounds = 0
    while rounds < _FEWEST_ROUNDS or clock() < end:
        # Neither always follows the same one.
        for name in reversed(counts) if rounds % 2 else counts:
            least[name] = min(least[name], _sample(callers[name], counts[name]))
        rounds += 1
    return least


def _count(call: Callable[[], Any]) -> int:
    once = min(_sample(call, 1) for _ in range(3))
    return max(1, min(10_000, math.ceil(_SAMPLE / max(once, 1e-9))))


def _sample(call: Callable[[], Any], count: int) -> float:
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def _describe(definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]) -> str:
    def one(spec: Any) -> str:
        if isinstance(spec, list):
            return f"[{', '.join(map(one, spec))}]"
        return "None" if spec is None else spec_text(spec)

    named = [f"{a.name}={v!r}" for a, v in zip(definition.attributes, attributes, strict=True)]
    return f"({', '.join((*map(one, operands), *named))})"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def _write(op: Op, path: Path, tuned: Tuned, call: TunedCall) -> None:
    entry = {
        **dataclasses.asdict(call),
        "device name": device_name(call.device),
        "seconds": tuned.seconds,
        "wrong": tuned.wrong,
        "versions": _versions(),
    }
    with locked(path.with_name(f"{path.name}.lock")):  # others may add to the file at the same time
        ops = read_tuning(path)
        others = [e for e in ops.get(op.name, []) if _measured(e) != _measured(entry)]
        ops[op.name] = [*others, entry]
        write_text(path, json.dumps({"format": FORMAT, "ops": ops}, indent=1))


def _measured(entry: dict[str, Any]) -> str:
    """The call and the device of an entry, as a text: it tells -0.0 from 0.0, and NaN is itself."""
    keys = ("operands", "attributes", "device", "device name")
    return json.dumps([entry[key] for key in keys])


def _versions() -> dict[str, str]:
    from importlib import metadata  # with all of `email`, a fifth of the time of `import graphffi`

    found = {}
    for name in ("graphffi", "torch", "jax", "numpy"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
