# SPDX-License-Identifier: Apache-2.0
"""Runs an op's rules: that of the results' shapes, of the workspace, of the choice of kernels."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

from .._values.describe import counted
from .._values.error import name_rule
from .._values.nested import flat
from .spec import CheckError, CheckTypeError, TensorSpec, checked_bytes, checked_result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._definition.interface import Interface

# Exceptions of Python for a rule that is itself wrong: their text names neither op nor rule.
_MISTAKES: Final = {
    TypeError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NameError,
    UnboundLocalError,
    ZeroDivisionError,
    OverflowError,
}


def infer(
    definition: Interface, operands: Sequence[Any], attributes: Sequence[Any]
) -> tuple[TensorSpec, ...]:
    """Runs the shape rule.

    Args:
        definition: Of the op.
        operands: One `TensorSpec`, None or list of specs per operand.
        attributes: One value per attribute.

    Returns:
        One spec per result that the op allocates; dtypes are `graphffi.dtype`, devices
        `graphffi.Device` or None.

    Raises:
        ValueError: If a `check` of the rule fails, or sizes are not as `dims` says.
        TypeError: If data types are not as `dtypes` says, or the rule returns something else
            than the declared results.
    """
    try:
        return _infer(definition, operands, attributes)
    except CheckError as error:
        raise ValueError(f"{definition.name}: {error}") from None
    except CheckTypeError as error:
        raise TypeError(f"{definition.name}: {error}") from None


def _infer(
    definition: Interface, operands: Sequence[Any], attributes: Sequence[Any]
) -> tuple[TensorSpec, ...]:
    name, dims, dtypes = definition.name, definition.dims, definition.dtypes
    if dtypes is not None:
        dtypes.check(definition.operands, operands, {})
    if dims is not None:
        dims.check(definition.operands, operands, {})
    specs = _results(definition, operands, attributes)
    if len(specs) != len(definition.results):
        raise TypeError(
            f"{name}: shape rule: expected {counted(len(definition.results), 'result')}, "
            f"got {len(specs)}"
        )
    results = dict(zip(definition.results, specs, strict=True))
    if dims is not None:
        dims.check(definition.operands, operands, results)
    default_device = next((spec.device for spec in flat(operands)), None)
    checked = {
        result: checked_result(f"{name}: shape rule: result {result!r}", spec, default_device)
        for result, spec in results.items()
    }
    if dtypes is not None:
        dtypes.check(definition.operands, operands, checked)
    return tuple(checked.values())


def _results(
    definition: Interface, operands: Sequence[Any], attributes: Sequence[Any]
) -> tuple[Any, ...]:
    if definition.rule is None:
        return ()
    returned = call_rule(definition, definition.rule, operands, attributes)
    if returned is None and not definition.results:
        return ()
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)


def workspace_bytes(
    definition: Interface,
    kernel: Any,
    operands: Sequence[Any],
    attributes: Sequence[Any],
) -> Any:
    """The size of a call's workspace.

    Args:
        definition: Of the op.
        kernel: An `OpKernel` of it.
        operands: As for `infer`.
        attributes: As for `infer`.

    Returns:
        Bytes: an int or a framework's symbolic one; None if the kernel declares no workspace.

    Raises:
        ValueError: If the rule gives a negative number.
        TypeError: If it gives something else.
    """
    if not callable(kernel.workspace):
        return kernel.workspace
    found = call_rule(definition, kernel.workspace, operands, attributes)
    return checked_bytes(f"{definition.name}: workspace", found)


def call_rule(
    definition: Interface,
    rule: Callable[..., Any],
    operands: Sequence[Any],
    attributes: Sequence[Any],
    kind: str = "",
) -> Any:
    """Passes the parameters in order, but for those that the rule takes by name only.

    Args:
        definition: Of the op.
        rule: Of the op, or of one of its kernels.
        operands: As for `infer`.
        attributes: As for `infer`.
        kind: What errors call a rule that decides about kernels.
    """
    names = [p.name for p in definition.parameters]
    by_name = dict(zip(names, definition.in_order(operands, attributes), strict=True))
    keywords = {name: by_name.pop(name) for name in keyword_only(rule) if name in by_name}
    try:
        return rule(*by_name.values(), **keywords)
    except Exception as error:
        if kind or type(error) in _MISTAKES:
            kind = kind or ("shape rule" if rule is definition.rule else "workspace")
            name_rule(error, definition.name, kind)
        raise


def keyword_only(rule: Callable[..., Any] | None) -> tuple[str, ...]:
    """The parameters of a function that it takes by name only."""
    code = getattr(rule, "__code__", None)
    if code is None or hasattr(rule, "__wrapped__"):
        return _keyword_only_of(rule)
    end = code.co_argcount + code.co_kwonlyargcount
    names: tuple[str, ...] = code.co_varnames[code.co_argcount : end]
    return names


def _keyword_only_of(rule: Any) -> tuple[str, ...]:
    """The same of a partial, an object that is called, or the function that a decorator made."""
    try:
        parameters = inspect.signature(rule).parameters.values()
    except (TypeError, ValueError):  # no rule, or a function of C
        return ()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
