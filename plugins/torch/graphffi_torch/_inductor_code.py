# SPDX-License-Identifier: Apache-2.0
"""The code that Inductor generates for a call of a primitive: a prepared site, and its use.

Uses private names of torch (`_private_names.py`).
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from torch._inductor.virtualized import V

from graphffi_torch._C import call_site_v2
from graphffi_torch._dynamo import end_compilation

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRY_HEADER: Final = Path(__file__).parent / "lib" / "aoti_entry.h"


def check_plan(values: dict[str, Any]) -> None:
    """Raises the error of eager code for a plan that is wrong.

    Args:
        values: The arguments of the primitive by name.
    """
    try:
        call_site_v2(
            values["func"],
            values["plan"],
            values["digest"],
            len(values["inputs"]),
            len(values["outputs"]),
            0,
            [None] * len(values["ints"]),
            values["floats"],
            values["strs"],
        )
    except ValueError as error:
        end_compilation(error)
        raise


def write_python_call(
    wrapper: Any,
    values: dict[str, Any],
    ints: Sequence[Any],
    num_fresh: int,
    *,
    release_gil: bool | None,
) -> None:
    """Writes a call in Python.

    Args:
        wrapper: Of the graph.
        values: The arguments of the primitive by name.
        ints: Those of its ints, as numbers or expressions.
        num_fresh: Outputs, the first, that share no memory.
        release_gil: Whether the GIL is released while the kernel runs; None: as
            `GRAPHFFI_RELEASE_GIL` says where the code runs.
    """
    tensors = [*values["inputs"], *values["outputs"]]
    open_ints = [value for value in ints if not isinstance(value, int)]
    bound = ", ".join(
        repr(value)
        for value in (
            values["func"],
            values["plan"],
            values["digest"],
            len(values["inputs"]),
            len(values["outputs"]),
            num_fresh,
            [value if isinstance(value, int) else None for value in ints],
        )
    )
    floats = ", ".join(_python_float(value) for value in values["floats"])
    site = _new_name()
    wrapper.add_import_once("from graphffi_torch._C import call_site_v2 as graphffi_call_site_v2")
    flags = "" if release_gil is None else f", release_gil={release_gil}"
    wrapper.add_import_once(
        f"{site} = graphffi_call_site_v2({bound}, [{floats}], {list(values['strs'])!r}{flags})"
    )
    arguments = ["None" if t is None else t.codegen_reference() for t in tensors]
    arguments.extend(wrapper.val_to_arg_str(value) for value in open_ints)
    wrapper.writeline(f"{site}({', '.join(arguments)})")


def _python_float(value: float) -> str:
    return f"float({str(float(value))!r})"


def _new_name() -> str:
    """A name for a site that no other call of the generated module has.

    Parts that are recorded into CUDA graphs have wrappers of their own, but the module's globals.
    """
    count = V.graph.__dict__.setdefault("graphffi_sites", itertools.count())
    return "_".join(filter(None, ("graphffi_site", V.graph.name, str(next(count)))))


def write_cpp_call(
    wrapper: Any, values: dict[str, Any], ints: Sequence[Any], num_fresh: int
) -> None:
    """Writes a call in C++; the arguments are those of `write_python_call`."""
    if not getattr(wrapper, "graphffi_declared", False):
        wrapper.header.splice(_entry_declaration(is_python_there=not V.graph.aot_mode))
        wrapper.graphffi_declared = True
    site = _new_name()
    open_ints = [i for i, value in enumerate(ints) if not isinstance(value, int)]
    numbers = [value if isinstance(value, int) else 0 for value in ints]
    arrays = {
        "int64_t": ("ints", [f"int64_t({value % 2**64:#x}ULL)" for value in numbers]),
        "int32_t": ("open_ints", [str(i) for i in open_ints]),
        "double": ("floats", [_cpp_float(value) for value in values["floats"]]),
        "const char*": ("strs", [_cpp_string(text) for text in values["strs"]]),
    }
    pointers = {}
    for kind, (name, items) in arrays.items():
        pointers[name] = f"{site}_{name}" if items else "nullptr"
        if items:
            wrapper.header.writeline(
                f"static {kind} const {site}_{name}[] = {{{', '.join(items)}}};"
            )
    fields = [
        *(_cpp_string(values[name]) for name in ("func", "plan", "digest")),
        *(str(len(values[name])) for name in ("inputs", "outputs")),
        str(num_fresh),
        *(str(len(values_)) for values_ in (ints, values["floats"], values["strs"], open_ints)),
        *(pointers[name] for name in ("ints", "open_ints", "floats", "strs")),
        "nullptr",
    ]
    wrapper.header.writeline(f"static GraphffiCallV2 {site} = {{{', '.join(fields)}}};")
    tensors = [
        "nullptr" if t is None else f"AtenTensorHandle({t.codegen_reference()})"
        for t in (*values["inputs"], *values["outputs"])
    ]
    handles = ", ".join(tensors)
    dynamic = ", ".join(f"int64_t({wrapper.val_to_arg_str(ints[i])})" for i in open_ints)
    call = f"graphffi_call({site}, {{{handles}}}, {{{dynamic}}})"
    # Where Python runs the code, torch's own calls of Python operators fail so, too.
    wrapper.writeline(f"{call};" if V.graph.aot_mode else f"if (!{call}) return;")


@functools.cache
def _entry_declaration(*, is_python_there: bool) -> str:
    failed = "if (aoti_torch_graphffi_set_pending_v2()) return false;" if is_python_there else ""
    return f"""{_ENTRY_HEADER.read_text()}
#ifndef GRAPHFFI_TORCH_GENERATED
#define GRAPHFFI_TORCH_GENERATED
#include <initializer_list>
#include <stdexcept>
/// False if it failed and Python's exception is pending.
static inline bool graphffi_call(GraphffiCallV2& call, std::initializer_list<void*> tensors,
                                 std::initializer_list<int64_t> open_ints) {{
  if (!aoti_torch_graphffi_call_v2) {{
    throw std::runtime_error("graphffi: expected libgraphffi_torch.so in the process, got none; "
                             "import graphffi_torch, or link it");
  }}
  if (aoti_torch_graphffi_call_v2(&call, tensors.begin(), open_ints.begin()) == 0) return true;
  {failed}
  throw std::runtime_error(aoti_torch_graphffi_error_v2());
}}
#endif
"""


def _cpp_float(value: float) -> str:
    text = str(float(value))
    special = {
        "inf": "std::numeric_limits<double>::infinity()",
        "-inf": "-std::numeric_limits<double>::infinity()",
        "nan": "std::numeric_limits<double>::quiet_NaN()",
    }
    return special.get(text, text)


def _cpp_string(text: str) -> str:
    """A literal of the UTF-8 bytes, with C0 80 for NUL, which would end the text."""
    plain = set(range(32, 127)) - {ord('"'), ord("\\"), ord("?")}
    escaped = "".join(
        chr(b) if b in plain else f"\\{b:03o}" for b in text.encode().replace(b"\0", b"\xc0\x80")
    )
    return f'"{escaped}"'
