# SPDX-License-Identifier: Apache-2.0
"""The cases of an op, from its definition; where that leaves things open, from what it accepts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from .._contract.attribute_kind import KINDS
from .._contract.spec import TensorSpec
from .._definition.parameter import MISSING, Attribute
from .._values.nested import per_tensor
from .._values.tensor import numpy_dtype
from ._case import Case, View, converted, row_major

if TYPE_CHECKING:
    from .._contract.dims import Group
    from .._definition.definition import Definition

_COMMON: Final = (
    *("float32", "float64", "float16", "bfloat16", "complex64"),
    *("int32", "int64", "uint8", "bool"),
)
_KINDS: Final = (
    *_COMMON,
    *("int8", "int16", "uint16", "uint32", "uint64"),
    *("complex128", "float8_e4m3fn", "float8_e5m2"),
)
_SHAPES: Final = (
    (2, 3),
    (3,),
    (3, 4),
    (4, 3),
    (2,),
    (4,),
    (2, 3, 4),
    (),
    (1,),
    (2, 4),
    (2, 3, 4, 5),
)
_MOST_TRIES: Final = 4000
_MOST_KINDS: Final = 1000  # combinations of data types
_MOST_TEMPLATES: Final = 3
_LARGEST: Final = 1 << 18  # elements of an operand


class Generator:
    """Makes cases of a definition.

    Args:
        definition: Of the op.
        accepts: Whether the op takes a case: it runs the kernel.
        seed: Of the contents.
        device: Of the operands.
    """

    def __init__(
        self,
        definition: Definition,
        accepts: Callable[[Case], bool],
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self._definition = definition
        self._accepts = accepts
        self._seed = seed
        self._device = device
        self._found: dict[Case, None] = {}
        self.refused = ""  # what the shape rule said of the last case that it refused

    def cases(self) -> list[Case]:
        """Cases that the op takes, the smallest first; empty if none was found."""
        found = self._found
        templates = self._templates()
        for template in templates:
            for case in self._variants(template):
                if case not in found and (case == template or self._takes(case)):
                    found[case] = None
        return sorted(found, key=lambda case: (case.size == 0, case.size))

    def _takes(self, case: Case) -> bool:
        return self._passes_rule(case) and self._accepts(case)

    def _passes_rule(self, case: Case) -> bool:
        try:
            self._definition.infer(case.specs(), case.values)
        except Exception as error:  # rules are the user's, and may fail in any way
            self.refused = f"{type(error).__name__}: {error}"
            return False
        return all(_is_known(v.dtype) and not _points_nowhere(v) for v in case.views())

    def _templates(self) -> list[Case]:
        """Small cases of different structure."""
        found: list[Case] = []
        ranks = set()
        tries = 0
        for candidate in self._candidates():
            key = tuple(len(v.shape) for v in candidate.views())
            if key in ranks or not self._passes_rule(candidate):
                continue
            tries += 1
            if tries > _MOST_TRIES // 10 or len(found) >= _MOST_TEMPLATES:
                break
            if self._accepts(candidate):
                ranks.add(key)
                found.append(candidate)
        return found

    def _candidates(self) -> Iterator[Case]:
        """Small cases, the likely ones first."""
        kinds, shapes = self._kinds(), list(self._shapes())
        attributes = [self._sample(a) for a in self._definition.attributes]
        choices = list(itertools.islice(itertools.product(*attributes), 8))
        order = (
            (shape, kinds[rank - 4 * i], choices[i])
            for rank in range(len(kinds) + 4 * len(choices))
            for shape in shapes
            for i in reversed(range(len(choices)))
            if 0 <= rank - 4 * i < len(kinds)
        )
        for shape, kind, choice in itertools.islice(order, _MOST_TRIES):
            yield self._case(shape, kind, choice, "small")

    def _case(
        self,
        shapes: Sequence[tuple[int, ...]],
        kinds: Sequence[str],
        attributes: Sequence[Any],
        kind: str,
    ) -> Case:
        operands: list[Any] = []
        high = _high(shapes)
        for operand, shape, dtype in zip(self._definition.operands, shapes, kinds, strict=True):
            view = View(dtype, shape, high=high, device=self._device)
            operands.append((view, view) if operand.kind == "list" else view)
        values = converted(self._definition, attributes)
        return Case(tuple(operands), values, self._seed, kind)

    def _kinds(self) -> list[tuple[str, ...]]:
        """Data types of the operands, the likely ones first."""
        operands = self._definition.operands
        dtypes = self._definition.dtypes
        if dtypes is None:
            same = [(kind,) * len(operands) for kind in _KINDS]
            mixed = itertools.product(("float32", "int32", "int64"), repeat=min(len(operands), 4))
            rest = ("float32",) * (len(operands) - 4)
            return list(dict.fromkeys([*same[:1], *((*m, *rest) for m in mixed), *same[1:]]))
        names = [group.variable or str(i) for i, group in enumerate(dtypes.operands)]
        allowed = {
            name: tuple(map(str, group.allowed))
            for name, group in zip(names, dtypes.operands, strict=True)
        }
        found = [
            tuple(chosen[name] for name in names)
            for chosen in (dict(zip(allowed, kinds, strict=True)) for kinds in _combined(allowed))
        ]
        return sorted(found, key=lambda kinds: [_order(kind) for kind in kinds])

    def _shapes(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        """Shapes of the operands, the likely ones first."""
        dims = self._definition.dims
        if dims is not None:
            sizes = _Numbered()
            for leading in ((2,), (), (2, 3)):
                yield tuple(_shape(group, leading, sizes) for group in dims.operands)
            return
        count = len(self._definition.operands)
        yield from ((shape,) * count for shape in _SHAPES)
        pool = _SHAPES if count <= 3 else _SHAPES[:4]
        yield from itertools.islice(itertools.product(pool, repeat=count), _MOST_TRIES)

    def _sample(self, attribute: Attribute) -> list[Any]:
        if attribute.default is not MISSING:
            return [attribute.default]
        values = [value for value in KINDS[attribute.kind].edges if value not in (-1, -1.5)]
        values = sorted(values, key=lambda value: value in (0, False))
        if attribute.is_list:
            return [[values[0]] * n for n in (2, 1, 3)]
        return list(values)

    def _variants(self, template: Case) -> Iterator[Case]:
        """The template, and cases that differ from it in one respect."""
        yield template
        yield from self._absent(template)
        yield from self._resized(template)
        yield from _layouts(template, is_updating=self._definition.is_updating)
        yield from self._retyped(template)
        yield from self._edges(template)

    def _absent(self, template: Case) -> Iterator[Case]:
        for i, operand in enumerate(self._definition.operands):
            if operand.kind == "optional":
                yield _with_operand(template, i, None, "absent operand")
            elif operand.kind == "list":
                yield _with_operand(template, i, (), "empty list")
                yield _with_operand(template, i, (*template.operands[i],) * 2, "long list")

    def _resized(self, template: Case) -> Iterator[Case]:
        sizes = sorted({n for v in template.views() for n in v.shape})
        plans: list[tuple[str, dict[int, int]]] = [("ones", dict.fromkeys(sizes, 1))]
        plans += [("empty", dict.fromkeys(sizes, 0))]
        plans += [(f"empty: {size} is 0", {size: 0}) for size in sizes]
        plans += [(f"{size} is {new}", {size: new}) for size in sizes for new in (7, 16, 33)]
        plans += [("even", {size: 8 + 2 * i for i, size in enumerate(sizes)})]
        largest = max((len(v.shape) for v in template.views()), default=1)
        each = max(int(_LARGEST ** (1 / max(largest, 1))) // 2, 2)
        plans += [("large", {size: min(each, 20000) + 2 * i + 1 for i, size in enumerate(sizes)})]
        plans += [("large even", {size: min(each, 4096) // 16 * 16 for size in sizes})]
        fixed = self._fixed_sizes()
        for kind, plan in plans:
            yield self._with_sizes(
                template, {k: v for k, v in plan.items() if k not in fixed}, kind
            )

    def _fixed_sizes(self) -> set[int]:
        dims = self._definition.dims
        groups = () if dims is None else (*dims.operands, *dims.results)
        return {int(name) for group in groups for name in group.names if name.isdigit()}

    def _with_sizes(self, case: Case, sizes: dict[int, int], kind: str) -> Case:
        def change(view: View) -> View:
            return replace(view, shape=tuple(sizes.get(n, n) for n in view.shape))

        changed = case.with_views(change, kind)
        high = _high([view.shape for view in changed.views()])
        return changed.with_views(lambda view: replace(view, high=high), kind)

    def _retyped(self, template: Case) -> Iterator[Case]:
        sizes = sorted({n for v in template.views() for n in v.shape} - self._fixed_sizes())
        for kinds in self._kinds():
            case = _with_kinds(template, kinds)
            yield case
            if case in self._found:  # what fails in small does worse in large
                yield self._with_sizes(
                    case, {n: 16 + 2 * i for i, n in enumerate(sizes)}, case.kind
                )

    def _edges(self, template: Case) -> Iterator[Case]:
        for i, attribute in enumerate(self._definition.attributes):
            values: list[Any] = list(KINDS[attribute.kind].edges)
            if attribute.is_list:
                count = len(template.attributes[i] or ())
                # Empty texts may well mean nothing, however many there are.
                lengths = [values[:1] * n for n in (0, count + 1) if values[0] != ""]
                values = [[value] * count for value in values] + lengths
            for value in [*values, *([None] if attribute.optional else [])]:
                changed = [*template.attributes[:i], value, *template.attributes[i + 1 :]]
                values_now = converted(self._definition, changed)
                yield replace(template, attributes=values_now, kind=f"attribute {attribute.name}")


def given_cases(
    definition: Definition,
    cases: Iterable[dict[str, Any]],
    seed: int = 0,
    device: str = "cpu",
) -> list[Case]:
    """Cases of a user: a spec, ``(shape, dtype)`` or ``(shape, dtype, high)`` for each operand.

    Raises:
        ValueError: If an operand or attribute is missing, or one is unknown.
    """
    found = []
    for values in cases:
        operands = [_given(values.get(o.name)) for o in definition.operands]
        attributes: list[Any] = []
        for attribute in definition.attributes:
            value = values.get(attribute.name, attribute.default)
            if value is MISSING:
                raise ValueError(
                    f"{definition.name}: cases: attribute {attribute.name!r}: expected a value, "
                    "got none"
                )
            attributes.append(value)
        known = {p.name for p in definition.parameters}
        if unknown := values.keys() - known:
            raise ValueError(
                f"{definition.name}: cases: expected names of {', '.join(sorted(known))}, got "
                f"{min(unknown)!r}"
            )
        case = Case(tuple(operands), converted(definition, attributes), seed, "given")
        found.append(case.with_views(lambda view: replace(view, device=device), "given"))
    return found


def _given(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list) and not (len(value) > 1 and isinstance(value[1], str)):
        return tuple(_given(item) for item in value)
    if isinstance(value, TensorSpec):
        return View(str(value.dtype), tuple(value.shape), high=_high([value.shape]))
    shape, kind, *high = value
    return View(str(kind), tuple(shape), high=high[0] if high else _high([shape]))


def _layouts(template: Case, *, is_updating: bool) -> Iterator[Case]:
    def transposed(view: View) -> View:
        strides = row_major(view.shape[::-1])[::-1]
        return replace(view, strides=strides) if len(view.shape) > 1 else stepped(view)

    def stepped(view: View) -> View:
        return replace(view, strides=tuple(2 * s for s in row_major(view.shape)), offset=1)

    def moved(view: View) -> View:
        return replace(view, offset=3)

    def expanded(view: View) -> View:
        if not view.shape or 0 in view.shape:
            return view
        return replace(view, strides=(0, *row_major(view.shape)[1:]))

    yield template.with_views(moved, "offset")
    yield template.with_views(transposed, "transposed")
    yield template.with_views(stepped, "strided")
    if not is_updating:  # PyTorch refuses to update elements that share memory
        yield template.with_views(expanded, "expanded")


def _with_operand(case: Case, index: int, value: Any, kind: str) -> Case:
    operands = (*case.operands[:index], value, *case.operands[index + 1 :])
    return replace(case, operands=operands, kind=kind)


def _with_kinds(case: Case, kinds: Sequence[str]) -> Case:
    @per_tensor
    def of_kind(view: View, kind: str) -> View:
        return replace(view, dtype=kind)

    operands = tuple(map(of_kind, case.operands, kinds))
    return replace(case, operands=operands, kind="data types")


def _shape(group: Group, leading: tuple[int, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    """The sizes of an operand: those of names are numbers that no other name has."""
    named = tuple(int(n) if n.isdigit() else sizes[n] for n in group.names)
    return (*leading, *named) if group.has_ellipsis else named


class _Numbered(dict[str, int]):
    """Sizes from 4 up, one for each name; the smaller ones are for leading dimensions."""

    def __missing__(self, name: str) -> int:
        self[name] = 4 + len(self)
        return self[name]


def _high(shapes: Sequence[Sequence[int]]) -> int:
    """A bound for integers that may be indices into any dimension."""
    return min((n for shape in shapes for n in shape), default=2)


def _combined(allowed: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Data types for names, each of which has some that are allowed; none for any."""
    each = [kinds or _KINDS for kinds in allowed.values()]
    rows = (tuple(kinds[i % len(kinds)] for kinds in each) for i in range(max(map(len, each))))
    mixed = itertools.product(*(kinds or _COMMON for kinds in allowed.values()))
    yield from dict.fromkeys((*rows, *itertools.islice(mixed, _MOST_KINDS)))


def _order(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def _points_nowhere(view: View) -> bool:
    """True if its integers may be indices into a dimension without elements."""
    return view.dtype.startswith(("int", "uint")) and view.high < 1 and 0 not in view.shape


def _is_known(kind: str) -> bool:
    try:
        numpy_dtype(kind)
    except TypeError:
        return False
    return True
