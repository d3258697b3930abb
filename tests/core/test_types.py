# SPDX-License-Identifier: Apache-2.0
"""Type checkers know the parameters and the results of ops."""

import importlib.util
import inspect
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import graphffi
from graphffi._command.command import main

from .conftest import HERE

PROGRAM = """\
from typing import NamedTuple

import graphffi
import graphffi.testing
import graphffi_jax
import graphffi_torch
from graphffi import Tensor


class Moments(NamedTuple):
    mean: Tensor
    variance: Tensor


@graphffi.op("types::scale", kernel="types.scale", dims="... -> ...")
def scale(x: Tensor, factor: float, *, exact: bool = False) -> Tensor:
    return graphffi.like(x)


@graphffi.op("types::moments", kernel="types.moments")
def moments(x: Tensor) -> Moments:
    return Moments(graphffi.like(x), graphffi.like(x))


@graphffi.op("types::append", kernel="types.append", mutates=("cache",))
def append(cache: Tensor, x: Tensor) -> None:
    pass


def use(x: Tensor, plain: graphffi.Op) -> None:
    y = scale(x, 2.0, exact=True) * 2
    variance = moments(y).variance + 1
    cache = append(variance, x)
    plain(cache, 1, any=2)
    module = graphffi.cpp.load("m", ["m.cc"])
    path: str = graphffi.cpp.build("m", ["m.cc"])
    graphffi.testing.check(scale, cases=[{"x": ((4,), "float32"), "factor": 1.0}])
    graphffi_torch.load_package("model.pt2", trust=True)
    graphffi_jax.load_package("model.zip", trust=["00"])
    graphffi_torch.package("model.pt2")  # wrong: no program
    graphffi_jax.load_package("model.zip", trust=1.5)  # wrong: float
    graphffi.cpp.build("m", sources=[1])  # wrong: int
    scale(x)  # wrong: factor
    scale(x, "2")  # wrong: str
    scale(x, 2.0, axis=1)  # wrong: axis
    moments(x).median  # wrong: median
    graphffi.op("types::other", kernels=None)  # wrong: kernels
    module.f(path, scale.add_kernel)
"""


# Operands and results are those of the user's framework; `ops` is a library's, with a stub.
TYPED = """\
from typing import TYPE_CHECKING

import graphffi
import jax
import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    import ops
else:
    ops = graphffi.load_ops("libops.so")

Floats = NDArray[np.float32]


@graphffi.op("typed::scale", kernel="typed.scale")
def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    graphffi.check(x.shape[0] % 2 == 0, "operand 'x': expected an even size")
    return graphffi.like(x, shape=[x.shape[0] // 2, *x.shape[1:]])


@graphffi.op("typed::add", kernel="typed.add")
def add(x: jax.Array, bias: jax.Array | None = None) -> jax.Array:
    return graphffi.like(x)


@graphffi.op("typed::join", kernel="typed.join")
def join(xs: list[Floats]) -> tuple[Floats, Floats]:
    return graphffi.like(xs[0]), graphffi.empty(xs[1].shape, "float32")


def use(x: torch.Tensor, y: jax.Array, z: Floats) -> jax.Array:
    torch.relu(scale(x, 0.5))
    first: Floats = join([z, z])[0]
    ops.rms_norm(x, x, eps=1e-5)
    ops.accumulate(z, [z, first], bias=None)
    ops.rms_norm.register_vjp(lambda grad, saved: (grad, None))
    scale(3.0, 2)  # wrong: a number
    scale(y)  # wrong: the other framework's
    scale(x, "2")  # wrong: str
    add(y, bias=x)  # wrong: the other framework's
    join(z)  # wrong: no list
    scale(x).median_of  # wrong: no member of a tensor
    count: int = add(y)  # wrong: a tensor
    ops.rms_norm(x)  # wrong: weight
    ops.rms_norm(x, x, "1e-5")  # wrong: str
    ops.rms_norm(x, x, epsilon=1e-5)  # wrong: epsilon
    ops.accumulate(x, x)  # wrong: no list
    ops.layer_norm(x)  # wrong: no op
    return scale(x)  # wrong: the other framework's
"""
# In place of these packages, which checkers read for a minute.
FRAMEWORKS = {
    "torch": "class Tensor:\n    shape: tuple[int, ...]\n    dtype: object\n\n"
    "def relu(input: Tensor) -> Tensor: ...\n",
    "jax": "class Array: ...\n",
}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    # Reading the frameworks takes mypy a minute.
    (tmp_path / "mypy.ini").write_text("[mypy-torch.*,jax.*,jaxlib.*]\nfollow_imports = skip\n")
    return tmp_path


@pytest.fixture
def typed_project(tmp_path):
    (tmp_path / "program.py").write_text(TYPED)
    for name, text in FRAMEWORKS.items():
        (tmp_path / f"{name}.pyi").write_text(text)
    library = graphffi.cpp.build("op_library", [HERE / "op_library.cc"], extra_cflags=["-O1"])
    assert main(["generate", "--stubs", library, "-o", str(tmp_path / "ops.pyi")]) == 0
    return tmp_path


def lines_of(output: str) -> set[int]:
    return {int(line) for line in re.findall(r"program\.py:(\d+)(?::\d+)*:? (?:- )?error", output)}


def wrong_lines(program: str) -> set[int]:
    return {n for n, line in enumerate(program.splitlines(), 1) if "# wrong" in line}


PACKAGES = {
    name: Path(importlib.util.find_spec(name).origin).parent
    for name in ("graphffi", "graphffi_torch", "graphffi_jax")
    if importlib.util.find_spec(name)
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_find_wrong_calls_and_no_others(checker, project):
    assert_found(checker, project, PROGRAM)


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_know_operands_of_one_framework_and_ops_of_a_stub(checker, typed_project):
    assert_found(checker, typed_project, TYPED)


def assert_found(checker: str, project: Path, program: str) -> None:
    """The checker reports the program's wrong lines, and no others."""
    pytest.importorskip(checker)
    if not list(metadata.distributions(name="graphffi")):
        pytest.skip("graphffi is on a path only, which checkers do not see")
    arguments = {
        "mypy": ("--strict", "--python-version=3.10"),
        "pyright": ("--pythonpath", sys.executable),
    }[checker]
    result = subprocess.run(
        [sys.executable, "-m", checker, *arguments, "program.py"],
        check=False,
        cwd=project,
        capture_output=True,
        text=True,
    )
    assert lines_of(result.stdout) == wrong_lines(program), result.stdout + result.stderr


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_say_that_they_are_typed(name):
    assert (PACKAGES[name] / "py.typed").is_file()


def test_ops_of_any_signature_have_one_type():
    assert graphffi.Op[..., int].__origin__ is graphffi.Op


def options_of(function):
    """Names of keyword parameters, with types and defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: (p.annotation, p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_all_ways_to_define_an_op_have_the_same_options():
    options = options_of(graphffi.op)
    del options["mutates"]
    for_checkers = graphffi._definition.define._OpOptions.__annotations__
    assert {n: t.__forward_arg__ for n, t in for_checkers.items()} == {
        name: annotation for name, (annotation, _) in options.items()
    }
    by_schema = options_of(graphffi.define_op)
    assert {name: by_schema.pop(name, None) for name in options} == options
    assert by_schema.keys() == {"schema", "infer", "doc"}


def test_factories_and_kernels_of_an_op_have_the_same_options():
    options = options_of(graphffi.Op.add_factory)
    assert {name: options.pop(name) for name in options_of(graphffi.Op.add_kernel)} == options_of(
        graphffi.Op.add_kernel
    )
    assert options.keys() == {"key", "depends"}
