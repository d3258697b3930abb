# SPDX-License-Identifier: Apache-2.0
"""Converters of ops for TVM's importer of exported programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import WeakKeyDictionary

import torch
import tvm
from tvm import relax

from graphffi.plugin import counted, flat
from graphffi_torch.plugin import (
    DTYPE_NAMES,
    PrimitiveCall,
    overload_of,
    registered_operators,
    takes_sizes_for_granted,
)
from graphffi_tvm._functions import function_of
from graphffi_tvm._sizes import Sizes
from graphffi_tvm._updates import (
    FUNCTIONAL,
    UpdatingCall,
    check_program,
    check_update,
    read_functional,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import CanonicalCall, Definition

_OVERLOADS: Final = ("default",)


def convert_map(
    program: torch.export.ExportedProgram | None = None,
) -> dict[str, Callable[..., Any]]:
    """The converters of all ops that are defined, for `from_exported_program`.

    Args:
        program: The program to convert. With it, also updates of its inputs and buffers by torch's
            own operators are refused: TVM drops them.

    Returns:
        The value of `custom_convert_map`.

    Raises:
        NotImplementedError: For a program that updates an input or a buffer.
    """
    if program is not None:
        check_program(program)
    definitions = {o: definition for definition, all_of in registered_operators() for o in all_of}
    sizes: WeakKeyDictionary[Any, Sizes] = WeakKeyDictionary()  # of programs, by TVM's importers

    def convert(node: torch.fx.Node, importer: Any = None) -> Any:
        is_functional = getattr(node.target, "__name__", "") == FUNCTIONAL
        target: Any = node.args[0] if is_functional else node.target
        definition = definitions.get(target)
        if definition is None:
            return _refuse_update(target) if is_functional else _convert_other(node, importer)
        if importer is None:
            _refuse(definition, "a call outside of torch.cond", "one in a branch; call it outside")
        if importer not in sizes:
            sizes[importer] = Sizes(node.graph, importer)
        return _Call(definition, node, target, importer, sizes[importer]).convert()

    names = [target.__name__ for target in definitions if overload_of(target) in _OVERLOADS]
    return dict.fromkeys([*names, FUNCTIONAL], convert)


def _refuse(definition: Definition, expected: str, got: str) -> NoReturn:
    raise NotImplementedError(f"{definition.name}: graphffi_tvm: expected {expected}, got {got}")


def _refuse_update(target: Any) -> NoReturn:
    raise NotImplementedError(
        f"graphffi_tvm: {target}: expected an op of graphffi's where a call updates tensors, got "
        "another operator"
    )


def _convert_other(node: torch.fx.Node, importer: Any) -> Any:
    """TVM knows operators by their names without namespace: this one is of no op."""
    target: Any = node.target
    name = target.__name__
    own = None if importer is None else importer.create_convert_map().get(name)
    if own is None or target.namespace != "aten":
        raise NotImplementedError(
            f"graphffi_tvm: {target}: expected an op of graphffi's or an operator that TVM "
            f"converts, got another one of the name {name!r}; TVM knows operators by their names "
            "without namespace: rename one of them"
        )
    return own(node)


@dataclass
class _Call:
    """One call of an op in an exported program.

    Args:
        definition: Of the op.
        node: Of the call, or of torch's functional form of one.
        target: The op's operator.
        importer: TVM's.
        sizes: Of the program.
    """

    definition: Definition
    node: torch.fx.Node
    target: Any
    importer: Any
    sizes: Sizes

    def convert(self) -> Any:
        """Adds the call to the module, and gives its results as TVM's importer keeps them."""
        definition = self.definition
        self._check()
        if self.node.target is self.target:
            update = UpdatingCall.in_place(definition, self.node)
        else:
            update = read_functional(definition, self.node)
        values = PrimitiveCall.of(definition, self.target, *update.mapped(_value_of))
        check_update(definition, self.node.graph, update, values.operands)
        given = PrimitiveCall.of(
            definition, self.target, *update.mapped(self.importer.env.__getitem__)
        )
        for variable, tensor in zip(flat(given.operands), flat(values.operands), strict=True):
            self._check_operand(variable, tensor)
        kernel, workspace = values.kernel(is_guarded=False)
        if kernel.is_reference:
            self._refuse("a kernel that fits the call", "the reference; add one with add_kernel")
        results = flat(_listed(self.node.meta["val"])[: len(definition.results)])
        call = definition.canonical(kernel, given.operands, values.attributes, workspace)
        conditions = ""
        if takes_sizes_for_granted(definition, *values.rule_arguments()):
            label = values.primitive(kernel, results, workspace, described=True).digest
            conditions = "\n".join(label.split("\t")[1:])
        outputs = [*results, *definition.updated(values.operands)]
        made = self._emit(call, conditions, outputs)
        return update.finish(self.importer, made, len(results))

    def _check(self) -> None:
        definition = self.definition
        if definition.has_side_effect:
            self._refuse(
                "an op without side effects", "one with them, which TVM may drop or repeat"
            )
        if overload_of(self.target) not in _OVERLOADS:
            self._refuse("a call that allocates its results", f"one of {self.target}")

    def _check_operand(self, variable: Any, tensor: torch.Tensor) -> None:
        """Refuses what TVM made another tensor of than torch: the kernel was chosen for torch's."""
        dtype = DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))
        found: Any = getattr(variable, "ty", None)
        is_tensor = isinstance(found, relax.TensorType) and found.ndim in (-1, tensor.ndim)
        if not is_tensor or (found.dtype is not None and str(found.dtype) != dtype):
            self._refuse(f"{dtype} of {counted(tensor.ndim, 'dimension')}", f"{found} from TVM")

    def _refuse(self, expected: str, got: str) -> NoReturn:
        _refuse(self.definition, expected, got)

    def _emit(self, call: CanonicalCall, conditions: str, outputs: Sequence[Any]) -> list[Any]:
        if not outputs:
            self._refuse("an op with results", "one without, which TVM drops")
        name, values = function_of(call, len(outputs) - len(call.mutated), conditions)
        if values is None:
            values = [*call.inputs, *call.mutated, *call.ints, *call.floats, *call.strs]
        subject = self.definition.name
        arguments = [_argument(subject, value, self.sizes) for value in values]
        types = [_type_of(subject, tensor, self.sizes) for tensor in outputs]
        emit = self.importer.block_builder.emit
        made = emit(relax.op.call_dps_packed(name, relax.Tuple(arguments), types))
        if len(types) == 1:
            return [made]
        return [emit(relax.TupleGetItem(made, i)) for i in range(len(types))]


