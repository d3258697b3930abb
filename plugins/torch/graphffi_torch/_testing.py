# SPDX-License-Identifier: Apache-2.0
"""Paths of PyTorch for `graphffi.testing`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy
import torch
from torch.utils.dlpack import from_dlpack

from graphffi.plugin import call_in_order
from graphffi.testing import Case, CheckedPath, Contest, View, flat
from graphffi_torch._export.package import load_package, package
from graphffi_torch._operators.operator_schema import DIGEST, operator_schemas
from graphffi_torch._operators.specs import to_numpy, torch_dtype

if TYPE_CHECKING:
    from graphffi import Op

NAME: Final = "torch"


def paths(op: Op) -> list[CheckedPath]:
    """The paths on which an op can be called."""
    dynamic = "torch.compile(dynamic=True)"
    found = [
        CheckedPath("torch", _eager),
        CheckedPath("torch.compile", _compiled(dynamic=False), most=3, is_slow=True),
        CheckedPath(dynamic, _compiled(dynamic=True), most=1, batch=0, is_slow=True),
        CheckedPath("torch.export", _exported, most=2, is_slow=True),
        CheckedPath("AOTInductor", _packaged, most=1, is_slow=True),
    ]
    if op.definition.vmap is not None:
        found.append(CheckedPath("torch.vmap", _mapped, most=4, batch=3))
    return [replace(path, takes=_has_dtypes) for path in found]


def _has_dtypes(op: Op, case: Case) -> bool:
    """True if torch has the data types of all tensors."""
    try:
        specs = op.definition.infer(case.specs(), case.values)
        for kind in [view.dtype for view in case.views()] + [spec.dtype for spec in specs]:
            torch_dtype(kind)
    except TypeError:
        return False
    return True


def contests(op: Op, case: Case) -> list[Contest]:
    """The op, and the same behind an operator of `torch.library.custom_op`, which calls it."""
    custom = _custom_op(op)
    args = case.arguments(op.definition, _tensor)

    def compiled(call: Callable[..., Any]) -> Callable[[], Any]:
        torch.compiler.reset()

        def program(*operands: Any) -> Any:
            return call(*operands)

        made = torch.compile(program, fullgraph=True)
        return lambda: made(*args)

    name = "torch.library.custom_op"
    return [
        Contest("torch", lambda: call_in_order(op, args), lambda: custom(*args), name),
        Contest(
            "torch.compile",
            compiled(lambda *values: call_in_order(op, values)),
            compiled(custom),
            name,
        ),
    ]


def _custom_op(op: Op) -> Any:
    definition = op.definition
    schema, _, _ = operator_schemas(definition)
    signature = schema.partition("(")[2].replace(f'str {DIGEST}=""', "").replace("*, )", ")")
    signature = "(" + signature.replace(", )", ")")
    count = len(definition.results)

    def call(*args: Any) -> Any:
        fresh = flat(call_in_order(op, args))[:count]
        return fresh[0] if count == 1 else tuple(fresh) if count else None

    made: Any = torch.library.custom_op(
        f"graphffi_bench_{definition.name}",
        call,
        mutates_args=[o.name for o in definition.operands if o.mutated],
        schema=signature,
    )
    made.register_fake(call)
    return made


def gradients(
    op: Op, arguments: Sequence[Any], by: Sequence[int], cotangents: Sequence[Any]
) -> list[Any]:
    """Gradients of an op's results: see `Gradients` of `graphffi.testing._gradient`."""
    tensors, converted = _converted(arguments)
    for i in by:
        tensors[i].requires_grad_()
    results = flat(call_in_order(op, converted))
    chosen = [
        (r, torch.from_numpy(c))
        for r, c in zip(results, cotangents, strict=False)
        if c is not None and r.requires_grad
    ]
    wanted = [tensors[i] for i in by]
    if not chosen:
        return [None] * len(by)
    outputs, grads = zip(*chosen, strict=True)
    found = torch.autograd.grad(outputs, wanted, grads, allow_unused=True)
    return [None if g is None else g.numpy() for g in found]


