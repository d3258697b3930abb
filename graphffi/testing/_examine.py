# SPDX-License-Identifier: Apache-2.0
"""One check of an op, in the process where its kernels run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import _core
from .._frameworks.plugins import PLUGINS
from . import _steps
from ._case import Case
from ._generate import Generator, given_cases
from ._gradients.differences import check_gradient, check_tangent, differentiable
from ._guarded import Outcome, guarded_call, kind_of, try_call
from ._leaks import errors, leaks

if TYPE_CHECKING:
    from .._definition.op import Op
    from ._processes.fresh import FreshProcess

Problem = tuple[str, str]  # a finding's kind and text
_COMPILERS_PATIENCE: Final = 300.0  # seconds for a step that compiles, at least
# What follows from reads outside of operands, and from elements that are not written.
_OF_STRAY_READS: Final = ("paths differ", "not deterministic", "layout", "state")
_IMPORT_SECONDS: Final = 6.0  # in which frameworks are imported
_MOST_ERRORS: Final = 4  # calls that raise, which are repeated
# Steps that compare calls with each other.
_OF_ALL_CASES: Final = ("order", "fresh", "attributes", "errors")


@dataclass(frozen=True)
class Options:
    """The options of a check.

    Args:
        cases: Of the user, or None for generated ones.
        seed: Of the contents.
        end: When no step begins any more, by `time.monotonic`, which all processes share.
        patience: Seconds after which a step that calls kernels hangs.
        frameworks: Beside NumPy; those that are not installed are left out.
        device: Of the operands.
        skip: Keys of steps that ended a process before.
    """

    cases: Sequence[dict[str, Any]] | None = None
    seed: int = 0
    end: float = math.inf
    patience: float = 20.0
    frameworks: Sequence[str] = tuple(PLUGINS)
    device: str = "cpu"
    skip: frozenset[str] = frozenset()


def load_plugins(frameworks: Sequence[str]) -> list[Any]:
    """The modules for checks of those frameworks' plugins that are installed."""
    return [
        importlib.import_module(f"{PLUGINS[framework]}._testing")
        for framework in frameworks
        if not absent_modules(framework)
    ]


def absent_modules(framework: str) -> list[str]:
    """A framework or its plugin, if it is not installed."""
    return [name for name in (framework, PLUGINS[framework]) if not importlib.util.find_spec(name)]


