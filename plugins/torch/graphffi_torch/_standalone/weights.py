# SPDX-License-Identifier: Apache-2.0
"""The weights of a library's methods, each content once, and the buffers that they update."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graphffi_torch._export.updates import Memory, lifted_tensors, share_elements
from graphffi_torch._standalone.edits import refuse_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch

    from graphffi_torch._standalone.signature import Signature

_FIELD: Final = re.compile(r'constants_info_\[(\d+)\]\.(\w+) = (?:"([^"]*)"|([^;]*));')
_COUNT: Final = re.compile(r"AOTInductorModelBase\(\s*\d+,\s*\d+,\s*(\d+),")
_USED: Final = re.compile(r"\bauto&? (\w+) = constants_->at\((\d+)\);")
# Copies that torch's compiler makes of constants: packed, or on another device.
_COPY: Final = re.compile(r"_(?:cpu|cuda)\d+ |::Unknown\)")
_KNOWN: Final = {"name", "data_size", "shape", "type", "original_fqn"}


@dataclass(frozen=True)
class Constant:
    """The place of a constant among a library's weights.

    Args:
        opt_offset: In bytes; None for one that no code reads.
        size: In bytes.
        is_updated: Whether models change it: calls use a copy.
    """

    opt_offset: int | None
    size: int
    is_updated: bool


def updated_memory(
    programs: Mapping[str, torch.export.ExportedProgram], signatures: Mapping[str, Signature]
) -> list[Memory]:
    """The memory of buffers that methods update, and share.

    Raises:
        ValueError: For a constant of a program in such memory, and for tensors that have a part of
            it.
    """
    lifted = {name: lifted_tensors(program).values() for name, program in programs.items()}
    updated = {
        Memory.of(each.tensor): (method, each)
        for method, tensors in lifted.items()
        for each in tensors
        if each.name in signatures[method].updated_buffers
    }
    for method, tensors in lifted.items():
        for each in tensors:
            for other, own in updated.values():
                is_same = Memory.of(each.tensor) == Memory.of(own.tensor)
                if is_same and each.kind != "constant":
                    continue
                if is_same or share_elements(each.tensor, own.tensor):
                    raise ValueError(
                        f"graphffi_torch: to_library: {method}: tensor '{each.name}': expected "
                        f"memory that no method updates, or a buffer that is all of it, got memory "
                        f"of '{own.name}', which '{other}' updates; register one tensor as the "
                        "buffer of both"
                    )
    return list(updated)


class WeightFile:
    """The weights of all methods.

    Args:
        updated: Memory that methods update: each has one place, whatever buffers are called.
    """

    def __init__(self, updated: Sequence[Memory]) -> None:
        """Begins with the weights of no method."""
        self.content = bytearray()
        self._updated = frozenset(updated)
        self._offsets: dict[Memory | bytes, int] = {}

    def add(
        self, method: str, code: str, weights: bytes, program: torch.export.ExportedProgram
    ) -> list[Constant]:
        """Adds a model's constants.

        Args:
            method: Its name, for errors.
            code: The output of AOTInductor.
            weights: The memory of its constants, one behind the other.
            program: That was compiled.

        Returns:
            The constants in the order of the code.

        Raises:
            NotImplementedError: If the code describes them in another way than known.
            ValueError: If it reads a copy of what methods update.
        """
        own = {each.name: Memory.of(each.tensor) for each in lifted_tensors(program).values()}
        body = code[code.rfind("::run_impl(") :]
        constants: list[Constant] = []
        read, copies, start = set(), [], 0
        for fields in _constants(method, code):
            # Torch keeps no memory of a tensor without elements, whatever memory that has.
            is_empty = "0" in re.split(r"\W+", fields["shape"])
            size = 0 if is_empty else int(fields["data_size"])
            data = weights[start : start + size]
            start += size
            opt_memory = own.get(fields["original_fqn"])
            is_copy = _COPY.search(f"{fields['name']} {fields['type']}") is not None
            if opt_memory is None and not is_copy and "::TensorConstant" not in fields["type"]:
                refuse_code(f"{method}: '{fields['name']}'", "a tensor of the program", "none")
            copies += [fields["name"]] if is_copy else []
            # Torch keeps those, too, of which only a packed copy is read.
            is_read = len(re.findall(rf"\b{fields['name']}\b", body)) > 1
            read |= {opt_memory} if is_read else set()
            opt_updated = opt_memory if opt_memory in self._updated else None
            opt_offset = self._place(opt_updated, data) if is_read else None
            constants.append(Constant(opt_offset, size, opt_updated is not None))
        if start != len(weights):
            refuse_code(f"{method}: weights", f"{len(weights)} bytes", f"{start}")
        if copies:
            self._check_read(method, program, read)
        return constants

    def _check_read(
        self, method: str, program: torch.export.ExportedProgram, read: set[Memory | None]
    ) -> None:
        """Refuses code that reads copies of what methods update."""
        lifted = lifted_tensors(program)
        for node in program.graph.find_nodes(op="placeholder"):
            opt_own = lifted.get(node.name)
            if opt_own is None or not node.users:
                continue
            if Memory.of(opt_own.tensor) in self._updated - read:
                raise ValueError(
                    f"graphffi_torch: to_library: {method}: buffer '{opt_own.name}': expected code "
                    "that reads it, since a method updates it, got code that reads a copy; do not "
                    "set max_autotune in options"
                )

    def _place(self, opt_updated: Memory | None, data: bytes) -> int:
        key = hashlib.sha256(data).digest() if opt_updated is None else opt_updated
        if key not in self._offsets:
            self.content.extend(bytes(-len(self.content) % 64))
            self._offsets[key] = len(self.content)
            self.content.extend(data or bytes(1))  # an empty one has a place of its own, too
        return self._offsets[key]


def _constants(method: str, code: str) -> Iterator[dict[str, str]]:
    """The fields of each constant, in the order of the code."""
    counts = _COUNT.findall(code)
    fields: dict[str, dict[str, str]] = {}
    for i, field, text, value in _FIELD.findall(code):
        fields.setdefault(i, {})[field] = text or value
    used = {i: name for name, i in _USED.findall(code)}
    expected = [str(i) for i in range(int(counts[0]))] if len(counts) == 1 else []
    for i in expected:
        missing = _KNOWN - set(fields.get(i, ()))
        if missing or used.get(i) != fields[i]["name"]:
            refuse_code(f"{method}: constant {i}", "all that graphffi reads of it", "less")
        if fields[i].get("from_folded", "false") != "false":
            refuse_code(
                f"{method}: constant {i}", "one that is not folded at run time", "one that is"
            )
    if len(counts) != 1 or not len(expected) == len(fields) == code.count("constants_->at("):
        refuse_code(f"{method}: constants", "one description of each", "another number of them")
    return map(fields.__getitem__, expected)
