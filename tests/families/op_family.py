# SPDX-License-Identifier: Apache-2.0
"""Random definitions of ops, calls of them, and what the calls give.

Member `i` of the family is the same on every machine. All members have one kernel, family.cc.
"""

from __future__ import annotations

import functools
import itertools
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphffi
from tests.families.calls import DTYPES, Call, ViewMaker, flatten, numpy_view
from tests.families.reference import BITS, DEVICES, ArrayModule, Arrays, Namespace, compute

HERE = Path(__file__).resolve().parent
CONSTANTS = {'"text"': "text", "None": None, "true": True, "2": 2, "0.25": 0.25}
# How many members a run of the tests takes: `make test-full` takes all.
COUNT = int(os.environ.get("GRAPHFFI_FAMILY", "10"))


@dataclass(frozen=True)
class Parameter:
    """An operand or attribute, as the schema has it."""

    name: str
    type: str  # without list and optional
    is_list: bool = False
    optional: bool = False
    mutated: bool = False
    default: Any = ...

    @property
    def is_operand(self) -> bool:
        return self.type == "Tensor"

    @property
    def letter(self) -> str:
        """What family.cc calls it."""
        if not self.is_operand:
            return "a"
        letter = "u" if self.mutated else "f" if self.name in ("x0", "x1") else "i"
        return letter.upper() if self.is_list else letter

    @property
    def text(self) -> str:
        alias = f"({chr(ord('a') + int(self.name[1:]))}!)" if self.mutated else ""
        suffix = ("[]" if self.is_list else "") + ("?" if self.optional else "")
        default = "" if self.default is ... else f"={self.default!r}"
        return f"{self.type}{alias}{suffix} {self.name}{default}"


@dataclass(frozen=True)
class Result:
    """Shape and dtype of a result, from operands and attributes."""

    rule: str
    of: tuple[str, str]  # names of required tensor operands
    size: str | None  # name of an int attribute
    dtype: str

    def spec(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], Any]:
        """The shape and dtype of a call; `values` have shapes and dtypes."""
        x, y = (values[name] for name in self.of)
        numel: Any = 1
        for size in x.shape:
            numel = numel * size
        shapes: dict[str, tuple[Any, ...]] = {
            "like": tuple(x.shape),
            "cast": tuple(x.shape),
            "flat": (numel,),
            "scalar": (),
            "outer": (*x.shape[:2], *y.shape[:2]),
            "add": tuple(size + 1 for size in x.shape),
            "sized": (values[self.size] if self.size else 2, 3),
        }
        return shapes[self.rule], x.dtype if self.rule == "like" else self.dtype