class Examination:
    """Runs the steps.

    Args:
        op: The op.
        options: How.
        say: Gets events: ``begin`` (a step is about to run a case), ``finding``, ``note``,
            ``done``.
        fresh: A process in which no kernel ran, or None.
    """

    def __init__(
        self,
        op: Op,
        options: Options,
        say: Callable[..., None],
        fresh: FreshProcess | None = None,
    ) -> None:
        self._op = op
        self._options = options
        self._say = say
        self._end = options.end
        self._reads_strays = False
        self._longest = 0.0  # seconds that a step of a framework took
        self._outcomes: dict[Case, Outcome] = {}
        self._rejected: list[tuple[Case, str]] = []
        self._refused = ""  # by the shape rule
        self._wrong: set[Case] = set()  # cases with findings: other paths would show the same
        self._fresh = fresh
        self._own = (
            "numpy" if options.device == "cpu" else options.device
        )  # path, beside frameworks

    def run(self) -> None:
        """Runs all steps, as long as the budget lasts."""
        if self._options.device != "cpu":
            self._say("note", text=f"leaks, gradients, tangents: not checked on {self._own}")
        if self._op.definition.dtypes is None:
            text = "data types: neither dtypes= nor the kernel's parameters say which it takes"
            self._say("note", text=text)
        cases = self.cases()
        if not cases:
            texts = list(dict.fromkeys(text for _, text in self._rejected)) or [self._refused]
            if not any(texts) and time.monotonic() > self._end:
                texts = ["the budget was spent; pass a larger one"]
            text = f"expected an input that the op takes, got none: {'; '.join(texts[:3])}"
            if self._rejected or not self._wrong:
                self._say("finding", kind="no input", path=self._own, text=text, step="", case=None)
        self.run_steps(cases)
        self._say("done", num_cases=len({*cases, *self._wrong}))

    def run_debug(self) -> None:
        """Runs the first step only, in a process where debug mode looks at each call."""
        self.cases()
        self._has_time(0.0, "debug mode")
        self._say("done")

    def run_steps(self, cases: list[Case], only: str = "") -> None:
        """Runs the steps after the first one, or the one of that name, on cases that it took.

        The smallest case comes first.
        """
        for name, step in self._steps(cases):
            if only and name != only:
                continue
            if not self._has_time(0.0, f"{name} and what follows"):
                break
            step()

    def cases(self) -> list[Case]:
        """The cases that the op takes, the smallest first."""
        definition, options = self._op.definition, self._options
        if options.cases is None:
            generator = Generator(definition, self.takes, options.seed, options.device)
            found = generator.cases()
            self._refused = generator.refused
            return found
        given = given_cases(definition, options.cases, options.seed, options.device)
        return sorted((c for c in given if self.takes(c)), key=lambda case: case.size)

    def takes(self, case: Case) -> bool:
        """True if the op takes a case: the first step, whose outcomes the others compare with."""
        step = "debug" if _core.is_debugging else "numpy"
        path = "debug" if _core.is_debugging else self._own
        if time.monotonic() > self._end or not self._begin(step, case):
            return False
        try:
            outcome = guarded_call(self._op, case)
        except Exception as error:
            self._rejected.append((case, f"{type(error).__name__}: {error}"))
            if (kind := kind_of(error)) is not None:
                self._found(step, path, case, [(kind, str(error))])
            return False
        self._found(step, path, case, outcome.problems)
        if outcome.problems:  # memory may be in any state after it
            return False
        self._outcomes[case] = outcome
        return True

    def _steps(self, cases: list[Case]) -> Iterator[tuple[str, Callable[[], None]]]:
        definition = self._op.definition
        if not definition.recompute:
            self._say("note", text="recompute=False: calls have other results, none are compared")
            return
        pure = not definition.has_side_effect
        by_case = [_steps.op_call, _steps.layout]
        if definition.reference is not None:
            by_case.append(_steps.reference)
        if pure:
            by_case = [_steps.repeat, *by_case, _steps.split]
        for step in by_case:
            for case in cases:
                yield step.__name__, partial(self._run, step, case)
        if pure and cases:
            yield "order", partial(self._run_all, _steps.order, cases)
            if self._fresh is not None:
                yield "fresh", partial(self._run_all, _steps.fresh, cases, self._fresh)
            else:
                text = "not checked, because threads run where the module is imported"
                self._say("note", text=f"fresh: {text}")
            yield "threads", partial(self._run, _steps.threads, _widest(cases))
            yield "attributes", partial(self._attributes, cases)
            yield "leaks", partial(self._run, leaks, _smallest(cases))
            for case, _ in self._rejected[:_MOST_ERRORS]:
                yield "errors", partial(self._run, errors, case, _smallest(cases))
        frameworks = self._options.frameworks
        if cases and frameworks and self._has_time(_IMPORT_SECONDS, ", ".join(frameworks)):
            yield from self._framework_steps(cases)

    def _framework_steps(self, cases: list[Case]) -> Iterator[tuple[str, Callable[[], None]]]:
        """The steps of frameworks that are installed, the slow ones last."""
        self._say("import", patience=self._patience(compiles=True))
        plugins = load_plugins(self._options.frameworks)
        paths = [path for plugin in plugins for path in plugin.paths(self._op)]
        for path in paths:
            if not path.is_slow:
                yield path.name, partial(self._path, path, cases)
        if self._options.device == "cpu":
            for plugin in plugins:
                (eager,) = (path for path in paths if path.name == plugin.NAME)
                taken = [case for case in cases if eager.takes(self._op, case)]
                yield from self._rule_steps(plugin, taken)
        slow = [path for path in paths if path.is_slow]
        if slow and (self._wrong or self._options.skip):
            names = ", ".join(path.name for path in slow)
            self._say("note", text=f"{names}: not run, because of the findings")
            return
        for path in slow:
            yield path.name, partial(self._path, path, cases)

    def _rule_steps(
        self, plugin: Any, cases: list[Case]
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        definition = self._op.definition
        if definition.vjp is not None:
            path, rule = f"{plugin.NAME}.grad", partial(check_gradient, gradients=plugin.gradients)
            yield path, partial(self._rule, path, rule, cases)
        if definition.jvp is not None:
            path, rule = f"{plugin.NAME}.jvp", partial(check_tangent, tangents=plugin.tangents)
            yield path, partial(self._rule, path, rule, cases)

    def _run(self, step: Callable[..., Any], case: Case, *rest: Any) -> None:
        name = step.__name__
        if case not in self._wrong and self._begin(name, case):
            try:
                problems = list(step(self._op, case, self._outcomes, *rest))
            except Exception as error:
                problems = [("error", f"{type(error).__name__}: {error}")]
            self._found(name, self._own, case, problems)

    def _run_all(self, step: Callable[..., Any], cases: list[Case], *rest: Any) -> None:
        """Runs a step that compares calls with each other, and says which case is wrong."""
        name, right = step.__name__, [case for case in cases if case not in self._wrong]
        if not right or not self._begin(name, right[0]):
            return
        try:
            problems = list(step(self._op, right, self._outcomes, *rest))
        except Exception as error:
            problems = [("error", f"{type(error).__name__}: {error}", right[0])]
        for kind, text, case in problems:
            self._found(name, self._own, case, [(kind, text)])

    def _attributes(self, cases: list[Case]) -> None:
        for name, case in _steps.ignored_attributes(
            self._op, cases, self._outcomes, self._rejected
        ):
            text = f"attribute {name!r}: expected it to change a result, got equal results"
            self._found("attributes", self._own, case, [("attribute ignored", text)])

    def _path(self, path: Any, cases: list[Case]) -> None:
        """Compares a framework's path with the kernel's own results."""
        for group in path.groups(self._op, [c for c in cases if c not in self._wrong]):
            if not self._has_time(self._longest if path.is_slow else 0.0, path.name):
                return
            begin = time.monotonic()
            if not self._begin(path.name, group[0], compiles=True):
                continue
            taken = [case if self._has_outcome(case) else group[0] for case in group]
            try:
                results = path.run(self._op, taken)
            except Exception as error:
                text = f"expected what NumPy gives, got {type(error).__name__}: {_short(error)}"
                self._found(path.name, path.name, group[0], [("error", text)])
                continue
            for case, result in zip(taken, results, strict=True):
                problems = list(_steps.compare(case, self._outcomes, result))
                self._found(path.name, path.name, case, problems)
            self._longest = max(self._longest, time.monotonic() - begin)

    def _has_time(self, seconds: float, what: str) -> bool:
        """True if so much of the budget is left; notes what is not run otherwise."""
        if time.monotonic() + seconds <= self._end:
            return True
        self._say("note", text=f"{what}: the budget was spent")
        return False

    def _has_outcome(self, case: Case) -> bool:
        """Also one of a batch has, unless the op refuses its elements."""
        if case not in self._outcomes and (outcome := try_call(self._op, case)) is not None:
            self._outcomes[case] = outcome
        return case in self._outcomes

    def _rule(self, path: str, rule: Callable[..., Any], cases: list[Case]) -> None:
        chosen = differentiable(cases, self._outcomes)
        if not chosen:
            text = "no input has operands and finite results of floats of 16 bits or more"
            self._say("note", text=f"{path}: not checked: {text}")
        for case in chosen:
            if not self._has_time(0.0, path):
                return
            if case in self._wrong or not self._begin(path, case, compiles=True):
                continue
            try:
                problems = rule(self._op, case, self._outcomes[case])
            except Exception as error:
                kind = "tangent" if path.endswith("jvp") else "gradient"
                problems = [(kind, f"{type(error).__name__}: {_short(error)}")]
            self._found(path, path, case, problems)

    def _patience(self, *, compiles: bool) -> float:
        return max(self._options.patience, _COMPILERS_PATIENCE if compiles else 0.0)

    def _begin(self, step: str, case: Case, *, compiles: bool = False) -> bool:
        """Says what is about to run, and after how many seconds it hangs."""
        key = json.dumps([step, case.to_json()])
        if key in self._options.skip:
            return False
        arguments = case.describe(self._op.definition)
        patience = self._patience(compiles=compiles)
        self._say("begin", key=key, arguments=arguments, patience=patience)
        return True

    def _found(self, step: str, path: str, case: Case, problems: Sequence[Problem]) -> None:
        for kind, text in problems:
            self._wrong.add(case)
            self._reads_strays |= step == "repeat" and kind in ("out of bounds", "unwritten")
            if self._reads_strays and kind in _OF_STRAY_READS:
                continue
            arguments = case.describe(self._op.definition)
            shown = {"arguments": arguments, "size": case.size, "case": case.to_json()}
            self._say("finding", kind=kind, path=path, text=text, step=step, **shown)


def rerun(
    op: Op, step: str, case: Case, say: Callable[..., None], fresh: FreshProcess | None = None
) -> None:
    """Runs one step again on one case, or on all that it needs."""
    examination = Examination(op, Options(seed=case.seed, device=case.device), say, fresh)
    cases = examination.cases() if step in _OF_ALL_CASES else []
    if case not in cases and examination.takes(case):
        cases.append(case)
    if cases and step not in ("numpy", "debug"):
        examination.run_steps(cases, step)


def _widest(cases: list[Case]) -> Case:
    """The largest row-major case."""
    plain = [c for c in cases if all(v.strides is None for v in c.views())]
    return max(plain or cases, key=lambda case: case.size)


def _smallest(cases: list[Case]) -> Case:
    """The first that has elements."""
    return next((case for case in cases if case.size), cases[0])


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
