# SPDX-License-Identifier: Apache-2.0
"""Text of rules: what they refer to, as it is now, or None where that can't be told."""

from __future__ import annotations

import argparse
import cmath
import collections
import configparser
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import math
import operator
import os
import re
import reprlib
import sys
import threading
import time
import types
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphffi
from graphffi._contract.rule_text import RuleText, read_rule


def known_rule_text(rule: Any) -> str | None:
    read = read_rule(rule)
    return None if read.unknown else read.text


@dataclasses.dataclass
class Config:
    n: int = 1


class Computed:
    def __getattr__(self, name: str) -> int:
        return 1


class Slotted:
    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 1


NUMBER = 1
TABLE = {"n": [1]}
CONFIG = Config()
ARGS = argparse.Namespace(n=1)
SIMPLE = types.SimpleNamespace(n=1)
SLOTTED = Slotted()
ARRAY = np.zeros(5000)
PARSER = configparser.ConfigParser()
COMPUTED = Computed()
LINES = iter([1, 2])
COUNT = itertools.count()
LOCK = threading.Lock()
VARIABLE = contextvars.ContextVar("VARIABLE", default=1)
VIEW = memoryview(b"1")
NESTED = Config(n=types.SimpleNamespace(inner=[1]))  # type: ignore[arg-type]


def set_global() -> None:
    global NUMBER  # noqa: PLW0603
    NUMBER += 1


def change_array() -> None:
    ARRAY[3000] += 1


def change_parser() -> None:
    PARSER["section"] = {"n": str(len(PARSER.sections()))}


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (lambda x: NUMBER, set_global),
        (lambda x: TABLE["n"], lambda: TABLE["n"].append(2)),
        (lambda x: CONFIG.n, lambda: setattr(CONFIG, "n", CONFIG.n + 1)),
        (lambda x: getattr(CONFIG, "n"), lambda: setattr(CONFIG, "n", CONFIG.n + 1)),  # noqa: B009
        (lambda x: ARGS.n, lambda: setattr(ARGS, "n", ARGS.n + 1)),
        (lambda x: SIMPLE.n, lambda: setattr(SIMPLE, "n", SIMPLE.n + 1)),
        (lambda x: SLOTTED.n, lambda: setattr(SLOTTED, "n", SLOTTED.n + 1)),
        (lambda x: ARRAY[0], change_array),
        (lambda x: PARSER["section"]["n"], change_parser),
        (lambda x: NESTED.n, lambda: NESTED.n.inner.append(1)),  # type: ignore[attr-defined]
    ],
)
def test_text_follows_values_or_is_unknown(
    rule: Callable[[Any], Any], change: Callable[[], None]
) -> None:
    before = known_rule_text(rule)
    assert known_rule_text(rule) == before
    change()
    assert before is None or known_rule_text(rule) != before


def test_plain_rules_are_known() -> None:
    import math

    import graphffi

    for rule in (
        graphffi.check,
        lambda x: math.prod((NUMBER, len(TABLE), CONFIG.n, ARGS.n)),
        graphffi.like,
        None,
    ):
        assert known_rule_text(rule) is not None


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: COMPUTED.n,
        lambda x: os.environ["N"],
        lambda x: time.time(),
        lambda x: next(LINES),
        lambda x: COUNT,
        lambda x: LOCK,
        lambda x: globals()["NUMBER"],
        lambda x: eval("NUMBER"),
        lambda x: VARIABLE.get(),
        lambda x: VIEW[0],
        lambda x: PATH.read_text(),
        lambda x: RAISED,
        lambda x: OS_ERROR,
        lambda x: hash(FROZEN),
        lambda x: FROZEN.__hash__(),
        lambda x: reprlib.repr(x.shape),
    ],
)
def test_what_no_text_tells_is_unknown(rule: Callable[[Any], Any]) -> None:
    assert known_rule_text(rule) is None


def test_the_digest_of_a_traced_call_follows_what_rules_refer_to() -> None:
    import graphffi

    def define(name: str, rule: Any) -> Any:
        op = graphffi.define_op(
            f"mytest::{name}", schema="(Tensor x) -> Tensor", kernel="some.kernel", infer=rule
        )
        return op.definition

    known = define("reads_args", lambda x: graphffi.empty((ARGS.n,), x.dtype))
    before = known.traced_digest()
    assert known.traced_digest() == before
    ARGS.n += 1
    assert known.traced_digest() != before
    unknown = define("reads_computed", lambda x: graphffi.empty((COMPUTED.n,), x.dtype))
    assert unknown.traced_digest() != unknown.traced_digest()


def wrapped(value: int) -> Callable[[Any], Any]:
    """A function that says that it is a module's of Python."""
    return functools.wraps(math.sqrt)(lambda x: x + value)


