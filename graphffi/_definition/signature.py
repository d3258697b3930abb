# SPDX-License-Identifier: Apache-2.0
"""Reads annotated Python signatures and schema strings."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import types
import typing
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from .._contract.attribute_kind import KINDS
from .._core import Tensor
from .._values.describe import describe
from .._values.device import Device
from .._values.dtype import dtype
from .parameter import MISSING, Attribute, Operand, OperandKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_SCALARS: Final = {kind.python: kind.name for kind in KINDS.values()}
_SCHEMA_SCALARS: Final = {
    **{kind.python.__name__: kind.name for kind in KINDS.values()},
    "SymInt": "int",  # torch's
}
_ACCEPTED: Final = (
    "Tensor, Tensor | None, list[Tensor], int, float, bool, str, dtype, Device, "
    "lists of these or … | None"
)


@dataclass(frozen=True)
class Signature:
    """The parameters and results of an op."""

    parameters: tuple[Operand | Attribute, ...]
    results: tuple[str, ...]
    result_type: Any = None


def from_function(name: str, function: Callable[..., Any], mutates: Collection[str]) -> Signature:
    """Reads the annotations of a shape rule.

    Args:
        name: The op's, for error messages.
        function: Every parameter and the result are annotated.
        mutates: Names of the operands that the kernel updates in place.

    Raises:
        TypeError: For an annotation that is missing or no type of an op.
        ValueError: If `mutates` names no operand.
    """
    if not callable(function):
        raise TypeError(f"{name}: expected a function as shape rule, got {describe(function)}")
    if not isinstance(mutates, (list, tuple, set, frozenset)):
        raise TypeError(
            f"{name}: mutates: expected names of tensor operands, got {describe(mutates)}"
        )
    signature = inspect.signature(function)
    names = _Names(function)
    parameters: list[Operand | Attribute] = []
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(
                f"{name}: parameter {parameter.name!r}: expected a named parameter, got {parameter}"
            )
        annotation = names.resolve(name, parameter.name, parameter.annotation)
        default = MISSING if parameter.default is parameter.empty else parameter.default
        made = _parameter(name, parameter.name, annotation, default, parameter.name in mutates)
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        parameters.append(dataclasses.replace(made, by_name=by_name))
    unknown = set(mutates) - {p.name for p in parameters if isinstance(p, Operand)}
    if unknown:
        raise ValueError(
            f"{name}: mutates: expected names of tensor operands, got "
            f"{', '.join(sorted(map(str, unknown)))}"
        )
    results, result_type = _results(
        name, names.resolve(name, "return", signature.return_annotation)
    )
    return Signature(tuple(parameters), results, result_type)


class _Names:
    """Resolves annotations that are strings, with the op's own types known everywhere."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.own = getattr(function, "__globals__", {})
        self.known: dict[str, Any] = {"Tensor": Tensor, "dtype": dtype, "Device": Device}
        code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
        if code is not None and cells is not None:
            for free, cell in zip(code.co_freevars, cells, strict=True):
                with suppress(ValueError):  # the variable has no value yet
                    self.known[free] = cell.cell_contents

    def resolve(self, op: str, parameter: str, annotation: Any) -> Any:
        if annotation is inspect.Parameter.empty:
            raise TypeError(f"{op}: {parameter}: expected an annotation ({_ACCEPTED}), got none")
        if not isinstance(annotation, str):
            return annotation
        try:
            # The user's own names first: a module may call something else Tensor.
            return self.resolve(op, parameter, eval(annotation, self.known, self.own))
        except Exception as error:
            raise TypeError(
                f"{op}: {parameter}: cannot resolve the annotation {annotation!r}: {error}"
            ) from None


def _meaning(annotation: Any) -> Any:
    """The type that an alias of `type X = …` stands for, such as NumPy 2.5's NDArray."""
    alias = typing.get_origin(annotation) or annotation
    if type(alias).__name__ != "TypeAliasType":  # of Python 3.12, or typing_extensions
        return annotation
    args = typing.get_args(annotation)
    return _meaning(alias.__value__[args] if args else alias.__value__)


def _is_tensor_type(annotation: Any) -> bool:
    """graphffi.Tensor, or a framework's own class of that role."""
    annotation = _meaning(annotation)
    if annotation is Tensor:
        return True
    annotation = typing.get_origin(annotation) or annotation  # numpy.typing.NDArray[...]
    return isinstance(annotation, type) and (  # that of jax has dots in its name
        (annotation.__name__.rpartition(".")[2], annotation.__module__.partition(".")[0])
        in (("Tensor", "torch"), ("Array", "jax"), ("Tensor", "tvm_ffi"), ("ndarray", "numpy"))
    )


