# SPDX-License-Identifier: Apache-2.0
"""Programs of calls in models that nobody asks the rules for again: they say their errors, too."""

from __future__ import annotations

import builtins
import functools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from .._values.error import FactoryError
from .._values.nested import flat
from .shape_program import trace_rules
from .trace import NeedsValuesError, Trace, hint_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._definition.definition import Definition
    from .._kernels.op_kernel import OpKernel
    from .shape_program import TracedRules
    from .spec import TensorSpec

_SIGNS: Final = {
    **{"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"},
    **{"and": "&", "or": "|", "xor": "^"},
    **{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="},
}
_OPPOSITES: Final = {
    **{"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"},
}


@dataclass(frozen=True)
class TracedCall:
    """The way that an op's rules took for one call.

    Args:
        kernel: That such calls run.
        text: The program, as `csrc/shapes/shape_program.h` has it, with a line behind each
            condition: the error of calls for which it does not hold.
        fixed: The numbers of attributes, items of lists counted, that other calls have to have,
            too.
        results: With the sizes of the traced call.
    """

    kernel: OpKernel
    text: str
    fixed: frozenset[int]
    results: tuple[TensorSpec, ...]


def trace_call(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> TracedCall:
    """Traces the op's rules for a call.

    Args:
        definition: Of the op.
        operands: One `TensorSpec` with a device, None or list of specs per operand.
        attributes: One converted value per attribute.

    Raises:
        NotImplementedError: If no kernel fits, or the one that does is the reference.
        ValueError, TypeError: As the rules do.
    """
    names = _names_of_values(definition, operands, attributes)
    rules = trace_rules(definition, operands, attributes, _CheckedTrace)
    if rules.found.kernel.is_reference:
        raise NotImplementedError(
            f"{definition.name}: kernels: expected one that fits the call, got the reference, "
            "which runs in Python; add one with add_kernel"
        )
    errors = {
        line: _error(definition.name, rules, line, names) for line in rules.trace.conditions()
    }
    lines = [text for line in rules.trace.lines for text in (line, *errors.get(line, ()))]
    program = [line for line in rules.lines if line not in rules.found.kernel_lines]
    text = "\n".join((*lines, *program, ""))
    results = tuple(
        replace(spec, shape=tuple(map(hint_of, spec.shape))) for spec in rules.found.specs
    )
    return TracedCall(rules.found.kernel, text, frozenset(rules.fixed), results)


def _names_of_values(
    definition: Definition, operands: Sequence[Any], attributes: Sequence[Any]
) -> list[str]:
    """The names of the values that a program gets of a call, for readers."""
    read: list[str] = []
    updated: list[str] = []
    for operand, value in zip(definition.operands, operands, strict=True):
        is_list = isinstance(value, (list, tuple))
        for i, spec in enumerate(flat([value])):
            name = f"{operand.name}[{i}]" if is_list else operand.name
            sizes = (f"{name}.shape[{k}]" for k in range(len(spec.shape)))
            (updated if operand.mutated else read).extend(sizes)
    ints: list[str] = []
    for attribute, value in zip(definition.attributes, attributes, strict=True):
        if isinstance(value, (list, tuple)):
            pairs = [(f"{attribute.name}[{i}]", item) for i, item in enumerate(value)]
        else:
            pairs = [(attribute.name, value)]
        ints += (name for name, item in pairs if type(item) is int)
    return [*read, *updated, *ints]


class _OtherWayError(BaseException):
    """The rules decide something that they did not decide before. Rules must not catch it."""


class _CheckedTrace(Trace):
    """A trace whose rules can run once more, for a call of which one condition does not hold."""

    def __init__(self, known: frozenset[int]) -> None:
        super().__init__(known)
        self.broken: int | None = None  # the value of the condition
        self.is_met = False

    def conditions(self) -> list[str]:
        """Their lines."""
        return [line for line in self.lines if line.startswith(("true ", "false "))]

    def truth(self, size: Any) -> bool:
        """As the traced call has it, but for the condition that is broken."""
        if self.broken is None:
            return super().truth(size)
        holds = bool(self.hints[size.value])
        if size.value == self.broken:
            self.is_met = True
            return not holds
        self._assume(size.value)
        return holds

    def text(self, size: Any, spec: str) -> str:
        """The size in a text; where an error is looked for, the place of its value."""
        return super().text(size, spec) if self.broken is None else f"{{{size.value}}}"

    def _assume(self, index: int) -> None:
        if self.broken is not None and self._condition(index) not in self.lines:
            raise _OtherWayError
        super()._assume(index)

    def loads_of(self, value: int) -> list[int]:
        """The values of the call on which one depends."""
        return sorted(self._loads[value])

    def instruction(self, value: int) -> tuple[str, int, int]:
        """The name and the operands of the instruction that gives a value."""
        return next(key for key, found in self._numbers.items() if found == value)

    def state(self) -> tuple[int, int]:
        """The ends of what `rewind` cuts."""
        return len(self.lines), len(self.hints)

    def rewind(self, state: tuple[int, int]) -> None:
        """Forgets the instructions behind a state."""
        del self.lines[state[0] :], self.hints[state[1] :], self._loads[state[1] :]
        self._numbers = {key: i for key, i in self._numbers.items() if i < state[1]}


def _error(
    name: str, rules: TracedRules[_CheckedTrace], line: str, names: Sequence[str]
) -> tuple[str]:
    """The line that says the error of calls for which a condition does not hold.

    The rules say it, if they raise one right where they decide; otherwise it is one of the way.
    """
    trace, word, value = rules.trace, *line.split()
    before = trace.state()
    trace.broken, trace.is_met = int(value), False
    try:
        trace.run(rules.again)
    except FactoryError:
        found = None
    except Exception as error:
        found = _said(error) if trace.is_met else None
    except (_OtherWayError, NeedsValuesError):
        found = None
    else:
        found = None
    finally:
        trace.broken = None
    is_division = any(each.startswith(("floordiv", "mod")) for each in trace.lines[before[0] :])
    if found is None or is_division:  # which would fail in calls that are right
        trace.rewind(before)
        found = f"ValueError {_of_other_way(name, trace, word == 'true', int(value), names)}"
    return (f"error {found}",)


def _said(error: Exception) -> str | None:
    kind = type(error)
    is_known = getattr(builtins, kind.__name__, None) is kind
    return f"{kind.__name__} {' '.join(str(error).split())}" if is_known else None


def _of_other_way(
    name: str, trace: _CheckedTrace, is_true: bool, value: int, names: Sequence[str]
) -> str:
    written = functools.partial(_written, trace, names)
    condition = written(value)
    if not is_true:
        found = re.fullmatch(r"(\S+) (==|!=|<=|>=|<|>) (\S+)", condition)
        condition = (
            f"{found[1]} {_OPPOSITES[found[2]]} {found[3]}" if found else f"not ({condition})"
        )
    loads = trace.loads_of(value)
    got = ", ".join(f"{written(load)} = {{{load}}}" for load in loads)
    return (
        f"{name}: expected {condition}, as in the call by which the model was exported, got {got}; "
        "export again with such sizes"
    )


def _written(trace: _CheckedTrace, names: Sequence[str], value: int) -> str:
    """A value as an expression of Python."""
    if value < len(names):
        return names[value]
    op, a, b = trace.instruction(value)
    if op == "const":
        return str(a)
    sides = (_written(trace, names, side) for side in (a, b))
    return f" {_SIGNS[op]} ".join(f"({side})" if " " in side else side for side in sides)
