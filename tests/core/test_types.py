# SPDX-License-Identifier: Apache-2.0
"""Type checkers know the parameters and the results of ops."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphffi

PROGRAM = """\
from typing import NamedTuple

import graphffi
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
    arguments = {"mypy": ("--strict", "--python-version=3.10"), "pyright": ()}[checker]
    roots = os.pathsep.join({str(folder.parent) for folder in PACKAGES.values()})
    (project / "pyrightconfig.json").write_text(
        f'{{"extraPaths": ["{PACKAGES["graphffi"].parent}"], "reportMissingModuleSource": false}}'
    )
    result = subprocess.run(
        [sys.executable, "-m", checker, *arguments, "program.py"],
        check=False,
        cwd=project,
        env={**os.environ, "MYPYPATH": roots},
        capture_output=True,
        text=True,
    )
    assert lines_of(result.stdout) == WRONG, result.stdout + result.stderr


@pytest.mark.parametrize("name", PACKAGES)
def test_packages_say_that_they_are_typed(name):
    assert (PACKAGES[name] / "py.typed").is_file()


def test_ops_of_any_signature_have_one_type():
    assert graphffi.Op[..., int].__origin__ is graphffi.Op
