# SPDX-License-Identifier: Apache-2.0
"""Rules do with sizes and attributes what they did: results, programs, errors, decisions.

`frozen_sizes.json` holds a line for each expression and, by paths, what came of a rule that is the
expression. Rows of torch are of rules that saw its symbols; where they differ, rules do now what
eager code does. `python -m tests.interop.test_frozen_sizes` writes it anew; new expressions are
keys.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import operator
import pickle
import re
import sys
import warnings
import zlib
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import graphffi
import graphffi_jax
from graphffi._contract.spec import spec_text
from graphffi._frameworks.tracing import Tracer, register_tracer
from graphffi._kernels.factory import Key
from graphffi.plugin import Symbols, UndecidedError, trace_shape_rule, undecided
from graphffi_jax._choice import kernels_by_device
from graphffi_jax._export.decisions import run_rule
from graphffi_torch._operators.choice import chosen_kernel, takes_sizes_for_granted
from graphffi_torch._operators.specs import rule_arguments

DATA = Path(__file__).with_name("frozen_sizes.json")
VERSIONS = {
    "python": ".".join(map(str, sys.version_info[:2])),
    **{m.__name__: m.__version__.partition("+")[0] for m in (torch, jax, np)},
}
SCHEMA = (
    "(Tensor x, Tensor y, int n, float f, bool t, str s, dtype d, Device w, int[] ns, float[] fs, "
    "str[] ss, int? o, str? p) -> Tensor"
)
ATTRIBUTES = [1.5, True, "bc", "float16", "cpu", [5, 6], [0.5, 2.0], ["p", "q"], None, None]
SIZES = [((6, 3), (4,)), ((1, 3), (9,)), ((0, 2), (2,))]
SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_count = iter(range(10**9))


class Symbol:
    """A framework's symbol: an expression, and its values in several calls."""

    def __init__(self, text: str, values: tuple[Any, ...]) -> None:
        self.text, self.values = text, values

    def __str__(self) -> str:
        return self.text

    def _apply(self, sign: str, name: str, other: Any, reverse: bool) -> Any:
        operation = getattr(operator, name)
        if not isinstance(other, (Symbol, int, float)):
            return NotImplemented
        sides = (_values(other), self.values) if reverse else (self.values, _values(other))
        values = tuple(operation(a, b) for a, b in zip(*sides, strict=True))
        text = f"({other}{sign}{self})" if reverse else f"({self}{sign}{other})"
        return self.like(text, values)

    def like(self, text: str, values: tuple[Any, ...]) -> Any:
        kind = FloatSymbol if isinstance(values[0], float) else IntSymbol
        return kind(text, values)


class IntSymbol(Symbol):
    """One of a framework with a tracer, as torch's."""


class FloatSymbol(Symbol):
    """The result of a division."""


class Dimension(Symbol):
    """One of a framework without a tracer, as JAX's."""

    def like(self, text: str, values: tuple[Any, ...]) -> Any:
        return values[0] if len(set(values)) == 1 else Dimension(text, values)


for _sign, _name in {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}.items():
    for _kind in (IntSymbol, FloatSymbol, Dimension):
        for _r in (False, True):
            _method = functools.partialmethod(Symbol._apply, _sign, _name, reverse=_r)
            setattr(_kind, f"__{'r' if _r else ''}{_name}__", _method)
for _sign, _name in {"/": "truediv", "**": "pow", "&": "and_", "|": "or_", "^": "xor"}.items():
    for _r in (False, True):
        _method = functools.partialmethod(Symbol._apply, _sign, _name, reverse=_r)
        setattr(IntSymbol, f"__{'r' if _r else ''}{_name.strip('_')}__", _method)
register_tracer(Tracer(lambda _: None, {IntSymbol: "int", FloatSymbol: "float"}, lambda _: True))


def _values(value: Any) -> tuple[Any, ...]:
    return value.values if isinstance(value, Symbol) else (value,) * 3


