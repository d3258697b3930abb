# SPDX-License-Identifier: Apache-2.0
"""Text of rules: what they refer to, as it is now, or None where that can't be told."""

from __future__ import annotations

import argparse
import cmath
import configparser
import contextlib
import dataclasses
import functools
import math
import operator
import os
import re
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphffi._rule_text import read_rule


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
    ],
)
def test_what_rules_may_refer_to_has_a_text_of_its_own(one: Any, other: Any) -> None:
    texts = [known_rule_text(value) for value in (one, other)]
    assert None not in texts
    assert texts[0] != texts[1]
