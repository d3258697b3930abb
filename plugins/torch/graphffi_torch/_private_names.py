# SPDX-License-Identifier: Apache-2.0
"""The private names of torch that the plugin uses, and what happens without them.

A feature is used where torch is one of the tested versions and has all of the names of the feature
in `TABLE`. The tested versions alone vouch for those in `MEMBERS`.
`tests/guards` compares both tables with the code; `tests/torch_plugin` hides names.
"""

from __future__ import annotations

import functools
import importlib
import logging
from dataclasses import dataclass
from typing import Any, Final

import torch

from graphffi.plugin import ask_flag

USES_LOWERINGS: Final = ask_flag("GRAPHFFI_INDUCTOR", True)
TESTED: Final = ((2, 10), (2, 15))
#: The features, and what happens without them.
WITHOUT: Final = {
    "lowerings": "compiled graphs call ops through the dispatcher, which is slower",
    "errors": "wrong calls in code that torch.compile traces raise exceptions of Dynamo's",
    "modules": "direct calls of functions break graphs; call_tvm_ffi in code that torch.compile "
    "traces takes functions that were looked up before, not modules",
    "exact floats": "compiled code may pass 0.0 for -0.0, and the other way round",
    "effects": "calls with side effects are kept, but may be reordered",
    "saved results": "graphs with gradients refuse ops with recompute=False",
    "complex updates": "Inductor refuses calls that update complex tensors",
    "copies": "Inductor refuses calls that update a tensor and read a clone of it; packages and "
    "libraries return updated buffers in the place of copies from before",
    "typed views": "compiled calls that update a view of another data type, such as "
    "view_as_complex(x), have the data type of x",
    "branches": "torch.cond refuses branches with calls that update lists, or of call_tvm_ffi",
    "packages": "package, load_package and to_library fail; torch documents the names",
    "guards": "package and to_library refuse programs of sizes that calls choose",
}


@dataclass(frozen=True)
class PrivateName:
    """One name.

    Args:
        name: With the module that has it.
        feature: What needs it.
        why: What for.
        files: Where it is used.
    """

    name: str
    feature: str
    why: str
    files: tuple[str, ...]


def _rows(feature: str, file: str, *names: tuple[str, str]) -> tuple[PrivateName, ...]:
    return tuple(PrivateName(name, feature, why, tuple(file.split())) for name, why in names)


