# SPDX-License-Identifier: Apache-2.0
"""What Python's tools see of an op: signature, names, documentation, copies."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphffi
from graphffi import Tensor


class Pair(NamedTuple):
    """Results with names."""

    low: Tensor
    high: Tensor


@graphffi.op("test_op_object::blend", kernel="test_op_object.none", mutates=("cache",))
def blend(
    x: Tensor,
    others: list[Tensor],
    cache: Tensor,
    mask: Tensor | None = None,
    *,
    dims: tuple[int, ...] = (1, 2),
    kind: graphffi.dtype | None = None,
    eps: float = 1e-6,
) -> Tensor:
    """Blends x with others."""
    return graphffi.like(x)


def test_an_op_has_the_signature_of_its_definition() -> None:
    signature = inspect.signature(blend)
    kinds = {name: p.kind for name, p in signature.parameters.items()}
    assert list(kinds) == ["x", "others", "cache", "mask", "dims", "kind", "eps"]
    assert [name for name, kind in kinds.items() if kind is inspect.Parameter.KEYWORD_ONLY] == [
        "dims",
        "kind",
        "eps",
    ]
    annotations = [p.annotation for p in signature.parameters.values()]
    assert annotations == [
        Tensor,
        list[Tensor],
        Tensor,
        Tensor | None,
        list[int],
        graphffi.dtype | None,
        float,
    ]
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not p.empty}
    assert defaults == {"mask": None, "dims": (1, 2), "kind": None, "eps": 1e-6}
    assert signature.return_annotation == tuple[Tensor, Tensor]  # the result, then the cache


def test_an_op_of_a_schema_has_a_signature() -> None:
    op = graphffi.define_op(
        "test_op_object::schema",
        schema="(Tensor? x=None, Tensor y, float[]? scales=None) -> Tensor",
        kernel="test_op_object.none",
        infer=lambda x, y, scales: graphffi.like(y),
    )
    assert str(inspect.signature(op)) == (
        "(x: graphffi.Tensor | None = None, *, y: graphffi.Tensor, "
        "scales: list[float] | None = None) -> graphffi.Tensor"
    )
    assert op.__doc__ == "Calls the kernel test_op_object.none."


def test_what_a_call_returns_is_annotated() -> None:
    @graphffi.op("test_op_object::pair", kernel="test_op_object.none")
    def pair(x: Tensor) -> Pair:
        return Pair(graphffi.like(x), graphffi.like(x))  # type: ignore[arg-type]

    @graphffi.op("test_op_object::log", kernel="test_op_object.none", has_side_effect=True)
    def log(x: Tensor) -> None: ...

    assert inspect.signature(pair).return_annotation is Pair
    assert inspect.signature(log).return_annotation is None


def test_names_and_documentation_are_those_of_the_definition() -> None:
    assert (blend.__name__, blend.__qualname__) == ("blend", "blend")
    assert (blend.__module__, blend.__doc__) == (__name__, "Blends x with others.")
    text = pydoc.plain(pydoc.render_doc(blend))
    assert "test_op_object::blend(x: tensor" in text
    assert "Blends x with others." in text
    assert "add_direct_call" not in text  # a method of the class


def test_an_op_is_of_the_module_that_defines_it() -> None:
    op = graphffi.define_op(
        "test_op_object::liked",
        schema="(Tensor x) -> Tensor",
        kernel="test_op_object.none",
        infer=graphffi.like,
    )
    assert op.__module__ == __name__
    exec("op.add_kernel('test_op_object.other')", {"op": op, "__name__": "elsewhere"})
    assert op.__module__ == __name__


def test_the_class_has_a_signature_of_its_own() -> None:
    assert list(inspect.signature(graphffi.Op).parameters) == ["definition"]


def test_copies_are_the_op_itself() -> None:
    assert copy.copy(blend) is blend
    assert copy.deepcopy([blend])[0] is blend
    assert pickle.loads(pickle.dumps(blend)) is blend


def test_another_process_unpickles_an_op_by_its_module(tmp_path: Path) -> None:
    (tmp_path / "pickled_ops.py").write_text(
        "import graphffi\n"
        "from graphffi import Tensor\n"
        "@graphffi.op('test_op_object::pickled', kernel='test_op_object.none')\n"
        "def pickled(x: Tensor) -> Tensor:\n"
        "    return graphffi.like(x)\n"
    )
    dump = "import pickle, sys, pickled_ops; sys.stdout.write(pickle.dumps(pickled_ops.pickled, 0)"
    text = run(dump + ".decode())", tmp_path)
    load = f"import pickle; op = pickle.loads({text.encode()!r}); import pickled_ops"
    assert run(f"{load}; print(op is pickled_ops.pickled)", tmp_path) == "True\n"


def test_an_op_that_no_module_defines_any_more_is_named() -> None:
    text = pickle.dumps(blend, 0).replace(b"::blend", b"::bland")
    with pytest.raises(
        KeyError, match=r"op 'test_op_object::bland': expected a defined op"
    ) as raised:
        pickle.loads(text)
    assert f"; define it at the top level of module {__name__!r}" in str(raised.value)


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _rule(x: Tensor, *, n: int, m: int = 4) -> Tensor:
    return graphffi.empty((n + m,), "float32")


class _Rule:
    def __call__(self, x: Tensor, *, n: int, m: int = 4) -> Tensor:
        return _rule(x, n=n, m=m)


@functools.wraps(_rule)
def _decorated(*args: Any, **kwargs: Any) -> Any:
    return _rule(*args, **kwargs)


@pytest.mark.parametrize(
    "rule",
    [_Rule(), _decorated, functools.partial(_rule), functools.partial(_rule, m=4)],
    ids=["object", "decorated", "partial", "partial_with_default"],
)
def test_rules_that_are_no_functions_may_take_parameters_by_name_only(rule: Any) -> None:
    graphffi.register_global_func("test_op_object.nothing", lambda *args: None, override=True)
    name = f"test_op_object::keywords_{type(rule).__name__}_{len(getattr(rule, 'keywords', ()))}"
    op = graphffi.op(name, kernel="test_op_object.nothing", plan="out, n, x, m")(rule)
    assert op(np.zeros(1, np.float32), n=2).shape == (6,)
    assert str(inspect.signature(op)).startswith("(x: graphffi.Tensor, *, n: int, m: int = 4)")
