# SPDX-License-Identifier: Apache-2.0
"""Calls of TVM FFI functions without an op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._contract.attribute_kind import (
    checked_int,
    checked_known,
    checked_text,
    kind_of,
    to_device,
    to_dtype,
)
from .._contract.plan import CanonicalCall, append_attribute
from .._contract.spec import TensorSpec
from .._contract.traits import CallTraits, SideEffect, checked_traits
from .._core import max_array_depth as _MOST_LISTS
from .._frameworks.framework import (
    call_plain,
    framework_of,
    refuse_trace_without_plugin,
    same_tensor,
)
from .._frameworks.tracing import is_proxy, report_to_tracer
from .._kernels.declared import facts_of
from .._kernels.kernel import kernel_reference
from .._values.describe import describe, is_numpy_scalar, is_tensor
from .._values.keywords import arguments_in_order, parameter_names
from .parameter import way_out

if TYPE_CHECKING:
    from collections.abc import Sequence


def call_tvm_ffi(
    func: Any,
    *args: Any,
    out: Any = None,
    mutates: Sequence[int] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> Any:
    """Calls a TVM FFI function without defining an op, in eager code and in graphs.

    Args:
        func: A kernel reference or a function.
        *args: What the function receives before the results: tensors, None, ints, floats, bools,
            strings, `dtype`, `Device`, those of frameworks, and lists of these.
        out: A `TensorSpec` (`graphffi.like`, `graphffi.empty`), or a list of them: results to
            allocate.
        mutates: Positions in `args` of tensors that the function updates in place.
        pass_owning_tensor: As for `op`.
        allow_cuda_graph: As for `op`.
        has_side_effect: As for `op`. Such a call may have no result.

    Returns:
        The results, then the updated tensors: one object, a tuple of several, or None.

    Raises:
        TypeError: For an argument of another kind.
        ValueError: If the call has no result, updates nothing and has no side effect.

    Example:
        >>> y = graphffi.call_tvm_ffi("my.func", x, 2.0, out=graphffi.like(x))  # doctest: +SKIP
    """
    refuse_trace_without_plugin(func if type(func) is str else "graphffi.call_tvm_ffi")
    try:
        reference = kernel_reference("graphffi.call_tvm_ffi", func)
        if not has_side_effect:
            returned = call_plain(reference, args, out, mutates)
            if returned is not NotImplemented:
                return returned
        call, specs = pack_call(
            reference,
            args,
            out=out,
            mutates=mutates,
            pass_owning_tensor=pass_owning_tensor,
            allow_cuda_graph=allow_cuda_graph,
            has_side_effect=has_side_effect,
        )
        # Without tensors, the results' dtypes say whose call it is, where they are no names.
        frameworks_own = [spec.dtype for spec in specs if not isinstance(spec.dtype, str)]
        framework = framework_of(call.func, [*call.inputs, *call.mutated] or frameworks_own)
        for i, spec in enumerate(specs):
            sizes = () if is_proxy(spec.shape) else spec.shape
            if any(type(size) is int and size < 0 for size in sizes):
                raise ValueError(
                    f"{call.subject}: result {i}: expected sizes of 0 or more, got {spec.shape}"
                )
        results = framework.call_raw(call, specs)
    except (TypeError, ValueError) as error:
        report_to_tracer(type(error).__name__, error.args[0])
        raise
    if len(results) == 1:
        return results[0]
    return tuple(results) if results else None


def call_directly(function: Any, *args: Any, **named: Any) -> None:
    """Makes a direct call of a function, where a graph is made of calls, one node of the graph.

    Raises:
        TypeError: For an argument that graphs can't hold, or a function that returns something.
        ValueError: If it has no effect that a graph knows.
    """
    refuse_trace_without_plugin("graphffi.Function")
    try:
        facts = facts_of(function)
        if named:
            args = tuple(arguments_in_order(facts[1], parameter_names(function), args, named))
        call = _pack_direct(*facts, args)
        framework_of(call.subject, [*call.inputs, *call.mutated]).call_raw(call, [])
    except (TypeError, ValueError) as error:
        report_to_tracer(type(error).__name__, error.args[0])
        raise


def _pack_direct(
    reference: str,
    name: str,
    writes: Sequence[int] | None,
    allow_cuda_graph: bool,
    has_side_effect: SideEffect,
    args: Sequence[Any],
) -> CanonicalCall:
    """The call; the other parameters are what `facts_of` gives."""
    packer = _DirectPacker(reference, name)
    packer.note_written(args if writes is None else [args[i] for i in writes if i < len(args)])
    items = [packer.item(f"{name}: argument #{i}", value) for i, value in enumerate(args)]
    call = packer.call
    if not call.mutated and not (has_side_effect and call.inputs):
        raise ValueError(
            f"{name}: expected a tensor that the function writes, in code that becomes a graph, "
            "got none; call it outside, or define an op"
        )
    traits = None
    if allow_cuda_graph or has_side_effect:
        traits = CallTraits(False, allow_cuda_graph, has_side_effect)
    return packer.finish(", ".join(items), traits)


def pack_call(
    func: Any,
    args: Sequence[Any],
    *,
    out: Any = None,
    mutates: Sequence[int] = (),
    pass_owning_tensor: bool = False,
    allow_cuda_graph: bool = False,
    has_side_effect: SideEffect = False,
) -> tuple[CanonicalCall, list[TensorSpec]]:
    """The call that `call_tvm_ffi` makes of these arguments, for plugins that make it themselves.

    Returns:
        The call in canonical form, and the results to allocate for it.
    """
    reference = kernel_reference("graphffi.call_tvm_ffi", func)
    traits = None
    if pass_owning_tensor or allow_cuda_graph or has_side_effect:
        traits = checked_traits(reference, pass_owning_tensor, allow_cuda_graph, has_side_effect)
    specs = [] if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
    packer = _ArgumentPacker(reference, len(specs))
    positions = _positions(reference, mutates, len(args))
    items = [
        packer.item(f"{reference}: argument #{i}", value, mutated=i in positions)
        for i, value in enumerate(args)
    ]
    if not specs and not packer.call.mutated and not has_side_effect:
        raise ValueError(
            f"{reference}: expected out=, mutates= or has_side_effect=True, got none; a call "
            "without effect would be dropped from graphs"
        )
    for spec in specs:
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{reference}: out: expected graphffi.like(...), graphffi.empty(...) or a list of "
                f"these, got {describe(spec)}"
            )
    items.extend(f"o{i}" for i in range(len(specs)))
    return packer.finish(", ".join(items), traits), specs


def _positions(reference: str, mutates: Sequence[int], count: int) -> frozenset[int]:
    """The positions in `mutates`, checked."""
    found = mutates if isinstance(mutates, (list, tuple, range)) else ()
    if found is not mutates or not all(isinstance(i, int) and 0 <= i < count for i in found):
        raise ValueError(
            f"{reference}: mutates: expected positions of arguments, a list of ints below {count}, "
            f"got {mutates!r}"
        )
    return frozenset(found)


class _ArgumentPacker:
    """Sorts positional arguments into the banks of a canonical call."""

    def __init__(self, reference: str, num_results: int) -> None:
        self.num_results = num_results
        self.call = CanonicalCall(reference, "", [], [], [], [], [], subject=reference)

    def item(self, subject: str, value: Any, *, mutated: bool = False, depth: int = 0) -> str:
        """Takes one argument, within `depth` lists; gives what the plan says of it."""
        call = self.call
        if type(value).__module__ in ("numpy", "ml_dtypes") and is_numpy_scalar(value):
            value = value.item()  # a number for kernels, as in calls of functions
        kind = kind_of(value)  # first: torch's tracer knows nothing else of symbolic ints
        if mutated and (kind is not None or not is_tensor(value)):
            raise TypeError(f"{subject}: expected a tensor to update, got {describe(value)}")
        if kind is not None:
            try:
                value = _checked(kind, value)
            except (TypeError, ValueError) as error:
                problem = str(error)  # torch's tracer puts no exceptions into text
                kind_of_error = TypeError if isinstance(error, TypeError) else ValueError
                raise kind_of_error(f"{subject}: {problem}") from None
            return append_attribute(kind, value, call.ints, call.floats, call.strs)
        if value is None:
            return "None"
        if is_tensor(value):
            return self.tensor(subject, value, mutated)
        if isinstance(value, (list, tuple)):
            if depth == _MOST_LISTS:  # a list may contain itself
                raise ValueError(
                    f"{subject}: expected at most {_MOST_LISTS} lists within one another, got more"
                )
            items = [self.item(subject, item, depth=depth + 1) for item in value]
            return "(" + ", ".join(items) + ")"
        kind, value = _of_framework(subject, value)
        return append_attribute(kind, value, call.ints, call.floats, call.strs)

    def tensor(self, subject: str, value: Any, mutated: bool) -> str:
        """Takes a tensor; gives what the plan says of it."""
        if mutated:
            self.call.mutated.append(value)
            return f"o{self.num_results + len(self.call.mutated) - 1}"
        self.call.inputs.append(value)
        return f"i{len(self.call.inputs) - 1}"

    def finish(self, plan: str, traits: CallTraits | None) -> CanonicalCall:
        """The call with its plan."""
        call = self.call
        return CanonicalCall(
            call.func,
            plan,
            call.inputs,
            call.mutated,
            call.ints,
            call.floats,
            call.strs,
            call.subject,
            self.label,
            traits=traits,
        )

    @property
    def label(self) -> str:
        """The beginning of the call's digest."""
        return ""