TABLE: Final = (
    *_rows(
        "lowerings",
        "inductor.py",
        ("torch._inductor.ir.FallbackKernel.create", "makes the node of a call"),
        ("torch._inductor.ir.FallbackKernel.process_kernel", "sorts a call's arguments"),
        ("torch._inductor.ir.FallbackKernel.codegen", "writes a call"),
        ("torch._inductor.ir.FallbackKernel.codegen_comment", "says what a call comes from"),
        ("torch._inductor.ir.FallbackKernel.codegen_unbacked_symbol_defs", "defines new sizes"),
        ("torch._inductor.ir.FallbackKernel.get_read_writes", "orders calls with side effects"),
        ("torch._inductor.ir.FallbackKernel.has_side_effects", "keeps calls with side effects"),
        ("torch._inductor.ir.ExternKernel.require_contiguous", "lays an operand out"),
        ("torch._inductor.ir.NopKernel.should_allocate", "makes a buffer that nothing fills"),
        ("torch._inductor.ir.NopKernel.get_free_symbol_uses", "orders it behind its sizes"),
        ("torch._inductor.ir.FixedLayout", "a result's layout"),
        ("torch._inductor.ir.TensorBox.create", "a result"),
        ("torch._inductor.lowering.lowerings", "has the lowerings of the plugin's operators"),
        ("torch._inductor.decomposition.decompositions", "has what references compute"),
        ("torch._inductor.decomposition.fast_random_decomps", "forgets a copy of these"),
        ("torch._inductor.lowering.clone", "copies what a functional form changes"),
        ("torch._inductor.dependencies.StarDep", "orders calls with side effects"),
        ("torch._inductor.utils.convert_shape_to_inductor", "a result's sizes"),
        ("torch._higher_order_ops.effects._EffectType", "finds the call with side effects before"),
    ),
    *_rows(
        "lowerings",
        "inductor_code.py",
        ("torch._inductor.codegen.wrapper.PythonWrapperCodegen.writeline", "writes a call"),
        ("torch._inductor.codegen.wrapper.PythonWrapperCodegen.val_to_arg_str", "writes a size"),
        ("torch._inductor.ir.IRNode.codegen_reference", "writes a tensor's name"),
    ),
    *_rows(
        "lowerings",
        "inductor.py inductor_code.py",
        ("torch._inductor.virtualized.V", "the graph that is being lowered"),
    ),
    *_rows(
        "errors",
        "dynamo.py",
        ("torch._dynamo.exc.Unsupported", "ends a trace, or breaks the graph"),
        ("torch._dynamo.exc.BackendCompilerFailed.remove_dynamo_frames", "ends a compilation"),
        ("torch._guards.TracingContext.extract_stack", "tells whether Dynamo follows code"),
        ("torch._guards.CompileContext.current_compile_id", "tells whether a backend is at work"),
    ),
    *_rows(
        "modules",
        "dynamo_module.py",
        ("torch._dynamo.guards.GuardBuilder.ID_MATCH", "guards a module or function"),
        ("torch._dynamo.guards.GuardBuilder.SEQUENCE_LENGTH", "guards an array among arguments"),
        ("torch._dynamo.guards.install_guard", "adds a guard to a graph"),
        ("torch._dynamo.source.GetItemSource", "an array's element, for its guard"),
        ("torch._dynamo.source.GlobalSource", "the place of what is marked as constant"),
        ("torch._dynamo.variables.ConstantVariable", "whether two tensors are the same"),
        ("torch._dynamo.variables.LambdaVariable", "looks a function up, compares tensors"),
        ("torch._dynamo.variables.TupleVariable", "an array among arguments"),
        ("torch._dynamo.variables.VariableTracker", "an array's element"),
        ("torch._dynamo.variables.UserDefinedObjectVariable", "a module or function in a trace"),
        ("torch._dynamo.variables.UserFunctionVariable", "the code that makes a node of a call"),
    ),
    *_rows(
        "modules",
        "dynamo.py",
        ("torch._dynamo.variables.builder.VariableBuilder._type_dispatch", "knows the classes"),
    ),
    *_rows(
        "exact floats",
        "dynamo_float.py",
        ("torch._dynamo.source.AttrSource", "names a method of a float"),
        ("torch._dynamo.source.CallFunctionNoArgsSource", "names what it returns"),
        ("torch._dynamo.guards.GuardBuilder.EQUALS_MATCH", "guards that"),
        ("torch._dynamo.guards.install_guard", "adds a guard to a graph"),
        ("torch._guards.Source.get_value", "finds zeros"),
        ("torch._dynamo.variables.ConstantVariable", "a float in a trace"),
        ("torch._dynamo.variables.LambdaVariable", "looks a float over"),
        ("torch._guards.TracingContext.get", "has the guards so far"),
    ),
    *_rows(
        "exact floats",
        "dynamo.py",
        ("torch._dynamo.variables.builder.VariableBuilder._type_dispatch", "knows `ExactFloat`"),
    ),
    *_rows(
        "effects",
        "effects.py",
        ("torch.library._register_effectful_op", "threads a token through the graph"),
    ),
    *_rows(
        "saved results",
        "repairs.py",
        (
            "torch._functorch.partitioners.force_save_bw_mutation_src",
            "marks what is saved for the backward graph, last of all",
        ),
        (
            "torch._functorch.partitioners.choose_saved_values_set",
            "chooses what is saved within a budget",
        ),
    ),
    *_rows(
        "complex updates",
        "repairs.py",
        (
            "torch._inductor.pattern_matcher.fallback_node_due_to_unsupported_type",
            "prepares updates that touch complex tensors",
        ),
    ),
    *_rows(
        "copies",
        "repairs.py",
        ("torch._inductor.fx_passes.post_grad.remove_noop_ops", "removes copies"),
        ("torch._inductor.fx_passes.joint_graph.remove_no_ops", "removes products with 1"),
    ),
    *_rows(
        "typed views",
        "repairs.py",
        ("torch._higher_order_ops.auto_functionalize.do_auto_functionalize_v2", "updates views"),
        ("torch._higher_order_ops.auto_functionalize.get_base", "finds what a view is made of"),
    ),
    *_rows(
        "branches",
        "repairs.py",
        ("torch._higher_order_ops.utils._get_example_value", "finds what a branch writes"),
    ),
    *_rows(
        "packages",
        "package.py",
        ("torch._inductor.aoti_compile_and_package", "writes a package"),
        ("torch._inductor.aoti_load_package", "loads a package"),
        ("torch._inductor.codecache", "has to be imported before, in torch 2.10"),
    ),
    *_rows(
        "packages",
        "to_library.py",
        ("torch._inductor.aoti_compile_and_package", "writes the code of a library"),
        ("torch.utils._pytree.tree_flatten", "gives the nesting of arguments in one tuple"),
        ("torch.utils._pytree.tree_leaves", "finds tensors in named tuples and the like"),
    ),
    *_rows(
        "guards",
        "size_guards.py",
        ("torch.export.ExportedProgram._guards_code", "what a loaded program expects of sizes"),
        ("torch.utils._sympy.printers.PythonPrinter", "writes a guard as Python"),
    ),
    *_rows(
        "guards",
        "decompose.py",
        ("torch.ops.aten._assert_scalar", "has programs refuse sizes"),
    ),
    *_rows(
        "guards",
        "sizes_of_one.py",
        ("torch.fx.experimental._config", "compiles for sizes of 1 as it has exported"),
    ),
    *_rows(
        "packages",
        "package_inputs.py",
        ("torch.utils._pytree.tree_leaves", "finds tensors in named tuples and the like"),
    ),
    *_rows(
        "packages",
        "functional.py",
        ("torch.utils._pytree.tree_flatten", "gives the nesting of a program with more results"),
    ),
)


