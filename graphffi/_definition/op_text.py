# SPDX-License-Identifier: Apache-2.0
"""The text by which a library defines an op: lines such as ``dims: ... [h], [h] -> ... [h]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from .._contract.shape_text import RuleTexts
from .._kernels.elf_texts import exported_texts
from .signature import from_schema

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "__graphffi_op_"
_FLAGS: Final = ("allow_cuda_graph", "has_side_effect", "pass_owning_tensor", "recompute")
_FIELDS: Final = (
    *("schema", "shape", "check", "dims", "dtypes", "plan", "kernel", "strided", "workspace"),
    *("vmap", "gradient", *_FLAGS, "doc"),
)
_REPEATED: Final = "check"


def parse_op_text(subject: str, text: str) -> dict[str, str]:
    """The fields of a text, without those that are not given; checks are lines of one value.

    Args:
        subject: The op's name, for error messages.
        text: A field a line, the documentation last, up to the end.

    Raises:
        ValueError: For a field that is unknown or there twice, or without a schema.
    """
    head, mark, doc = f"\n{text}".partition("\ndoc:")
    fields: dict[str, str] = {}
    for line in filter(str.strip, head.splitlines()):
        name, colon, value = line.partition(":")
        if not colon or name.strip() not in _FIELDS:
            raise ValueError(
                f"{subject}: text of the op: expected 'field: value' with a field of "
                f"{', '.join(_FIELDS)}, got {line.strip()!r}"
            )
        name = name.strip()
        if name in fields and name != _REPEATED:
            raise ValueError(f"{subject}: field {name!r}: expected it once, got two")
        fields[name] = f"{fields[name]}\n{value.strip()}" if name in fields else value.strip()
    if mark:
        fields["doc"] = doc.strip()
    if "schema" not in fields:
        raise ValueError(f"{subject}: text of the op: expected a schema, got none")
    return fields


def checks_of(fields: Mapping[str, str]) -> list[str]:
    """The texts of checks among an op's fields."""
    return fields["check"].split("\n") if "check" in fields else []


def define_arguments(name: str, fields: Mapping[str, str], module: str) -> dict[str, Any]:
    """The arguments of `define_op` but for name and kernel; that is a function's name, if any.

    Raises:
        ValueError: If a field does not parse.
    """
    signature = from_schema(name, fields["schema"])
    found: dict[str, Any] = {
        key: fields[key]
        for key in ("schema", "kernel", "doc", "plan", "dims", "dtypes", "vmap", "gradient")
        if key in fields
    }
    for flag in filter(fields.__contains__, _FLAGS):
        found[flag] = _flag(name, flag, fields[flag])
    if "strided" in fields:
        found["strided"] = _strided(fields["strided"])
    texts = RuleTexts(name, signature, found.get("dims", ""), found.get("dtypes", ""))
    if "workspace" in fields:
        size = fields["workspace"]
        is_constant = re.fullmatch(r"[0-9]{1,19}", size) is not None
        found["workspace"] = int(size) if is_constant else texts.number_rule(size, module)
    if signature.results or "check" in fields:
        found["infer"] = texts.shape_rule(fields.get("shape", ""), checks_of(fields), module)
    return found


def op_texts(path: str) -> dict[str, str]:
    """The texts of the ops in a library, by the names of their kernels.

    Raises:
        ValueError: If one is no text.
    """
    return exported_texts(path, PREFIX)


def _flag(subject: str, name: str, text: str) -> bool | str:
    if name == "has_side_effect" and text == "ordered":
        return text
    if text not in ("true", "false"):
        raise ValueError(f"{subject}: {name}: expected true or false, got {text!r}")
    return text == "true"


def _strided(text: str) -> bool | list[str]:
    if text in ("true", "false"):
        return text == "true"
    return [name.strip() for name in text.split(",")]
