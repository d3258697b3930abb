# SPDX-License-Identifier: Apache-2.0
"""Relations between sizes of inputs, which packages and libraries of a program rely on."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim
from torch.utils._pytree import tree_leaves

import graphffi
import graphffi_torch
from graphffi_torch._export import size_guards as _size_guards
from graphffi_torch._export.guard_text import SizeGuard, UnreadableGuardError
from graphffi_torch._export.size_guards import size_guards
from tests.hidden_names import HIDES_ALL
from tests.sizes_of_one import sizes_of_one
from tests.torch_release import IS_TORCH_2_10

# Inductor's own diagonal calls it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch._prims_common.check` is deprecated:FutureWarning"
)
AUTO, B = Dim.AUTO, Dim("b")


class Related(torch.nn.Module):
    """What relates sizes, part for part; the last ones have inputs of their own."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops
        self.convolve = torch.nn.Conv2d(3, 4, 3).requires_grad_(False)

    def forward(
        self, d: dict[str, torch.Tensor], pair: dict[int, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        x, image, images = d["x"], d["image"], d["images"]
        return (
            x[::2] + d["half"],
            torch.outer(x, x).reshape(-1) + d["square"],
            x.unflatten(0, (-1, d["part"].shape[0])).sum(0) + d["part"],
            F.pad(x, (0, -x.shape[0] % 7)) + d["padded"],
            F.avg_pool2d(image, 3, stride=2, padding=1) + d["pooled"],
            F.interpolate(image, scale_factor=1.5) + d["scaled"],
            F.max_pool2d(d["even"], 2, ceil_mode=True) + 1,
            self.convolve(images),
            # Read in calls of ops alone, which know nothing of each other.
            self.ops.add(d["read"])[::2] + self.ops.add(d["read_half"]),
            images.sum((1, 2, 3)).repeat(2) + d["twice"],
            F.pad(x, (1, 0)) + d["after"],
            torch.cat([x, image[0, 0, :, 0]]) + d["joined"],
            x[: x.shape[0] // 3 + 2] + d["third"],
            x.new_ones(torch.sym_int(x.shape[0] * 0.7) + 2) + d["share"],
            pair[0][:2] + pair[1][:2],
        )


@pytest.fixture(scope="module")
def related(ops: Any) -> Related:
    return Related(ops)


def fitting(n: int = 12, h: int = 9, w: int = 8, count: int = 2) -> dict[str, tuple[int, ...]]:
    """Shapes of inputs that fit together."""
    return {
        "x": (n,),
        "half": ((n + 1) // 2,),
        "square": (n * n,),
        "part": (n // 2,),
        "padded": (n + -n % 7,),
        "image": (1, 1, h, w),
        "pooled": (1, 1, (h + 1) // 2, (w + 1) // 2),
        "scaled": (1, 1, int(1.5 * h), int(1.5 * w)),
        "even": (1, 1, 9, 8),
        "images": (count, 3, 9, 9),
        "read": (7,),
        "read_half": (4,),
        "twice": (2 * count,),
        "after": (n + 1,),
        "joined": (n + h,),
        "third": (n // 3 + 2,),
        "share": (int(n * 0.7) + 2,),
    }


def inputs(sizes: Any = None, second: Any = 4, **shapes: Any) -> tuple[Any, Any]:
    """Ones that fit together, but for some shapes."""
    given = {name: torch.randn(shape) for name, shape in (fitting(**sizes or {}) | shapes).items()}
    return given, {0: torch.randn(5, 3), 1: torch.randn(second, 3)}


@pytest.fixture(scope="module")
def exported(related: Related) -> torch.export.ExportedProgram:
    dims: dict[str, Any] = {
        name: {i: AUTO for i, size in enumerate(shape) if size != 1}
        for name, shape in fitting().items()
    }
    dims |= {"images": {0: B}, "twice": {0: 2 * B}}
    pair = {0: {0: AUTO}, 1: {0: AUTO}}
    return torch.export.export(related, inputs(), dynamic_shapes=(dims, pair))


def compiled(program: torch.export.ExportedProgram, kind: str, folder: Path) -> Any:
    if kind == "package":
        path = graphffi_torch.package(program, folder / "model.pt2")
        return graphffi_torch.load_package(path, trust=True)
    return graphffi.load_module(graphffi_torch.to_library(program, folder / "model.so")).main


@pytest.fixture(scope="module")
def model(
    exported: torch.export.ExportedProgram,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Any:
    if HIDES_ALL and request.param == "library":
        pytest.skip("calls of kernels need private names")
    model = compiled(exported, request.param, tmp_path_factory.mktemp("related"))
    if request.param == "package":
        return model
    return lambda d, pair: model(d, list(pair.values()))


KINDS = pytest.mark.parametrize("kind", ["package", "library"])
COMPILED = pytest.mark.parametrize("model", ["package", "library"], indirect=True)


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize(("n", "part"), [(12, 6), (20, 4)])
def test_sizes_that_fit_together_are_taken(related: Related, model: Any, n: int, part: int) -> None:
    given = inputs({"n": n}, part=(part,))
    torch.testing.assert_close(tuple(model(*given)), related(*given))


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("half", (5,), "x', 'd_half': expected (1 + d_x.shape[0]) // 2 == d_half.shape[0]"),
        ("square", (143,), "x', 'd_square': expected d_x.shape[0] * d_x.shape[0] == d_square.shap"),
        ("part", (5,), "x', 'd_part': expected "),
        ("padded", (21,), "x', 'd_padded': expected "),
        ("pooled", (1, 1, 4, 4), "image', 'd_pooled': expected "),
        ("scaled", (1, 1, 13, 11), "image', 'd_scaled': expected "),
        ("read_half", (5,), "read', 'd_read_half': expected "),
    ],
)
def test_other_sizes_are_refused(
    model: Any, name: str, shape: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ValueError, match=name) as error:
        model(*inputs(**{name: shape}))
    assert f"s 'd_{expected}" in str(error.value)
    sizes = ", ".join(map(str, shape))
    assert str(error.value).endswith(f"d_{name}=float32[{sizes}] on cpu")
    model(*inputs())


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("half", r"'d_half': expected float32\[.*\] on cpu, got float32\[\]"),
        ("read_half", "operand 'd_read_half'|mytest::add"),
    ],
)
def test_too_few_dimensions_are_the_inputs_own_error(model: Any, name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(*inputs(**{name: ()}))


@pytest.mark.slow
@COMPILED
def test_what_inductor_takes_for_equal_is_expected_of_inputs(model: Any) -> None:
    odd = inputs(even=(1, 1, 9, 7))
    text = "d_even.shape[3] // 2 == (1 + d_even.shape[3]) // 2"
    if IS_TORCH_2_10:
        text = "expected (-1 + d_even.shape[3]) % 2 != 0"
    with pytest.raises(ValueError, match=re.escape(text)):
        model(*odd)
    if hasattr(model, "model"):  # the reason: once torch gives (1, 1, 5, 4), it may be taken
        assert model.model(*odd)[6].shape == (1, 1, 5, 3)


def outcome(model: Any, given: Any) -> Any:
    """The results; None where the model refuses its inputs."""
    try:
        return tuple(model(*given))
    except (AssertionError, RuntimeError, ValueError) as error:
        return None if "expected" in str(error).lower() or "Guard" in str(error) else math.nan


@pytest.mark.slow
@pytest.mark.skipif(IS_TORCH_2_10, reason="its export takes odd sizes of images only")
@COMPILED
@pytest.mark.parametrize("seed", range(6))
def test_sizes_are_taken_where_torch_takes_them(exported: Any, model: Any, seed: int) -> None:
    chosen, taken = random.Random(seed), 0
    for i in range(40):
        sizes = {"n": 2 * chosen.randint(3, 20), "h": chosen.randint(6, 40)}
        sizes |= {"w": chosen.randint(6, 40), "count": chosen.randint(2, 15)}
        shapes: dict[str, Any] = {}
        for _ in range(i % 2 * chosen.choice((1, 1, 2))):
            name, shape = chosen.choice([*fitting(**sizes).items()])
            if name == "even":
                continue  # Inductor takes more for equal
            changed = chosen.choice([d for d, size in enumerate(shape) if size > 1])
            by = chosen.choice((-2, -1, 1, 2))
            shapes[name] = (*shape[:changed], max(2, shape[changed] + by), *shape[changed + 1 :])
        given = inputs(sizes, **shapes)
        expected, found = outcome(exported.module(), given), outcome(model, given)
        assert (found is None) == (expected is None), (sizes, shapes)
        torch.testing.assert_close(found, expected)
        taken += expected is not None
    assert taken >= 20


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize("count", [15, 16, 40])
def test_many_images_are_convolved_or_refused(related: Related, model: Any, count: int) -> None:
    given = inputs({"count": count})
    try:
        results = model(*given)
    except ValueError as error:
        assert count > 15
        assert "input 'd_images': expected d_images.shape[0] < 16 " in str(error)  # noqa: PT017
    else:
        torch.testing.assert_close(results[7], related(*given)[7])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["package"], indirect=True)
def test_inputs_in_other_nodes_are_looked_at(model: Any) -> None:
    with pytest.raises(ValueError, match=r"'pair_1': .*; export a program with this size"):
        model(*inputs(second=1))
    with pytest.raises(TypeError, match="argument 'pair': expected 2 inputs, got 1 in "):
        model(inputs()[0], {0: torch.zeros(5, 3)})


class Nested(torch.nn.Module):
    def forward(
        self, first: torch.Tensor, *x: torch.Tensor, d: dict[str, Any]
    ) -> tuple[torch.Tensor, ...]:
        return first[::2] + x[0], x[1][::3] + d["a b"][0], d["a b"][0][::2] + d["c"]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("is_saved", [False, True])
def test_inputs_are_found_where_they_are_nested(strict: bool, is_saved: bool) -> None:
    args = tuple(map(torch.zeros, (9, 5, 16)))
    kwargs = {"d": {"a b": [torch.zeros(6)], "c": torch.zeros(3)}}
    rows = {0: AUTO}
    program = torch.export.export(
        Nested(),
        args,
        kwargs,
        dynamic_shapes={"first": rows, "x": (rows, rows), "d": {"a b": [rows], "c": rows}},
        strict=strict,
    )
    if is_saved:
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        program = torch.export.load(file)
    found = {
        guard.inputs: guard.text
        for guard in size_guards("test", program, lays_out=True)
        if "==" in guard.text
    }
    first, second, third, fourth, fifth = map(str, program.graph_signature.user_inputs)
    assert found == {
        (first, second): f"(1 + {first}.shape[0]) // 2 == {second}.shape[0]",
        (third, fourth): f"(2 + {third}.shape[0]) // 3 == {fourth}.shape[0]",
        (fourth, fifth): f"(1 + {fourth}.shape[0]) // 2 == {fifth}.shape[0]",
    }


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Other(torch.nn.Module):
    def forward(self, d: Any, pair: Pair, x: torch.Tensor, y: torch.Tensor) -> Any:
        return d["a"] + pair.first, x[::2] + y


def test_inputs_in_other_containers_are_no_obstacle() -> None:
    pair = Pair(torch.zeros(9), torch.zeros(9))
    d = defaultdict(int, a=torch.zeros(9), b=torch.zeros(2), c=torch.zeros(2))
    args = (d, pair, torch.zeros(9), torch.zeros(5))
    rows = {0: AUTO}
    dims: Any = (defaultdict(int, dict.fromkeys(d)), Pair(*[None, None]), rows, rows)
    program = torch.export.export(Other(), args, dynamic_shapes=dims)
    found = [guard.text for guard in size_guards("test", program, lays_out=True)]
    assert "(1 + x.shape[0]) // 2 == y.shape[0]" in found


def rows(n: int) -> list[tuple[int, ...]]:
    return [(n, 6)]


def free(name: str) -> list[Any]:
    return [Dim(name)]


#: Programs whose code is wrong, or reads behind the end of tensors, for sizes that torch excluded:
#: the function, the sizes of its inputs by those of symbols, and its dimensions.
SMALL: dict[str, Any] = {
    "slice": (lambda x: x[:2] * 1, rows, free),
    "cat": (lambda x: torch.cat([x[:2], x]), rows, free),
    "select": (lambda x: x[-2] * 1, rows, free),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze() + 1, rows, free),
    "sort": (lambda x: x.sort(0)[0][:2], rows, free),
    "diagonal": (lambda x: x.diagonal() * 1, rows, free),
    "branch": (lambda x: x * 2 if x.shape[0] > 1 else x * 3, rows, free),
    "fixed range": (lambda x: x[:2] * 1, rows, lambda b: [Dim(b, min=1)]),
    "AUTO": (lambda x: x[:2] * 1, rows, lambda b: [AUTO]),
    "derived": (
        lambda x, y: (x[:3] * 1, y * 1),
        lambda n: [(2 * n, 3), (n + 1,)],
        lambda b: [2 * Dim(b), Dim(b) + 1],
    ),
    "two": (
        lambda x, y: x[:2] + y[:2],
        lambda n: [(n, 6), (n + 1, 6)],
        lambda b: [Dim(b), Dim(f"{b}_2")],
    ),
    "broadcast": (lambda x, y: x + y, lambda n: [(n, 1), (1, n)], lambda b: [AUTO, {1: AUTO}]),
}
#: The least sizes in programs that are exported for sizes of 1, too.
LEAST = {"cat": 1, "broadcast": 1, "squeeze": 2, "branch": 2, "select": 2}


class Each(torch.nn.Module):
    """The functions of some names, each with inputs of its own."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__()
        self.names = tuple(names)

    def forward(self, *x: torch.Tensor) -> list[Any]:
        given = iter(x)
        return [
            function(*itertools.islice(given, len(shapes(5))))
            for function, shapes, _ in map(SMALL.__getitem__, self.names)
        ]

    def inputs(self, name: str, size: int) -> list[torch.Tensor]:
        """Those where one function's symbols have the size, and others' the one of the export."""
        return [
            torch.randn(shape)
            for each in self.names
            for shape in SMALL[each][1](size if each == name else 5)
        ]

    def export(self, is_oblivious: bool = False) -> torch.export.ExportedProgram:
        dims = [dim for i, name in enumerate(self.names) for dim in SMALL[name][2](f"b{i}")]
        free = tuple(dim if isinstance(dim, dict) else {0: dim} for dim in dims)
        with sizes_of_one() if is_oblivious else contextlib.nullcontext():
            return torch.export.export(self, tuple(self.inputs("", 5)), dynamic_shapes=(free,))


class Small(NamedTuple):
    """A program of functions, and what it was compiled to."""

    each: Each
    model: Any

    def taken(self, name: str, sizes: Iterable[int]) -> list[int]:
        """The sizes of a function for which the model gives what torch does.

        It may refuse others by the function's first input.
        """
        before = itertools.takewhile(name.__ne__, self.each.names)
        first = sum(len(SMALL[each][1](5)) for each in before)
        taken = []
        for size in sizes:
            given = self.each.inputs(name, size)
            try:
                results = self.model(*given)
            except ValueError as error:
                assert re.search(rf"inputs? 'x_{first}'|operands? 'x_{first}'", str(error))  # noqa: PT017
                continue
            expected = self.each(*given)
            torch.testing.assert_close(tree_leaves(tuple(results)), tree_leaves(expected))
            taken.append(size)
        return taken


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Small]:
    """Compiles the functions of a table together, once."""

    @functools.cache
    def make(kind: str, *names: str, is_oblivious: bool = False) -> Small:
        each = Each(names)
        program = each.export(is_oblivious)
        return Small(each, compiled(program, kind, tmp_path_factory.mktemp("small")))

    return make


NAMES = {"L['x']": "x", "L['half']": "half"}


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].stride()[0] == 1",
        "L['unknown'].size()[0] == 1",
        "L['x'].size()[L['n']] == 1",
        "f(L['x'].size()[0])",
        "s0 == 1",
        "L['n'] > 3",
        "L['x'].size()[0] in (1, 2)",
        "L['x'].size()[0] << 1 == 2",
        "L['x'].size()[0] < 9223372036854775808",
    ],
)
def test_a_guard_of_another_form_is_refused_by_name(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnreadableGuardError):
        SizeGuard.read(text, NAMES, {})
    monkeypatch.setattr(_size_guards, "_environments_texts", lambda *_: [text])
    message = f"graphffi_torch: package: expected guards that relate sizes of tensors, got {text!r}"
    with pytest.raises(NotImplementedError, match=re.escape(message)):
        size_guards("package", Each(["AUTO"]).export(), lays_out=False)


@KINDS
def test_without_the_private_names_sizes_are_fixed(
    monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(_size_guards, "missing", lambda feature: f"the names of {feature}")
    each = Each(["AUTO"])
    example = tuple(each.inputs("", 5))
    assert size_guards("test", torch.export.export(each, example), lays_out=True) == ()
    with pytest.raises(NotImplementedError, match=": expected fixed sizes, since guards of others"):
        compiled(each.export(), kind, tmp_path)


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("name", SMALL)
def test_sizes_that_torch_excluded_are_refused(
    small: Callable[..., Small], name: str, kind: str
) -> None:
    made = small(kind, *SMALL)
    taken = made.taken(name, (0, 1, 2, 3, 5, 9, 40))
    if name == "sort" and torch.__version__.startswith("2.15."):
        taken.insert(0, 2)  # this torch excludes it, too
    assert taken == ([2, 3, 5] if name == "diagonal" else [2, 3, 5, 9, 40])
    with pytest.raises(ValueError, match=r"; export a program with this size$"):
        made.model(*made.each.inputs(name, 0))


@pytest.mark.slow
@KINDS
@pytest.mark.parametrize("name", LEAST)
def test_a_size_of_one_is_taken_where_torch_did_not_exclude_it(
    small: Callable[..., Small], name: str, kind: str
) -> None:
    least = 2 if IS_TORCH_2_10 else LEAST[name]  # 2.10 excludes 1 in a program with cat
    made = small(kind, *LEAST, is_oblivious=True)
    assert made.taken(name, (0, 1, 2, 3, 9)) == [n for n in (1, 2, 3, 9) if n >= least]


@pytest.mark.slow
def test_many_rows_are_sorted_on_the_cpu(small: Callable[..., Small]) -> None:
    assert small("library", *SMALL).taken("sort", [40_000]) == [40_000]


@pytest.mark.slow
@KINDS
def test_a_loaded_program_takes_what_it_did_before(kind: str, tmp_path: Path) -> None:
    each = Each(["diagonal"])
    torch.export.save(each.export(is_oblivious=kind == "library"), tmp_path / "program.pt2")
    model = compiled(torch.export.load(tmp_path / "program.pt2"), kind, tmp_path)
    assert Small(each, model).taken("diagonal", (0, 1, 2, 3, 9)) == [2, 3]