class _DirectPacker(_ArgumentPacker):
    """Sorts the arguments of a direct call, which passes tensors as they are.

    A tensor that is passed twice, be it as views, is one tensor of the call.
    """

    def __init__(self, reference: str, name: str) -> None:
        super().__init__(reference, 0)
        self.call = CanonicalCall(reference, "", [], [], [], [], [], subject=name)
        self._written: list[Any] = []
        self._names: dict[str, list[str]] = {"i": [], "o": []}

    def note_written(self, values: Sequence[Any]) -> None:
        """Takes note of tensors that the function writes, before the first `item`."""
        for value in values:
            if isinstance(value, (list, tuple)):
                self.note_written(value)
            elif kind_of(value) is None and value is not None and is_tensor(value):
                self._written.append(value)

    def tensor(self, subject: str, value: Any, mutated: bool) -> str:
        """Takes a tensor; gives what the plan says of it."""
        letter, bank = "i", self.call.inputs
        for written in self._written:
            if same_tensor(written, value):
                letter, bank = "o", self.call.mutated
        for place, known in enumerate(bank):
            if same_tensor(known, value):
                return f"strided({letter}{place})"
        bank.append(value)
        self._names[letter].append(subject.removeprefix(f"{self.call.subject}: "))
        return f"strided({letter}{len(bank) - 1})"

    @property
    def label(self) -> str:
        """Names for errors, and the fact that the call returns None; see `call_site.h`."""
        inputs, outputs = ", ".join(self._names["i"]), ", ".join(self._names["o"])
        name = self.call.subject
        is_plain = name.isprintable() and not set(name) & set("()>")
        return f"{name}({inputs} -> {outputs}) -> None " if is_plain else ""


def _checked(kind: str, value: Any) -> Any:
    if kind == "int":
        return checked_int(value)
    if kind == "str":
        return checked_text(value)
    return checked_known(kind, value) if kind in ("float", "bool") else value


def _of_framework(subject: str, value: Any) -> tuple[str, Any]:
    """Kind and name of a framework's data type or device.

    Raises:
        TypeError: If it is neither.
    """
    for kind, convert in (("dtype", to_dtype), ("device", to_device)):
        name = convert(value)
        if name is not None:
            return kind, name
    raise TypeError(
        f"{subject}: expected a tensor, None, int, float, bool, str, dtype, Device or a "
        f"list, got {describe(value)}{way_out(value)}"
    )
