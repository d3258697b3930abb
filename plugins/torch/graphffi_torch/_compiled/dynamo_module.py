# SPDX-License-Identifier: Apache-2.0
"""Modules in code that torch.compile traces, and their functions, as arguments of `call_tvm_ffi`.

Dynamo would follow the look-up of a function into C++.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.variables import LambdaVariable, UserDefinedObjectVariable

from graphffi import Function, Module, get_global_func
from graphffi.plugin import report_to_tracer
from graphffi_torch._compiled.dynamo import end_trace, trace_type


def install() -> None:
    """Lets Dynamo know modules and functions."""
    trace_type(Module, _wrap_module)
    trace_type(Function, _wrap_function)
    torch.compiler.substitute_in_graph(get_global_func)(_refuse_global_func)


def _refuse_global_func(name: Any, allow_missing: Any = False) -> Any:
    # Another function may be registered later, which the compiled code would not know.
    report_to_tracer(
        "RuntimeError",
        "graphffi.get_global_func: expected a call outside of code that torch.compile traces, got "
        "one inside; look the function up before, or give graphffi.call_tvm_ffi its name",
    )


def _wrap_module(builder: Any, module: Module) -> Any:
    """Dynamo's variable for a module that it meets."""
    builder.install_guards(GuardBuilder.ID_MATCH)
    variable = ModuleVariable(module, source=builder.source)
    return builder.tx.output.side_effects.track_object_existing(module, variable)


def _wrap_function(builder: Any, function: Function) -> Any:
    """Dynamo's variable for a function that it meets."""
    builder.install_guards(GuardBuilder.TYPE_MATCH)
    return FunctionVariable(function, source=builder.source)


class ModuleVariable(UserDefinedObjectVariable):
    """A module in traced code."""

    value: Module

    def var_getattr(self, tx: Any, name: str) -> Any:
        """An attribute, as torch before 2.14 asks for it."""
        return self._attribute(super().var_getattr, tx, name)

    def tp_getattro_impl(self, tx: Any, name: str) -> Any:
        """An attribute, as torch from 2.14 on asks for it."""
        parent: Any = super()
        return self._attribute(parent.tp_getattro_impl, tx, name)

    def _attribute(self, get: Any, tx: Any, name: str) -> Any:
        if name == "get_function":  # which `module["name"]` calls as well
            return LambdaVariable(functools.partial(self._function, get, tx))
        if not hasattr(type(self.value), name):
            try:
                getattr(self.value, name)  # from now on an ordinary attribute
            except AttributeError as error:
                end_trace(error)
        return get(tx, name)

    def _function(self, get: Any, tx: Any, name: Any, **keywords: Any) -> Any:
        text = name.as_python_constant()
        if keywords or hasattr(type(self.value), text):
            return get(tx, "get_function").call_function(tx, [name], keywords)
        return self._attribute(get, tx, text)


class FunctionVariable(UserDefinedObjectVariable):
    """A function in traced code, where only its name is of use."""

    value: Function

    def as_python_constant(self) -> Function:
        """The function itself, which torch 2.10 gives functions that are marked as constant."""
        install_guard(self.make_guard(GuardBuilder.ID_MATCH))
        return self.value

    def call_function(self, tx: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Breaks the graph: nobody knows what the call changes and returns."""
        message = (
            f"graphffi: {self.value!r}: expected a call of an op or of graphffi.call_tvm_ffi in "
            "code that torch.compile traces, got a direct call; define an op, or allow graph breaks"
        )
        end_trace(RuntimeError(message))
        return super().call_function(tx, args, kwargs)