def tangents(
    op: Op, arguments: Sequence[Any], by: Sequence[int], directions: Sequence[Any]
) -> list[Any]:
    """Tangents of an op's results: see `Tangents` of `graphffi.testing._gradient`."""
    tensors, converted = _converted(arguments)
    primals = tuple(tensors[i] for i in by)
    changes = tuple(
        torch.zeros_like(p) if d is None else torch.from_numpy(d)
        for p, d in zip(primals, directions, strict=True)
    )

    def call(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        replaced = dict(zip((id(p) for p in primals), values, strict=True))

        def put(value: Any) -> Any:
            is_list = isinstance(value, list)
            return [put(item) for item in value] if is_list else replaced.get(id(value), value)

        return tuple(flat(call_in_order(op, [put(value) for value in converted])))

    found: Any = torch.func.jvp(call, primals, changes)[1]
    return [t.detach().numpy() for t in found]


def _converted(arguments: Sequence[Any]) -> tuple[list[torch.Tensor], list[Any]]:
    """All tensors, and the arguments with them."""
    tensors: list[torch.Tensor] = []

    def make(value: Any) -> Any:
        if isinstance(value, list) and value and hasattr(value[0], "dtype"):
            return [make(item) for item in value]
        if not hasattr(value, "shape"):
            return value
        tensors.append(torch.from_numpy(value.copy()))
        return tensors[-1]

    return tensors, [make(value) for value in arguments]


def _tensor(base: numpy.ndarray, view: View) -> torch.Tensor:
    plain = torch.from_numpy(base.view("uint8").copy())  # torch reads no data type of ml_dtypes
    flat_tensor = plain.to(view.device).view(torch_dtype(base.dtype))
    return flat_tensor.as_strided(view.shape, view.all_strides, view.offset)


def check_device(device: str) -> None:
    """Raises an error if torch has no such device."""
    torch.empty(0, device=device)


def copied_to(device: str) -> Callable[[Any], Any]:
    """A function that copies arrays of NumPy to a device, and leaves all else as it is."""

    def copy(value: Any) -> Any:
        if not isinstance(value, numpy.ndarray):
            return value
        base = value.ravel() if value.size else numpy.zeros(1, value.dtype)
        return _tensor(base, View(str(value.dtype), value.shape, device=device))

    return copy


def view_of_copy(
    buffer: numpy.ndarray, begin: int, view: View
) -> tuple[torch.Tensor, torch.Tensor]:
    """See `copy_to_device` of `graphffi.testing._device`."""
    copied = torch.from_numpy(buffer.copy()).to(view.device)
    kind = torch_dtype(view.dtype)
    elements = copied[begin : begin + kind.itemsize].view(kind)
    offset = begin // kind.itemsize + view.offset
    return elements.as_strided(view.shape, view.all_strides, offset), copied


def arrays(returned: Any) -> list[Any]:
    """Of tensors, and of what an op returns that is called without one: those of graphffi."""
    tensors = [t if isinstance(t, torch.Tensor) else from_dlpack(t) for t in flat(returned)]
    return [to_numpy(tensor) for tensor in tensors]


def _eager(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    return _each(op, lambda *args: call_in_order(op, args), cases)


def _compiled(*, dynamic: bool) -> Callable[[Op, Sequence[Case]], list[list[Any]]]:
    def run(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
        torch.compiler.reset()

        def call(*args: Any) -> Any:
            return call_in_order(op, args)

        return _each(op, torch.compile(call, fullgraph=True, dynamic=dynamic), cases)

    return run


class _Model(torch.nn.Module):
    """Calls an op with the attributes of a case."""

    def __init__(self, op: Op, case: Case) -> None:
        super().__init__()
        self._op, self._case = op, case

    def forward(self, operands: list[Any]) -> Any:
        return call_in_order(self._op, self._case.in_order(self._op.definition, operands))


def _export(op: Op, case: Case) -> torch.export.ExportedProgram:
    return torch.export.export(_Model(op, case), (case.build(_tensor),))


def _exported(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    found = []
    for case in cases:
        program = _export(op, case).module()
        found.append(arrays(program(case.build(_tensor))))
    return found


def _packaged(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    found = []
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = package(_export(op, case), Path(folder) / "model.pt2")
            model = load_package(path, trust=True)
            found.append(arrays(model(case.build(_tensor))))
    return found


def _each(op: Op, call: Callable[..., Any], cases: Sequence[Case]) -> list[list[Any]]:
    return [arrays(call(*case.arguments(op.definition, _tensor))) for case in cases]


def _mapped(op: Op, cases: Sequence[Case]) -> list[list[Any]]:
    """One call for all cases under `torch.vmap`."""
    calls = [case.build(_tensor) for case in cases]
    stacked = [torch.stack(tensors) for tensors in zip(*map(flat, calls), strict=True)]

    def call(*batched: torch.Tensor) -> Any:
        rest = iter(batched)

        def take(value: Any) -> Any:
            if isinstance(value, list):
                return [next(rest) for _ in value]
            return None if value is None else next(rest)

        operands = [take(value) for value in calls[0]]
        return tuple(flat(call_in_order(op, cases[0].in_order(op.definition, operands))))

    returned = torch.vmap(call)(*stacked)
    return [[to_numpy(result[i]) for result in returned] for i in range(len(cases))]
