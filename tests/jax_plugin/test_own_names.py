# SPDX-License-Identifier: Apache-2.0
"""Python kernels of calls without an op: which name programs have for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import graphffi
import graphffi_jax

X = jnp.ones(3)


def number_of_names() -> int:
    return len(graphffi.list_global_func_names())


def keep_names(monkeypatch: Any, count: int) -> None:
    """Has so many names kept from now on, and none of before."""
    from graphffi._kernels import own_names as _own_names

    monkeypatch.setattr(_own_names, "_MAX_NAMES", count)
    monkeypatch.setattr(_own_names, "_names", OrderedDict())
    monkeypatch.setattr(_own_names, "_kept", set())


def make(value: int) -> Callable[..., None]:
    """A closure of the same code for each value."""
    return lambda x, out: np.copyto(np.from_dlpack(out), value)


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def run(self, x: Any, out: Any) -> None:
        np.from_dlpack(out)[...] = np.from_dlpack(x) * self.factor


def test_methods_have_one_name_for_each_object() -> None:
    two, three = Scale(2), Scale(3)
    for scale in (two, three):
        graphffi_jax.call(scale.run, X, out=X)
    before = number_of_names()
    for _ in range(5):
        assert graphffi_jax.call(two.run, X, out=X).tolist() == [2, 2, 2]
        assert graphffi_jax.call(three.run, X, out=X).tolist() == [3, 3, 3]
    assert number_of_names() == before


def test_functions_that_are_made_for_each_call_have_one_name() -> None:
    def call(sign: int) -> Any:
        if sign > 0:
            return graphffi_jax.call(lambda x, out: np.copyto(np.from_dlpack(out), 1), X, out=X)
        return graphffi_jax.call(lambda x, out: np.copyto(np.from_dlpack(out), -1), X, out=X)

    call(1), call(-1)
    before = number_of_names()
    for _ in range(5):
        assert call(1).tolist() == [1, 1, 1]
        assert call(-1).tolist() == [-1, -1, -1]
    assert number_of_names() == before


def test_kernels_that_are_made_for_each_call_are_warned_of_once(monkeypatch: Any) -> None:
    from graphffi_jax._transforms import closures as _closures

    monkeypatch.setattr(_closures, "_MANY", 3)
    monkeypatch.setattr(_closures, "_names", {})

    def call(factor: float) -> Any:
        def scale(x: Any, out: Any) -> None:
            np.copyto(np.from_dlpack(out), np.from_dlpack(x) * factor)

        return graphffi_jax.call(scale, X, out=X)

    def call_method(factor: float) -> Any:
        return graphffi_jax.call(Scale(factor).run, X, out=X)

    for run, name in ((call, r"call\.<locals>\.scale"), (call_method, r"Scale\.run")):
        run(1.0), run(2.0)
        with pytest.warns(RuntimeWarning, match=rf"kernel .*{name}: expected a function"):
            run(3.0)
        assert run(4.0).tolist() == [4, 4, 4]


def test_closures_have_names_of_their_own_but_not_forever(monkeypatch: Any) -> None:
    keep_names(monkeypatch, 2)

    programs = []
    for value in range(4):
        kernel = make(value)
        programs.append(jax.jit(lambda x, kernel=kernel: graphffi_jax.call(kernel, x, out=x)))
        assert programs[-1](X).tolist() == [value] * 3
    before = number_of_names()
    for value in range(4, 8):
        assert graphffi_jax.call(make(value), X, out=X).tolist() == [value] * 3
    assert number_of_names() == before
    assert [program(X).tolist() for program in programs] == [[value] * 3 for value in range(4)]


def test_programs_keep_closures_whose_names_are_gone(monkeypatch: Any) -> None:
    """Not another one of the same code, before the first call as well."""
    keep_names(monkeypatch, 1)

    def calling(value: int) -> Callable[[Any], Any]:
        kernel = make(value)
        return lambda x: graphffi_jax.call(kernel, x, out=x)

    first, second, third, branch = map(calling, (1, 2, 3, 4))
    ran, executable = jax.jit(second), jax.jit(third).lower(X).compile()
    chosen = jax.jit(lambda which, x: jax.lax.cond(which, branch, lambda x: x * 0, x))
    assert ran(X).tolist() == [2] * 3
    assert chosen(False, X).tolist() == [0] * 3
    assert first(X).tolist() == [1] * 3  # whose name is there, and the others' are not
    assert ran(X).tolist() == [2] * 3
    assert executable(X).tolist() == [3] * 3
    assert chosen(True, X).tolist() == [4] * 3


def test_a_name_is_given_once_and_what_is_declared_keeps_its_own(monkeypatch: Any) -> None:
    from graphffi._kernels.kernel import kernel_reference

    keep_names(monkeypatch, 1)
    declared = graphffi.Function(lambda: None)
    graphffi.declare(declared, has_side_effect=True)
    subjects = ("names", "others") * 3  # of which one at a time has a name
    names = {kernel_reference(s, graphffi.Function(lambda: None)) for s in subjects}
    assert len(names) == 6
    with pytest.raises(ValueError, match="expected what was declared before"):
        graphffi.declare(declared)


EXPORT = """
import sys
import jax, numpy as np
from jax import export
import graphffi_jax
factor = int(sys.argv[2])
exec(f"def kernel(x, out): np.from_dlpack(out)[...] = {factor}")
x = jax.numpy.ones(2)
if factor == 1:
    program = export.export(
        jax.jit(lambda x: graphffi_jax.call(kernel, x, out=x)),
        disabled_checks=graphffi_jax.export_checks(),
    )(x)
    open(sys.argv[1], "wb").write(program.serialize())
graphffi_jax.call(kernel, x, out=x)
program = export.deserialize(bytearray(open(sys.argv[1], "rb").read()))
print(np.asarray(program.call(x)).tolist())
"""


@pytest.mark.needs("flatbuffers")
def test_a_program_never_runs_another_function_of_the_same_name(
    run_script: Callable[..., Any], tmp_path: Path
) -> None:
    first = run_script(EXPORT, tmp_path / "program", 1)
    assert first.stdout.strip() == "[1.0, 1.0]", first.stderr
    second = run_script(EXPORT, tmp_path / "program", 2)
    assert "expected a registered function" in second.stderr
