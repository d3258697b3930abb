# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as torch's autograd applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from graphffi import TensorSpec
from graphffi.plugin import Operand
from graphffi_torch import _C
from graphffi_torch._dynamo import end_compilation, end_trace
from graphffi_torch._specs import attribute_value, concrete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition


def set_rules(definition: Definition) -> None:
    """Makes autograd go through calls of an op, forward and back, by its rules."""
    forward = None if definition.forward_rule is None else _make_forward(definition)
    _C.set_forward_rule(op=definition.name, run=forward)
    if definition.backward_rule is None:
        _C.remove_gradient_rule(definition.name)
        return
    save = definition.backward_rule.save
    _C.set_gradient_rule(
        op=definition.name,
        parameters=[
            (p.name, isinstance(p, Operand), p.name in save) for p in definition.parameters
        ],
        results=[(name, False, name in save) for name in definition.results],
        run=_make_run(definition),
        check=_make_check(definition),
    )


def _make_run(definition: Definition) -> Callable[[dict[str, Any], Sequence[Any]], Any]:
    vjp = definition.backward_rule
    assert vjp is not None
    by_name = [a for a in definition.attributes if a.kind in ("dtype", "device")]

    def run(values: dict[str, Any], cotangents: Sequence[Any]) -> Any:
        for attribute in by_name:
            values[attribute.name] = attribute_value(attribute, values[attribute.name])
        try:
            return vjp.run(definition, values, cotangents)
        except Exception as error:
            end_compilation(error)
            raise

    return run


def _make_check(definition: Definition) -> Callable[[list[Any], Any], list[torch.Tensor | None]]:
    vjp = definition.backward_rule
    assert vjp is not None

    def check(described: list[Any], returned: Any) -> list[torch.Tensor | None]:
        specs = [_spec(operand) for operand in described]
        try:
            return [_taken(definition.name, g) for g in _checked(definition, specs, returned)]
        except Exception as error:
            end_compilation(error)
            raise

    return check


def _make_forward(
    definition: Definition,
) -> Callable[[list[Any], list[Any], list[torch.Tensor]], list[torch.Tensor | None]]:
    jvp = definition.forward_rule
    assert jvp is not None

    def run(
        arguments: list[Any], tangents: list[Any], results: list[torch.Tensor]
    ) -> list[torch.Tensor | None]:
        values = dict(zip(definition.results, results, strict=True))
        given = []
        for parameter, value, tangent in zip(
            definition.parameters, arguments, tangents, strict=True
        ):
            if isinstance(parameter, Operand):
                given.append(_tangent(value, tangent))
                values[parameter.name] = value
            else:
                values[parameter.name] = attribute_value(parameter, value)
        attributes = [attribute.name for attribute in definition.attributes]
        seen = {name: values[name] for name in (*jvp.save, *attributes)}
        try:
            found = jvp.checked(definition, results, jvp.run(definition, seen, given))
            pairs = zip(found, results, strict=True)
            return [None if t is None else _converted(definition.name, t, r) for t, r in pairs]
        except Exception as error:
            end_trace(error)
            end_compilation(error)
            raise

    return run


def _tangent(operand: Any, tangent: Any) -> Any:
    """What a forward-mode rule gets: dense tensors, zeros where nothing changes."""
    if isinstance(operand, list):
        return [_tangent(*pair) for pair in zip(operand, tangent, strict=True)]
    if operand is None or not (operand.is_floating_point() or operand.is_complex()):
        return None
    return torch.zeros_like(operand) if tangent is None else tangent.contiguous()


def _converted(subject: str, tangent: Any, result: torch.Tensor) -> torch.Tensor:
    if not isinstance(tangent, torch.Tensor):
        raise TypeError(
            f"{subject}: jvp: expected tangents that are torch tensors, got "
            f"{type(tangent).__name__}"
        )
    return tangent.to(result.dtype)


def transpose(
    function: Callable[..., Any], primals: Sequence[torch.Tensor], cotangents: Sequence[Any]
) -> list[torch.Tensor]:
    """Gradients of a function, without the conjugates that torch's have."""
    found: Any = torch.func.vjp(function, *primals)
    pull = found[1]
    return [gradient.conj() for gradient in pull(tuple(c.conj() for c in cotangents))]


def push_forward(
    function: Callable[..., Any], primals: Sequence[torch.Tensor], tangents: Sequence[Any]
) -> list[torch.Tensor | None]:
    """Tangents of a function's results, where a call of an op is differentiated forward."""
    dual: Any = forward_ad
    pairs = zip(primals, tangents, strict=True)
    results = function(*(dual.make_dual(p, t, level=0) for p, t in pairs))
    return [dual.unpack_dual(result, level=0).tangent for result in results]


def _checked(definition: Definition, specs: Sequence[Any], returned: Any) -> list[Any]:
    vjp = definition.backward_rule
    assert vjp is not None
    try:
        return vjp.checked(definition, specs, returned)
    except (TypeError, ValueError):
        # The error is that of sizes at hand, in place of a tracer's symbols.
        vjp.checked(definition, concrete(specs), concrete(returned))
        raise


def _taken(subject: str, gradient: Any) -> torch.Tensor | None:
    """A gradient that a rule returned, as autograd takes it."""
    if gradient is not None and not isinstance(gradient, torch.Tensor):
        raise TypeError(
            f"{subject}: backward: expected gradients that are torch tensors, got "
            f"{type(gradient).__name__}"
        )
    return gradient


def _spec(described: Any) -> Any:
    if isinstance(described, list):
        return [_spec(item) for item in described]
    return None if described is None else TensorSpec(*described)
