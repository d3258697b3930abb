# SPDX-License-Identifier: Apache-2.0
"""Ops with several kernels: every path runs the same one, and the artifact's text names it."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._inductor.utils import run_and_get_code

import graphffi
import graphffi_jax
import graphffi_torch
from graphffi import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).resolve().parent


@dataclass
class Choice:
    """An op, and calls of it at the edges of its conditions.

    Args:
        op: Takes a tensor, or a list of them, and an int.
        calls: Shape, data type and int, and the number of the kernel.
    """

    op: graphffi.Op
    calls: Sequence[tuple[tuple[int, ...], str, int, int]]

    @property
    def name(self) -> str:
        return self.op.__name__

    def operand(self, call: int, array: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
        shape, dtype, *_ = self.calls[call]
        value = array(np.zeros(shape, dtype))
        return [value] if self.name == "listed" else value

    def run(self, call: int, operand: Any) -> Any:
        return self.op(operand, self.calls[call][2])

    def kernel(self, call: int) -> str:
        return f"{self.name}_{self.calls[call][3]}"

    def is_computed(self, call: int) -> bool:
        """Whether the reference runs, which is no kernel."""
        return self.calls[call][3] == REFERENCE


CALLS = 3  # of each op
REFERENCE = 9


@pytest.fixture(scope="module")
def library() -> str:
    return graphffi.cpp.build("numbered", sources=[HERE / "numbered.c"])


def add(op: graphffi.Op, kernel: str, way: str, **options: Any) -> None:
    """Adds a kernel, or a factory that makes it."""
    if way == "kernels":
        op.add_kernel(kernel, **options)
        return
    name = kernel.rpartition("::")[2]
    op.add_factory(name=name, key=lambda *_: name, **options)(lambda key: kernel)


@pytest.fixture(
    scope="module", params=["kernels", pytest.param("factories", marks=pytest.mark.slow)]
)
def choices(library: str, request: pytest.FixtureRequest) -> list[Choice]:
    way = request.param

    def define(name: str, kernels: Sequence[dict[str, Any]], calls: Any) -> Choice:
        def like(x: Tensor, n: int) -> Tensor:
            return graphffi.like(x, dtype="float32")

        def like_first(xs: list[Tensor], n: int) -> Tensor:
            return graphffi.like(xs[0])

        def nothing(x: Tensor, n: int) -> None:
            pass

        rules: dict[str, Any] = {"listed": like_first, "updated": nothing}
        mutates = ("x",) if name == "updated" else ()
        op = graphffi.op(
            f"choice_{way}::{name}",
            mutates=mutates,
            fallback="reference" if name == "computed" else "",
        )(rules.get(name, like))
        op.__name__ = name
        if name == "computed":
            op.set_reference(lambda xp, x, n: xp.astype(x * 0 + REFERENCE, xp.float32))
        for i, options in enumerate(kernels, 1):
            add(op, f"{library}::{name}_{i}", way, **options)
        assert len(calls) == CALLS
        return Choice(op, calls)

    f32 = "float32"
    return [
        define(
            "mod8",
            [{"when": lambda x, n: x.shape[-1] % 8 == 0}, {}],
            [((2, 8), f32, 0, 1), ((2, 9), f32, 0, 2), ((2, 24), f32, 0, 1)],
        ),
        define(
            "numel",
            [
                {"when": lambda x, n: x.numel <= 16},
                {"when": lambda x, n: x.numel <= 32},
                {"when": lambda x, n: x.numel <= 48},
                {},
            ],
            [((4, 4), f32, 0, 1), ((2, 24), f32, 0, 3), ((7, 7), f32, 0, 4)],
        ),
        define(
            "dtype",
            [{"dtypes": {"x": "float32"}}, {"dtypes": {"x": ("float16", "bfloat16")}}, {}],
            [((3, 4), f32, 0, 1), ((3, 4), "float16", 0, 2), ((3, 4), "int32", 0, 3)],
        ),
        define(
            "rank",
            [{"when": lambda x, n: x.ndim == 1}, {"when": lambda x, n: x.ndim == 2}, {}],
            [((5,), f32, 0, 1), ((5, 2), f32, 0, 2), ((5, 2, 3), f32, 0, 3)],
        ),
        define(
            "attribute",
            [{"when": lambda x, n: n == 1}, {"when": lambda x, n: n > 4}, {}],
            [((3,), f32, 1, 1), ((3,), f32, 5, 2), ((3,), f32, 4, 3)],
        ),
        define(
            "device",
            [{"device": "cuda"}, {"device": "cpu", "when": lambda x, n: n > 0}, {"device": "cpu"}],
            [((3,), f32, 1, 2), ((3,), f32, 0, 3), ((4,), f32, 2, 2)],
        ),
        define(
            "square",
            [
                {"when": lambda x, n: x.shape[0] == x.shape[1]},
                {"when": lambda x, n: x.shape[0] > x.shape[1]},
                {},
            ],
            [((6, 6), f32, 0, 1), ((7, 6), f32, 0, 2), ((5, 6), f32, 0, 3)],
        ),
        define(
            "range",
            [{"when": lambda x, n: 4 <= x.shape[0] < 8 or x.shape[1] == 3}, {}],
            [((4, 2), f32, 0, 1), ((8, 2), f32, 0, 2), ((9, 3), f32, 0, 1)],
        ),
        define(
            "smallest",
            [{"when": lambda x, n: min(x.shape) < 4}, {"when": lambda x, n: max(x.shape) > 16}, {}],
            [((3, 20), f32, 0, 1), ((4, 17), f32, 0, 2), ((4, 16), f32, 0, 3)],
        ),
        define(
            "quotient",
            [
                {"when": lambda x, n: x.shape[0] / 2 > 1.5},
                {"when": lambda x, n: abs(x.shape[0] - 5) / 3 + n == 1 and x.shape[1] ** 2 < 5.5},
                {},
            ],
            [((4, 2), f32, 0, 1), ((2, 2), f32, 0, 2), ((3, 2), f32, 0, 3)],
        ),
        define(
            "plans",
            [
                {"plan": "out", "when": lambda x, n: x.shape[0] == 2},
                {"plan": "n, x, out", "when": lambda x, n: x.shape[0] == 3},
                {},
            ],
            [((2, 5), f32, 0, 1), ((3, 5), f32, 0, 2), ((4, 5), f32, 0, 3)],
        ),
        define(
            "scratch",
            [
                {
                    "plan": "workspace, out",
                    "workspace": lambda x, n: 4 * x.numel,
                    "when": lambda x, n: x.shape[0] % 2 == 0,
                },
                {"plan": "workspace, out", "workspace": 128, "when": lambda x, n: x.shape[0] == 5},
                {},
            ],
            [((6, 2), f32, 0, 1), ((5, 2), f32, 0, 2), ((7, 2), f32, 0, 3)],
        ),
        define(
            "updated",
            [{"when": lambda x, n: x.shape[0] > 100, "plan": "x"}, {"plan": "x"}],
            [((101,), f32, 0, 1), ((100,), f32, 0, 2), ((99,), f32, 0, 2)],
        ),
        define(
            "listed",
            [{"when": lambda xs, n: xs[0].shape[0] == 1 and len(xs) == 1}, {}],
            [((1, 2), f32, 0, 1), ((3, 2), f32, 0, 2), ((4, 2), f32, 0, 2)],
        ),
        define(
            "computed",
            [{"when": lambda x, n: x.shape[0] % 4 == 0}, {"dtypes": {"x": "int32"}}],
            [((8, 2), f32, 0, 1), ((6, 2), f32, 0, REFERENCE), ((7, 2), f32, 0, REFERENCE)],
        ),
    ]


def operands(choices: list[Choice], call: int, array: Any = torch.from_numpy) -> list[Any]:
    return [choice.operand(call, array) for choice in choices]


def caller(choices: list[Choice], call: int) -> Callable[..., Any]:
    def run(*given: Any) -> Any:
        return [c.run(call, operand) for c, operand in zip(choices, given, strict=True)]

    return run


def check(choices: list[Choice], call: int, results: Sequence[Any]) -> None:
    """Whether the results are those of the kernels that the conditions say."""
    for choice, result in zip(choices, results, strict=True):
        ran = set(np.asarray(result).flatten().tolist())
        assert ran == {choice.calls[call][3]}, f"{choice.kernel(call)}: got {ran}"


def check_text(choices: list[Choice], calls: Sequence[int], text: str) -> None:
    """Whether a program names these kernels and no others."""
    named = set(re.findall(r"numbered\.so::(\w+_\d)", text))
    assert named == {
        choice.kernel(call) for choice in choices for call in calls if not choice.is_computed(call)
    }


@pytest.mark.parametrize("call", range(CALLS))
class TestChoice:
    def test_numpy(self, choices: list[Choice], call: int) -> None:
        check(choices, call, caller(choices, call)(*operands(choices, call, np.asarray)))

    def test_eager_torch(self, choices: list[Choice], call: int) -> None:
        for _ in range(2):  # by the rule, then by its program
            check(choices, call, caller(choices, call)(*operands(choices, call)))

    def test_dispatcher(self, choices: list[Choice], call: int) -> None:
        with torch.profiler.profile():
            check(choices, call, caller(choices, call)(*operands(choices, call)))

    def test_jit(self, choices: list[Choice], call: int) -> None:
        program = jax.jit(caller(choices, call))
        given = operands(choices, call, jnp.asarray)
        check(choices, call, program(*given))
        check_text(choices, [call], program.lower(*given).as_text())


def test_compiled_code_names_the_kernels(choices: list[Choice]) -> None:
    torch.compiler.reset()
    compiled = torch.compile(caller(choices, 0), fullgraph=True)
    results, code = run_and_get_code(compiled, *operands(choices, 0))
    check(choices, 0, results)
    check_text(choices, [0], "".join(code))


@pytest.mark.slow
def test_other_sizes_compile_a_dynamic_graph_anew(choices: list[Choice]) -> None:
    """Guards of conditions: each set of sizes gets the kernels that eager code runs."""
    torch.compiler.reset()
    one_graph = [c for c in choices if c.name not in ("dtype", "rank", "attribute", "device")]
    compiled = torch.compile(caller(one_graph, 0), dynamic=True, fullgraph=True)
    for call in range(CALLS):
        results, code = run_and_get_code(compiled, *operands(one_graph, call))
        check(one_graph, call, results)
        check_text(one_graph, [call], "".join(code))


class Calls(torch.nn.Module):
    def __init__(self, choices: list[Choice]) -> None:
        super().__init__()
        self.choices = choices

    def forward(self, *given: Any) -> Any:
        rows = [given[i::CALLS] for i in range(CALLS)]
        return [caller(self.choices, call)(*row) for call, row in enumerate(rows)]


@pytest.fixture(scope="module")
def exported(choices: list[Choice]) -> Any:
    rows = [operands(choices, call) for call in range(CALLS)]
    given = tuple(operand for column in zip(*rows, strict=True) for operand in column)
    return given, torch.export.export(Calls(choices), given)


def check_rows(choices: list[Choice], rows: Sequence[Any]) -> None:
    for call, row in enumerate(rows):
        check(choices, call, row)


def test_exported_programs_name_the_kernels(choices: list[Choice], exported: Any) -> None:
    given, program = exported
    check_rows(choices, program.module()(*given))
    decomposed = graphffi_torch.decompose(program)
    check_text(choices, range(CALLS), str(decomposed.graph))
    check_rows(choices, decomposed.module()(*given))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")
def test_packages_name_the_kernels(choices: list[Choice], exported: Any, tmp_path: Path) -> None:
    given, program = exported
    path = str(tmp_path / "choices.pt2")
    torch._inductor.aoti_compile_and_package(program, package_path=path)
    check_rows(choices, torch._inductor.aoti_load_package(path)(*given))
    with zipfile.ZipFile(path) as package:
        (code,) = (n for n in package.namelist() if n.endswith(".wrapper.cpp"))
        check_text(choices, range(CALLS), package.read(code).decode())


def test_jax_exports_name_the_kernels(choices: list[Choice]) -> None:
    given = operands(choices, 1, jnp.asarray)
    program = jax.export.export(
        jax.jit(caller(choices, 1)), disabled_checks=graphffi_jax.export_checks()
    )(*given)
    check_text(choices, [1], program.mlir_module())
    check(choices, 1, program.call(*given))


@pytest.fixture(scope="module")
def conditional(library: str) -> graphffi.Op:
    """Kernel 1 for some sizes, 2 for others, none for the rest."""

    @graphffi.op("choice::conditional")
    def conditional(x: Tensor) -> Tensor:
        return graphffi.like(x)

    conditional.add_kernel(f"{library}::mod8_1", name="even", when=lambda x: x.shape[0] % 2 == 0)
    conditional.add_kernel(f"{library}::mod8_2", name="odd", when=lambda x: x.shape[0] % 2 == 1)
    return conditional


@pytest.fixture(scope="module")
def unconditional(library: str) -> graphffi.Op:
    """Kernel 3 for all that is not kernel 1's."""

    @graphffi.op("choice::unconditional")
    def unconditional(x: Tensor) -> Tensor:
        return graphffi.like(x)

    unconditional.add_kernel(f"{library}::mod8_1", when=lambda x: x.shape[0] % 2 == 0)
    unconditional.add_kernel(f"{library}::mod8_2", when=lambda x: x.shape[0] < 0)
    unconditional.add_kernel(f"{library}::mod8_3")
    return unconditional


