# SPDX-License-Identifier: Apache-2.0
"""The texts of a model: what a node says of its call, and the list of a model's ops.

A node's text is its attribute `CALL`; `csrc/node_text.cc` reads it. The first line is the format,
each other one a name and a value:

- ``subject``, ``digest``: the op's name, the digest of its definition;
- ``names``: ``x, xs[0] -> out, cache``: of the tensors, for errors;
- ``device``: the type of the tensors' devices;
- ``input``: of each input of the node, ``i0 float32 2``: where the plan has it, data type, rank;
  ``-`` for an operand that is absent, ``!`` for one that would be updated;
- ``attribute``: ``int -1 axis``: class, length (-1: no list) and name of each that is not None, in
  the order of n0…, f0… and s0… of their classes; the values are in the node's attributes;
- ``exact``: ``f0 1e-06``: digits that a node's attribute, which has 32 bits, has not; ``-0.0``,
  which optimizers take for 0.0; ``s0 …``: a text of a list, which ONNX Runtime gives up to its
  first NUL;
- ``fixed``: ``s0 fast``: a value on which the programs depend.

Then come the ways that rules took, each with a kernel:

- ``kernel``: its reference; ``library``: the name of its library beside the model;
- ``plan``: over i0…, o0…, n0…, f0… and s0…; ``owning``: tensors are passed as owning ones;
- ``program``: `graphffi.plugin.trace_call` gives it.

A node has the op's operands as inputs, and as outputs its results, then the operands that it
updates. The list of ops, `model.onnx.ops`, has a line for each: name, digest, type of devices, the
kinds of the operands, ``->``, and the number of results:
``mylib::add 0123456789abcdef cpu tensor optional -> 1``. A ``!`` behind a kind says that the op
updates the operand.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

from graphffi import dtype
from graphffi.plugin import KINDS, call_device, flat, packaged_name, trace_call, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphffi import TensorSpec
    from graphffi.plugin import CanonicalCall, Definition, TracedCall

    Line = tuple[str, str]

CALL: Final = "graphffi_call"
"""The attribute of a node that is the text of its call."""
DTYPES: Final = {
    **{"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7},
    **{"bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16},
    **{"float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20},
}
"""The data types that kernels are given there, with ONNX's numbers."""
_TYPES: Final = {"n": "INT", "f": "FLOAT", "s": "STRING"}  # by the bank of a kind of attributes
_FORMAT: Final = "graphffi.onnx 1"
_OPS_FORMAT: Final = "graphffi.ops 1"


def node_text(
    definition: Definition,
    operands: Sequence[Any],
    attributes: Sequence[Any],
    *,
    others: Iterable[tuple[Sequence[Any], Sequence[TensorSpec]]] = (),
) -> str:
    """The text of a call: the value of the attribute `CALL` of its node.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand, with a device; sizes are
            those of one call that the model is to serve. The model serves all calls for which the
            op's rules decide alike.
        attributes: One converted value per attribute.
        others: More such operands, of the same ranks and data types, whose decisions it serves,
            with the results that the model takes them to have. A way to others is left out.

    Raises:
        NotImplementedError: If ONNX Runtime can't run the call: see `why_no_node`.
        ValueError, TypeError: As the op's rules do.
    """
    reason = why_no_node(definition)
    if reason is not None:
        raise NotImplementedError(reason)
    if not definition.results and not definition.updated(operands):
        raise NotImplementedError(
            f"{definition.name}: expected a call with results, or operands that it updates, got "
            "none; ONNX has no nodes without outputs"
        )
    ways: dict[str, TracedCall] = {}
    wrong: set[str] = set()
    for each, results in ((operands, None), *others):
        way = trace_call(definition, each, attributes)
        _check_dtypes(definition, each, way)
        key = f"{way.kernel.reference} {way.text}"
        ways.setdefault(key, way)
        if results is not None and _types(results) != _types(way.results):
            wrong.add(key)
    for key in wrong - {next(iter(ways))}:
        del ways[key]
    calls = [(w, definition.canonical(w.kernel, operands, attributes)) for w in ways.values()]
    fixed = frozenset().union(*(way.fixed for way in ways.values()))
    lines = (
        ("subject", definition.name),
        ("digest", definition.digest),
        ("device", call_device(operands, ())),
        ("names", calls[0][1].names),
        *_input_lines(definition, operands),
        *_attribute_lines(definition, attributes, fixed),
        *(line for way, call in calls for line in _way_lines(way, call)),
    )
    return write_lines(_FORMAT, lines)


def _types(specs: Sequence[TensorSpec]) -> list[Any]:
    return [(spec.shape, dtype(spec.dtype)) for spec in specs]


def _check_dtypes(definition: Definition, operands: Sequence[Any], way: TracedCall) -> None:
    """Refuses what kernels of ONNX Runtime can't be given.

    Raises:
        NotImplementedError: For such a data type.
    """
    given = [(f"operand {o.name!r}", v) for o, v in zip(definition.operands, operands, strict=True)]
    made = zip((f"result {name!r}" for name in definition.results), way.results, strict=True)
    for what, value in (*given, *made):
        for spec in flat([value]):
            check_data_type(f"{definition.name}: {what}", str(dtype(spec.dtype)))