def managed(value: int) -> Callable[..., Any]:
    """A function of Python's library around one of the user's."""
    return contextlib.contextmanager(lambda: iter([value]))


def returning(value: Any) -> Callable[[], Any]:
    return lambda: value


def with_attribute(value: int) -> Callable[..., Any]:
    def rule(x: Any) -> Any:
        return rule.n  # type: ignore[attr-defined]

    rule.n = value  # type: ignore[attr-defined]
    return rule


def with_method(value: int) -> Callable[..., Any]:
    """A rule that passes an object to code that calls a method of it."""

    class Holder:
        def get(self) -> int:
            return value

    def call(holder: Any) -> Any:
        return holder.get()

    holder = Holder()
    return lambda x: call(holder)


def wraps_object(value: int) -> Any:
    """An object that says that it wraps a function, and does something else."""

    class Wrapping:
        def __init__(self) -> None:
            functools.update_wrapper(self, len)
            self.n = value

        def __call__(self, x: Any) -> int:
            return self.n

    return Wrapping()


class Kind(enum.Enum):
    A = 1
    B = 2


class Point(NamedTuple):
    n: int


class Listed(list[int]):
    """A list with attributes."""


class Narrow(Slotted):
    __slots__ = ("m",)

    def __init__(self, n: int, m: int) -> None:
        self.n, self.m = n, m


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    n: int


class Failure(ValueError):
    def __init__(self, n: int) -> None:
        super().__init__("no")
        self.n = n


def raised() -> ValueError:
    try:
        raise ValueError(1)
    except ValueError as error:
        return error


ONE, TWO, PATH, RAISED = returning(1), returning(2), Path("a"), raised()
FROZEN, OS_ERROR = Frozen(1), OSError(2, "no", "file")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({1: 2}.get, {1: 3}.get),
        (re.compile("a").fullmatch, re.compile("b").fullmatch),
        (np.ones(2).sum, np.zeros(2).sum),
        ((1).__add__, (2).__add__),
        (operator.itemgetter(1), operator.itemgetter(2)),
        (math, cmath),
        (math.sqrt, cmath.sqrt),
        (wrapped(1), wrapped(2)),
        (managed(1), managed(2)),
        ([ONE, TWO, ONE], [ONE, TWO, TWO]),
        ((ONE, TWO, ONE), (ONE, TWO, TWO)),
        ({1: ONE, 2: TWO, 3: ONE}, {1: ONE, 2: TWO, 3: TWO}),
        ([(1, 2), (3, 4), (1, 2)], [(1, 2), (3, 4), (3, 4)]),
        ([1, 2], (1, 2)),
        (1, True),
        (0.0, -0.0),
        ([10**5000], [10**5000 + 1]),
        ({1, 2}, {1, 3}),
        ({1}, frozenset({1})),
        ({ONE}, {TWO}),
        (Kind.A, Kind.B),
        (Point(1), Point(2)),
        (Point(1), (1,)),
        (Listed([1]), Listed([2])),
        (Listed([1]), [1]),
        (Narrow(1, 2), Narrow(1, 3)),
        (Narrow(1, 2), Narrow(2, 2)),
        (re.compile("a" * 300 + "b"), re.compile("a" * 300 + "c")),
        (collections.deque([1]), collections.deque([1], 2)),
        (collections.defaultdict(int), collections.defaultdict(float)),
        (types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3})),
        (np.arange(3), np.arange(3.0)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.array([ONE, TWO], object), np.array([TWO, ONE], object)),
        (np.float32(1), np.float32(2)),
        (functools.lru_cache(returning(1)), functools.lru_cache(returning(2))),
        (with_attribute(1), with_attribute(2)),
        (with_method(1), with_method(2)),
        (functools.partial(wraps_object(1)), functools.partial(wraps_object(2))),
        (operator.attrgetter("a"), operator.attrgetter("b")),
        (Path("/a"), Path("/b")),
        (Path("a"), PurePosixPath("a")),
        (Frozen(1), Frozen(2)),
        ({Frozen(1): 1}, {Frozen(2): 1}),
        (ValueError("a"), ValueError("b")),
        (ValueError("a"), TypeError("a")),
        (KeyError(1), KeyError(1, 2)),
        (Failure(1), Failure(2)),
    ],
)
def test_what_rules_may_refer_to_has_a_text_of_its_own(one: Any, other: Any) -> None:
    texts = [known_rule_text(value) for value in (one, other)]
    assert None not in texts
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    "make", [lambda: Path("/a"), lambda: {Frozen(1): 1}, lambda: KeyError(1), lambda: Failure(1)]
)
def test_equal_values_have_the_same_text(make: Callable[[], Any]) -> None:
    assert known_rule_text(make()) == known_rule_text(make()) is not None