class Rule:
    """A rule that is an expression, as results' shapes and as a kernel's condition."""

    def __init__(self, text: str, notes: list[str]) -> None:
        self.code, self.notes, self.kept = compile(text, "rule", "eval"), notes, []
        self.names = {
            **{m.__name__: m for m in (copy, functools, math, operator, pickle, sys)},
            **{f.__name__: f for f in (Decimal, Fraction, spec_text)},
            **{f.__name__: f for f in (graphffi.check, graphffi.empty, graphffi.like)},
            **{"np": np, "dtype": graphffi.dtype, "TABLE": {"6": 10, "1": 20, "0": 30}},
            **{"kept": self._keep, "cached": functools.cache(lambda n: n * 2 + 1)},
            **{"guarded": self._guarded, "fail": self._fail, "matched": self._matched},
            "key": lambda *values: Key.of("op: factory", values).text,
        }
        self.name = f"frozen_sizes::op{next(_count)}"
        self.op = graphffi.define_op(
            self.name, schema=SCHEMA, kernel=lambda *_: None, infer=self.results
        )
        self.choice = graphffi.define_op(
            f"{self.name}_choice", schema=SCHEMA, kernel=None, infer=lambda x, *_: graphffi.like(x)
        )
        self.choice.add_kernel(lambda *_: None, name="special", when=self.value)
        self.choice.add_kernel(lambda *_: None, name="other")

    def _keep(self, value: Any) -> Any:
        self.kept.append(value)
        return self.kept[0]

    def _guarded(self, function: Any) -> Any:
        try:
            return function()
        except Exception:
            return 77

    def _matched(self, value: Any) -> Any:
        match value:
            case 6 | 3:
                return 10
            case int():
                return 20
        return 30

    def _fail(self, text: str) -> Any:
        raise ValueError(text)

    def value(self, x: Any, y: Any, *attributes: Any) -> Any:
        names = dict(zip(re.findall(r"(\w+)[,)]", SCHEMA)[2:], attributes, strict=True))
        names |= {"x": x, "y": y, "a": x.shape[0], "b": x.shape[1], "c": y.shape[0]}
        value = eval(self.code, self.names | names)
        self.notes.append(described(value))
        return value

    def results(self, *arguments: Any) -> Any:
        value = self.value(*arguments)
        if isinstance(value, graphffi.TensorSpec):
            return value
        items = value if isinstance(value, (tuple, list)) else (value,)
        return graphffi.empty([v for v in items if isinstance(v, (int, torch.SymInt))], "float32")


def described(value: Any) -> str:
    """The value, or that it is a symbol of a kind."""
    if type(value) in (list, tuple):
        return f"[{', '.join(map(described, value))}]"
    if type(value) in (int, bool, float, str, type(None)):
        return repr(value)
    return f"<{value.__class__.__name__}>"


def outcome(rule: Rule, run: Any, *, forget: bool = True) -> str:
    """The text of what a run gives or raises, and of what the rule computed in it."""
    rule.notes.clear()
    if forget:
        rule.kept.clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run()
    except (KeyboardInterrupt, SystemExit):
        raise
    # The corpus is of all that rules raise.
    except BaseException as error:
        text = str(error).split("\n")[0].partition("; give the sizes")[0]
        found = f"{type(error).__name__}: {text}"
    notes = [f"{len(rule.notes)}x {rule.notes[-1]}"] if rule.notes else []
    text = " | ".join([found.strip().replace("\n", "; "), *notes])
    text = re.sub(r"\b(SymbolicInt|SymbolicBool|ConditionSize|Quotient|Size)\b", "Size", text)
    return re.sub(
        r"0x[0-9a-f]{6,}", "0x", re.sub(r"\.py:\d+", ".py", text.replace(rule.name, "op"))
    )[:900]


def tensors(sizes: Any, make: Any) -> list[Any]:
    return [make(shape) for shape in sizes]


def spec(shape: Any) -> graphffi.TensorSpec:
    return graphffi.TensorSpec(shape, graphffi.dtype("float32"), graphffi.Device("cpu"))


def shape_text(value: Any) -> str:
    return f"({', '.join(map(str, value.shape))})"


