# SPDX-License-Identifier: Apache-2.0
"""One call of an op as plain values: how its operands lie in memory, and its attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._contract.spec import TensorSpec
from .._values.device import Device
from .._values.dtype import dtype
from .._values.nested import per_tensor
from .._values.tensor import numpy_dtype

if TYPE_CHECKING:
    import numpy

    from .._definition.definition import Definition


@dataclass(frozen=True)
class View:
    """A tensor operand: a strided view of a flat array with contents of its own.

    Args:
        dtype: Name of the data type.
        shape: Sizes, outermost first.
        strides: In elements; None for row-major.
        offset: Of the first element, in elements.
        high: Integers are from 0 up to this, exclusive.
        device: Where kernels get it.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    offset: int = 0
    high: int = 2
    device: str = "cpu"

    @property
    def all_strides(self) -> tuple[int, ...]:
        """In elements."""
        return row_major(self.shape) if self.strides is None else self.strides

    @property
    def extent(self) -> int:
        """Elements of the flat array."""
        reach = sum((n - 1) * s for n, s in zip(self.shape, self.all_strides, strict=True) if n > 0)
        return self.offset + reach + 1

    @property
    def spec(self) -> TensorSpec:
        """The operand as a shape rule sees it."""
        return TensorSpec(self.shape, dtype(self.dtype), Device(self.device))

    def base(self, random: numpy.random.Generator) -> numpy.ndarray:
        """The flat array, with contents."""
        import numpy

        kind = numpy_dtype(self.dtype)
        if self.dtype == "bool":
            return random.integers(0, 2, self.extent).astype(kind)
        if self.dtype.startswith(("int", "uint")):
            return random.integers(0, max(self.high, 1), self.extent).astype(kind)
        values = random.standard_normal(self.extent)
        if self.dtype == "float8_e8m0fnu":  # which has no sign
            values = abs(values)
        if self.dtype.startswith("complex"):
            values = values + 1j * random.standard_normal(self.extent)
        return numpy.asarray(values).astype(kind)

    def describe(self) -> str:
        """``float32[2, 3]``, with strides and offset where they are not row-major and 0."""
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        if self.strides is not None:
            text += f" strides {list(self.strides)}"
        return text + (f" offset {self.offset}" if self.offset else "")


@dataclass(frozen=True)
class Case:
    """The arguments of a call.

    Args:
        operands: A `View`, None or a tuple of views per operand.
        attributes: A value per attribute; a tuple for a list.
        seed: Of the contents.
        kind: What is special about it.
    """

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]
    seed: int = 0
    kind: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Makes lists tuples: cases are keys."""
        for name in ("operands", "attributes"):
            frozen = (tuple(v) if isinstance(v, list) else v for v in getattr(self, name))
            object.__setattr__(self, name, tuple(frozen))

    @property
    def values(self) -> tuple[Any, ...]:
        """The attributes as calls get them."""
        return tuple(list(a) if isinstance(a, tuple) else a for a in self.attributes)

    @property
    def device(self) -> str:
        """Of the operands."""
        return next((view.device for view in self.views()), "cpu")

    @property
    def size(self) -> int:
        """Elements of all operands, by which cases are ordered: findings show the smallest."""
        return sum(math.prod(view.shape) for view in self.views())

    def views(self) -> Iterator[View]:
        """All tensors."""
        for operand in self.operands:
            if isinstance(operand, tuple):
                yield from operand
            elif operand is not None:
                yield operand

    def named_views(self, definition: Definition) -> list[tuple[str, View, bool]]:
        """All tensors: name, view and whether the op updates it."""
        found = []
        for operand, value in zip(definition.operands, self.operands, strict=True):
            if isinstance(value, tuple):
                found += [(f"{operand.name}[{i}]", v, operand.mutated) for i, v in enumerate(value)]
            elif value is not None:
                found.append((operand.name, value, operand.mutated))
        return found

    def with_views(self, change: Callable[[View], View], kind: str) -> Case:
        """The case with other views."""
        return replace(self, operands=tuple(map(per_tensor(change), self.operands)), kind=kind)

    def specs(self) -> list[Any]:
        """The operands as shape rules get them."""
        return [*map(per_tensor(lambda view: view.spec), self.operands)]

    def build(self, make: Callable[[numpy.ndarray, View], Any]) -> list[Any]:
        """The operands; each tensor is ``make(base, view)``."""
        import numpy

        random = numpy.random.default_rng(self.seed)

        return [*map(per_tensor(lambda view: make(view.base(random), view)), self.operands)]

    def arguments(
        self, definition: Definition, make: Callable[[numpy.ndarray, View], Any]
    ) -> list[Any]:
        """The arguments in signature order."""
        return self.in_order(definition, self.build(make))

    def in_order(self, definition: Definition, operands: list[Any]) -> list[Any]:
        """Operands and this case's attributes in signature order."""
        return definition.in_order(operands, self.values)

    def describe(self, definition: Definition) -> str:
        """``x=float32[2, 3], eps=0.5``."""
        texts = []
        for parameter, value in zip(
            definition.parameters, self.in_order(definition, list(self.operands)), strict=True
        ):
            if isinstance(value, View):
                text = value.describe()
            elif isinstance(value, tuple) and value and isinstance(value[0], View):
                text = f"[{', '.join(v.describe() for v in value)}]"
            else:
                text = repr(value)
            texts.append(f"{parameter.name}={text}")
        return ", ".join(texts)

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes the case."""
        operands = [*map(per_tensor(vars), self.operands)]
        attributes = [_plain(value) for value in self.attributes]
        return {"operands": operands, "attributes": attributes, "seed": self.seed,
                "kind": self.kind}  # fmt: skip

    @staticmethod
    def from_json(found: dict[str, Any], definition: Definition) -> Case:
        """A case of the values of `to_json`, read from JSON or not."""

        @per_tensor
        def view(values: dict[str, Any]) -> View:
            strides = values["strides"]
            shape = tuple(values["shape"])
            changed = {"shape": shape, "strides": None if strides is None else tuple(strides)}
            return View(**{**values, **changed})

        operands = tuple(map(view, found["operands"]))
        attributes = converted(definition, found["attributes"])
        return Case(operands, attributes, found["seed"], found.get("kind", ""))


def converted(definition: Definition, attributes: Iterable[Any]) -> tuple[Any, ...]:
    """Attributes as shape rules get them: data types and devices as such.

    Raises:
        TypeError: If one is of another kind.
        ValueError: If kernels cannot be given it.
    """
    pairs = zip(definition.attributes, attributes, strict=True)
    return tuple(attribute.convert(value) for attribute, value in pairs)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, (dtype, Device)) else value


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def numpy_view(base: numpy.ndarray, view: View) -> numpy.ndarray:
    """The operand as an array of NumPy."""
    import numpy

    strides = tuple(s * base.itemsize for s in view.all_strides)
    offset = view.offset * base.itemsize
    array: numpy.ndarray = numpy.ndarray(view.shape, base.dtype, base, offset, strides)
    return array


def numpy_copy(base: numpy.ndarray, view: View) -> numpy.ndarray:
    """The same, row-major and with memory of its own."""
    copied: numpy.ndarray = numpy_view(base, view).copy(order="C")
    return copied
