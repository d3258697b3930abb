# SPDX-License-Identifier: Apache-2.0
"""Which kernel was the fastest for calls of an op: what `tune` writes, put into force."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import TYPE_CHECKING, Any, Final

from .._contract.attribute_kind import KINDS
from .._contract.spec import TensorSpec
from .._frameworks.framework import frameworks_of_process
from .._kernels.choice import choose_in_order
from .._log import kernel_log
from .._values.device import Device
from .._values.dtype import dtype
from .tuned_call import TunedCall

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .._definition.definition import Definition

FORMAT: Final = 1
_TEXTS: Final = ("device", "device name", "kernel")  # of an entry, beside two lists


def device_name(kind: str) -> str:
    """The product behind a type of devices, as far as a framework that is imported tells it."""
    if kind == "cpu":
        try:
            with open("/proc/cpuinfo") as lines:
                names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
                return next(names, "").strip()
        except OSError:
            return ""
    found = (framework.device_name(kind) for framework in frameworks_of_process())
    return next(filter(None, found), "")


def read_tuning(path: str | os.PathLike[str]) -> dict[str, list[dict[str, Any]]]:
    """The entries of a file, by op; none if it is not there.

    Raises:
        ValueError: If it is of another version, or something else.
    """
    try:
        with open(path) as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not _is_tuning(found):
        raise ValueError(
            f"graphffi: tuning: expected a file that graphffi.tune wrote, got {os.fspath(path)!r}; "
            "run graphffi.tune again"
        )
    ops: dict[str, list[dict[str, Any]]] = found["ops"]
    return ops


def _is_tuning(found: Any) -> bool:
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        return False
    ops = found.get("ops")
    if not isinstance(ops, dict) or not all(isinstance(listed, list) for listed in ops.values()):
        return False
    entries = [entry for listed in ops.values() for entry in listed]
    return all(map(_is_entry, entries))


def _is_entry(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and all(isinstance(found.get(key), str) for key in _TEXTS)
        and isinstance(found.get("attributes"), list)
        and isinstance(found.get("operands"), list)
        and all(map(_is_operand, found["operands"]))
    )


def _is_operand(found: Any) -> bool:
    """True if it is None, a data type with sizes, or a list of these."""
    if not isinstance(found, list):
        return found is None
    if found and isinstance(found[0], str):
        return all(type(size) is int for size in found[1:])
    return all(map(_is_operand, found))


def tuned_call(entry: dict[str, Any]) -> TunedCall:
    """The calls of an entry."""
    return TunedCall(
        _tuple(entry["operands"]), _tuple(entry["attributes"]), entry["device"], entry["kernel"]
    )


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


_Calls = dict[str, tuple[TunedCall, ...]]  # by op
# Those of the program come first: GRAPHFFI_TUNING may be read later, with the first op.
_in_force: Final[_Calls] = {}
_of_environment: Final[_Calls] = {}
_read: Final[set[str]] = set()


def take_tuning(subject: str, path: str) -> Iterable[str]:
    """Puts a file into force; gives the names of its ops."""
    calls = _calls_here(subject, path)
    _in_force.update(calls)
    return calls


def _calls_here(subject: str, path: str) -> _Calls:
    """The calls of a file that were measured on this machine's devices."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"graphffi: {subject}: expected a file, got {path!r}")
    found = read_tuning(path)
    names = {entry["device"]: device_name(entry["device"]) for e in found.values() for entry in e}
    here: dict[str, list[dict[str, Any]]] = {op: [] for op in found}
    others = set()
    for op, entries in found.items():
        for entry in entries:
            if entry["device name"] == names[entry["device"]]:
                here[op].append(entry)
            else:
                others.add(entry["device name"])
    listed = ", ".join(map(repr, sorted(others)))
    if others and not any(here.values()):
        raise ValueError(
            f"graphffi: tuning {path!r}: expected calls that were measured on "
            f"{' or '.join(repr(name) for name in names.values())}, got {listed}; run "
            "graphffi.tune here"
        )
    if others:
        kernel_log().warning("graphffi: tuning %r: left out what was measured on %s", path, listed)
    return {op: tuple(map(tuned_call, entries)) for op, entries in here.items()}


def tuning_of(op: str) -> tuple[TunedCall, ...]:
    """The calls of an op that were measured, in force."""
    for path in filter(None, os.environ.get("GRAPHFFI_TUNING", "").split(":")):
        if path not in _read:
            _of_environment.update(_calls_here("GRAPHFFI_TUNING", path))
            _read.add(path)
    return _in_force.get(op, _of_environment.get(op, ()))


def tuned(definition: Definition) -> Definition:
    """A definition with what is known of the speed of the op's kernels."""
    calls = tuning_of(definition.name)
    return dataclasses.replace(definition, tuning=calls) if calls else definition


def changing(definition: Definition) -> tuple[TunedCall, ...]:
    """The calls in force for which another kernel runs than the first that fits."""
    calls = tuning_of(definition.name)
    free = dataclasses.replace(definition, forced="")  # as it is again after `use_kernel`
    return tuple(call for call in calls if _first_that_fits(free, call) != call.kernel)


def _first_that_fits(definition: Definition, call: TunedCall) -> str:
    def spec(operand: Any) -> Any:
        if operand is None:
            return None
        if operand and isinstance(operand[0], str):
            return TensorSpec(operand[1:], dtype(operand[0]), Device(call.device))
        return list(map(spec, operand))

    attributes = [
        KINDS[a.kind].from_graph(v)
        for a, v in zip(definition.attributes, call.attributes, strict=False)
    ]
    try:
        operands = list(map(spec, call.operands))
        return choose_in_order(definition, operands, attributes, call.device).name
    # The op is another one by now, whose rules may raise anything for such a call.
    except Exception as error:
        kernel_log().info(
            "%s: a call that was measured fits the op no longer: %r", definition.name, error
        )
        return ""