def _split_optional(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        rest = [arg for arg in typing.get_args(annotation) if arg is not type(None)]
        if len(rest) == 1 and len(rest) < len(typing.get_args(annotation)):
            return rest[0], True
    return annotation, False


def _split_list(annotation: Any) -> tuple[Any, bool]:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if (isinstance(origin, type) and issubclass(origin, (list, tuple))) or (
        getattr(origin, "__name__", "") == "Sequence"
    ):
        if len(args) == 1 or (len(args) == 2 and args[1] is Ellipsis):
            return args[0], True
    return annotation, False


def _parameter(
    op: str, name: str, annotation: Any, default: Any, mutated: bool
) -> Operand | Attribute:
    inner, optional = _split_optional(_meaning(annotation))
    element, is_list = _split_list(_meaning(inner))
    element = _meaning(element)
    if _is_tensor_type(element):
        return _operand(op, name, default, mutated, is_list=is_list, optional=optional)
    scalar = _SCALARS.get(element)
    if scalar is None:
        raise TypeError(f"{op}: parameter {name!r}: expected {_ACCEPTED}, got {annotation!r}")
    return _with_default(op, Attribute(name, scalar, is_list, optional, default))


def _operand(
    op: str, name: str, default: Any, mutated: bool, *, is_list: bool, optional: bool
) -> Operand:
    if is_list and optional:
        raise TypeError(
            f"{op}: operand {name!r}: expected a list of tensors, got an optional one; pass an "
            f"empty list"
        )
    if default is not MISSING and not (default is None and optional):
        raise TypeError(
            f"{op}: operand {name!r}: expected no default, or None for a tensor that is optional "
            f"(Tensor | None, in a schema Tensor?), got {default!r}"
        )
    kind: OperandKind = "list" if is_list else "optional" if optional else "tensor"
    return Operand(name, kind, mutated, required=default is MISSING)


def _with_default(op: str, attribute: Attribute) -> Attribute:
    if attribute.default is MISSING:
        return attribute
    try:
        default = attribute.convert(attribute.default)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{op}: attribute {attribute.name!r}: default: {error}") from None
    frozen = tuple(default) if isinstance(default, list) else default
    return dataclasses.replace(attribute, default=frozen)


def _results(op: str, annotation: Any) -> tuple[tuple[str, ...], Any]:
    annotation = _meaning(annotation)
    if annotation is None or annotation is type(None):
        return (), None
    if _is_tensor_type(annotation):
        return ("out",), None
    if (
        isinstance(annotation, type)
        and issubclass(annotation, tuple)
        and hasattr(annotation, "_fields")
    ):
        return tuple(cast("Any", annotation)._fields), annotation
    args = typing.get_args(annotation)
    if typing.get_origin(annotation) is tuple and args and all(_is_tensor_type(a) for a in args):
        return result_names(len(args)), None
    raise TypeError(
        f"{op}: return: expected Tensor, a tuple of Tensors, a NamedTuple or None, got "
        f"{annotation!r}"
    )


def result_names(count: int) -> tuple[str, ...]:
    """``out`` for one result, ``out0``, ``out1``, … for several."""
    return ("out",) if count == 1 else tuple(f"out{i}" for i in range(count))


# ---- schema strings: "(Tensor x, Tensor? mask, Tensor(a!) cache, int[] dims, float eps=1e-6) ->
# Tensor"

_SCHEMA: Final = r"\s*\((?P<parameters>.*)\)\s*->\s*(?P<results>.+?)\s*"
_PARAMETER: Final = (
    r"(?s:(?P<type>[A-Za-z]\w*)(?P<alias>\(\w+!\))?(?P<list>\[\])?(?P<optional>\?)?\s+(?P<name>[A-Za-z_]\w*)"
    r"\s*(?:=\s*(?P<default>.+))?$)"
)


def from_schema(name: str, schema: str) -> Signature:
    """Reads a schema string.

    `Tensor(a!)` marks an operand that is updated in place; calls give what is behind `*` by name.

    Raises:
        ValueError: If it does not parse.
    """
    match = isinstance(schema, str) and re.fullmatch(_SCHEMA, schema, re.DOTALL)
    if not match:
        raise ValueError(f"{name}: schema: expected '(Tensor x, …) -> Tensor', got {schema!r}")
    texts = _split_commas(match["parameters"])
    count = texts.index("*") if "*" in texts else len(texts)
    if "*" in texts[count + 1 :] or texts[-1:] == ["*"]:
        raise ValueError(
            f"{name}: schema: expected one '*', with parameters behind it, got {schema!r}"
        )
    by_position = [_schema_parameter(name, text) for text in texts[:count]]
    by_name = [_schema_parameter(name, text) for text in texts[count + 1 :]]
    parameters = (*by_position, *(dataclasses.replace(p, by_name=True) for p in by_name))
    return Signature(parameters, _schema_results(name, match["results"]))


def _split_commas(text: str) -> list[str]:
    """At commas outside of brackets and quotes."""
    parts, depth, quote, begin = [], 0, "", 0
    is_escaped = False
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote and not is_escaped else quote
            is_escaped = c == "\\" and not is_escaped
        elif c in "'\"":
            quote = c
        elif c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    parts.append(text[begin:].strip())
    return [part for part in parts if part]


def _schema_parameter(op: str, text: str) -> Operand | Attribute:
    match = re.match(_PARAMETER, text)
    if match is None:
        raise ValueError(f"{op}: schema: expected 'Type name' or 'Type name=default', got {text!r}")
    is_list, optional = bool(match["list"]), bool(match["optional"])
    name, default = (
        match["name"],
        MISSING if match["default"] is None else _literal(op, match["default"]),
    )
    if match["type"] == "Tensor":
        mutated = bool(match["alias"])
        return _operand(op, name, default, mutated, is_list=is_list, optional=optional)
    scalar = _SCHEMA_SCALARS.get(match["type"])
    if scalar is None or match["alias"]:
        known = ", ".join(("Tensor", *_SCHEMA_SCALARS))
        raise ValueError(f"{op}: schema: expected a type of {known}, got {text!r}")
    return _with_default(op, Attribute(name, scalar, is_list, optional, default))


def _literal(op: str, text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(f"{op}: schema: expected a literal default, got {text!r}") from None


def _schema_results(op: str, text: str) -> tuple[str, ...]:
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    words = [part.split() for part in _split_commas(inner)]
    if any(word[0] != "Tensor" or len(word) > 2 for word in words):
        raise ValueError(f"{op}: schema: expected Tensor results, got {text!r}")
    defaults: Sequence[str] = result_names(len(words))
    return tuple(
        word[1] if len(word) == 2 else default
        for word, default in zip(words, defaults, strict=True)
    )
