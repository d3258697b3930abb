# SPDX-License-Identifier: Apache-2.0
"""The code that Inductor generates for a call of a primitive: a prepared site, and its use.

Uses private names of torch (`_private_names.py`).
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch._inductor.virtualized import V

from graphffi.plugin import c_string
from graphffi_torch._C import call_site_v4
from graphffi_torch._compiled.dynamo import end_compilation
from graphffi_torch._library import include_path

if TYPE_CHECKING:
    from graphffi_torch._operators.primitive import Primitive

_ENTRY_HEADER: Final = Path(include_path(), "graphffi_torch", "aoti_entry.h")


def check_call(call: Primitive) -> None:
    """Raises the error of eager code for a wrong plan, and for inputs that Inductor misreads.

    It (torch 2.10 to 2.15) ignores the sign of lazily negated inputs.
    """
    try:
        call_site_v4(*_texts(call), _counts(call), _attributes(call))
        graph: Any = V.graph.module.graph
        for node in graph.find_nodes(op="placeholder"):
            fake = node.meta.get("val")
            if isinstance(fake, torch.Tensor) and fake.is_neg():
                subject = call.digest.partition("(")[0] if "(" in call.digest else call.func
                raise ValueError(
                    f"{subject}: input {node.name!r} of the graph: expected elements as they are "
                    "in memory, got their negatives; call .resolve_neg() before the compiled code"
                )
    except ValueError as error:
        end_compilation(error)
        raise


def _texts(call: Primitive) -> tuple[str, str, str]:
    return call.func, call.plan, call.digest


def _counts(call: Primitive) -> tuple[int, ...]:
    return tuple(map(len, (call.inputs, call.outputs, call.ints, call.floats, call.strs)))


def _attributes(call: Primitive) -> list[Any]:
    """Ints, floats and texts as a site knows them: ints that are given at each call are None."""
    ints = [value if _is_bound(value) else None for value in call.ints]
    return [*ints, *map(float, call.floats), *call.strs]


def write_python_call(
    wrapper: Any, call: Primitive, num_fresh: int, *, release_gil: bool | None
) -> None:
    """Writes a call in Python.

    Args:
        wrapper: Of the graph.
        call: Its arguments; ints are numbers or expressions.
        num_fresh: Outputs, the first, that share no memory.
        release_gil: Whether the GIL is released while the kernel runs; None: as
            `GRAPHFFI_RELEASE_GIL` says where the code runs.
    """
    attributes = ", ".join(map(_python_literal, _attributes(call)))
    arguments = ", ".join([*map(repr, (*_texts(call), _counts(call))), f"[{attributes}]"])
    flags = f"num_fresh={num_fresh}"
    if release_gil is not None:
        flags += f", release_gil={release_gil}"
    site = _new_name()
    wrapper.add_import_once("from graphffi_torch import _C as graphffi_torch_C")
    wrapper.add_import_once(f"{site} = graphffi_torch_C.call_site_v4({arguments}, {flags})")
    values = ["None" if t is None else t.codegen_reference() for t in _tensors(call)]
    values.extend(wrapper.val_to_arg_str(value) for value in call.ints if not _is_bound(value))
    wrapper.writeline(f"{site}({', '.join(values)})")


def _tensors(call: Primitive) -> list[Any]:
    return [*call.inputs, *call.outputs]


def _is_bound(value: Any) -> bool:
    """True if a site knows the int, otherwise each call does."""
    return isinstance(value, int)


def _python_literal(value: Any) -> str:
    return f"float({str(value)!r})" if isinstance(value, float) else repr(value)


def _new_name() -> str:
    """A name for a site that no other call of the generated module has.

    Parts that are recorded into CUDA graphs have wrappers of their own, but the module's globals.
    """
    count = V.graph.__dict__.setdefault("graphffi_sites", itertools.count())
    return "_".join(filter(None, ("graphffi_site", V.graph.name, str(next(count)))))


def write_cpp_call(wrapper: Any, call: Primitive, num_fresh: int) -> None:
    """Writes a call in C++; the arguments are those of `write_python_call`."""
    if not getattr(wrapper, "graphffi_declared", False):
        wrapper.header.splice(_entry_declaration(is_python_there=not V.graph.aot_mode))
        wrapper.graphffi_declared = True
    site = _new_name()
    open_ints = [i for i, value in enumerate(call.ints) if not _is_bound(value)]
    ints = [value if _is_bound(value) else 0 for value in call.ints]
    arrays = {
        "int64_t": ("ints", [f"int64_t({value % 2**64:#x}ULL)" for value in ints]),
        "int32_t": ("open_ints", [str(i) for i in open_ints]),
        "double": ("floats", [_cpp_float(value) for value in call.floats]),
        "const char*": ("strs", [_cpp_string(text) for text in call.strs]),
    }
    pointers = {}
    for kind, (name, items) in arrays.items():
        pointers[name] = f"{site}_{name}" if items else "nullptr"
        if items:
            wrapper.header.writeline(
                f"static {kind} const {site}_{name}[] = {{{', '.join(items)}}};"
            )
    fields = [
        *map(_cpp_string, _texts(call)),
        *map(str, (*_counts(call)[:2], num_fresh, *_counts(call)[2:], len(open_ints))),
        *(pointers[name] for name in ("ints", "open_ints", "floats", "strs")),
        "nullptr",
    ]
    wrapper.header.writeline(f"static GraphffiCallV2 {site} = {{{', '.join(fields)}}};")
    tensors = [
        "nullptr" if t is None else f"AtenTensorHandle({t.codegen_reference()})"
        for t in _tensors(call)
    ]
    handles = ", ".join(tensors)
    dynamic = ", ".join(f"int64_t({wrapper.val_to_arg_str(call.ints[i])})" for i in open_ints)
    written = f"graphffi_call({site}, {{{handles}}}, {{{dynamic}}})"
    # Where Python runs the code, torch's own calls of Python operators fail so, too.
    wrapper.writeline(f"{written};" if V.graph.aot_mode else f"if (!{written}) return;")


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
    throw std::runtime_error("graphffi: expected libgraphffi_torch.so with calls of version 2 in "
                             "the process, got none; import graphffi_torch, or link it; package "
                             "the program again if it is of another release");
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
    return c_string(text.encode())