@dataclass(frozen=True)
class Members:
    """Members of objects that torch hands out or of classes that the plugin derives its own from.

    No look-up finds them: objects get them when they are made, their class may be imported later,
    or some of the tested versions lack them, which the code knows.

    Args:
        file: Where they are used; ``*`` for anywhere.
        of: The name of a class or object, with its module; a parameter's or variable's name.
        why: What for.
        names: What is used of it.
    """

    file: str
    of: str
    why: str
    names: tuple[str, ...]


def _members(file: str, of: str, why: str, names: str) -> Members:
    return Members(file, of, why, tuple(names.split()))


MEMBERS: Final = (
    _members(
        "*",
        "torch.SymInt.node",
        "the expression of a symbol, and the values that it may have",
        "expr has_hint hint maybe_as_float maybe_as_int shape_env.bound_sympy "
        "shape_env.source_name_to_debug_name shape_env.var_to_sources",
    ),
    _members(
        "inductor.py",
        "torch._inductor.virtualized.V",
        "the graph that is being lowered",
        "aot_compilation graph.aot_mode graph.cpp_wrapper graph.current_node graph.effectful_ops "
        "graph.env graph.fx_wrapper graph.register_buffer graph.register_operation "
        "graph.sizevars.simplify",
    ),
    _members(
        "inductor_code.py",
        "torch._inductor.virtualized.V",
        "the graph whose code is being written",
        "graph.__dict__ graph.aot_mode graph.module.graph graph.name",
    ),
    _members(
        "inductor_code.py",
        "wrapper",
        "takes the lines of a graph's code, and the plugin's note that it has the declarations",
        "add_import_once graphffi_declared header.splice header.writeline val_to_arg_str writeline",
    ),
    _members(
        "inductor.py",
        "torch._inductor.ir.FallbackKernel",
        "the arguments of a call, and the node that torch asks about CUDA graphs",
        "constant_args fx_node inputs op_overload unflatten_args",
    ),
    _members(
        "inductor.py",
        "torch._inductor.ir.NopKernel",
        "a buffer's layout, and what keeps it out of CUDA graphs",
        "layout.get_free_symbol_uses unbacked_bindings",
    ),
    _members(
        "dynamo.py",
        "torch._dynamo.exc.BackendCompilerFailed",
        "the error of a gradient rule",
        "inner_exception",
    ),
    _members(
        "dynamo.py",
        "torch._dynamo.exc.Unsupported",
        "the user's code, for a note",
        "real_stack",
    ),
    _members(
        "dynamo_module.py",
        "torch._dynamo.variables.UserDefinedObjectVariable",
        "attributes and calls of what is traced; torch 2.14 renamed the first",
        "var_getattr tp_getattro_impl as_python_constant call_function value",
    ),
    _members(
        "dynamo_module.py",
        "builder",
        "tells where an object comes from, takes its guards, and keeps a constant",
        "install_guards source tx.output.install_global_by_id "
        "tx.output.side_effects.track_object_existing",
    ),
    _members("dynamo_module.py", "output", "has the graph", "root_tracer.graph"),
    _members("dynamo_module.py", "name", "a text in traced code", "as_python_constant"),
    _members("dynamo_float.py", "builder", "has the graph", "tx.output"),
    _members(
        "dynamo_float.py",
        "output",
        "the graph, with the floats that it has as symbols",
        "root_tx.f_globals root_tx.f_locals unspec_variable_map",
    ),
    _members(
        "dynamo_float.py",
        "variable",
        "a float in traced code",
        "as_python_constant is_python_constant realize sym_num",
    ),
    _members("dynamo_float.py", "v", "a float that is a symbol", "raw_value source.base"),
    _members("dynamo_float.py", "context", "the guards so far", "guards_context.dynamo_guards"),
    _members("dynamo_float.py", "g", "a guard", "create_fn_name originating_source"),
    _members(
        "sizes_of_one.py",
        "environment",
        "the sizes that are symbols in an exported program",
        "backed_var_to_val var_to_range var_to_sources var_to_val",
    ),
    _members(
        "size_guards.py",
        "environment",
        "the guards of an exported program, and the places that its sizes come from",
        "guards replace var_to_sources",
    ),
)


