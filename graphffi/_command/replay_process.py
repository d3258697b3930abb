# SPDX-License-Identifier: Apache-2.0
"""The process in which a recorded call runs again: see `replay`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from .. import _core
from .._kernels.library import find_library, split_reference
from .._values.module import load_module
from .._values.registry import get_global_func
from .record import describe_value, error_of, read_record, record, text_of
from .replayed_values import Layout, Memory, make_value, tensors_of


def main() -> None:
    """Reads the call from standard input, and prints what came of it."""
    asked = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what kernels and modules print is no answer
    sys.path[:] = asked["path"]
    for name in asked["modules"]:
        importlib.import_module(name)
    try:
        call = _ReplayedCall(asked)
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as error:
        text = str(error.args[0] if error.args else error)
        print(json.dumps({"outcome": "not replayed", "text": text}), file=answers, flush=True)
        return
    print("ready", file=answers, flush=True)
    print(json.dumps(call.run()), file=answers, flush=True)


_NAMES_RESULTS: Final = 2  # records of this level and above say which tensors a kernel wrote


class _ReplayedCall:
    """The call, made again."""

    def __init__(self, asked: dict[str, Any]) -> None:
        begin, self._end = asked["begin"], asked["end"]
        self._level = int(asked["level"])
        self._contents = Path(asked["stem"] + ".bin")
        self._folder = str(asked["folder"])
        self._notes: list[str] = []
        self._unknown: list[str] = []  # results of which the record has too little to compare
        self._reference = _reference(begin, asked["library"])
        self._kernel = _core.resolve_kernel(self._reference)
        found = tensors_of(begin["args"])
        for place, facts in found.items():
            if facts["device"] != "cpu":
                raise ValueError(f"argument {place}: expected the cpu, got {facts['device']}")
        self._tensors = {place: Layout(facts) for place, facts in found.items()}
        self._memory = Memory(list(self._tensors.values()))
        self._fill()
        made = {place: self._memory.tensor(layout) for place, layout in self._tensors.items()}
        self._args = tuple(make_value(v, made, str(i)) for i, v in enumerate(begin["args"]))

    def run(self) -> dict[str, Any]:
        """Calls the kernel and compares."""
        common = {"notes": self._notes, "library": split_reference(self._reference)[0]}
        recorded = error_of(self._end)
        try:
            with record(self._folder, limit=1 << 20):
                returned = _core.call_in_order(self._kernel, self._args, self._reference)
        except Exception as error:
            again = self._error_again()
            text = again or f"{type(error).__name__}: {error}"
            is_same = bool(again) and again == recorded
            return {"outcome": "same" if is_same else "error", "text": text, **common}
        if self._end is None:
            text = "the kernel returned; the record has no end of this call to compare with"
            return {"outcome": "ran", "text": text, **common}
        if recorded is not None:
            text = f"expected the error {recorded}, got none"
            return {"outcome": "differs", "text": text, **common}
        return {**self._compared(returned), **common}

    def _error_again(self) -> str | None:
        """The kernel's error as records have it: an exception may lack its kind, or say more."""
        calls = read_record(self._folder).calls
        return error_of(calls[0].end) if calls else None

    def _compared(self, returned: Any) -> dict[str, Any]:
        if self._notes:
            text = "the kernel returned; the record lacks contents that the results depend on"
            return {"outcome": "ran", "text": text}
        found = [*self._written(), *self._returned(self._end["returned"], returned, "returned")]
        if differences := list(filter(None, found)):
            return {"outcome": "differs", "text": "; ".join(differences)}
        if self._unknown:
            text = f"the kernel returned; the record has no contents of {', '.join(self._unknown)}"
            return {"outcome": "ran", "text": text}
        return {"outcome": "same", "text": f"values compared: {len(found)}, equal in every bit"}

    def _written(self) -> Iterator[str]:
        """The difference of each tensor that the kernel may have written; empty for none."""
        arguments = {place: layout.facts for place, layout in self._tensors.items()}
        written = self._end["written"] if self._level >= _NAMES_RESULTS else arguments
        for place, facts in written.items():
            layout = self._tensors[place]
            address = self._memory.address(layout)
            yield self._contents_difference(f"argument {place}", facts, layout, address)

    def _returned(self, facts: Any, got: Any, place: str) -> Iterator[str]:
        """Likewise for each value that the kernel returned, as far as the record has it."""
        if isinstance(facts, dict) and "tensor" in facts:
            yield self._tensor_difference(facts, got, place)
        elif isinstance(facts, list):
            if isinstance(got, Sequence) and len(got) == len(facts):
                for i, one in enumerate(facts):
                    yield from self._returned(one, got[i], f"{place}.{i}")
            else:
                yield f"{place}: expected {describe_value(facts)}, got {got!r}"
        elif _is_object(facts):
            self._unknown.append(place)
        elif not (facts is None and got is None):
            expected = make_value(facts, {}, place)
            # Texts tell -0.0 from 0.0, and NaN is equal to itself.
            is_same = type(expected) is type(got) and repr(expected) == repr(got)
            yield "" if is_same else f"{place}: expected {expected!r}, got {got!r}"

    def _tensor_difference(self, facts: dict[str, Any], got: Any, place: str) -> str:
        if not isinstance(got, _core.Tensor):
            return f"{place}: expected a tensor, got {got!r}"
        layout = Layout.of(got)
        expected, found = (describe_value(f) for f in (_kind(facts), _kind(layout.facts)))
        if expected != found:
            return f"{place}: expected {expected}, got {found}"
        return self._contents_difference(place, facts, layout, got.data_ptr)

    def _contents_difference(
        self, place: str, facts: dict[str, Any], layout: Layout, address: int
    ) -> str:
        if "contents" in facts or not layout.num_bytes:
            return _difference(place, self._read(facts), layout.contents(address))
        self._unknown.append(place)
        return ""

    def _fill(self) -> None:
        for place, layout in self._tensors.items():
            if "contents" in layout.facts:
                self._memory.fill(layout, self._read(layout.facts))
            elif "fresh" not in layout.facts and layout.num_bytes:
                self._notes.append(f"argument {place}: contents were not recorded: zeros")

    def _read(self, facts: dict[str, Any]) -> bytes:
        begin, count = facts.get("contents", (0, 0))
        if count == 0:
            return b""
        with self._contents.open("rb") as file:
            file.seek(begin)
            contents = file.read(count)
        if len(contents) != count:
            raise ValueError(
                f"{self._contents.name}: expected {count} bytes at {begin}, got {len(contents)}"
            )
        return contents