UNDECIDED = (
    r"choice::conditional: kernels: expected conditions that hold for all sizes or for none, got "
    r"'even': its condition lambda \(test_kernels_of_an_op.py:\d+\); 'odd': its condition lambda "
    r"\(test_kernels_of_an_op.py:\d+\); add a kernel without condition behind these, or fix the "
    r"size"
)


class TestSymbolicSizes:
    """Exported programs have no guards."""

    def torch_program(self, op: graphffi.Op, scale: int = 1) -> Any:
        class Module(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> Any:
                return op(torch.cat([x] * scale))

        sizes = ({0: torch.export.Dim("n", min=1, max=64)},)
        return torch.export.export(Module(), (torch.zeros(6),), dynamic_shapes=sizes)

    def jax_program(self, op: graphffi.Op, scale: int = 1) -> Any:
        (n,) = jax.export.symbolic_shape("n")
        return jax.export.export(
            jax.jit(lambda x: op(jnp.tile(x, scale))),
            disabled_checks=graphffi_jax.export_checks(),
        )(jax.ShapeDtypeStruct((n,), "float32"))

    def test_a_condition_that_holds_for_some_is_refused_by_torch_export(
        self, conditional: graphffi.Op
    ) -> None:
        with pytest.raises(NotImplementedError, match=UNDECIDED):
            self.torch_program(conditional)

    def test_a_condition_that_holds_for_some_is_refused_by_jax_export(
        self, conditional: graphffi.Op
    ) -> None:
        with pytest.raises(NotImplementedError, match=UNDECIDED):
            self.jax_program(conditional)

    def test_one_that_holds_for_all_is_none(self, conditional: graphffi.Op) -> None:
        decomposed = graphffi_torch.decompose(self.torch_program(conditional, 2))
        assert "mod8_1" in str(decomposed.graph)
        assert set(decomposed.module()(torch.zeros(5)).tolist()) == {1}
        program = self.jax_program(conditional, 2)
        assert "mod8_1" in program.mlir_module()
        assert set(program.call(jnp.zeros(5)).tolist()) == {1}

    def test_a_kernel_for_all_is_taken_instead(self, unconditional: graphffi.Op) -> None:
        decomposed = graphffi_torch.decompose(self.torch_program(unconditional))
        assert "mod8_3" in str(decomposed.graph)
        assert set(decomposed.module()(torch.zeros(4)).tolist()) == {3}
        program = self.jax_program(unconditional)
        assert "mod8_3" in program.mlir_module()
        assert set(program.call(jnp.zeros(4)).tolist()) == {3}


def test_each_platform_of_a_program_gets_its_own_kernel(library: str) -> None:
    @graphffi.op("choice::platforms")
    def platforms(x: Tensor) -> Tensor:
        return graphffi.like(x)

    platforms.add_kernel(f"{library}::device_1", device="cuda")
    platforms.add_kernel(f"{library}::device_2", device="cpu")

    def export(*names: str) -> Any:
        checks = graphffi_jax.export_checks()
        exporter = jax.export.export(jax.jit(platforms), platforms=names, disabled_checks=checks)
        return exporter(jnp.zeros(3))

    def named(program: Any) -> set[str]:
        return set(re.findall(r"device_\d", program.mlir_module()))

    assert named(export("cuda")) == {"device_1"}
    assert named(export("cpu")) == {"device_2"}
    both = export("cpu", "cuda")
    assert named(both) == {"device_1", "device_2"}
    assert set(both.call(jnp.zeros(3)).tolist()) == {2}
    with pytest.raises(
        NotImplementedError, match=r"'cuda.device_1': expected device cuda, got rocm"
    ):
        export("cpu", "rocm")