def why_without(feature: str) -> str | None:
    """Why a feature can't be used, or None if it can."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if not TESTED[0] <= version <= TESTED[1]:
        low, high = (".".join(map(str, v)) for v in TESTED)
        return f"expected torch {low} to {high}, got {torch.__version__}"
    absent = missing(feature)
    return None if absent is None else f"expected {absent}, got none"


def missing(feature: str) -> str | None:
    """A name of a feature that torch lacks."""
    rows = (row.name for row in TABLE if row.feature == feature)
    return next((name for name in rows if not is_there(name)), None)


@functools.cache
def has(feature: str) -> bool:
    """True if a feature can be used; a warning says once why not."""
    log = logging.getLogger("graphffi_torch")
    is_inductors = feature in ("lowerings", "complex updates", "branches", "copies")
    if is_inductors and not USES_LOWERINGS:
        log.info("graphffi_torch: GRAPHFFI_INDUCTOR=0: %s", WITHOUT[feature])
        return False
    reason = why_without(feature)
    if reason is not None:
        # Few programs need the others, which the oldest torch does not have.
        level = logging.INFO if feature in ("effects", "branches") else logging.WARNING
        log.log(level, "graphffi_torch: %s: %s; %s", feature, reason, WITHOUT[feature])
    return reason is None


def is_there(name: str) -> bool:
    """True if torch has a name; imports its module."""
    parts = name.split(".")
    found: Any = torch
    for i, part in enumerate(parts[1:], 2):
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        if part in getattr(found, "__annotations__", ()):  # of its objects
            return True
        try:  # a module that is being imported is no attribute yet
            found = importlib.import_module(".".join(parts[:i]))
        except ImportError:
            return False
    return True
