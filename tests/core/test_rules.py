# SPDX-License-Identifier: Apache-2.0
"""Gradient and batching rules of a definition: what is accepted, what they are given."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi._contract.rule_text import read_rule

_numbers = itertools.count()


def define(schema: str = "(Tensor x, Tensor y, float a=1.0) -> Tensor z", **rest: Any) -> Any:
    infer = None if schema.endswith("()") else lambda x, *_: graphffi.like(x)
    return graphffi.define_op(
        f"rules::op{next(_numbers)}", schema=schema, kernel="rules.none", infer=infer, **rest
    )


def spec(*shape: int, dtype: str = "float32") -> graphffi.TensorSpec:
    return graphffi.TensorSpec(shape, dtype)


def gradients(op: Any, specs: list[Any], **values: Any) -> list[Any]:
    vjp = op.definition.vjp
    returned = vjp.run(op.definition, values, [np.ones(3, np.float32)])
    return vjp.checked(op.definition, specs, returned)


ONE = np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("schema", "backward", "save", "kind", "message"),
    [
        ("", 3, (), TypeError, "register_vjp: expected a callable, got int 3"),
        ("", min, ("q",), ValueError, "save: expected names of .* got 'q'; known names: x, y, a,"),
        ("", min, 3, TypeError, "register_vjp: save: expected names, got int 3"),
        ("(Tensor(a!) x) -> ()", min, (), ValueError, "got one that updates 'x' in place"),
        ("(Tensor(a!) x, Tensor y) -> Tensor", min, (), ValueError, "updates 'x' in place"),
    ],
)
def test_a_rule_that_fits_no_op_is_refused(
    schema: str, backward: Any, save: Any, kind: Any, message: str
) -> None:
    op = define(schema) if schema else define()
    with pytest.raises(kind, match=message):
        op.register_vjp(backward, save=save)
    assert op.definition.vjp is None


def test_the_rule_gets_what_it_saves_and_every_attribute() -> None:
    op = define()
    op.register_vjp(lambda saved, grad: (grad * saved.a, saved.y), save="y")
    a, b = gradients(op, [spec(3), spec(3)], y=ONE, a=2.0)
    assert a.tolist() == [2, 2, 2]
    assert b is ONE


def test_what_is_not_saved_is_reported_by_name() -> None:
    op = define()
    op.register_vjp(lambda saved, grad: (saved.x, None), save=("y",))
    with pytest.raises(
        AttributeError, match=r"::op\d+: backward: saved value: expected one of y, a"
    ):
        gradients(op, [spec(3), spec(3)], y=ONE, a=2.0)
    with pytest.raises(AttributeError, match="saved value: expected no name, got 'x'; name it in"):
        _ = graphffi._rules.derivatives.Saved("op: backward", {}, "register_vjp").x


@pytest.mark.parametrize(
    ("returned", "specs", "kind", "message"),
    [
        (ONE, (spec(3), spec(3)), TypeError, "expected 2 gradients, for x, y, got float32"),
        ((ONE,), (spec(3), spec(3)), TypeError, "expected 2 gradients, for x, y, got 1"),
        ((ONE, 1.0), (spec(3), spec(3)), TypeError, "'y': expected a tensor or None, got float"),
        (
            (ONE, ONE),
            (spec(2), spec(4)),
            ValueError,
            r"'x': expected float32\[2\], got float32\[3\]; gradient of 'y': expected float32\[4\]",
        ),
        ((ONE, ONE), (spec(3), spec(3, dtype="int32")), TypeError, "'y': expected None for int32"),
        ((ONE, ONE), (spec(3), None), TypeError, "'y': expected None, as there is no such operand"),
        ((ONE, [ONE]), (spec(3), [spec(3)] * 2), TypeError, "'y': expected a list of 2 gradients"),
    ],
)
def test_wrong_gradients_are_reported_by_operand(
    returned: Any, specs: Any, kind: Any, message: str
) -> None:
    op = define()
    op.register_vjp(lambda saved, grad: returned)
    with pytest.raises(kind, match=rf"rules::op\d+: backward: .*{message}"):
        gradients(op, list(specs))


def test_gradients_of_lists_are_flattened() -> None:
    op = define("(Tensor[] xs, Tensor? y=None) -> Tensor")
    op.register_vjp(lambda saved, grad: ([grad, None], None))
    first, second = gradients(op, [[spec(3), spec(3)], None])
    assert first.tolist() == [1, 1, 1]
    assert second is None
    op = define("(Tensor[] xs, Tensor? y=None) -> Tensor")
    op.register_vjp(lambda saved, grad: (None, grad))
    assert gradients(op, [[spec(3)] * 2, spec(3)])[:2] == [None, None]


def test_registering_again_needs_the_same_rule() -> None:
    op = define()

    def make_rule(factor: float) -> Any:
        return lambda saved, grad: (grad * factor, None)

    op.register_vjp(make_rule(2.0))
    op.register_vjp(make_rule(2.0))
    with pytest.raises(ValueError, match="expected the registered rule, got another"):
        op.register_vjp(make_rule(3.0))
    with pytest.raises(ValueError, match="expected the registered rule, got another"):
        op.register_vjp(make_rule(2.0), save=("x",))


def test_a_definition_may_be_repeated_after_its_rule_was_added() -> None:
    def make() -> Any:
        return graphffi.define_op(
            "rules::repeated", schema="(Tensor x) -> Tensor", kernel="rules.none", infer=_like
        )

    op = make()
    op.register_vjp(lambda saved, grad: grad)
    assert make() is op
    assert op.definition.vjp is not None


def _like(x: Any) -> Any:
    return graphffi.like(x)


def test_the_digest_covers_the_rules_and_the_ops_that_they_call() -> None:
    digests = [define().definition.digest for _ in range(2)]
    assert digests[0] != digests[1]  # names differ
    inner = [define("(Tensor x) -> Tensor") for _ in range(2)]

    def digest(called: Any, factor: float = 1.0, vmap: Any = None) -> str:
        op = graphffi.Op(define_once(vmap))
        op.register_vjp(lambda saved, grad: called(grad * factor))
        return str(op.definition.digest)

    def define_once(vmap: Any) -> Any:
        op = define("(Tensor x) -> Tensor", vmap=vmap)
        import dataclasses

        return dataclasses.replace(op.definition, name="rules::same")

    assert digest(inner[0]) == digest(inner[0])
    found = {
        digest(inner[0]),
        digest(inner[1]),
        digest(inner[0], 2.0),
        digest(inner[0], vmap="broadcast"),
        digest(inner[0], vmap="sequential"),
        digest(inner[0], vmap=lambda size, batched, x: x),
    }
    assert len(found) == 6


REFERENCES = """
import collections, enum, functools, math
import graphffi

