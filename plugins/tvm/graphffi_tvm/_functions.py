# SPDX-License-Identifier: Apache-2.0
"""The global functions that Relax modules call: kernels, and functions that call kernels by plans.

A kernel whose plan ends in the results is called as it is. For other kernels there is a function in
C++, to which Relax passes the values in the order of their canonical names.
"""

from __future__ import annotations

import json
import re
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import tvm
from tvm import relax

import graphffi
from graphffi.plugin import plan_function, plan_tokens, resolve_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphffi.plugin import CanonicalCall

_PREFIX: Final = "graphffi:"  # of names of functions that are made here; what they call follows
_COPY: Final = "runtime.TVMTensorCopyFromTo"
_VALUE: Final = r"([infs])(\d+)|strided\((i)(\d+)\)"
_CONSTANTS: Final[Mapping[str, Any]] = {"None": None, "true": True, "false": False}


@dataclass(frozen=True)
class PlanFunction:
    """A function that calls a kernel by a plan.

    Args:
        func: Kernel reference.
        plan: Plan text over the canonical names; empty: the kernel itself.
        counts: Of inputs, outputs, ints, floats and strings.
        num_updated: How many of the outputs, the last, are new values of operands.
        subject: The op's name, for errors.
        names: Of the tensors, for errors.
        conditions: On the tensors: csrc/shapes/conditions.h has the text.
    """

    func: str
    plan: str = ""
    counts: list[int] = field(default_factory=list)
    num_updated: int = 0
    subject: str = ""
    names: str = ""
    conditions: str = ""

    @property
    def name(self) -> str:
        """The name of the global function, which says all that it is made of."""
        return _PREFIX + json.dumps(astuple(self) if self.plan else [self.func])

    @staticmethod
    def named(name: str) -> PlanFunction:
        """The function of that name.

        Raises:
            ValueError: For a name that no function of graphffi's has.
        """
        try:
            if not name.startswith(_PREFIX):
                raise TypeError(name)
            function = PlanFunction(*json.loads(name.removeprefix(_PREFIX)))
            if list(map(type, astuple(function))) != [str, str, list, int, str, str, str]:
                raise TypeError(name)
        except (TypeError, ValueError):
            raise ValueError(
                f"graphffi_tvm: expected names that function_names gave, got {name!r}"
            ) from None
        return function

    def register(self) -> None:
        """Makes it known, unless it is."""
        if graphffi.get_global_func(self.name, allow_missing=True) is not None:
            return
        if self.plan:
            parts = (self.counts, self.num_updated, self.subject, self.names, self.conditions)
            function = plan_function(self.func, self.plan, *parts, _COPY)
        else:
            function = resolve_kernel(self.func)
        graphffi.register_global_func(self.name, function, override=True)


def function_of(
    call: CanonicalCall, num_results: int, conditions: str
) -> tuple[str, list[Any] | None]:
    """The name of the global function for a call, which is registered.

    Args:
        call: In canonical form.
        num_results: How many results it fills.
        conditions: That tensors have to meet; nothing if there are none.

    Returns:
        With the values that it gets before the results; None: those of the canonical names.
    """
    if not conditions and not call.mutated:
        values = _direct_values(call, num_results)
        if values is not None:
            if "::" not in call.func:
                return call.func, values
            function = PlanFunction(call.func)
            function.register()
            return function.name, values
    counts = [
        *(len(call.inputs), num_results + len(call.mutated)),
        *(len(call.ints), len(call.floats), len(call.strs)),
    ]
    function = PlanFunction(
        *(call.func, call.plan, counts, len(call.mutated)),
        *(call.subject, call.names, conditions),
    )
    function.register()
    return function.name, None


def _direct_values(call: CanonicalCall, num_results: int) -> list[Any] | None:
    """The kernel's arguments before the results; None if its plan does not end in the results."""
    items = "".join(token for token in plan_tokens(call.plan) if not token.isspace()).split(",")
    results = [f"o{i}" for i in range(num_results)]
    if items[len(items) - num_results :] != results:
        return None
    banks = {"i": call.inputs, "n": call.ints, "f": call.floats, "s": call.strs}
    values: list[Any] = []
    for item in items[: len(items) - num_results]:
        value = re.fullmatch(_VALUE, item)
        if value is not None:
            bank, index = value[1] or value[3], value[2] or value[4]
            values.append(banks[bank][int(index)])
        elif item in _CONSTANTS:
            values.append(_CONSTANTS[item])
        else:
            return None
    return values


def function_names(module: tvm.IRModule) -> list[str]:
    """The names of the functions by which a module calls kernels of libraries, or with plans.

    Args:
        module: From `from_exported_program`, before or after passes of TVM.

    Returns:
        What another process gives to `register_functions` before it loads the compiled module.
    """
    found: dict[str, None] = {}

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.ExternFunc):
            name = str(expression.global_symbol)
            if name.startswith(_PREFIX):
                found[name] = None

    for function in module.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return list(found)


def register_functions(names: Iterable[str]) -> None:
    """Makes the functions known that a compiled module calls, which another process has made.

    Args:
        names: From `function_names`. Kernels of libraries are loaded from the same paths; global
            functions have to exist when the module calls them.

    Raises:
        ValueError: For a name that no function of graphffi's has.
        RuntimeError: If a library does not load.
    """
    for name in names:
        PlanFunction.named(name).register()