class Member:
    """One op of the family."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._random = random.Random(number)
        self.parameters = self._make_parameters()
        self.results = self._make_results()
        names = [p.name for p in self.parameters] + [f"r{i}" for i in range(len(self.results))]
        letters = {p.name: p.letter for p in self.parameters}
        self.order = self._random.sample(names, len(names))
        for constant in self._random.sample(list(CONSTANTS), 2):
            self.order.insert(self._random.randrange(len(self.order) + 1), constant)
        self.letters = "".join(
            letters.get(name, "o" if name[0] == "r" and name[1:].isdigit() else "a")
            for name in self.order
        )

    @property
    def schema(self) -> str:
        results = ", ".join(f"Tensor r{i}" for i in range(len(self.results)))
        return f"({', '.join(p.text for p in self.parameters)}) -> ({results})"

    def define(self, namespace: str, **options: Any) -> graphffi.Op:
        """The op, under its own name."""
        op = graphffi.define_op(
            f"{namespace}::member{self.number}",
            schema=self.schema,
            kernel=f"{kernel_library()}::family",
            plan=f'"{self.letters}", {", ".join(self.order)}',
            infer=self._infer if self.results else None,
            vmap="sequential",
            **options,
        )
        if self.is_differentiable:
            op.register_vjp(self._backward, save=[p.name for p in self.parameters if p.is_operand])
        return op

    def define_for_both_modes(self, namespace: str) -> graphffi.Op:
        """The same, of which the reference gives the forward mode."""
        op = self.define(namespace, gradient="reference")

        def reference(xp: Any, *args: Any) -> Any:
            kinds = {"dtype": lambda value: str(graphffi.dtype(value)), "Device": str}
            values = [
                kinds[p.type](arg) if p.type in kinds and arg is not None else arg
                for p, arg in zip(self.parameters, args, strict=True)
            ]
            found = self.reference(Namespace(xp), values)
            return found[0] if len(found) == 1 else tuple(found)

        op.set_reference(reference)
        return op

    @property
    def is_differentiable(self) -> bool:
        """Whether it has a gradient rule."""
        return bool(self.results) and not self.updates

    @property
    def updates(self) -> bool:
        """Whether it has operands that are updated in place."""
        return any(p.mutated for p in self.parameters)

    def _infer(self, *args: Any) -> tuple[Any, ...]:
        values = dict(zip((p.name for p in self.parameters), args, strict=True))
        return tuple(graphffi.empty(*result.spec(values)) for result in self.results)

    def _chance(self, likelihood: float) -> bool:
        return self._random.random() < likelihood

    def _make_parameters(self) -> list[Parameter]:
        operands = [Parameter("x0", "Tensor"), Parameter("x1", "Tensor", mutated=self._chance(0.4))]
        for i in range(2, 2 + self._random.randrange(3)):
            kind = self._random.choice(("tensor", "optional", "list"))
            mutated = self._chance(0.3)
            operands.append(
                Parameter(f"x{i}", "Tensor", kind == "list", kind == "optional", mutated)
            )
        attributes = [self._make_attribute(i) for i in range(self._random.randrange(6))]
        required = [*operands, *(a for a in attributes if a.default is ...)]
        self._random.shuffle(required)
        return [*required, *(a for a in attributes if a.default is not ...)]

    def _make_attribute(self, i: int) -> Parameter:
        kind = self._random.choice(("int", "float", "bool", "str", "dtype", "Device"))
        is_list = kind in ("int", "float") and self._chance(0.4)
        parameter = Parameter(f"a{i}", kind, is_list, self._chance(0.3))
        if kind in ("dtype", "Device") or is_list or self._chance(0.5):
            return parameter
        default = self._attribute_value(parameter, self._random)
        return Parameter(parameter.name, kind, is_list, parameter.optional, default=default)

    def _make_results(self) -> list[Result]:
        ranked = [p.name for p in self.parameters if p.letter in "ifu" and not p.optional]
        sizes: list[str | None] = [
            p.name for p in self.parameters if p.type == "int" and not (p.is_list or p.optional)
        ]
        rules = ("like", "like", "cast", "flat", "scalar", "outer", "add", "sized")
        return [
            Result(
                self._random.choice(rules),
                (self._random.choice(ranked), self._random.choice(ranked)),
                self._random.choice(sizes or [None]),
                self._random.choice(DTYPES),
            )
            for _ in range(self._random.randrange(0 if self.updates else 1, 4))
        ]

    @staticmethod
    def _attribute_value(parameter: Parameter, chosen: random.Random) -> Any:
        if parameter.optional and chosen.random() < 0.4:
            return None
        values: dict[str, Callable[[], Any]] = {
            "int": lambda: chosen.randrange(7),
            "float": lambda: chosen.randrange(-8, 8) / 4,
            "bool": lambda: chosen.random() < 0.5,
            "str": lambda: "text"[: chosen.randrange(5)],
            "dtype": lambda: chosen.choice(list(BITS)),
            "Device": lambda: chosen.choice(list(DEVICES)),
        }
        make = values[parameter.type]
        return [make() for _ in range(chosen.randrange(4))] if parameter.is_list else make()

    def make_call(self, variant: int, pattern: int | None = None) -> Call:
        """Arguments; calls of one member differ in sizes, layouts and values, not in ranks.

        Those of one pattern, which is the variant if not given, have the same layouts, attributes
        and sizes of 0 and 1: what is compiled for one with symbolic sizes can serve the others.
        """
        pattern = variant if pattern is None else pattern
        structure, chosen = random.Random(self.number), random.Random(f"{self.number} {pattern}")
        maker = ViewMaker(chosen, random.Random(f"{self.number} {variant} sizes"))
        args: list[Any] = []
        omitted = set()
        for i, p in enumerate(self.parameters):
            if not p.is_operand:
                # Only numbers vary: the others are constants of a graph.
                varying = chosen if p.type == "int" and not p.optional else structure
                args.append(self._attribute_value(p, varying if not p.is_list else structure))
                if p.default is not ... and structure.random() < 0.5:
                    omitted.add(i)
                    args[-1] = p.default
                continue
            count = structure.randrange(4) if p.is_list else 1
            shapes = [(structure.randrange(4), structure.choice(DTYPES)) for _ in range(count)]
            absent = p.optional and structure.random() < 0.4
            views = [maker.make(ndim, dtype, p.mutated) for ndim, dtype in shapes]
            args.append(views if p.is_list else None if absent else views[0])
        return Call(maker.bases, args, structure.randrange(len(args) + 1), frozenset(omitted))

    def apply(self, call: Call, op: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Calls the op as the call says: by position, by name, or by default."""
        named = {
            p.name: args[i]
            for i, p in enumerate(self.parameters)
            if i >= call.num_positional and i not in call.omitted
        }
        return op(*args[: call.num_positional], **named)

    def split(self, args: Sequence[Any]) -> tuple[list[Any], Callable[..., list[Any]]]:
        """The operands alone, and what makes all arguments of them again: for graphs."""
        is_operand = [p.is_operand for p in self.parameters]

        def join(*operands: Any) -> list[Any]:
            rest = iter(operands)
            return [next(rest) if one else arg for one, arg in zip(is_operand, args, strict=True)]

        return [arg for one, arg in zip(is_operand, args, strict=True) if one], join

    def reference(self, arrays: Arrays, args: Sequence[Any]) -> list[Any]:
        """The results, then the updated tensors, one after the other: computed by a framework."""
        values = dict(zip((p.name for p in self.parameters), args, strict=True))
        plan = list(zip(self.order, self.letters, strict=True))

        def tensors(letters: str) -> list[Any]:
            return flatten([values[name] for name, letter in plan if letter in letters])

        # Results are numbered in the order of the plan.
        numbers = [name for name, letter in plan if letter == "o"]
        specs = [result.spec(values) for result in self.results]
        updated = flatten([values[p.name] for p in self.parameters if p.mutated])
        return compute(
            arrays,
            attributes=[values.get(n, CONSTANTS.get(n)) for n, letter in plan if letter == "a"],
            sources=tensors("ifIuU"),
            factors=tensors("f"),
            updated=updated,
            results=[
                (numbers.index(f"r{i}"), shape, graphffi.dtype(dtype))
                for i, (shape, dtype) in enumerate(specs)
            ],
            dtypes=[graphffi.dtype(u.dtype) for u in updated],
        )

    def expected(self, call: Call) -> list[np.ndarray]:
        """The results of a call, then the updated tensors, as NumPy arrays."""
        return self.reference(ArrayModule(np), call.build(numpy_view))

    def _backward(self, saved: Any, *cotangents: Any) -> Any:
        """The gradient rule: a call of `gradient` per tensor that can have one."""
        given = [cotangent for cotangent in cotangents if cotangent is not None]
        weights = itertools.count(1)
        gradients: dict[str, Any] = {}
        for name, letter in zip(self.order, self.letters, strict=True):
            if letter not in "ifI":
                continue
            other = {"x0": saved.x1, "x1": saved.x0}.get(name)
            gradients[name] = _map(
                lambda x, other=other: _gradient(x, other, given, next(weights)),
                getattr(saved, name),
            )
        return tuple(gradients[p.name] for p in self.parameters if p.is_operand)


