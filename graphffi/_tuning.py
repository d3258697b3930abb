# SPDX-License-Identifier: Apache-2.0
"""Which kernel was the fastest for calls of an op: what `tune` writes, put into force."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ._device import Device
from ._dtype import dtype
from ._framework import frameworks_of_process
from ._spec import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._definition import Definition

log: Final = logging.getLogger("graphffi.kernels")
FORMAT: Final = 1
_TEXTS: Final = ("device", "device name", "kernel")  # of an entry, beside two lists


@dataclass(frozen=True)
class TunedCall:
    """Calls of one structure, and their kernel.

    Args:
        operands: Data type and shape of each operand; None, or a tuple of them for a list.
        attributes: Values; data types and devices by name.
        device: Type of the device.
        kernel: The name of the fastest one.
    """

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]
    device: str
    kernel: str

    def fits(self, operands: Sequence[Any], attributes: Sequence[Any], device: str) -> bool:
        """True if a call is one of these. Symbolic sizes are compared: a guard, or a condition.

        Raises:
            UndecidedError: If that depends on a size that is not known.
        """
        return (
            device == self.device
            and len(operands) == len(self.operands)
            and len(attributes) == len(self.attributes)
            and all(map(_has_kind, operands, self.operands))
            and all(map(_has_shape, operands, self.operands))
            and all(map(_has_value, attributes, self.attributes))
        )

    @staticmethod
    def of(
        operands: Sequence[Any], attributes: Sequence[Any], device: str, kernel: str
    ) -> TunedCall:
        """Calls with these specs and attributes."""
        return TunedCall(
            tuple(map(_operand, operands)), tuple(map(_attribute, attributes)), device, kernel
        )


def _operand(spec: Any) -> Any:
    if isinstance(spec, (list, tuple)):
        return tuple(map(_operand, spec))
    return None if spec is None else (str(dtype(spec.dtype)), *map(int, spec.shape))


def _attribute(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_attribute, value))
    return str(value) if isinstance(value, (dtype, Device)) else value


def _has_kind(spec: Any, known: Any) -> bool:
    if spec is None or known is None:
        return spec is None and known is None
    is_list = not (known and isinstance(known[0], str))
    if isinstance(spec, (list, tuple)):
        return is_list and len(spec) == len(known) and all(map(_has_kind, spec, known))
    return not is_list and (str(dtype(spec.dtype)), len(spec.shape)) == (known[0], len(known) - 1)


def _has_shape(spec: Any, known: Any) -> bool:
    if isinstance(spec, (list, tuple)):
        return all(map(_has_shape, spec, known))
    return spec is None or all(a == b for a, b in zip(spec.shape, known[1:], strict=True))


def _has_value(value: Any, known: Any) -> bool:
    if isinstance(value, (list, tuple)):
        is_list = isinstance(known, tuple) and len(value) == len(known)
        return is_list and all(map(_has_value, value, known))
    if type(value) is float and value == 0:
        return repr(value) == repr(known)  # -0.0 is another value
    return bool(_attribute(value) == known)


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


# The tuned calls that `use_tuning` was given, by op.
_in_force: Final[dict[str, tuple[TunedCall, ...]]] = {}
_read: Final[set[str]] = set()


def use_tuning(path: str | os.PathLike[str]) -> None:
    """Makes calls run the kernels that `tune` found to be the fastest.

    Calls that were not measured run the first kernel that fits, as before; so do calls for which
    the kernel does not fit any more, and exported programs whose sizes are symbolic. Ops for which
    that changes nothing are left alone; the others are compiled anew. ``GRAPHFFI_TUNING``, files
    with ":" between them, does it for a process.

    Args:
        path: Of the file that it wrote. What is known of the same ops from other files goes.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is of another version, or measured on other devices only.
    """
    from ._op import renew_tuning

    # A number would be that of an open file, which reading closes.
    renew_tuning(_take("use_tuning", os.fspath(path)))


def _take(subject: str, path: str) -> Iterable[str]:
    """Puts a file into force; gives the names of its ops."""
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
        log.warning("graphffi: tuning %r: left out what was measured on %s", path, listed)
    _in_force.update((op, tuple(map(tuned_call, entries))) for op, entries in here.items())
    return found


def tuning_of(op: str) -> tuple[TunedCall, ...]:
    """The calls of an op that were measured, in force."""
    for path in filter(None, os.environ.get("GRAPHFFI_TUNING", "").split(":")):
        if path not in _read:
            _take("GRAPHFFI_TUNING", path)
            _read.add(path)
    return _in_force.get(op, ())


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
    from ._op_kernel import choose_in_order

    def spec(operand: Any) -> Any:
        if operand is None:
            return None
        if operand and isinstance(operand[0], str):
            return TensorSpec(operand[1:], dtype(operand[0]), Device(call.device))
        return list(map(spec, operand))

    kinds = {"dtype": dtype, "device": Device}
    attributes = [
        kinds[a.kind](v) if a.kind in kinds and isinstance(v, str) else v
        for a, v in zip(definition.attributes, call.attributes, strict=False)
    ]
    try:
        operands = list(map(spec, call.operands))
        return choose_in_order(definition, operands, attributes, call.device).name
    # The op is another one by now, whose rules may raise anything for such a call.
    except Exception as error:
        log.info("%s: a call that was measured fits the op no longer: %r", definition.name, error)
        return ""
