# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as torch's autograd applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

import graphffi_torch._C as _C
from graphffi import TensorSpec
from graphffi.plugin import KINDS, Operand, backward_rule, forward_rule
from graphffi_torch._compiled.dynamo import end_compilation, end_trace
from graphffi_torch._operators.specs import concrete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition, DerivativeRule


def set_rules(definition: Definition) -> None:
    """Makes autograd go through calls of an op, forward and back, by its rules."""
    forward, backward = forward_rule(definition), backward_rule(definition)
    push = None if forward is None else _make_forward(definition, forward)
    _C.set_forward_rule(op=definition.name, run=push)
    if backward is None:
        _C.remove_gradient_rule(definition.name)
        return
    _C.set_gradient_rule(
        op=definition.name,
        parameters=[
            (p.name, isinstance(p, Operand), p.name in backward.save) for p in definition.parameters
        ],
        results=[(name, False, name in backward.save) for name in definition.results],
        run=_make_run(definition, backward),
        check=_make_check(definition, backward),
    )


def _make_run(
    definition: Definition, rule: DerivativeRule
) -> Callable[[dict[str, Any], Sequence[Any]], Any]:
    by_name = [a for a in definition.attributes if KINDS[a.kind].travels_by_name]

    def run(values: dict[str, Any], cotangents: Sequence[Any]) -> Any:
        for attribute in by_name:
            values[attribute.name] = attribute.from_graph(values[attribute.name])
        try:
            return rule.run(definition, values, cotangents)
        except Exception as error:
            end_compilation(error)
            raise

    return run


def _make_check(
    definition: Definition, rule: DerivativeRule
) -> Callable[[list[Any], Any], list[torch.Tensor | None]]:
    def check(described: list[Any], returned: Any) -> list[torch.Tensor | None]:
        specs = [_spec(operand) for operand in described]
        try:
            found = _checked(definition, rule, specs, returned)
            _refuse_others(definition, rule, found)
        except Exception as error:
            end_compilation(error)
            raise
        return found

    return check


def _make_forward(
    definition: Definition, rule: DerivativeRule
) -> Callable[[list[Any], list[Any], list[torch.Tensor]], list[torch.Tensor | None]]:
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
                values[parameter.name] = parameter.from_graph(value)
        attributes = [attribute.name for attribute in definition.attributes]
        seen = {name: values[name] for name in (*rule.save, *attributes)}
        try:
            found = rule.checked(definition, results, rule.run(definition, seen, given))
            _refuse_others(definition, rule, found)
        except Exception as error:
            end_trace(error)
            end_compilation(error)
            raise
        pairs = zip(found, results, strict=True)
        return [None if t is None else t.to(result.dtype) for t, result in pairs]

    return run


def _checked(
    definition: Definition, rule: DerivativeRule, specs: Sequence[Any], returned: Any
) -> list[Any]:
    try:
        return rule.checked(definition, specs, returned)
    except (TypeError, ValueError):
        # The error is that of sizes at hand, in place of a tracer's symbols.
        rule.checked(definition, concrete(specs), concrete(returned))
        raise


def _refuse_others(definition: Definition, rule: DerivativeRule, found: Sequence[Any]) -> None:
    for value in found:
        if value is not None and not isinstance(value, torch.Tensor):
            raise TypeError(
                f"{definition.name}: {rule.NAME}: expected {rule.RETURNED}s that are torch "
                f"tensors, got {type(value).__name__}"
            )


def _tangent(operand: Any, tangent: Any) -> Any:
    """A tangent as forward-mode rules get it: dense, zeros where nothing changes."""
    if isinstance(operand, list):
        return [_tangent(*pair) for pair in zip(operand, tangent, strict=True)]
    if operand is None or not (operand.is_floating_point() or operand.is_complex()):
        return None
    return torch.zeros_like(operand) if tangent is None else tangent.contiguous()


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


def _spec(described: Any) -> Any:
    if isinstance(described, list):
        return [_spec(item) for item in described]
    return None if described is None else TensorSpec(*described)