def _difference(place: str, expected: bytes, got: bytes) -> str:
    """The difference of contents, in words; empty for none."""
    if expected == got:
        return ""
    if len(expected) != len(got):
        return f"{place}: expected {len(expected)} bytes, got {len(got)}"
    wrong = [i for i, (a, b) in enumerate(zip(expected, got, strict=True)) if a != b]
    different = f"{len(wrong)} of {len(got)} different, from byte {wrong[0]} on"
    return f"{place}: expected the recorded bytes, got {different}"


def _kind(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts of a tensor that do not depend on where and how it lies in memory."""
    return {key: facts[key] for key in ("tensor", "shape", "device")}


def _is_object(facts: Any) -> bool:
    """True if the record has a value's type only."""
    return isinstance(facts, dict) and not facts.keys().isdisjoint(("object", "pointer"))


def _reference(begin: dict[str, Any], opt_library: str | None) -> str:
    """The reference by which this process finds the kernel."""
    reference, file = text_of(begin["kernel"]), text_of(begin.get("library", ""))
    library, symbol = split_reference(reference)
    if not reference:
        raise ValueError("expected a kernel with a name, got a function without one")
    if library:
        return f"{opt_library or _found(library)}::{symbol}"
    found = get_global_func(reference, allow_missing=True)
    if found is None and (opt_library or ".so" in file):
        load_module(opt_library or file)  # which registers it
    return reference


def _found(library: str) -> str:
    """The file: that of a package was there while a process loaded it only."""
    name = os.path.basename(library)
    if not library.startswith("/") or os.path.isfile(library):
        return library
    found = find_library(name)
    if found is None:
        raise ValueError(
            f"expected the library {library!r}, got none; give it with --library, or a folder "
            f"that holds {name} in GRAPHFFI_LIBRARY_PATH"
        )
    return found


if __name__ == "__main__":
    main()