def check_data_type(subject: str, name: str) -> None:
    """Refuses a data type that no tensor of a model has."""
    if name not in DTYPES:
        raise NotImplementedError(
            f"{subject}: expected a data type that kernels have in ONNX Runtime, got {name}"
        )


def _input_lines(definition: Definition, operands: Sequence[Any]) -> Iterator[Line]:
    """A line for each input of the node: operands in order, lists flattened."""
    read, updated = 0, len(definition.results)
    for operand, value in zip(definition.operands, operands, strict=True):
        if value is None:
            yield "input", "!" if operand.mutated else "-"
        for spec in flat([value]):
            place = f"o{updated}" if operand.mutated else f"i{read}"
            updated, read = updated + operand.mutated, read + (not operand.mutated)
            yield "input", f"{place} {dtype(spec.dtype)} {len(spec.shape)}"


def _attribute_lines(
    definition: Definition, attributes: Sequence[Any], fixed: frozenset[int]
) -> Iterator[Line]:
    """Places of values, and those that the node's attributes do not say, or programs depend on."""
    counts = {"n": 0, "f": 0, "s": 0}
    number = 0
    for attribute, value in zip(definition.attributes, attributes, strict=True):
        is_list = isinstance(value, (list, tuple))
        kind = KINDS[attribute.kind]
        if value is not None:
            name = "str" if kind.bank == "s" else kind.name
            yield "attribute", f"{name} {len(value) if is_list else -1} {attribute.name}"
        for item in value if is_list else (value,):
            if item is not None:
                place = f"{kind.bank}{counts[kind.bank]}"
                counts[kind.bank] += 1
                text = _text_of(kind.to_graph(item))
                is_lost = kind.bank == "f" and (text == "-0.0" or repr(_rounded(item)) != text)
                if is_lost or (is_list and "\0" in text):
                    yield "exact", f"{place} {text}"
                if number in fixed:
                    yield "fixed", f"{place} {text}"
            number += 1


def _text_of(value: Any) -> str:
    if isinstance(value, float):
        return repr(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _way_lines(way: TracedCall, call: CanonicalCall) -> Iterator[Line]:
    reference = way.kernel.reference
    yield "kernel", reference
    library = packaged_name(reference)
    if library:
        yield "library", library
    yield "plan", call.plan
    if way.kernel.traits.pass_owning_tensor:
        yield "owning", "True"
    yield "program", way.text


def node_attributes(definition: Definition, attributes: Sequence[Any]) -> dict[str, Any]:
    """The op's attributes as a node has them: ints, floats, texts, and lists of one kind.

    Those that are None are left out; the text of the call is `node_text`.
    """
    named = zip(definition.attributes, attributes, strict=True)
    return {a.name: _in_node(a.kind, a.to_graph(value)) for a, value in named if value is not None}


def typed_attributes(
    definition: Definition, attributes: Sequence[Any], text: str
) -> dict[str, tuple[str, Any]]:
    """All attributes of a node, with ONNX's names of their types, which empty lists do not show.

    Args:
        definition: Of the op.
        attributes: One converted value per attribute.
        text: Of the call, which comes first.
    """
    banks = {a.name: KINDS[a.kind].bank for a in definition.attributes}
    found = {CALL: (_TYPES["s"], text)}
    for name, value in node_attributes(definition, attributes).items():
        found[name] = (_TYPES[banks[name]] + "S" * isinstance(value, list), value)
    return found


def slots(operands: Iterable[Any]) -> list[Any]:
    """The tensors of operands in order, lists flattened; None where one is absent."""
    found: list[Any] = []
    for value in operands:
        found += value if isinstance(value, (list, tuple)) else [value]
    return found


def _in_node(kind: str, value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_in_node(kind, item) for item in value]
    if kind == "float":
        return _rounded(value)
    return int(value) if kind == "bool" else value


def _rounded(value: float) -> float:
    """A float as nodes have it: of 32 bits."""
    return ctypes.c_float(value).value


def why_no_node(definition: Definition) -> str | None:
    """Why no model can hold calls of an op, as errors say it, or None if it can."""
    import onnx.defs

    name, operands = definition.name, definition.operands
    for operand in operands[:-1]:
        if operand.kind == "list":
            return (
                f"{name}: operand {operand.name!r}: expected a list of tensors as the last operand "
                f"of an op in ONNX, got one before {operands[-1].name!r}; take it last"
            )
    operator = name.partition("::")[2]
    if onnx.defs.has(operator):
        return (
            f"{name}: expected a name of its own for an op in ONNX, got that of ONNX's operator "
            f"{operator!r}, for which ONNX Runtime may take it; rename the op"
        )
    if CALL in (a.name for a in definition.attributes):
        return f"{name}: attribute {CALL!r}: expected another name, got that of the call's text"
    return None


def ops_text(definitions: Iterable[Definition], devices: Iterable[str] = ("cpu",)) -> str:
    """The list of a model's ops, `model.onnx.ops`: those on devices of each of these types."""
    known = list(definitions)
    lines = sorted({_op_line(each, device) for device in devices for each in known})
    return "\n".join((_OPS_FORMAT, *lines, ""))


def _op_line(definition: Definition, device: str) -> str:
    kinds = (f"{o.kind}{'!' if o.mutated else ''}" for o in definition.operands)
    results = str(len(definition.results))
    return " ".join((definition.name, definition.digest, device, *kinds, "->", results))
