# SPDX-License-Identifier: Apache-2.0
"""Modules in code that torch.compile traces, and calls of their functions.

Those of graphffi, of apache-tvm-ffi's package, and of TVM's. Dynamo would follow them into C++.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import GetItemSource, GlobalSource
from torch._dynamo.variables import (
    ConstantVariable,
    LambdaVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    VariableTracker,
)

from graphffi import Function, Module, get_global_func
from graphffi.plugin import SameTensor, call_directly, report_to_tracer, when_imported
from graphffi_torch._compiled.dynamo import end_trace, trace_type
from graphffi_torch._operators.same_tensor import have_one_origin, shows_same


def install() -> None:
    """Lets Dynamo know modules and functions."""
    trace_type(Module, _wrap_module)
    trace_type(Function, _wrap_function)
    trace_type(SameTensor, _wrap_same_tensor)
    torch.compiler.substitute_in_graph(get_global_func)(_refuse_global_func)
    when_imported("tvm_ffi", _install_foreign)
    when_imported("tvm.runtime", _install_tvm)


def _install_foreign() -> None:
    package: Any = sys.modules["tvm_ffi"]
    trace_type(package.Module, _wrap_module)
    trace_type(package.Function, _wrap_function)
    torch.compiler.substitute_in_graph(package.use_torch_stream)(_use_torch_stream)


def _install_tvm() -> None:
    # With TVM, or TileLang which has a copy of it, all modules of apache-tvm-ffi are of this class.
    runtime: Any = sys.modules["tvm.runtime"]
    trace_type(runtime.Module, _wrap_module)
    trace_type(runtime.Executable, _wrap_executable)


def _use_torch_stream(context: Any = None) -> Any:
    # Calls in graphs use torch's stream anyway.
    return contextlib.nullcontext() if context is None else context


def _refuse_global_func(name: Any, allow_missing: Any = False) -> Any:
    # Another function may be registered later, which the compiled code would not know.
    report_to_tracer(
        "RuntimeError",
        "graphffi.get_global_func: expected a call outside of code that torch.compile traces, got "
        "one inside; look the function up before, or give graphffi.call_tvm_ffi its name",
    )


def _wrap_module(builder: Any, module: Any) -> Any:
    """Dynamo's variable for a module that it meets."""
    variable = ModuleVariable(module, source=_guarded(builder, module))
    return builder.tx.output.side_effects.track_object_existing(module, variable)


def _wrap_executable(builder: Any, executable: Any) -> Any:
    """Dynamo's variable for the module of an executable that it meets."""
    builder.install_guards(GuardBuilder.ID_MATCH)
    module = executable.jit()  # which links the module, the first time
    return ExecutableVariable(module, source=_constant_source(builder, module))


def _wrap_function(builder: Any, function: Any) -> Any:
    """Dynamo's variable for a function that it meets."""
    return FunctionVariable(function, source=_guarded(builder, function))


def _guarded(builder: Any, value: Any) -> Any:
    """The source of an object, which has a guard; what is marked as constant gets a place."""
    if builder.install_guards(GuardBuilder.ID_MATCH) is not None:
        return builder.source
    return _constant_source(builder, value)


def _constant_source(builder: Any, value: Any) -> Any:
    return GlobalSource(builder.tx.output.install_global_by_id("graphffi_constant", value))


def _as_argument(tx: Any, variable: Any) -> Any:
    """An argument as the code that packs it can follow it.

    An array of apache-tvm-ffi's package is a tuple. A constant has no source: torch (2.13) can't
    tell the type of one that a function gave which is marked as constant.
    """
    if isinstance(variable, ConstantVariable):
        return ConstantVariable.create(variable.as_python_constant())
    package: Any = sys.modules.get("tvm_ffi")
    if package is None or not isinstance(variable, UserDefinedObjectVariable):
        return variable
    if not isinstance(variable.value, package.Array):
        return variable
    source: Any = variable.source
    install_guard(source.make_guard(GuardBuilder.SEQUENCE_LENGTH))
    items = enumerate(variable.value)
    return TupleVariable([VariableTracker.build(tx, x, GetItemSource(source, i)) for i, x in items])


def _wrap_same_tensor(builder: Any, value: SameTensor) -> Any:
    return LambdaVariable(functools.partial(_is_same, builder.tx.output))


def _is_same(output: Any, one: Any, other: Any) -> Any:
    try:
        node, other_node = (x.as_proxy().node for x in (one, other))
    except NotImplementedError:  # of tensors of graphffi, which are refused later
        return ConstantVariable.create(one is other)
    first, second = (n.meta["example_value"] for n in (node, other_node))
    is_one = first is second or (
        shows_same(first, second) and have_one_origin(node, other_node, output.root_tracer.graph)
    )
    return ConstantVariable.create(is_one)


class ModuleVariable(UserDefinedObjectVariable):
    """A module in traced code."""

    value: Any

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


class ExecutableVariable(ModuleVariable):
    """A result of `tvm.compile` in traced code: the module that it runs."""

    def _attribute(self, get: Any, tx: Any, name: str) -> Any:
        if name == "jit":
            return LambdaVariable(lambda: self)
        return self if name == "mod" else super()._attribute(get, tx, name)


class FunctionVariable(UserDefinedObjectVariable):
    """A function in traced code, where only its name is of use."""

    value: Any

    def as_python_constant(self) -> Any:
        """The function itself, which torch 2.10 gives functions that are marked as constant."""
        return self.value

    def call_function(self, tx: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Follows the code that makes a node of the call."""
        for i, arg in enumerate(args):  # of which Dynamo cannot ask what they are
            if isinstance(arg, (ModuleVariable, FunctionVariable)):
                end_trace(
                    TypeError(
                        f"{self.value!r}: argument #{i}: expected a tensor, None, int, "
                        f"float, bool, str, dtype, Device or a list, got {arg.value!r}"
                    )
                )
        follow: Any = UserFunctionVariable
        values = [_as_argument(tx, arg) for arg in args]
        return follow(call_directly).call_function(tx, [self, *values], kwargs)
