# SPDX-License-Identifier: Apache-2.0
"""Gradient rules of ops as torch's autograd applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from graphffi import TensorSpec
from graphffi.plugin import Operand
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
        saved_arguments=[p.name in save for p in definition.parameters],
        saved_results=[name in save for name in definition.results],
        backward=_make_backward(definition),
    )


def _make_backward(definition: Definition) -> Callable[..., list[torch.Tensor | None]]:
    vjp = definition.vjp
    assert vjp is not None

    def backward(
        arguments: Sequence[Any],
        specs: Sequence[Any],
        results: Sequence[Any],
        cotangents: Sequence[Any],
    ) -> list[torch.Tensor | None]:
        values: dict[str, Any] = {}
        operand_specs: list[Any] = []
        for parameter, value, spec in zip(definition.parameters, arguments, specs, strict=True):
            if isinstance(parameter, Operand):
                operand_specs.append(_spec(spec))
                if parameter.name in vjp.save:
                    values[parameter.name] = value
            else:
                values[parameter.name] = attribute_value(parameter, value)
        saved = zip(definition.results, results, strict=True)
        values.update((name, value) for name, value in saved if name in vjp.save)
        try:
            returned = vjp.run(definition, values, [*map(_given, cotangents)])
            gradients = _checked(definition, operand_specs, returned)
            return [_taken(definition.name, gradient) for gradient in gradients]
        except Exception as error:
            end_compilation(error)
            raise

    return backward


def _checked(definition: Definition, specs: Sequence[Any], returned: Any) -> list[Any]:
    vjp = definition.vjp
    assert vjp is not None
    try:
        return vjp.gradients(definition, specs, returned)
    except (TypeError, ValueError):
        # With the sizes at hand where there are a tracer's symbols.
        vjp.gradients(definition, concrete(specs), concrete(returned))
        raise


# Rules transpose linear maps, as JAX's do. Torch's gradients of complex numbers are conjugates of
# what that gives: both ends are conjugated.


def _given(cotangent: torch.Tensor | None) -> torch.Tensor | None:
    """A cotangent as rules get it: dense, because rules for all frameworks can't make it so."""
    if cotangent is None:
        return None
    # Not conj_physical, which torch.vmap (2.10 to 2.15) knows only as a slow loop, with a warning.
    return (cotangent.conj().resolve_conj() if cotangent.is_complex() else cotangent).contiguous()


def _taken(subject: str, gradient: Any) -> torch.Tensor | None:
    """A gradient that a rule returned, as autograd takes it."""
    if gradient is None:
        return None
    if not isinstance(gradient, torch.Tensor):
        raise TypeError(
            f"{subject}: backward: expected gradients that are torch tensors, got "
            f"{type(gradient).__name__}"
        )
    return gradient.conj() if gradient.is_complex() else gradient


def _spec(described: Any) -> Any:
    if isinstance(described, list):
        return [_spec(item) for item in described]
    return None if described is None else TensorSpec(*described)
