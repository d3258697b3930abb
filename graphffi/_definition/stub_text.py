# SPDX-License-Identifier: Apache-2.0
"""Types of ops as text of a stub, for `graphffi generate --stubs`."""

from __future__ import annotations

import inspect
import json
import math
import re
import textwrap
from typing import Any, Final

from .define_text import TODO
from .interface import Interface
from .python_signature import python_signature
from .signature import from_schema

# Where graphffi's own types are; users have them from the package itself.
_PRIVATE: Final = re.compile(r"\bgraphffi\._\w+(\.\w+)*\.(?=\w)")


class _Elided:
    """A default that stubs do not show."""

    def __repr__(self) -> str:
        return "..."


def stub_text(op: str, fields: dict[str, str]) -> str:
    """The op as a decorated function: type checkers give it the type that `graphffi.op` gives it.

    Args:
        op: The op's name.
        fields: As for `define_text`.

    Raises:
        ValueError: If the schema does not parse, or lacks something.
    """
    if TODO in fields["schema"]:
        raise ValueError("the library does not say what it takes and returns")
    signature = from_schema(op, fields["schema"])
    shown = python_signature(Interface(op, signature.parameters, signature.results, None))
    parameters = [p.replace(default=_shown(p.default)) for p in shown.parameters.values()]
    text = _PRIVATE.sub("graphffi.", str(shown.replace(parameters=parameters)))
    name = op.partition("::")[2]
    return f"@graphffi.op({json.dumps(op)})\ndef {name}{text}:{_body(fields.get('doc', ''))}\n"


def _shown(default: Any) -> Any:
    is_plain = type(default) in (bool, int, float, str) or default in (
        None,
        inspect.Parameter.empty,
    )
    is_plain = is_plain and not (type(default) is float and not math.isfinite(default))
    return default if is_plain else _Elided()


def _body(doc: str) -> str:
    if not doc:
        return " ..."
    if "\\" in doc or '"""' in doc or doc.endswith('"'):
        return f"\n    {json.dumps(doc, ensure_ascii=False)}"
    end = "\n" if "\n" in doc else ""
    return "\n" + textwrap.indent(f'"""{doc}{end}"""', "    ", lambda line: bool(line.strip()))