def recorded(rule: Rule) -> dict[str, str]:
    """The eager path: programs, and what C++ makes of them."""
    plain = [5, *ATTRIBUTES[:3], (2, 16, 1), (1, 0), *ATTRIBUTES[5:]]
    for definition in (rule.op.definition, rule.choice.definition):
        ask = trace_shape_rule(definition)
        name = "program" if definition.name == rule.name else "choice"
        for i, sizes in enumerate(SIZES[:2]):
            inputs = tensors(sizes, lambda shape: (shape, (2, 32, 1), (1, 0)))
            run = functools.partial(ask, inputs, [], plain, True)
            yield f"{name} {i}", outcome(rule, run, forget=i == 0)
    for i, sizes in enumerate(SIZES):
        arrays = tensors(sizes, lambda shape: np.zeros(shape, "float32"))
        run = functools.partial(rule.op, *arrays, 5, *ATTRIBUTES)
        yield f"numpy {i}", outcome(rule, lambda run=run: shape_text(run()), forget=i == 0)


def guarded(rule: Rule) -> Any:
    """Symbols of which decisions are taken at hand."""
    asked: list[str] = []

    def decide(comparison: Any, a: Any, b: Any) -> bool:
        asked.append(f"{a} {SIGNS[comparison.__name__]} {b}")
        return bool(comparison(_values(a)[0], _values(b)[0]))

    def fix(value: Any) -> Any:
        asked.append(f"={value}")
        return _values(value)[0]

    a, b, c, n, m = symbols(IntSymbol)
    values = rule_values(n, m)
    policy = Symbols(decide, fix)
    seen = policy.seen([spec((a, b)), spec((c,))]), policy.seen(values)
    kernel = outcome(rule, lambda: rule.choice.definition.select(*seen, "cpu").name)
    yield "guard choice", f"{kernel} | {', '.join(asked)}"
    asked.clear()
    found = outcome(rule, lambda: undecided_text(rule.op.definition.infer(*seen)))
    yield "guard rule", f"{found} | {', '.join(asked)}"


def proved(rule: Rule) -> Any:
    """Symbols of which decisions must hold for all values."""

    def decide(comparison: Any, a: Any, b: Any) -> bool:
        held = {comparison(p, q) for p, q in zip(_values(a), _values(b), strict=True)}
        if len(held) > 1:
            raise UndecidedError(f"{a} {SIGNS[comparison.__name__]} {b}")
        return bool(*held)

    def fix(value: Any) -> Any:
        if len(set(_values(value))) > 1:
            raise UndecidedError(f"={value}")
        return _values(value)[0]

    def run(policy: Symbols) -> str:
        seen = policy.seen([spec((a, b)), spec((c,))])
        found = policy.run(lambda: rule.op.definition.infer(seen, rule_values(5, 6)))
        return undecided_text(found) + f" | {sorted(text for text, _ in policy.texts or ())}"

    a, b, c, *_ = symbols(Dimension)
    yield "prove rule", outcome(rule, lambda: run(Symbols(decide, fix)))
    operands = Symbols(decide, fix).seen([spec((a, b)), spec((c,))])
    yield (
        "prove choice",
        outcome(
            rule, lambda: rule.choice.definition.select(operands, rule_values(5, 6), "cpu").name
        ),
    )


def symbols(kind: Any) -> list[Any]:
    values = [(6, 7, 8), (3, 5, 4), (4, 9, 5), (5, 5, 6), (6, 6, 7)]
    return [kind(name, v) for name, v in zip("abcnm", values, strict=True)]


def rule_values(n: Any, m: Any) -> list[Any]:
    values: list[Any] = [n, *ATTRIBUTES]
    values[4:7] = [graphffi.dtype("float16"), graphffi.Device("cpu"), [5, m]]
    return values


def undecided_text(specs: Any) -> str:
    return ", ".join(map(shape_text, undecided(list(specs))))


def torch_paths(rule: Rule) -> Any:
    """Torch's symbols: the fake of a traced call, and the choice for compiled code and exports."""
    attributes = [torch.float16 if value == "float16" else value for value in ATTRIBUTES]

    def traced(run: Any) -> str:
        guards: list[str] = []

        def function(x: Any, y: Any) -> Any:
            found = run(x, y, x.shape[0] - 1, *attributes)
            guards[:] = [str(guard.expr) for guard in x.shape[0].node.shape_env.guards]
            return found

        text: list[str] = []
        make_fx(
            lambda *args: text.append(str(function(*args))) or args[0], tracing_mode="symbolic"
        )(*tensors(SIZES[0], torch.zeros))
        return f"{text[0]} | {', '.join(guards)}"

    def choose(*arguments: Any, is_guarded: bool) -> str:
        definition = rule.choice.definition
        values = rule_arguments(definition, *definition.split(arguments))
        return chosen_kernel(definition, *values, "cpu", is_guarded=is_guarded).name

    def granted(*arguments: Any) -> bool:
        definition = rule.op.definition
        return takes_sizes_for_granted(
            definition, *rule_arguments(definition, *definition.split(arguments))
        )

    yield "torch rule", outcome(rule, lambda: traced(lambda *args: shape_text(rule.op(*args))))
    for name, is_guarded in (("guard", True), ("prove", False)):
        choice = functools.partial(choose, is_guarded=is_guarded)
        yield f"torch {name}", outcome(rule, lambda choice=choice: traced(choice))
    yield "torch granted", outcome(rule, lambda: traced(granted))


