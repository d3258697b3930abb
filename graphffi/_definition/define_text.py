# SPDX-License-Identifier: Apache-2.0
"""Definitions of ops as text of Python, for `graphffi generate`."""

from __future__ import annotations

import json
from typing import Final

from .._contract.shape_text import RuleTexts
from .op_text import checks_of
from .signature import from_schema

TODO: Final = "TODO"


def define_text(op: str, kernel: str, fields: dict[str, str]) -> str:
    """The call of `define_op`.

    Args:
        op: The op's name.
        kernel: An expression; empty for none that is known.
        fields: As in the text of an op, and ``comment``. `define_op` refuses what is ``TODO``.

    Raises:
        ValueError: If a field does not parse.
    """
    name = op.partition("::")[2]
    lines = [f"{json.dumps(op)},", *_schema_lines(fields["schema"])]
    lines.append(f"kernel={kernel}," if kernel else f"kernel=...,  # {TODO}: a kernel reference")
    for key, text in fields.items():
        if key in ("plan", "dims", "dtypes", "vmap", "gradient", "doc") and text:
            lines.append(f"{key}={json.dumps(text, ensure_ascii=False)},")
        elif key in ("allow_cuda_graph", "has_side_effect", "pass_owning_tensor", "recompute"):
            value = {"true": "True", "false": "False"}.get(text, json.dumps(text))
            lines.append(f"{key}={value},")
        elif key == "strided":
            names = [one.strip() for one in text.split(",")]
            lines.append(f"strided={'True' if text == 'true' else json.dumps(names)},")
    lines += _rule_lines(op, fields)
    comment = "".join(f"# {line}\n" for line in fields.get("comment", "").splitlines())
    body = "".join(f"    {line}\n" for line in lines)
    return f"{comment}{name} = graphffi.define_op(\n{body})\n"


def _schema_lines(schema: str) -> list[str]:
    line = f"schema={json.dumps(schema, ensure_ascii=False)},"
    if TODO not in schema:
        return [line]
    return [
        f"# {TODO}: results, such as Tensor, and Tensor(a!) for an operand that is updated",
        line,
    ]


def _rule_lines(op: str, fields: dict[str, str]) -> list[str]:
    if fields.get("shape") == TODO:
        return [f"infer=None,  # {TODO}: the shape rule, such as lambda x: graphffi.like(x)"]
    signature = from_schema(op, fields["schema"])
    texts = RuleTexts(op, signature, fields.get("dims", ""), fields.get("dtypes", ""))
    lines = []
    checks = checks_of(fields)
    if signature.results or checks:
        lines.append(f"infer={texts.shape_lambda(fields.get('shape', ''), checks)},")
    if "workspace" in fields:
        lines.append(f"workspace={texts.number_lambda(fields['workspace'])},")
    return lines
