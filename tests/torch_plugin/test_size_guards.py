# SPDX-License-Identifier: Apache-2.0
"""Relations between sizes of inputs, which packages and libraries of a program rely on."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F

import graphffi
import graphffi_torch
from graphffi_torch._export import size_guards as _size_guards
from graphffi_torch._export.guard_text import SizeGuard, UnreadableGuardError
from graphffi_torch._export.size_guards import size_guards
from tests.sizes_of_one import sizes_of_one
from tests.torch_release import IS_TORCH_2_10

# Inductor's own diagonal calls it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch._prims_common.check` is deprecated:FutureWarning"
)
AUTO = torch.export.Dim.AUTO


class Related(torch.nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        half: torch.Tensor,
        square: torch.Tensor,
        part: torch.Tensor,
        padded: torch.Tensor,
        image: torch.Tensor,
        pooled: torch.Tensor,
        scaled: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        return (
            x[::2] + half,
            torch.outer(x, x).reshape(-1) + square,
            x.unflatten(0, (-1, part.shape[0])).sum(0) + part,
            F.pad(x, (0, -x.shape[0] % 7)) + padded,
            F.avg_pool2d(image, 3, stride=2, padding=1) + pooled,
            F.interpolate(image, scale_factor=1.5) + scaled,
        )


def shapes(n: int = 12, h: int = 9, w: int = 8, **other: tuple[int, ...]) -> dict[str, Any]:
    """Those of inputs that fit together, and others."""
    fitting = {
        "x": (n,),
        "half": ((n + 1) // 2,),
        "square": (n * n,),
        "part": (n // 2,),
        "padded": (n + -n % 7,),
        "image": (1, 1, h, w),
        "pooled": (1, 1, (h + 1) // 2, (w + 1) // 2),
        "scaled": (1, 1, int(1.5 * h), int(1.5 * w)),
    }
    return fitting | other


def inputs(**changes: Any) -> list[torch.Tensor]:
    return [torch.randn(shape) for shape in shapes(**changes).values()]


def dynamic(*tensors: torch.Tensor, but: int = 1) -> list[Any]:
    return [{i: AUTO for i, size in enumerate(t.shape) if size != but} for t in tensors]


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    example = inputs()
    return torch.export.export(Related(), tuple(example), dynamic_shapes=dynamic(*example))


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
    return compiled(exported, request.param, tmp_path_factory.mktemp("related"))


COMPILED = pytest.mark.parametrize("model", ["package", "library"], indirect=True)


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"n": 8},
        {"n": 20, "part": (4,)},
        pytest.param(
            {"h": 14, "w": 31},
            marks=pytest.mark.skipif(IS_TORCH_2_10, reason="its export takes odd h only"),
        ),
    ],
)
def test_sizes_that_fit_together_are_taken(model: Any, sizes: dict[str, Any]) -> None:
    tensors = inputs(**sizes)
    for result, expected in zip(model(*tensors), Related()(*tensors), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.slow
@COMPILED
@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("half", (5,), "'x', 'half': expected (1 + x.shape[0]) // 2 == half.shape[0]"),
        ("half", (7,), "'x', 'half': expected (1 + x.shape[0]) // 2 == half.shape[0]"),
        ("square", (143,), "'x', 'square': expected x.shape[0] * x.shape[0] == square.shape[0]"),
        ("part", (5,), "'x', 'part': expected "),
        ("padded", (21,), "'x', 'padded': expected "),
        ("pooled", (1, 1, 4, 4), "'image', 'pooled': expected "),
        ("pooled", (1, 1, 5, 5), "'image', 'pooled': expected "),
        ("scaled", (1, 1, 13, 11), "'image', 'scaled': expected "),
    ],
)
def test_other_sizes_are_refused(
    model: Any, name: str, shape: tuple[int, ...], expected: str
) -> None:
    tensors = inputs(**{name: shape})
    with pytest.raises(ValueError, match=name) as error:
        model(*tensors)
    assert f"s {expected}" in str(error.value)
    sizes = ", ".join(map(str, shape))
    assert str(error.value).endswith(f"{name}=float32[{sizes}] on cpu")
    model(*inputs())


@pytest.mark.slow
@COMPILED
def test_too_few_dimensions_are_the_inputs_own_error(model: Any) -> None:
    tensors = inputs()
    tensors[1] = torch.tensor(1.0)
    with pytest.raises(ValueError, match=r"'half': expected float32\[.*\] on cpu, got float32\[\]"):
        model(*tensors)


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
    names = [str(name) for name in program.graph_signature.user_inputs]
    found = {
        guard.inputs: guard.text
        for guard in size_guards("test", program, lays_out=True)
        if "==" in guard.text
    }
    first, second, third, fourth, fifth = names
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
    exported: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnreadableGuardError):
        SizeGuard.read(text, NAMES, {})
    monkeypatch.setattr(_size_guards, "_environments_texts", lambda *_: [text])
    message = f"graphffi_torch: package: expected guards that relate sizes of tensors, got {text!r}"
    with pytest.raises(NotImplementedError, match=re.escape(message)):
        size_guards("package", exported, lays_out=False)


@pytest.mark.parametrize("kind", ["package", "library"])
def test_without_the_private_names_sizes_are_fixed(
    exported: Any, monkeypatch: pytest.MonkeyPatch, kind: str, tmp_path: Path
) -> None:
    monkeypatch.setattr(_size_guards, "missing", lambda feature: f"the names of {feature}")
    assert size_guards("test", torch.export.export(Related(), tuple(inputs())), lays_out=True) == ()
    with pytest.raises(NotImplementedError, match=": expected fixed sizes, since guards of others"):
        compiled(exported, kind, tmp_path)


class Pooled(torch.nn.Module):
    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(image, 2, ceil_mode=True) + 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "library"])
def test_what_inductor_takes_for_equal_is_expected_of_inputs(kind: str, tmp_path: Path) -> None:
    example = torch.randn(1, 1, 9, 8)
    program = torch.export.export(Pooled(), (example,), dynamic_shapes=[{2: AUTO, 3: AUTO}])
    model = compiled(program, kind, tmp_path)
    torch.testing.assert_close(model(example), Pooled()(example))
    odd = torch.randn(1, 1, 9, 7)
    text = "image.shape[3] // 2 == (1 + image.shape[3]) // 2"
    if IS_TORCH_2_10:
        text = "expected (-1 + image.shape[3]) % 2 != 0"
    with pytest.raises(ValueError, match=re.escape(text)):
        model(odd)
    if kind == "package":  # the reason: once torch gives (1, 1, 5, 4), this need not be refused
        assert model.model(odd).shape == (1, 1, 5, 3)


class Called(torch.nn.Module):
    """Reads its inputs in calls of ops alone, which know nothing of each other."""

    def __init__(self, ops: Any) -> None:
        super().__init__()
        self.ops = ops

    def forward(self, x: torch.Tensor, half: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.ops.add(x)[::2] + self.ops.add(half)
        return added


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "library"])
def test_results_of_ops_fit_together(ops: Any, kind: str, tmp_path: Path) -> None:
    example = (torch.randn(7), torch.randn(4))
    program = torch.export.export(Called(ops), example, dynamic_shapes=[{0: AUTO}, {0: AUTO}])
    model = compiled(program, kind, tmp_path)
    torch.testing.assert_close(model(*example), Called(ops)(*example))
    with pytest.raises(ValueError, match="s 'x', 'half': expected "):
        model(torch.randn(9), torch.randn(4))
    with pytest.raises(ValueError, match=r"operand 'half'|mytest::add"):
        model(torch.randn(9), torch.tensor(1.0))


class Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x: torch.Tensor) -> Any:
        return self.function(*x)


B, C = torch.export.Dim("b"), torch.export.Dim("c")
#: Programs whose code is wrong, or reads behind the end of tensors, for sizes that torch excluded:
#: the function, the sizes of its inputs by those of symbols, its sizes, and the symbols' ones.
SMALL: dict[str, Any] = {
    "slice": (lambda x: x[:2] * 1, lambda b: [(b, 6)], [{0: B}]),
    "cat": (lambda x: torch.cat([x[:2], x]), lambda b: [(b, 6)], [{0: B}]),
    "select": (lambda x: x[-2] * 1, lambda b: [(b, 6)], [{0: B}]),
    "squeeze": (lambda x: x.unsqueeze(0).squeeze() + 1, lambda b: [(b, 6)], [{0: B}]),
    "sort": (lambda x: x.sort(0)[0][:2], lambda b: [(b, 6)], [{0: B}]),
    "diagonal": (lambda x: x.diagonal() * 1, lambda b: [(b, 6)], [{0: B}]),
    "branch": (lambda x: x * 2 if x.shape[0] > 1 else x * 3, lambda b: [(b, 6)], [{0: B}]),
    "fixed range": (lambda x: x[:2] * 1, lambda b: [(b, 6)], [{0: torch.export.Dim("b", min=1)}]),
    "AUTO": (lambda x: x[:2] * 1, lambda b: [(b, 6)], [{0: AUTO}]),
    "derived": (lambda x, y: (x[:3] * 1, y * 1), lambda b: [(2 * b, 3), (b + 1,)], [2 * B, B + 1]),
    "two": (lambda x, y: x[:2] + y[:2], lambda b: [(b, 6), (b + 1, 6)], [{0: B}, {0: C}]),
    "broadcast": (lambda x, y: x + y, lambda b: [(b, 1), (1, b)], [{0: AUTO}, {1: AUTO}]),
}


def small(name: str, is_oblivious: bool = False) -> tuple[Any, Any, torch.export.ExportedProgram]:
    function, shapes, dims = SMALL[name]
    dims = tuple({0: dim} if not isinstance(dim, dict) else dim for dim in dims)
    example = tuple(map(torch.randn, shapes(5)))
    with sizes_of_one() if is_oblivious else contextlib.nullcontext():
        program = torch.export.export(Function(function), example, dynamic_shapes=(dims,))
    return function, shapes, program


def is_right(model: Any, function: Any, shapes: Any) -> bool:
    """Whether the model gives what torch does; it may refuse sizes by name."""
    given = list(map(torch.randn, shapes))
    try:
        results = model(*given)
    except ValueError as error:
        assert re.search(r"(input|operand)s? 'x_?0?", str(error))  # noqa: PT017
        return False
    torch.testing.assert_close(
        tuple(results) if isinstance(results, (list, tuple)) else results, function(*given)
    )
    return True


def in_turns(cases: Iterable[Any]) -> list[Any]:
    """Each case for packages or for libraries: both run the same text by the same code."""
    kinds = itertools.cycle(("package", "library"))
    return [(case, kind) for case, kind in zip(cases, kinds, strict=False)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), in_turns(SMALL))
def test_sizes_that_torch_excluded_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    function, shapes, program = small(name)
    model = compiled(program, kind, tmp_path)
    taken = [n for n in (0, 1, 2, 3, 5, 9, 40) if is_right(model, function, shapes(n))]
    if name == "sort" and torch.__version__.startswith("2.15."):
        taken.insert(0, 2)  # this torch excludes it, too
    assert taken == ([2, 3, 5] if name == "diagonal" else [2, 3, 5, 9, 40])
    with pytest.raises(ValueError, match=r"; export a program with this size$"):
        model(*map(torch.randn, shapes(0)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "kind"),
    in_turns([("cat", 1), ("broadcast", 1), ("squeeze", 2), ("branch", 2), ("select", 2)]),
)
def test_a_size_of_one_is_taken_where_torch_did_not_exclude_it(
    case: tuple[str, int], kind: str, tmp_path: Path
) -> None:
    name, least = case
    function, shapes, program = small(name, is_oblivious=True)
    model = compiled(program, kind, tmp_path)
    if name == "cat" and IS_TORCH_2_10:
        least = 2  # this torch excludes 1
    taken = [n for n in (0, 1, 2, 3, 9) if is_right(model, function, shapes(n))]
    assert taken == [n for n in (1, 2, 3, 9) if n >= least]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "library"])
def test_a_loaded_program_takes_what_it_did_before(kind: str, tmp_path: Path) -> None:
    function, shapes, program = small("diagonal", is_oblivious=kind == "library")
    torch.export.save(program, tmp_path / "program.pt2")
    model = compiled(torch.export.load(tmp_path / "program.pt2"), kind, tmp_path)
    taken = [n for n in (0, 1, 2, 3, 9) if is_right(model, function, shapes(n))]
    assert taken == [2, 3]


@pytest.mark.slow
def test_many_rows_are_sorted_on_the_cpu(tmp_path: Path) -> None:
    function, _, program = small("sort")
    model = compiled(program, "library", tmp_path)
    assert is_right(model, function, [(40_000, 6)])


@pytest.mark.slow
def test_inputs_in_other_nodes_are_looked_at(tmp_path: Path) -> None:
    class Cut(torch.nn.Module):
        def forward(self, pair: dict[int, torch.Tensor]) -> torch.Tensor:
            return pair[0][:2] + pair[1][:2]

    pair = {0: torch.zeros(5, 3), 1: torch.zeros(4, 3)}
    dims = ({0: {0: B}, 1: {0: C}},)
    model = compiled(torch.export.export(Cut(), (pair,), dynamic_shapes=dims), "package", tmp_path)
    assert model(pair).shape == (2, 3)
    with pytest.raises(ValueError, match=r"'pair_1': .*; export a program with this size"):
        model({0: torch.zeros(5, 3), 1: torch.zeros(1, 3)})
    with pytest.raises(TypeError, match="argument 'pair': expected 2 inputs, got 1 in "):
        model({0: torch.zeros(5, 3)})


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["package", "library"])
def test_images_of_any_number_are_convolved(kind: str, tmp_path: Path) -> None:
    model = torch.nn.Conv2d(3, 4, 3).requires_grad_(False)
    images = torch.export.export(model, (torch.rand(2, 3, 9, 9),), dynamic_shapes=[{0: B}])
    convolve = compiled(images, kind, tmp_path)
    for count in (2, 15, 16, 40):
        assert is_right(convolve, model, [(count, 3, 9, 9)])