def jax_paths(rule: Rule) -> Any:
    """JAX's symbols: rules and choices of exported programs."""
    a, b, c = jax.export.symbolic_shape("a, b, c", constraints=["a >= 4", "a >= b"])
    seen, values = [spec((a, b)), spec((c,))], rule_values(5, 6)
    infer = rule.op.definition.infer
    yield (
        "jax rule",
        outcome(
            rule,
            lambda: undecided_text(run_rule("op: shape rule", lambda o: infer(o, values), seen)),
        ),
    )
    kernels = functools.partial(kernels_by_device, rule.choice.definition, seen, values)
    yield (
        "jax choice",
        outcome(
            rule,
            lambda: ", ".join(getattr(k, "name", k) for k in kernels().values()),
        ),
    )


def compiled_paths(rule: Rule) -> Any:
    """Programs of frameworks: compiled or exported for one call, run for two more."""
    count = 0

    def function(x: Any, y: Any) -> Any:
        nonlocal count
        count += 1
        return rule.op(x, y, 5, *attributes)

    def shapes(call: Any, make: Any) -> str:
        texts = [outcome(rule, lambda s=s: shape_text(call(*tensors(s, make)))) for s in SIZES]
        return f"{texts} {count}x"

    attributes = [torch.float16 if value == "float16" else value for value in ATTRIBUTES]
    torch.compiler.reset()
    compiled = torch.compile(function, backend="eager", dynamic=True, fullgraph=True)
    yield "compile", shapes(compiled, torch.ones)
    count, given = 0, tuple(tensors(SIZES[0], torch.ones))
    dynamic = [{i: torch.export.Dim.DYNAMIC for i in range(t.ndim)} for t in given]
    module = torch.nn.Module()
    module.forward = function  # type: ignore[method-assign]
    program: Any = None

    def export() -> str:
        nonlocal program
        program = torch.export.export(
            module, given, dynamic_shapes={"x": dynamic[0], "y": dynamic[1]}
        ).module()
        return "exported"

    made = outcome(rule, export)
    yield "export", f"{made} {shapes(program, torch.ones) if program else ''}"
    attributes, count = ATTRIBUTES, 0
    yield "jit", shapes(jax.jit(function), np.ones)
    checks, count = graphffi_jax.export_checks(), 0
    sizes = jax.export.symbolic_shape("a, b, c", constraints=["a >= 4", "a >= b"])
    made_of = [jax.ShapeDtypeStruct(s, "float32") for s in (sizes[:2], sizes[2:])]

    def export_jax() -> str:
        nonlocal program
        program = jax.export.export(jax.jit(function), disabled_checks=checks)(*made_of).call
        return "exported"

    program = None
    made = outcome(rule, export_jax)
    yield "jax export", f"{made} {shapes(program, np.ones) if program else ''}"


CORE: Any = (recorded, guarded, proved, jax_paths)
# Torch takes a quarter of a second for a rule: an eighth of them, and few that are compiled.
SLOW: Any = (torch_paths, compiled_paths)
COMPILED = ("a", "a > b", "a // 2", "a / 2 > 1.5", "TABLE[f'{a}']", "key(a)", "int(a * 1.5)", "-a")


def outcomes(text: str, groups: Any) -> dict[str, str]:
    """The outcomes of a rule by path."""
    rule, found = Rule(text, []), {}
    for paths in groups:
        if (
            paths in CORE
            or text in COMPILED
            or (paths is torch_paths and zlib.crc32(text.encode()) % 8 == 0)
        ):
            found |= dict(paths(rule))
    return found


