# SPDX-License-Identifier: Apache-2.0
"""The source text of the function that takes the place of an op where torch.compile traces it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphffi.plugin import KINDS, MISSING, Attribute, Operand
from graphffi_torch._operators.operator_schema import DIGEST

if TYPE_CHECKING:
    from graphffi.plugin import Definition

_CONVERSIONS: Final = {
    "float": "to_float",
    "bool": "to_bool",
    **{name: "to_name" for name, kind in KINDS.items() if kind.travels_by_name},
}


def source_of(definition: Definition) -> str:
    """The function's text; `make_traced_call` gives the names that it refers to."""
    parameters = definition.parameters
    by_position = sum(not p.by_name for p in parameters)
    values = "".join(f"v_{p.name}, " for p in parameters)
    defaults = "".join(f"{_default_source(p)}, " for p in parameters)
    tests = " and ".join(_test_source(p) for p in parameters) or "True"
    floats = "".join(f"v_{a.name}, " for a in definition.attributes if a.kind == "float")
    digest = f"with_signs(digest(), ({floats}))" if floats else "digest()"
    call = f"operator({values}{DIGEST}={digest})"
    result = _result_source(definition, call)
    unpack = [f"({values}) = values"] if parameters else []
    lines = [
        f"values = args + ({defaults})[len(args):]",
        f"is_complete = len(values) == {len(parameters)} and len(args) <= {by_position}",
        "if named:",
        f"    places = find_places({(*(p.name for p in parameters),)!r}, len(args), tuple(named))",
        "    is_complete = is_complete and len(places) == len(named)",
        "    values = list(values)",
        "    for place, value in zip(places, named.values()):",
        "        values[place] = value",
        "if is_complete:",
        *(f"    {line}" for line in (*unpack, *_conversions(definition))),
        f"    if {tests}:",
        *(f"        {line}" for line in result),
        "values = bind(args, named)",
        *unpack,
        *result,
    ]
    return "\n    ".join(("def graphffi_traced_call(*args, **named):", *lines))


def _conversions(definition: Definition) -> list[str]:
    lines = []
    for parameter in definition.parameters:
        value, convert = f"v_{parameter.name}", _CONVERSIONS.get(parameter.kind)
        is_list = parameter.kind == "list" if isinstance(parameter, Operand) else parameter.is_list
        if is_list:  # Dynamo passes operators no lists and tuples of subclasses
            item = "exact(item)" if convert == "to_float" else "item"
            items = f"[{convert}({item}) for item in {value}]" if convert else f"list({value})"
            lines.append(f"{value} = {items} if isinstance({value}, (list, tuple)) else {value}")
        elif convert is not None:
            if convert == "to_float":
                lines.append(f"if varies({value}): warn({parameter.name!r})")
                lines.append(f"{value} = exact({value})")
            lines.append(f"{value} = {convert}({value})")
    return lines


def _default_source(parameter: Operand | Attribute) -> str:
    if isinstance(parameter, Operand):
        return "MISSING" if parameter.required else "None"
    if parameter.default is MISSING:
        return "MISSING"
    default = parameter.to_graph(parameter.default)
    # Infinities and NaN are no literals.
    return f"float('{default}')" if isinstance(default, float) else repr(default)


def _test_source(parameter: Operand | Attribute) -> str:
    value = f"v_{parameter.name}"
    if isinstance(parameter, Operand):
        if parameter.kind == "list":
            return f"are_tensors({value})"
        test = f"isinstance({value}, Tensor)"
        return test if parameter.kind == "tensor" else f"({value} is None or {test})"
    exact = KINDS[parameter.kind].python.__name__
    if parameter.is_list:
        test = f"are({exact}, {value})"
    elif exact in ("float", "bool"):
        test = f"type({value}) is {exact}"
    else:
        test = f"is_({exact}, {value})"
    return f"({value} is None or {test})" if parameter.optional else test


def _result_source(definition: Definition, call: str) -> list[str]:
    mutated = [
        f"list(v_{o.name})" if o.kind == "list" else f"v_{o.name}"
        for o in definition.operands
        if o.mutated
    ]
    count = len(definition.results)
    if not mutated:
        is_plain = count == 1 or definition.result_type is None
        return [f"return {call}" if is_plain else f"return result_type(*{call})"]
    if count == 0:
        returned = mutated[0] if len(mutated) == 1 else f"({', '.join(mutated)})"
        return [call, f"return {returned}"]
    fresh = "results" if count == 1 else "*results"
    return [f"results = {call}", f"return ({fresh}, {', '.join(mutated)})"]
