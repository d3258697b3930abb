# SPDX-License-Identifier: Apache-2.0
"""Definitions of FlashInfer-Bench, JSON files, as fields of ops' definitions.

Such a file has axes (of any size, or constants), inputs and outputs with shapes over the axes and
data types, scalars without a shape, and a reference in PyTorch. The templates of a module are such
definitions, too: see generate_module.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .._definition.define_text import TODO
from .._definition.parameter import is_name
from .._values.dtype import dtype
from .trace_sizes import solved

_SCALARS: Final = {
    "bool": "bool",
    "string": "str",
    "str": "str",
    "dtype": "dtype",
    "device": "Device",
}


@dataclass(frozen=True)
class Described:
    """An op as a definition describes it.

    Args:
        fields: For `define_text`.
        reference: The code of a function that gives the reference, or "".
    """

    fields: dict[str, str]
    reference: str


def definitions_of_files(paths: Sequence[str]) -> dict[str, Described]:
    """The op of each file, by its name.

    Raises:
        ValueError: If a file is none of these definitions.
    """
    described = {}
    for path in paths:
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            name, fields = found["name"], fields_of(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"graphffi generate: {path}: expected a definition with name, axes, inputs and "
                f"outputs, got one without: {error}"
            ) from None
        if not is_name(name):
            raise ValueError(
                f"graphffi generate: {path}: name: expected an identifier of Python, got {name!r}"
            )
        code = found.get("reference", "")
        described[name] = Described(fields, f"{code}\n\nreturn run" if code else "")
    return described


def fields_of(found: Mapping[str, Any]) -> dict[str, str]:
    """The fields of an op's definition; ``TODO`` for what the other definition does not say.

    Raises:
        KeyError, TypeError, AttributeError: If it is no definition.
    """
    return _Reader(found).fields()


@dataclass
class _Reader:
    """Reads one definition.

    Args:
        found: With axes, inputs, outputs.
    """

    found: Mapping[str, Any]
    operands: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    updated: set[str] = field(default_factory=set)
    by_parameter: dict[str, list[str]] = field(default_factory=dict)
    is_clear: bool = True

    def fields(self) -> dict[str, str]:
        self._sort_outputs()
        tensors = {name: o for name, o in self.operands.items() if o["shape"] is not None}
        kinds = self._kinds(tensors)
        of_results = [self._kind_of_result(result, kinds) for result in self.results.values()]
        parameters = ", ".join(self._parameter(name, o) for name, o in self.operands.items())
        results = ", ".join(f"Tensor {name}" for name in self.results)
        sides = [
            ", ".join(" ".join(map(self._axis, value["shape"])) for value in side)
            for side in (tensors.values(), self.results.values())
        ]
        return {
            "schema": f"({parameters}) -> {f'({results})' if self.is_clear else TODO}",
            "dims": _sides(*sides),
            "dtypes": _sides(", ".join(kinds.values()), ", ".join(k or "_" for k in of_results)),
            "shape": self._shape(tensors, of_results),
            "doc": self.found.get("description") or "",
        }

    def _sort_outputs(self) -> None:
        """Tells results from operands that are updated; optional buffers for results are none."""
        self.operands = dict(self.found["inputs"])
        for name, value in self.operands.items():
            self.by_parameter.setdefault(value.get("param") or name, []).append(name)
        for name, value in self.found["outputs"].items():
            place = self._operand(value.get("param"), name)
            if place is None:
                self.is_clear = False
            elif place not in self.operands or value["shape"] is None:
                self.results[name] = value
            elif self.operands[place].get("optional") and self._is_buffer(place):
                del self.operands[place]
                self.results[name] = value
            elif self.operands[place]["shape"] == value["shape"]:
                self.updated.add(place)
            else:
                self.is_clear = False
        self.is_clear = self.is_clear and bool(self.results or self.updated)
        for name, value in [*self.results.items()]:
            if value["shape"] is None or value.get("optional") or name in self.operands:
                self.is_clear = False
                del self.results[name]

    def _operand(self, parameter: str | None, name: str) -> str | None:
        """The operand of a parameter; of several, such as a pair of caches, the one of the name."""
        found = self.by_parameter.get(parameter or "", [name])
        return found[0] if len(found) == 1 else name if name in found else None

    def _is_buffer(self, name: str) -> bool:
        """True if others give the sizes of an operand, so that a result may take its place."""
        others = {key: value for key, value in self.operands.items() if key != name}
        return {*self.operands[name]["shape"]} <= self._known(others)

    def _known(self, operands: Mapping[str, Any]) -> set[str]:
        """The axes whose sizes each call of these operands gives."""
        given = [o for o in operands.values() if o["shape"] is not None and not o.get("optional")]
        known = {axis for value in given for axis in value["shape"]}
        known |= {name for name, value in operands.items() if _is_int(value)}
        return known | {
            n for n, axis in self.found["axes"].items() if axis.get("value") is not None
        }

    def _parameter(self, name: str, value: Mapping[str, Any]) -> str:
        mark = "?" if value.get("optional") else ""
        if value["shape"] is None:
            return f"{_scalar(value['dtype'])}{mark} {name}"
        return f"Tensor{'(a!)' if name in self.updated else ''}{mark} {name}"

    def _axis(self, name: str) -> str:
        axis = self.found["axes"].get(name, {})
        if axis.get("value") is not None:
            return str(axis["value"])
        if not re.fullmatch(r"[A-Za-z]\w*", name):
            return name if name.isdigit() else "_"
        return f"[{name}]"

    def _kinds(self, tensors: Mapping[str, Any]) -> dict[str, str]:
        """The data type of each operand: declared, or a variable if a result has the same one."""
        sources = [self._source(result) for result in self.results.values()]
        kinds: dict[str, str] = {}
        for name, value in tensors.items():
            declared = _known_dtype(value.get("dtype"))
            variables = sum(kind.startswith("T") for kind in kinds.values())
            kinds[name] = declared or (f"T{variables or ''}" if name in sources else "_")
        return kinds

    def _source(self, result: Mapping[str, Any]) -> str | None:
        """The operand whose data type a result has."""
        if result.get("dtype_from"):
            name = self._operand(result["dtype_from"], result["dtype_from"])
            return name if name in self.operands else None
        if _known_dtype(result.get("dtype")):
            return None
        for name, value in self.operands.items():
            if value["shape"] and not {*value["shape"]}.isdisjoint(result["shape"]):
                return name
        return None

    def _kind_of_result(self, result: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
        """A data type or a variable, or "" for an unknown one."""
        source = self._source(result)
        if source is None:
            return _known_dtype(result.get("dtype"))
        return "" if self.operands[source].get("optional") else kinds[source]

    def _shape(self, tensors: Mapping[str, Any], kinds: Sequence[str]) -> str:
        """The shape rule: "" where `dims` and `dtypes` say it."""
        known = self._known(self.operands)
        wanted = {axis for result in self.results.values() for axis in result["shape"]}
        unknown = {axis for axis in wanted - known if not axis.isdigit()}
        texts = solved(unknown, known, self.found.get("constraints") or ())
        if not all(kinds) or not self.is_clear or unknown - texts.keys():
            return TODO
        if not unknown:
            return ""
        used = wanted | {name for text in texts.values() for name in re.findall(r"\w+", text)}
        if used & tensors.keys():
            return TODO  # the name of an operand, too
        sizes = {axis: texts.get(axis, self._axis(axis).strip("[]")) for axis in wanted}
        return ", ".join(
            f"empty([{', '.join(sizes[axis] for axis in result['shape'])}], {kind})"
            for result, kind in zip(self.results.values(), kinds, strict=True)
        )


def _sides(left: str, right: str) -> str:
    return f"{left} -> {right}" if right else left


def _known_dtype(name: str | None) -> str:
    try:
        return str(dtype(name)) if name else ""
    except ValueError:
        return ""


def _is_int(value: Mapping[str, Any]) -> bool:
    is_scalar = value["shape"] is None and not value.get("optional")
    return is_scalar and _scalar(value["dtype"]) == "int"


def _scalar(kind: str) -> str:
    if kind.startswith(("int", "uint")):
        return "int"
    return _SCALARS.get(kind) or ("float" if kind.startswith(("float", "bfloat")) else TODO)


def reference_text(name: str, code: str) -> str:
    """A function that gives the reference, which imports what it needs."""
    if not code:
        return ""
    lines = "".join(f"    {line}\n" if line else "\n" for line in code.splitlines())
    return f"\n\ndef reference_of_{name}():\n{lines}"