def frozen() -> dict[str, Any]:
    return dict(json.loads(DATA.read_text()))


@pytest.mark.parametrize("groups", [CORE, pytest.param(SLOW, marks=pytest.mark.slow)])
def test_rules_do_with_sizes_what_they_did(groups: Any) -> None:
    data = frozen()
    if data.pop("versions") != VERSIONS:
        pytest.skip(f"was written with other versions than {VERSIONS}")
    changed = []
    for text, expected in data.items():
        found = outcomes(text, groups).items()
        changed += [(text, p, expected.get(p), t) for p, t in found if not agree(p, t, expected)]
    assert [row for row in changed if row[0] not in OTHERWISE or row[1] not in TORCH] == []


def agree(path: str, found: str, expected: dict[str, str]) -> bool:
    """True if a path does what it did, or, in torch, what eager code does."""
    if path not in expected or path not in TORCH:
        return path in expected and found == expected[path]
    eager = [expected[f"numpy {i}"].partition(" | ")[0] for i in range(3)]
    results = re.findall(r"'(\([^']*?\))[ ']", found)
    if path == "export":  # what was given first; guards refuse others
        eager, results = eager[:1], results[:1]
    is_as_eager = found.partition(" | ")[0] == eager[0] or results == eager
    former = re.sub("<Sym(Int|Float)>", lambda m: f"<{m[1].lower()}>", expected[path])
    return found == former or is_as_eager


TORCH = ("torch rule", "torch guard", "torch prove", "torch granted", "compile", "export")
# Torch has symbols for these ints now, or other errors; no type but int is int.
OTHERWISE = (
    "[a ^ b, a ^ 2, 7 ^ b, a ^ True, n ^ a, 1 ^ n]",
    *(
        "TABLE[f'{a}']",
        "a @ b",
        "a > np.float32(2.5)",
        "int(a * 1.5)",
        "math.trunc(a)",
        "round(a)",
        "type(n) is int",
    ),
)
COMPILED_ALIKE = (
    *("{6: 1}.get(a, 2)", "a.real", "a ^ b", "1 if hash(a) == 6 else 2", "a in (6, 2)"),
    *("a in {6, 2}", "matched(a)", "divmod(a, 4)", "pow(a, 2)", "pow(a, 2, 7)", "2 ** b", "a << b"),
    *("[math.ceil(a / 4), math.floor(a / 4), math.trunc(a / 4), round(a / 4)]", "int(a / 4)"),
    *("[math.ceil(a / b), math.floor(a * 1.5), round(a * 1.5)]", "round(a, -1)", "len(f'{a}x')"),
    *("int(f'{a:03d}') + c", "TABLE.get(str(a), 2)", "check(a < 9, f'got {a} of {c}') or a"),
    *("guarded(lambda: TABLE[f'{a}'])", "(a > 3) + (b > 1)", "isinstance(a, int) + 1", "~a & 15"),
)


@pytest.mark.slow
@pytest.mark.parametrize("text", COMPILED_ALIKE)
def test_rules_do_the_same_in_graphs_of_any_size(text: str) -> None:
    rule, sizes = Rule(text, []), [((6, 3), (4,)), ((8, 3), (4,)), ((5, 2), (7,)), ((1, 3), (9,))]
    arrays = [tensors(shapes, lambda shape: np.zeros(shape, "float32")) for shapes in sizes]
    attributes = [torch.float16 if value == "float16" else value for value in ATTRIBUTES]
    expected = [tuple(rule.op(*pair, 5, *ATTRIBUTES).shape) for pair in arrays]
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x, y: rule.op(x, y, 5, *attributes), backend="eager", dynamic=True, fullgraph=True
    )
    found = [tuple(compiled(*map(torch.from_numpy, pair)).shape) for pair in arrays]
    assert found == expected


if __name__ == "__main__":
    rows: dict[str, Any] = {"versions": VERSIONS}
    texts = sorted(frozen().keys() - {"versions"} | {*COMPILED, *sys.argv[1:]})
    rows |= {text: outcomes(text, (*CORE, *SLOW)) for text in texts}
    lines = (f"{json.dumps(text)}: {json.dumps(row)}" for text, row in rows.items())
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
