# SPDX-License-Identifier: Apache-2.0
"""The inputs of a package's model: described in the package, compared with those of calls.

The code that AOTInductor generates takes memory for what it was in the example. The calls of ops in
it check their operands themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch
from torch.utils._pytree import tree_leaves

import graphffi_torch._C as _C
from graphffi.plugin import NUMBERS, arguments_in_order, counted, describe, is_tensor
from graphffi_torch._export.package_description import dtype_name
from graphffi_torch._export.size_guards import NO_LIMIT, SMALLEST

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUBJECT: Final = "graphffi_torch: package"


class Inputs:
    """The inputs of a package's model."""

    def __init__(self, described: Any) -> None:
        """`described` is of `describe_inputs`."""
        self._tensors: list[_Tensor] = []
        self._names: list[str] = described["names"]
        self._num_args = len(described["args"])
        items = [*described["args"], *described["kwargs"]["keys"].values()]
        self._items = [
            self._of(item, f"argument {name!r}")
            for name, item in zip(self._names, items, strict=True)
        ]
        self._conditions = _C.Conditions(described["conditions"])
        self._updated = [i for i, tensor in enumerate(self._tensors) if tensor.is_updated]
        self._accepted: list[Any] | None = None  # facts about the last call's tensors

    def arrange(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """A call's arguments, by position and by name as the exported program got them.

        Items of dicts are in its order.

        Raises:
            TypeError: For other nesting, data types and kinds of values.
            ValueError: For other sizes, strides, devices and constants, sizes that do not fit
                together, and memory that an updated input shares.
        """
        facts = None if kwargs else _facts(args)
        if facts is not None and facts == self._accepted:
            self._check_memory(args)
            return args, kwargs
        call = _InputFacts()
        values = arguments_in_order(_SUBJECT, self._names, args, kwargs)
        arranged = [
            item.arrange(value, call) for item, value in zip(self._items, values, strict=True)
        ]
        broken = self._conditions.find_broken(call.tensors, describe)
        if broken:
            raise ValueError(f"{_SUBJECT}: {broken}")
        self._check_memory(call.tensors)
        # Only tensors alone are compared by facts, which need no place for others.
        self._accepted = facts if len(call.tensors) == len(args) else None
        by_name = zip(self._names[self._num_args :], arranged[self._num_args :], strict=True)
        return arranged[: self._num_args], dict(by_name)

    def _of(self, described: Any, path: str) -> Any:
        if isinstance(described, list):
            return _List([self._of(item, f"{path}[{i}]") for i, item in enumerate(described)], path)
        if described is None:
            return _Any()
        if "keys" in described:
            items = described["keys"]
            read = {key: self._of(item, f"{path}[{key!r}]") for key, item in items.items()}
            return _Dict(read, path)
        if "leaves" in described:
            items = described["leaves"]
            return _Node([self._of(item, f"{path}[{i}]") for i, item in enumerate(items)], path)
        if "value" in described:
            return _Constant(**described)
        sizes = [_Size(*size) if isinstance(size, list) else size for size in described["sizes"]]
        self._tensors.append(_Tensor(**{**described, "sizes": sizes}))
        return self._tensors[-1]

    def _check_memory(self, tensors: Sequence[torch.Tensor]) -> None:
        """The code reads and writes inputs in any order."""
        found = _C.find_overlap(list(tensors), self._updated) if self._updated else None
        if found is not None:
            updated, other = (f"input '{self._tensors[i].name}'" for i in found)
            _refuse(
                ValueError,
                updated,
                "memory of its own, since the program updates it",
                f"memory shared with {other}; pass a copy",
            )


@dataclass
class _InputFacts:
    """The facts of a call so far."""

    sizes: dict[str, int] = field(default_factory=dict)
    tensors: list[torch.Tensor] = field(default_factory=list)


def _facts(values: Sequence[Any]) -> list[Any] | None:
    """All that is compared of a call's arguments; None if some are not plain tensors."""
    if any(type(v) is not torch.Tensor or v.layout is not torch.strided for v in values):
        return None
    return [(v.dtype, v.device, v.shape, v.stride(), v.is_conj(), v.is_neg()) for v in values]


# `arrange` gives the value as the model takes it.


class _Any:
    def arrange(self, value: Any, call: _InputFacts) -> Any:
        return value


@dataclass(frozen=True)
class _List:
    items: Sequence[Any]
    path: str

    def arrange(self, value: Any, call: _InputFacts) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(self.items):
            _refuse(
                TypeError, self.path, f"a list or tuple of {len(self.items)}", _container(value)
            )
        return [item.arrange(v, call) for item, v in zip(self.items, value, strict=True)]


@dataclass(frozen=True)
class _Dict:
    items: Mapping[str, Any]
    path: str

    def arrange(self, value: Any, call: _InputFacts) -> Any:
        if not isinstance(value, Mapping) or value.keys() != self.items.keys():
            _refuse(TypeError, self.path, _container(self.items), _container(value))
        return {key: item.arrange(value[key], call) for key, item in self.items.items()}


@dataclass(frozen=True)
class _Node:
    """Another node of a pytree, such as a named tuple."""

    leaves: Sequence[Any]
    path: str

    def arrange(self, value: Any, call: _InputFacts) -> Any:
        leaves = tree_leaves(value)
        if len(leaves) != len(self.leaves):
            got = f"{len(leaves)} in {describe(value)}"
            _refuse(TypeError, self.path, counted(len(self.leaves), "input"), got)
        for leaf, given in zip(self.leaves, leaves, strict=True):
            leaf.arrange(given, call)
        return value


@dataclass(frozen=True)
class _Constant:
    name: str
    value: Any

    def arrange(self, value: Any, call: _InputFacts) -> Any:
        is_equal = type(value) in NUMBERS and value == self.value  # 2 and 2.0
        if is_equal and value == 0:  # but not 0.0 and -0.0
            is_equal = math.copysign(1, value) == math.copysign(1, self.value)
        if not is_equal and repr(value) != repr(self.value):  # NaN is NaN
            _refuse(
                ValueError if type(value) is type(self.value) else TypeError,
                f"input '{self.name}'",
                f"{describe(self.value)} as in the exported program",
                describe(value),
            )
        return value


@dataclass(frozen=True)
class _Size:
    """A size of a symbol: `multiple` times its value, and `offset`."""

    symbol: str
    name: str
    lower: int
    upper: int
    multiple: int = 1
    offset: int = 0

    def accepts(self, size: int, sizes: dict[str, int]) -> bool:
        value, rest = divmod(size - self.offset, self.multiple)
        is_in_range = rest == 0 and self.lower <= value <= self.upper
        return is_in_range and sizes.setdefault(self.symbol, value) == value

    def note(self, size: int, sizes: dict[str, int]) -> None:
        sizes.setdefault(self.symbol, (size - self.offset) // self.multiple)

    def text(self, sizes: Mapping[str, int]) -> str:
        text = self.name if self.multiple == 1 else f"{self.multiple}*{self.name}"
        text += f"+{self.offset}" if self.offset > 0 else str(self.offset or "")
        if self.symbol in sizes:
            return f"{text}={sizes[self.symbol] * self.multiple + self.offset}"
        upper = "any" if self.upper == NO_LIMIT else self.upper
        limits = f"{self.lower} to {upper}"
        return f"{text} ({limits})" if text == self.name else f"{text} ({self.name}: {limits})"


@dataclass(frozen=True)
class _Tensor:
    name: str
    dtype: str
    device: str
    sizes: Sequence[Any]
    is_row_major: bool
    is_checked_by_ops: bool
    is_updated: bool = False

    def arrange(self, value: Any, call: _InputFacts) -> Any:
        if not isinstance(value, torch.Tensor):
            kind = type(value)
            got = f"{kind.__module__}.{kind.__name__}" if is_tensor(value) else describe(value)
            self._refuse(TypeError, "a torch.Tensor", got)
        if self.is_checked_by_ops:
            self._note_sizes(value, call.sizes)
        else:
            self._check_type(value, call.sizes)
            self._check_layout(value)
        call.tensors.append(value)
        return value

    def _note_sizes(self, value: torch.Tensor, sizes: dict[str, int]) -> None:
        """Compares with nothing but ranges, which the ops' calls do not know."""
        for expected, size in zip(self.sizes, value.shape, strict=False):
            if isinstance(expected, _Size):
                if value.ndim == len(self.sizes) and not expected.accepts(size, {}):
                    self._refuse_type(value, {})
                expected.note(size, sizes)

    def _check_type(self, value: torch.Tensor, sizes: dict[str, int]) -> None:
        has_dtype = dtype_name(value.dtype) == self.dtype
        fits = has_dtype and value.ndim == len(self.sizes) and value.device.type == self.device
        if fits:
            for expected, size in zip(self.sizes, value.shape, strict=True):
                if isinstance(expected, _Size):
                    fits = expected.accepts(size, sizes) and fits
                elif expected not in (size, None):
                    fits = False
        if not fits:
            self._refuse_type(value, sizes)

    def _refuse_type(self, value: torch.Tensor, sizes: dict[str, int]) -> NoReturn:
        kind = ValueError if dtype_name(value.dtype) == self.dtype else TypeError
        text = ", ".join(_size_text(size, sizes) for size in self.sizes)
        is_small = any(
            isinstance(expected, _Size) and size < SMALLEST and not expected.accepts(size, {})
            for expected, size in zip(self.sizes, value.shape, strict=False)
        )
        got = describe(value) + ("; export a program with this size" if is_small else "")
        self._refuse(kind, f"{self.dtype}[{text}] on {self.device}", got)

    def _check_layout(self, value: torch.Tensor) -> None:
        """Refuses elements that are elsewhere in memory than in the example."""
        if value.layout != torch.strided:
            self._refuse(ValueError, "a strided tensor", f"{value.layout}; call .to_dense()")
        if value.is_conj() or value.is_neg():
            got = "a lazily conjugated or negated one; call .resolve_conj().resolve_neg()"
            self._refuse(ValueError, "elements as they are in memory", got)
        if self.is_row_major and not value.is_contiguous():
            got = f"the strides {list(value.stride())}; call .contiguous()"
            self._refuse(ValueError, "a contiguous tensor as in the exported program", got)

    def _refuse(self, kind: type[Exception], expected: str, got: str) -> NoReturn:
        _refuse(kind, f"input '{self.name}'", expected, got)


def _size_text(expected: Any, sizes: Mapping[str, int]) -> str:
    if isinstance(expected, _Size):
        return expected.text(sizes)
    return "?" if expected is None else str(expected)


def _container(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict with the keys {', '.join(map(repr, value))}" if value else "an empty dict"
    if isinstance(value, (list, tuple)):
        return f"a {type(value).__name__} of {len(value)}"
    return describe(value)


def _refuse(kind: type[Exception], what: str, expected: str, got: str) -> NoReturn:
    raise kind(f"{_SUBJECT}: {what}: expected {expected}, got {got}")
