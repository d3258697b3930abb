# SPDX-License-Identifier: Apache-2.0
"""Conditions of an exported program's code: ranges of sizes, and relations between them.

The code that AOTInductor generates (torch 2.10 to 2.15) compares no inputs with what torch found
while it exported, decomposed and compiled: wrong sizes give wrong results, and reads behind the end
of tensors. All of it is in the program's `ShapeEnv`, which all of these steps share.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, NoReturn

import sympy  # type: ignore[import-untyped]
import torch

import graphffi_torch._C as _C
from graphffi.plugin import describe
from graphffi_torch._export.guard_text import Conditions, SizeGuard, UnreadableGuardError
from graphffi_torch._operators.choice import expression_of
from graphffi_torch._private_names import missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Torch takes greater sizes for granted where calls choose them, and notes no guard.
SMALLEST: Final = 2
NO_LIMIT: Final = 2**63 - 1
# Functions of torch's of which guards say nothing that code for the CPU relies on (torch 2.13):
# sorting is a call, whether or not 16 bits can number the elements; and which of torch's libraries
# computes a convolution decides on the layout of its result, if that is not row-major for all.
_SORTING: Final = ("lowering.py", "sort_stable")
_CONVOLVING: Final = ("fake_impls.py", "conv")
_IMAGES: Final = 4  # dimensions; of more, libraries differ


def size_guards(
    subject: str, exported: torch.export.ExportedProgram, *, lays_out: bool
) -> tuple[SizeGuard, ...]:
    """The guards of a program, with those of all that has been made of it so far.

    Sizes that are linear expressions of one symbol are described by it, and have none.

    Args:
        subject: Begins the error message.
        exported: As it was exported.
        lays_out: Whether results of torch's operators are laid out as the code reads them.

    Raises:
        NotImplementedError: For a guard that cannot be checked when inputs are given.
    """
    sizes = input_sizes(exported)
    environment = next((size.node.shape_env for size in sizes.values()), None)
    if environment is None:
        return ()
    absent = missing("guards")
    if absent is not None:
        raise NotImplementedError(
            f"graphffi_torch: {subject}: expected fixed sizes, since guards of others cannot be "
            f"read without {absent}, got some that calls choose"
        )
    symbols = symbol_texts(sizes)
    # Programs that were loaded have the guards of the export as texts only.
    names = _sources(exported) if not environment.var_to_sources else {}
    names |= {name: name for name in exported.graph_signature.user_inputs}
    texts = list(exported._guards_code) if not environment.var_to_sources else []
    texts += _environments_texts(environment, _without_effect(exported, lays_out))
    texts += _sizes_texts(sizes)
    read = (_read(subject, text, names, symbols) for text in texts)
    return tuple(dict.fromkeys(guard for guard in read if not _is_implied(guard, sizes)))


def _without_effect(exported: torch.export.ExportedProgram, lays_out: bool) -> set[tuple[str, str]]:
    """The functions of which guards say nothing that the program's code relies on."""
    found = [node.meta.get("val") for node in exported.graph.nodes]
    tensors = [value for value in found if isinstance(value, torch.Tensor)]
    if any(t.device.type != "cpu" for t in tensors):
        return set()
    is_plain = all(t.ndim <= _IMAGES and (t.ndim < _IMAGES or is_row_major(t)) for t in tensors)
    return {_SORTING, _CONVOLVING} if lays_out or is_plain else {_SORTING}


def input_sizes(exported: torch.export.ExportedProgram) -> dict[str, torch.SymInt]:
    """The symbolic sizes of inputs, by texts such as ``x.shape[0]``."""
    sizes = {}
    nodes = {node.name: node for node in exported.graph.find_nodes(op="placeholder")}
    for name in exported.graph_signature.user_inputs:
        value: Any = nodes[name].meta.get("val") if name in nodes else None
        if isinstance(value, torch.Tensor):
            shape: Any = value.shape
            for i, size in enumerate(shape):
                if isinstance(size, torch.SymInt):
                    sizes[f"{name}.shape[{i}]"] = size
    return sizes


def is_row_major(tensor: torch.Tensor) -> bool:
    """True if the strides of a tensor, which may be symbolic, are those of a contiguous one."""
    expected: Any = 1
    if any(expression_of(size) == 0 for size in tensor.shape):
        return True
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if expression_of(size) != 1 and expression_of(stride) != expected:
            return False
        expected = expected * expression_of(size)
    return True


