# SPDX-License-Identifier: Apache-2.0
"""From a definition to the schemas of its operators."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from graphffi.plugin import KINDS, MISSING, Operand, flat
from graphffi_torch._private_names import USES_LOWERINGS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphffi.plugin import Attribute, BoundCall, Definition

_OPERAND_TYPES: Final = {"tensor": "Tensor{}", "optional": "Tensor{}?", "list": "Tensor{}[]"}

#: An operator's last argument: calls in graphs carry the digest of the definition, so that no
#: compiler's cache serves what was made from another one. It has no other effect.
DIGEST: Final = "graphffi_digest"
# Version of the lowerings and repairs: the code that Inductor generates for a definition changes
# with it.
_LOWERING: Final = "11"
# Torch's dispatcher has a bit for each argument; the digest takes one.
_MOST_PARAMETERS: Final = 63


def graph_digest(digest: str, attributes: Sequence[Any] = ()) -> str:
    """The digest as a call in a graph carries it, which has these attributes."""
    lowering = _LOWERING if USES_LOWERINGS else f"{_LOWERING}-none"
    return with_signs(f"{digest}.{lowering}", attributes)


def with_signs(digest: str, attributes: Sequence[Any]) -> str:
    """The digest of a traced call, which says what attributes are -0.0.

    Torch (2.10 to 2.15 at least) merges equal calls in graphs with gradients, and -0.0 is equal to
    0.0.
    """
    floats = [value for value in flat(attributes) if type(value) is float]
    places = [str(i) for i, value in enumerate(floats) if repr(value) == "-0.0"]
    return "-".join((digest, *places))


def why_no_operator(definition: Definition) -> str | None:
    """Why torch can't have an operator for an op, as errors say it, or None if it can."""
    count = len(definition.parameters)
    if count <= _MOST_PARAMETERS:
        return None
    return (
        f"{definition.name}: expected at most {_MOST_PARAMETERS} parameters of an op that PyTorch "
        f"calls, got {count}; take tensors as one list[Tensor], numbers as one list"
    )


def operator_schemas(definition: Definition) -> tuple[str, str, str]:
    """The schemas of `ns::name`, `ns::name.out` and `ns::name.effect`.

    There is no second one for ops that write operands, have no results, or have too many of them
    for the arguments of an operator, and a third one only for ops that write operands and have side
    effects.

    Example:
        ``mylib::scale(Tensor x, float factor=2.0, *, str graphffi_digest="") -> Tensor`` and
        ``mylib::scale.out(Tensor x, float factor=2.0, *, Tensor(a!) out, str graphffi_digest="")
        -> ()``
    """
    arguments = [*_arguments(definition, alias=True), "*"]
    digest = f'str {DIGEST}=""'
    returns = ["Tensor"] * len(definition.results)
    result = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    schema = f"{definition.name}({', '.join((*arguments, digest))}) -> {result}"
    if definition.is_updating:
        if not definition.has_side_effect:
            return schema, "", ""
        return schema, "", functional_schema(definition, f"{definition.name}.effect")
    count = len(definition.parameters) + len(definition.results)
    if not definition.results or count > _MOST_PARAMETERS:
        return schema, "", ""
    outputs = [f"Tensor({_letter(i)}!) {name}" for i, name in enumerate(definition.results)]
    return schema, f"{definition.name}.out({', '.join((*arguments, *outputs, digest))}) -> ()", ""


def functional_schema(definition: Definition, name: str) -> str:
    """The schema of an operator that returns results, then new values of updated operands."""
    arguments = ", ".join((*_arguments(definition, alias=False), "*", f'str {DIGEST}=""'))
    return f"{name}({arguments}) -> Tensor[]"


def overload_of(operator: Any) -> str:
    """``default``, ``out`` or ``effect``."""
    return str(operator).rpartition(".")[2]


def argument_names(definition: Definition) -> list[str]:
    """The names of the operator's arguments, one for each parameter.

    Torch (2.10 to 2.15) passes the arguments of an operator that updates some by name, to functions
    that have parameters `mode`, `_mutable_op` and `_all_bases` themselves; it warns of `self`.
    """
    names = [p.name for p in definition.parameters]
    if not definition.is_updating:
        return names
    return [_free_name(name, names) if _is_taken(name) else name for name in names]