MODULE = """
import dataclasses, enum, functools
N = @
class Kind(enum.Enum):
    A = @
class Base:
    n = @
    def get(self): return @
    def __add__(self, other): return @
    @functools.cached_property
    def cached(self): return @
class Derived(Base):
    def up(self): return super().get()
@dataclasses.dataclass
class Config:
    n: int = @
    m: int = dataclasses.field(default_factory=lambda: @)
OBJECT = Base()
"""
RULES = """
def imported(x): from users_values import N; return N
def of_module(x): import users_values; return users_values.N
def by_text(x): return getattr(users_values, "N")
def by_computed_text(x): return getattr(users_values, chr(78))
def of_all(x): return vars(users_values)["N"]
def call(o): return o.get()
def of_method(x): return call(users_values.OBJECT)
def of_operator(x): return users_values.OBJECT + 1
def of_property(x): return users_values.OBJECT.cached
def of_class(x): return type(users_values.OBJECT).n
def of_base(x): return users_values.Derived().up()
def of_enum(x): return [k.value for k in users_values.Kind][0]
def of_default(x): return users_values.Config().n
def of_factory(x): return users_values.Config().m
def nested(x): return (lambda: (lambda: users_values.N)())()
"""


def test_the_text_covers_what_rules_read_of_modules_and_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def texts(number: int) -> dict[str, RuleText]:
        module = types.ModuleType("users_values")
        monkeypatch.setitem(sys.modules, "users_values", module)
        exec(MODULE.replace("@dataclasses", "D").replace("@functools", "F")
             .replace("@", str(number)).replace("D.d", "@dataclasses.d")
             .replace("F.c", "@functools.c"), vars(module))  # fmt: skip
        rules: dict[str, Any] = {"users_values": module, "__name__": "users_rules"}
        exec(RULES, rules)
        found = {name: rule for name, rule in rules.items() if isinstance(rule, types.FunctionType)}
        assert {name: rule(module.OBJECT) for name, rule in found.items()} == dict.fromkeys(
            found, number
        )
        return {name: read_rule(rule) for name, rule in found.items() if name != "call"}

    first, again, other = texts(2), texts(2), texts(3)
    assert first == again
    assert {name for name, read in first.items() if read.unknown} == set()
    assert {name for name in first if first[name].text == other[name].text} == set()


STABLE = """
import enum
from graphffi._contract.rule_text import RuleText, read_rule
class Kind(enum.Enum):
    A = 1
NAMES = {"a", "b", "c", ("d", 1)}
def helper(x): return x
def rule(x, *, kinds=frozenset({"x", "y", "z"})):
    if x in {"p", "q", "r"}: return helper(NAMES)
    return [Kind.A, kinds, (1, 2), (1, 2), helper, rule]
print(read_rule(rule).text)
"""


def test_the_text_is_the_same_in_every_process(
    run_python: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "stable.py").write_text(STABLE)  # also from a file of bytecode
    path = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    programs = ("import stable", "import stable", "import sys; sys.flags; import stable")
    found = {
        run_python(program, PYTHONHASHSEED=str(seed), **path)
        for seed, program in enumerate(programs)
    }
    assert len(found) == 1
    ((status, text),) = found
    assert status == 0, text


class Answering:
    """Has every attribute, and no truth value, as symbols of tracers do."""

    __module__ = "numpy"

    def __getattr__(self, name: str) -> Answering:
        return self

    def __bool__(self) -> bool:
        raise TypeError("no control flow")


def test_values_are_not_asked_for_their_truth() -> None:
    error = ValueError(1)
    error.__context__ = KeyError(Answering())
    symbol = Answering()
    assert read_rule(lambda x: (x, symbol)).text
    for value in (error, [error], KeyError(error)):
        assert read_rule(lambda x, value=value: (x, value)).unknown


@pytest.mark.parametrize("name", ["load", "loadtxt", "fromfile", "genfromtxt", "geterr", "memmap"])
def test_what_reads_files_or_states_is_unknown_by_any_name(name: str) -> None:
    function = getattr(np, name)  # of a private module of NumPy's
    assert read_rule(lambda x: (x, function)).unknown
    assert read_rule(lambda x: (x, graphffi.get_global_func("a.name")())).unknown
    assert read_rule(lambda x: (x, graphffi.load_module("a.so"))).unknown


def test_names_that_patterns_bind_are_part_of_the_text() -> None:
    def rule_of(*names: str) -> Any:
        kind = type("Pair", (), {"a": 1, "b": 2, "__match_args__": names})
        return read_rule(lambda x: (x, kind)).text

    assert rule_of("a") != rule_of("b")