def _map(f: Callable[[Any], Any], values: Any) -> Any:
    if isinstance(values, (list, tuple)):
        return [f(value) for value in values]
    return None if values is None else f(values)


def _gradient(x: Any, other: Any, cotangents: list[Any], weight: int) -> Any:
    return gradient_op()(x, other, cotangents, weight) if _is_inexact(x) else None


def _is_inexact(x: Any) -> bool:
    return graphffi.dtype(x.dtype).startswith(("float", "bfloat", "complex"))


def _gradient_backward(saved: Any, grad: Any) -> Any:
    """The gradient of `gradient`, which is linear in `other` and in the cotangents."""
    of_other = None
    if saved.other is not None and _is_inexact(saved.other):
        of_other = gradient_op()(saved.other, grad, saved.cotangents, 0)
    spread = spread_op()
    return None, of_other, [spread(saved.other, grad, c, saved.weight) for c in saved.cotangents]


@functools.cache
def gradient_op() -> graphffi.Op:
    """The gradient of any member with respect to one tensor."""
    op = graphffi.define_op(
        "family::gradient",
        schema="(Tensor x, Tensor? other, Tensor[] cotangents, int weight) -> Tensor",
        kernel=f"{kernel_library()}::gradient",
        plan="other, cotangents, weight, out",
        infer=lambda x, other, cotangents, weight: graphffi.like(x),
        vmap="sequential",
    )
    op.register_vjp(_gradient_backward, save=("other", "cotangents"))
    return op


@functools.cache
def spread_op() -> graphffi.Op:
    """The gradient of `gradient_op` with respect to a cotangent."""
    return graphffi.define_op(
        "family::spread",
        schema="(Tensor? other, Tensor grad, Tensor cotangent, int weight) -> Tensor",
        kernel=f"{kernel_library()}::spread",
        plan="other, grad, weight, out",
        infer=lambda other, grad, cotangent, weight: graphffi.like(cotangent),
        vmap="sequential",
    )


@functools.cache
def kernel_library() -> str:
    """The path of the library of family.cc."""
    return graphffi.cpp.build("family", [HERE / "family.cc"], extra_cflags=["-O1"])


def members() -> list[Member]:
    """The members that this run of the tests is about."""
    return [Member(number) for number in range(COUNT)]