SIZE = @
TABLE = {"size": [@]}

class Constants:
    size = @

class Kind(enum.Enum):
    SIZE = @

class Config:
    __slots__ = ("_size",)

    def __init__(self, size):
        self._size = size

    @property
    def size(self):
        return self._size

    def padded(self, x):
        return empty(self.size)

    def __call__(self, x):
        return self.padded(x)

def empty(size):
    return graphffi.empty((size,), "float32")

def helper(x):
    return empty(math.prod((SIZE,)))

@functools.cache
def cached():
    return SIZE

def closure(size):
    def inner(x):
        return empty(size)
    return lambda x: inner(x)

def from_default(x, *, size=@):
    return empty(size)

config = Config(@)
point = collections.namedtuple("Point", "size")(@)
RULES = {
    "global": lambda x: empty(SIZE),
    "helper": lambda x: helper(x),
    "cached": lambda x: empty(cached()),
    "table": lambda x: empty(TABLE["size"][0]),
    "class": lambda x: empty(Constants.size),
    "enum": lambda x: empty(Kind.SIZE.value),
    "object": lambda x: empty(config.size),
    "method": lambda x: config.padded(x),
    "bound": config.padded,
    "callable": config,
    "namedtuple": lambda x: empty(point.size),
    "closure": closure(@),
    "default": from_default,
    "partial": functools.partial(lambda x, size: empty(size), size=@),
}
"""


def test_the_digest_covers_what_shape_rules_refer_to() -> None:
    def digests(size: int) -> dict[str, str]:
        namespace: dict[str, Any] = {"__name__": "users_module"}
        source = REFERENCES.replace("@property", "PROPERTY").replace("@functools", "FUNCTOOLS")
        source = source.replace("@", str(size)).replace("PROPERTY", "@property")
        exec(source.replace("FUNCTOOLS", "@functools"), namespace)
        rules = namespace["RULES"]
        assert [rule(None).shape for rule in rules.values()] == [(size,)] * len(rules)
        return {n: read_rule(rule).text for n, rule in rules.items()}

    first, again, other = digests(2), digests(2), digests(3)
    assert first == again
    assert {name for name in first if first[name] == other[name]} == set()


@pytest.mark.parametrize(
    ("rule", "kind"), [("parallel", ValueError), (3, TypeError)], ids=["name", "kind"]
)
def test_an_unknown_batching_rule_is_refused(rule: Any, kind: Any) -> None:
    with pytest.raises(kind, match="vmap: expected 'broadcast', 'sequential' or a callable, got"):
        define(vmap=rule)