def _value_of(node: torch.fx.Node) -> Any:
    return node.meta["val"]


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _argument(subject: str, value: Any, sizes: Sizes) -> Any:
    """An expression for a value of a call: of Relax, or of Python."""
    if value is None:
        return relax.op.null_value()
    if isinstance(value, bool):
        return tvm.tirx.IntImm("bool", value)
    if isinstance(value, (int, torch.SymInt)):
        size = sizes.convert(f"{subject}: graphffi_tvm: attribute", value)
        return tvm.tirx.IntImm("int64", size) if isinstance(size, int) else size
    if isinstance(value, float):
        return tvm.tirx.FloatImm("float64", value)
    if isinstance(value, str):
        return tvm.ir.StringImm(value)
    if isinstance(value, relax.Expr):
        return value
    raise NotImplementedError(
        f"{subject}: graphffi_tvm: expected tensors and constants, got {type(value).__name__}"
    )


def _type_of(subject: str, tensor: torch.Tensor, sizes: Sizes) -> Any:
    """Relax's type of a result."""
    name = DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype))
    shape = [sizes.convert(f"{subject}: graphffi_tvm: result", size) for size in tensor.shape]
    try:
        return relax.TensorType(shape, name)
    except ValueError:
        raise NotImplementedError(
            f"{subject}: graphffi_tvm: result: expected a dtype that TVM has, got {name}"
        ) from None