def _is_taken(name: str) -> bool:
    return name in ("mode", "self", "self_") or name.startswith("_")


def _free_name(name: str, names: Sequence[str]) -> str:
    free = f"updating_{name}"
    while free in names:
        free += "_"
    return free


def arguments_by_name(
    definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """An operator's arguments by the names of the op's parameters; without those left out."""
    parameters = [p.name for p in definition.parameters]
    by_argument = dict(zip(argument_names(definition), parameters, strict=True))
    values = dict(zip(parameters, args, strict=False))
    values.update((by_argument.get(name, name), value) for name, value in kwargs.items())
    return values


def argument_values(
    definition: Definition, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """One argument for each parameter: torch leaves out those that have their default."""
    values = {
        a.name: a.to_graph(a.default) for a in definition.attributes if a.default is not MISSING
    }
    values.update(arguments_by_name(definition, args, kwargs))
    return [values.get(p.name) for p in definition.parameters]


def operator_arguments(definition: Definition, bound: BoundCall) -> list[Any]:
    """The arguments of the op's operator: operands and attributes in signature order."""
    operands, attributes = iter(bound.operands), iter(bound.attributes)
    return [
        next(operands) if isinstance(p, Operand) else p.to_graph(next(attributes))
        for p in definition.parameters
    ]


def why_no_operand(subject: str, kind: type) -> str:
    """Why an array of another framework, of the class `kind`, is refused beside torch's tensors."""
    is_numpys = kind.__module__.partition(".")[0] == "numpy"
    convert = "as_tensor" if is_numpys else "from_dlpack"
    return (
        f"{subject}: expected a torch.Tensor, as others are, got {kind.__module__}."
        f"{kind.__qualname__}; convert it with torch.{convert}"
    )


def _arguments(definition: Definition, *, alias: bool) -> list[str]:
    mutated = [operand.name for operand in definition.operands if operand.mutated]
    arguments: list[str] = []
    keep_defaults = True  # torch wants none before an argument that has none
    named = zip(definition.parameters, argument_names(definition), strict=True)
    for parameter, name in reversed(list(named)):
        if isinstance(parameter, Operand):
            written = alias and parameter.mutated
            mark = f"({_letter(mutated.index(parameter.name))}!)" if written else ""
            text = f"{_OPERAND_TYPES[parameter.kind].format(mark)} {name}"
            default = "None" if not parameter.required else None
        else:
            text = f"{_attribute_type(parameter)} {name}"
            default = _default(parameter)
        keep_defaults = keep_defaults and default is not None
        arguments.append(f"{text}={default}" if keep_defaults else text)
    return arguments[::-1]


def _letter(i: int) -> str:
    return chr(ord("a") + i) if i < 26 else f"a{i}"


def _attribute_type(attribute: Attribute) -> str:
    suffix = ("[]" if attribute.is_list else "") + ("?" if attribute.optional else "")
    # dtypes and devices travel by name: torch knows fewer of them than kernels do.
    name = "str" if KINDS[attribute.kind].travels_by_name else attribute.kind
    return ("SymInt" if name == "int" else name) + suffix


def _default(attribute: Attribute) -> str | None:
    """The default as torch's parser reads it, or None where it can't."""
    value = attribute.default
    if value is MISSING:
        return None
    if value is None:
        return "None"
    if attribute.is_list:
        if attribute.kind not in ("int", "float") or not isinstance(value, (list, tuple)):
            return None
        items = [_scalar(item) for item in value]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    return _scalar(value)


def _scalar(value: Any) -> str | None:
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        # Torch (2.10 to 2.15 at least) drops arguments that are equal to their default, and so
        # -0.0 where that is 0.0: such a float has no default.
        return repr(value) if math.isfinite(value) and value != 0 else None
    text = json.dumps(str(value))  # with escapes for all but ASCII, which torch does not read
    return text if "\\" not in text else None
