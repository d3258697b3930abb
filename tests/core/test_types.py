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


@pytest.fixture
def project(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    # Reading the frameworks takes mypy a minute.
    (tmp_path / "mypy.ini").write_text("[mypy-torch.*,jax.*,jaxlib.*]\nfollow_imports = skip\n")
    return tmp_path


def lines_of(output: str) -> set[int]:
    return {int(line) for line in re.findall(r"program\.py:(\d+)(?::\d+)*:? (?:- )?error", output)}


WRONG = {n for n, line in enumerate(PROGRAM.splitlines(), 1) if "# wrong" in line}
PACKAGES = {
    name: Path(importlib.util.find_spec(name).origin).parent
    for name in ("graphffi", "graphffi_torch", "graphffi_jax")
    if importlib.util.find_spec(name)
}


@pytest.mark.slow
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_checkers_find_wrong_calls_and_no_others(checker, project):
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
    assert lines_of(result.stdout) == WRONG, result.stdout + result.stderr


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
