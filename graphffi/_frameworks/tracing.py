# SPDX-License-Identifier: Apache-2.0
"""Facts for tracers of Python code, such as torch.compile's, and their facts for graphffi's code.

Plugins tell the latter: the symbols that stand for values in traces, and how a trace is ended.
"""

from __future__ import annotations

import builtins
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from .plugins import load_plugin_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_F = TypeVar("_F", bound="Callable[..., Any]")
SymbolKind = Literal["int", "float", "bool", "proxy"]


@dataclass(frozen=True)
class Tracer:
    """A plugin's description of its framework's tracers.

    Args:
        end_trace: Raises what ends the trace that is under way with an error; returns where there
            is none.
        symbols: Types of values that are computed when a graph runs, and what they stand for; a
            proxy stands for anything.
        has_value: Whether a float or bool of these types has a value while the graph is traced: not
            if a tensor's element is it.
    """

    end_trace: Callable[[Exception], None]
    symbols: Mapping[type, SymbolKind]
    has_value: Callable[[Any], bool]


_tracers: Final[list[Tracer]] = []
_constants: Final[list[Callable[..., Any]]] = []


def register_tracer(tracer: Tracer) -> None:
    """Adds what a plugin says of its framework's tracers."""
    _tracers.append(tracer)
    _kind_of.cache_clear()


def traced_as_constant(function: _F) -> _F:
    """Makes tracers call a function, with constants, where they would follow its code."""
    _constants.append(function)
    return function


def traced_constants() -> Sequence[Callable[..., Any]]:
    """The functions that plugins have to have called in this way."""
    return _constants


def symbol_kind(value: Any) -> SymbolKind | None:
    """The kind of a value that is computed when a graph runs; None for any other value.

    In code that a tracer follows, it has to be replaced by a function that gives None: there, a
    symbol is of the type that it stands for.
    """
    kind: Any = type(value)
    return _kind_of(kind)


@functools.lru_cache(maxsize=256)
def _kind_of(kind: Any) -> SymbolKind | None:
    load_plugin_of(kind)
    kinds = (t.symbols[base] for t in _tracers for base in kind.__mro__ if base in t.symbols)
    return next(kinds, None)


def is_proxy(value: Any) -> bool:
    """True if `value` is anything at all in a trace by `torch.fx.symbolic_trace`."""
    return symbol_kind(value) == "proxy"


def is_int64(value: Any) -> bool:
    """True if an int has 64 bits at most; symbolic ones have. Tracers have an answer of their own.

    Python's comparison would make the code that they trace depend on the value.
    """
    return symbol_kind(value) == "int" or -(2**63) <= value < 2**63


def is_known(value: Any) -> bool:
    """True if a float or bool has a value when a graph is traced.

    Tracers of Python code have an answer of their own.
    """
    is_symbol = symbol_kind(value) in ("float", "bool")
    return not is_symbol or all(tracer.has_value(value) for tracer in _tracers)


def as_constant(value: Any) -> Any:
    """A number for an error text, or a list of them. Tracers of Python code make symbols constants.

    They do not write symbols out.
    """
    return value


@traced_as_constant
def report_to_tracer(kind: str, message: str) -> None:
    """Ends the trace that is under way, so that its caller gets the error as eager code does.

    Tracers wrap the exceptions of the code that they follow in their own. Does nothing elsewhere.

    Args:
        kind: The name of a built-in exception: tracers know no exceptions as constants. Others end
            no trace.
        message: What it says.
    """
    type_of_error: Any = getattr(builtins, kind, None)
    for tracer in _tracers if type_of_error is not None else ():
        tracer.end_trace(type_of_error(message))
