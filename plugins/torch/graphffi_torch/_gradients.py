# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as torch's autograd applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphffi import TensorSpec
from graphffi.plugin import Attribute, Operand
from graphffi_torch import _C
from graphffi_torch._dynamo import end_compilation
from graphffi_torch._specs import attribute_value, concrete

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphffi.plugin import Definition


def set_gradient_rule(definition: Definition) -> None:
    """Makes autograd go back through calls of an op by its rule.

    Args:
        definition: Of an op that has one.
    """
    assert definition.vjp is not None
    save = definition.vjp.save
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
    vjp = definition.vjp
    assert vjp is not None
    by_name = [
        p
        for p in definition.parameters
        if isinstance(p, Attribute) and p.kind in ("dtype", "device")
    ]

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
    vjp = definition.vjp
    assert vjp is not None

    def check(described: list[Any], returned: Any) -> list[torch.Tensor | None]:
        specs = [_spec(operand) for operand in described]
        try:
            return [_taken(definition.name, g) for g in _checked(definition, specs, returned)]
        except Exception as error:
            end_compilation(error)
            raise

    return check


def _checked(definition: Definition, specs: Sequence[Any], returned: Any) -> list[Any]:
    vjp = definition.vjp
    assert vjp is not None
    try:
        return vjp.gradients(definition, specs, returned)
    except (TypeError, ValueError):
        # With the sizes at hand where there are a tracer's symbols.
        vjp.gradients(definition, concrete(specs), concrete(returned))
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