def linear_size(size: torch.SymInt) -> tuple[Any, int, int] | None:
    """The symbol of a size, what it is multiplied by, and what is added.

    None for a size that no such expression gives.
    """
    expression = size.node.expr
    if len(expression.free_symbols) != 1:
        return None
    (symbol,) = expression.free_symbols
    slope = sympy.diff(expression, symbol)
    if not isinstance(slope, sympy.Integer) or slope <= 0:
        return None
    return symbol, int(slope), int(expression.subs(symbol, 0))


def describe_symbol(
    size: torch.SymInt,
    linear: tuple[Any, int, int],
    ranges: Mapping[Any, Any],
    ones: frozenset[Any],
) -> tuple[str, int, int]:
    """The name, and the smallest and largest value, of the symbol of a linear size.

    Args:
        size: The size.
        linear: What `linear_size` gives for it.
        ranges: The program's `range_constraints`.
        ones: Symbols that may be 1.
    """
    symbol, multiple, offset = linear
    smallest = 1 if symbol in ones else SMALLEST
    lower, upper = [smallest, _divided(smallest - offset, multiple)], [NO_LIMIT]
    limits, own = ranges.get(symbol), ranges.get(size.node.expr)
    if limits is not None:
        lower.append(_limit(limits.lower, 0))
        upper.append(_limit(limits.upper, NO_LIMIT))
    if own is not None:
        lower.append(_divided(_limit(own.lower, 0) - offset, multiple))
        most = _limit(own.upper, NO_LIMIT)
        upper.append(most if most == NO_LIMIT else (most - offset) // multiple)
    return _name_of(size, symbol), max(lower), min(upper)


def _name_of(size: torch.SymInt, symbol: Any) -> str:
    """The name of a Dim, while the program knows it; else the symbol's."""
    shape_env = size.node.shape_env
    names: Mapping[str, str] = getattr(shape_env, "source_name_to_debug_name", None) or {}
    for source in getattr(shape_env, "var_to_sources", {}).get(symbol, ()):
        name = source.name if isinstance(source.name, str) else source.name()
        if names.get(name, "").isidentifier():
            return names[name]
    return str(symbol)


def _divided(a: int, b: int) -> int:
    return -(-a // b)  # rounds up


def _limit(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, sympy.Integer) or type(value) is int else otherwise


def symbol_texts(sizes: Mapping[str, torch.SymInt]) -> dict[str, str]:
    """Texts of symbols: sizes themselves if possible, ``x.shape[0]``, or ``x.shape[0] // 2``."""
    found: dict[str, tuple[tuple[int, int], str]] = {}
    for text, size in sizes.items():
        linear = linear_size(size)
        if linear is None:
            continue
        symbol, multiple, offset = linear
        shifted = f"({text} - {offset})" if offset else text
        scaled = f"({shifted} // {multiple})" if multiple != 1 else shifted
        rank = (multiple, abs(offset))
        if str(symbol) not in found or rank < found[str(symbol)][0]:
            found[str(symbol)] = rank, scaled
    return {symbol: text for symbol, (_, text) in found.items()}


def _environments_texts(environment: Any, without_effect: set[tuple[str, str]]) -> Iterator[str]:
    """Guards over symbols that stand for themselves."""
    for guard in environment.guards:
        expression = environment.replace(guard.expr)
        frame = getattr(guard.sloc, "framework_loc", None)
        place = PurePath(getattr(frame, "filename", "")).name, getattr(frame, "name", "")
        if expression is not sympy.true and place not in without_effect:
            yield _printed(expression)


def _sizes_texts(sizes: Mapping[str, torch.SymInt]) -> Iterator[str]:
    """Sizes that no symbol describes are what their expressions give, and not too small."""
    for text, size in sizes.items():
        if linear_size(size) is None and size.node.expr.free_symbols:
            name, _, dimension = text.partition(".shape")
            own = f"{name}.size(){dimension}"
            yield f"{_printed(size.node.expr)} == {own}"
            yield f"{own} >= {SMALLEST}"


def _printed(expression: Any) -> str:
    from torch.utils._sympy.printers import PythonPrinter

    text: str = PythonPrinter().doprint(expression)
    return text


def _read(
    subject: str, text: str, names: Mapping[str, str], symbols: Mapping[str, str]
) -> SizeGuard:
    try:
        return SizeGuard.read(text, names, symbols)
    except UnreadableGuardError:
        _refuse(subject, text)


def _refuse(subject: str, text: str) -> NoReturn:
    raise NotImplementedError(
        f"graphffi_torch: {subject}: expected guards that relate sizes of tensors, got {text!r}; "
        "fix the sizes that it is about, or pass the number as a tensor"
    ) from None


def add_guards(subject: str, conditions: Conditions, guards: Iterable[SizeGuard]) -> None:
    """Adds guards to a program.

    Raises:
        NotImplementedError: If one is about another input than the program's.
    """
    for guard in guards:
        try:
            conditions.check_guard(guard)
        except UnreadableGuardError:
            _refuse(subject, guard.text)


def add_strides(conditions: Conditions, name: str, value: torch.Tensor, symbols: Any) -> None:
    """Adds the condition that an input has the strides of a tensor, as far as symbols tell them.

    Args:
        conditions: The program.
        name: Of the input.
        value: The tensor, as the code reads it.
        symbols: Of `symbol_texts`.
    """
    holds = conditions.give("const 1")
    expected, got = [], []
    names = {each: each for each in conditions.inputs}
    for i, stride in enumerate(value.stride()):
        own = conditions.stride(name, i)
        got.append(f"{{{own}}}")
        try:
            read = SizeGuard.read(_printed(expression_of(stride)), names, symbols)
        except UnreadableGuardError:
            expected.append("?")
            continue
        right = conditions.value(read.text)
        expected.append(f"{{{right}}}")
        is_any = conditions.give("le", conditions.size(name, i), conditions.give("const 1"))
        is_right = conditions.give("either", is_any, conditions.give("eq", own, right))
        holds = conditions.give("both", holds, is_right)
    conditions.check(
        holds,
        f"input '{name}': expected the strides [{', '.join(expected)}] as in the exported program, "
        f"got the strides [{', '.join(got)}]",
    )


def _is_implied(guard: SizeGuard, sizes: Mapping[str, torch.SymInt]) -> bool:
    """True if the description of inputs says the same: numbers, or sizes of one symbol."""
    if not guard.inputs:
        conditions = Conditions()
        conditions.check_guard(guard)
        return not _C.Conditions(conditions.text).find_broken([], describe)
    left, equal, right = guard.text.partition(" == ")
    if not equal or left not in sizes or right not in sizes:
        return False
    return bool(sizes[left].node.expr == sizes[right].node.expr) and (
        linear_size(sizes[left]) is not None
    )


def parameter_names(exported: torch.export.ExportedProgram) -> list[str]:
    """The names of a program's arguments: those by position, then those by keyword."""
    signature = exported.module_call_graph[0].signature
    return list((signature and signature.forward_arg_names) or ())


def keys_of(spec: Any) -> tuple[str, ...] | None:
    """The keys of a dict in a pytree; None for other nodes, and if not all keys are str."""
    is_dict = spec.type in (dict, OrderedDict) and all(type(key) is str for key in spec.context)
    return tuple(spec.context) if is_dict else None


def _sources(exported: torch.export.ExportedProgram) -> dict[str, str]:
    """The name of each input, by the texts that guards have for it."""
    inputs = exported.graph_signature.user_inputs
    names = parameter_names(exported)
    groups = exported.call_spec.in_spec.children()
    children = [child for group in groups for child in group.children()]
    found: dict[str, Any] = {}
    for write in (repr, _item):  # `x_0` is a parameter, or what `*x` takes
        paths = [
            f"L[{write(name)}]{path}"
            for name, child in zip(names, children, strict=False)
            for path in _paths(child)
        ]
        for path, name in zip(paths, inputs, strict=False):
            found.setdefault(path, name)
    for i, name in enumerate(inputs):
        found.setdefault(f"L['flat_args'][{i}]", name)
    return found


def _item(name: str) -> str:
    """``'x'][0`` for ``x_0``."""
    base, _, number = name.rpartition("_")
    return f"{base!r}][{number}" if number.isdigit() else repr(name)


def _paths(spec: Any) -> Iterator[str]:
    """The way to each leaf of a pytree, as in Python; in nodes of other kinds, no way."""
    if spec.is_leaf():
        yield ""
        return
    keys = spec.context if spec.type in (dict, OrderedDict) else range(spec.num_children)
    is_known = spec.type in (dict, OrderedDict, list, tuple)
    for i, child in enumerate(spec.children()):
        step = f"[{keys[i]!r}]" if is_known else "?"
        yield from (f"{step}{path}" for path in _paths(child))
