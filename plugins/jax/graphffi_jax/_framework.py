# SPDX-License-Identifier: Apache-2.0
"""JAX as graphffi sees it: how ops and raw calls run on its arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

import graphffi
from graphffi.plugin import (
    Framework,
    check_kept,
    checked_bytes,
    checked_dtype,
    checked_result,
    per_tensor,
    register_framework,
)
from graphffi_jax._choice import OTHERS, kernels_by_device
from graphffi_jax._export.decisions import run_rule
from graphffi_jax._library import register_targets
from graphffi_jax._lowering.kernel_call import Chosen, KernelCall
from graphffi_jax._primitive import ResultTypes, bind
from graphffi_jax._sharding.partition import register_partitioners
from graphffi_jax._sharding.varying import vary_alike
from graphffi_jax._trace_state import is_tracing
from graphffi_jax._transforms.batching import OpCall, call_key, take_batches
from graphffi_jax._transforms.closures import note_kernel
from graphffi_jax._transforms.gradients import push_forward, transpose

_MAX_KNOWN: Final = 4096


class JaxFramework(Framework):
    """Arrays of JAX, traced or not; NumPy arrays and graphffi tensors beside them become such."""

    name = "jax"
    vjp = staticmethod(transpose)
    jvp = staticmethod(push_forward)
    is_tracing = staticmethod(is_tracing)

    def __init__(self) -> None:
        """Knows no call yet."""
        self._known: dict[Any, tuple[KernelCall, ResultTypes]] = {}
        self._traced: set[str] = set()  # ops that are in traces of JAX

    def advice(self, function: str, value: Any) -> str:
        """Says what to write instead of a direct call on a traced array; "" for other arrays."""
        if not isinstance(value, jax.core.Tracer):
            return ""
        return (
            f"graphffi_jax.call({function}, ..., out=jax.ShapeDtypeStruct(shape, dtype)) with the "
            "shape of each result, which the function gets after its other arguments"
        )

    def call_op(self, op: Any, definition: Any, bound: Any) -> Any:
        """Runs an op as the definition says that bound the arguments."""
        if op.name not in self._traced and is_tracing():
            self._traced.add(op.name)
        operands = [
            _to_array(value, f"{op.name}: operand {o.name!r}")
            for o, value in zip(definition.operands, bound.operands, strict=True)
        ]
        operands = vary_alike(operands)
        call, results = self._prepared(op, definition, operands, bound.attributes)
        arrays = [*definition.read(operands), *definition.updated(operands)]
        outputs = bind(call, arrays, results)
        fresh, mutated = outputs[: len(results)], outputs[len(results) :]
        return definition.pack_results(bound.operands, fresh, mutated)

    def _prepared(
        self, op: Any, definition: Any, operands: Sequence[Any], attributes: Sequence[Any]
    ) -> tuple[KernelCall, ResultTypes]:
        """All of a call but its arrays. Equal calls have equal results: rules are asked once."""
        batches = take_batches()
        key = call_key(definition, operands, attributes, batches)
        known = self._known.get(key)
        if known is None or key is None:
            known = _prepare(op, definition, operands, attributes, batches)
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            if key is not None:
                self._known[key] = known
        return known

    def wait(self, results: Sequence[Any]) -> None:
        """Until they are there."""
        for result in results:
            result.block_until_ready()

    def copy(self, tensor: jax.Array) -> jax.Array:
        """The array: calls update none."""
        return tensor

    def to_numpy(self, tensor: jax.Array) -> Any:
        """A copy on the host, or the memory itself."""
        return np.asarray(tensor)

    def device_name(self, kind: str) -> str:
        """As JAX tells it."""
        try:
            return str(jax.devices(kind)[0].device_kind)
        except RuntimeError:
            return ""

    def replace_op(self, op: Any) -> None:
        """Makes JAX trace functions anew that it traced with the op's former definition.

        JAX tells none of them from others: all that it has traced and compiled goes, unless no
        trace has the op. Eager calls are programs of graphffi, by definition.
        """
        if op.name not in self._traced:
            return
        self._traced.clear()
        jax.clear_caches()  # type: ignore[no-untyped-call]

    def use_library(self, path: str, is_new: bool) -> None:
        """Makes the path of a library mean the file that is there now, also in calls without op."""
        graphffi.get_global_func("graphffi_jax.use_library")(path)
        if is_new:
            jax.clear_caches()  # type: ignore[no-untyped-call]

    def call_raw(
        self, call: Any, results: Sequence[Any], workspace: int | None = None
    ) -> list[Any]:
        """Runs a call without op; gives the results, then the updated arrays."""
        note_kernel(call.func)
        arguments = [_to_array(v, f"{call.subject}: argument") for v in (call.inputs, call.mutated)]
        inputs, mutated = vary_alike(arguments)
        results = [
            checked_result(
                f"{call.subject}: result {i}", graphffi.TensorSpec(spec.shape, spec.dtype)
            )
            for i, spec in enumerate(results)
        ]
        if workspace is not None:
            checked_bytes(f"{call.subject}: workspace", workspace)
        shapes = _result_shapes(call.subject, [str(i) for i in range(len(results))], results)
        kernel = Chosen.make(call, workspace=workspace)
        made = KernelCall(call.subject, call.names, len(mutated), ((OTHERS, kernel),))
        return bind(made, [*inputs, *mutated], shapes)


def _prepare(
    op: Any, definition: Any, operands: Sequence[Any], attributes: Sequence[Any], batches: int
) -> tuple[KernelCall, ResultTypes]:
    seen = [_spec(value) for value in operands]
    specs = run_rule(f"{op.name}: shape rule", lambda o: definition.infer(o, attributes), seen)
    made_of = OpCall.make(op, definition, operands, attributes)
    results = _result_shapes(op.name, definition.results, specs)

    names, num_mutated = "", 0
    kernels: list[tuple[str, Chosen | str]] = []
    for kind, kernel in kernels_by_device(definition, seen, attributes).items():
        if isinstance(kernel, str):
            kernels.append((kind, kernel))
            continue
        workspace = run_rule(
            f"{op.name}: workspace",
            functools.partial(definition.workspace_bytes, kernel, attributes=attributes),
            seen,
        )
        call = definition.canonical(kernel, operands, attributes)
        names, num_mutated = call.names, len(call.mutated)
        kernels.append((kind, Chosen.make(call, kernel, workspace)))
    return KernelCall(op.name, names, num_mutated, tuple(kernels), made_of, (), batches), results


@per_tensor
def _to_array(value: Any, subject: str) -> Any:
    is_traced = isinstance(value, jax.core.Tracer)
    # JAX 0.8 takes the tracer of a reference, a jax.Ref, for an array.
    is_reference = is_traced and type(value.aval).__name__ == "AbstractRef"
    if isinstance(value, jax.Array) and not is_reference:
        if jnp.issubdtype(value.dtype, jax.dtypes.extended):
            raise TypeError(
                f"{subject}: expected an array of numbers, got {value.dtype}; "
                "use jax.random.key_data"
            )
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        checked_dtype(subject, value.dtype)
        _check_width(subject, value.dtype)
        return _converted(subject, jnp.asarray, value)
    if hasattr(value, "__dlpack__") and not is_traced:
        array = _converted(subject, jnp.from_dlpack, value)
        given = graphffi.dtype(graphffi.from_dlpack(value).dtype)
        _check_width(subject, _to_numpy_dtype(subject, given))
        return array
    got = str(value.aval) if is_traced else type(value).__name__
    remedy = "; read it with ref[...]" if got.startswith("Ref") else ""
    raise TypeError(f"{subject}: expected an array, got {got}{remedy}")


def _converted(subject: str, convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    # Masked or big-endian arrays; transfers that jax.transfer_guard disallows.
    except (TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
        raise type(error)(
            f"{subject}: expected an array that JAX takes, got {type(value).__name__}: "
            f"{error.__cause__ or error}"
        ) from error


@per_tensor
def _spec(array: Any) -> graphffi.TensorSpec:
    """The spec of an array as shape rules see it."""
    return graphffi.TensorSpec(tuple(array.shape), graphffi.dtype(array.dtype), _device())


def _device() -> Any:
    # Where a traced program will run is not known yet; JAX places arrays by itself.
    try:
        return graphffi.Device(jax.default_backend())
    except ValueError:
        return None


def _result_shapes(subject: str, names: Sequence[str], specs: Sequence[Any]) -> ResultTypes:
    shapes: list[tuple[tuple[Any, ...], Any]] = []
    for name, spec in zip(names, specs, strict=True):
        result = f"{subject}: result {name!r}"
        dtype = _to_numpy_dtype(result, graphffi.dtype(spec.dtype))
        _check_width(result, dtype)
        shapes.append((tuple(spec.shape), dtype))
    return tuple(shapes)


# JAX has names for them, but XLA has no arrays of them: some of its checks end the process.
_NO_ARRAYS: Final = frozenset(("uint1", "float6_e2m3fn", "float6_e3m2fn"))


def _to_numpy_dtype(subject: str, dtype: Any) -> Any:
    scalar = getattr(jnp, "bool_" if dtype == "bool" else str(dtype), None)
    if scalar is None or dtype in _NO_ARRAYS:
        raise TypeError(f"{subject}: expected a dtype that JAX has, got {dtype}")
    return np.dtype(scalar)


def _check_width(subject: str, dtype: Any) -> None:
    """Refuses what JAX would narrow silently."""
    check_kept(subject, dtype, jax.dtypes.canonicalize_dtype(dtype))


FRAMEWORK: Final = JaxFramework()


def register() -> None:
    """Registers the targets with XLA and the arrays with graphffi."""
    register_targets()
    register_partitioners()
    register_framework(FRAMEWORK, type_prefixes=("jax", "jaxlib"))
