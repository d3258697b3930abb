# SPDX-License-Identifier: Apache-2.0
"""Exceptions of users' rules name the op and the rule wherever it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import graphffi
import graphffi_jax  # noqa: F401
import graphffi_torch  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable


def _backward(op: Any, x: torch.Tensor) -> None:
    op(x.requires_grad_()).sum().backward()


RULES: dict[str, tuple[str, Callable[[Any, np.ndarray], Any]]] = {
    "torch backward": ("backward", lambda op, x: _backward(op, torch.tensor(x))),
    "torch jvp": ("jvp", lambda op, x: torch.func.jvp(op, *2 * [(torch.tensor(x),)])),
    "torch vmap": ("vmap", lambda op, x: torch.func.vmap(op)(torch.tensor(x))),
    "jax grad": ("backward", lambda op, x: jax.grad(lambda x: op(x).sum())(jnp.asarray(x))),
    "jax jvp": ("jvp", lambda op, x: jax.jvp(op, *2 * [(jnp.asarray(x),)])),
    "jax vmap": ("vmap", lambda op, x: jax.jit(jax.vmap(op))(jnp.asarray(x))),
    "numpy reference": ("reference", lambda op, x: op(x)),
    "torch reference": ("reference", lambda op, x: op(torch.tensor(x))),
    "jax reference": ("reference", lambda op, x: op(jnp.asarray(x))),
}


@pytest.mark.parametrize("path", RULES)
def test_what_a_users_rule_raises_names_op_and_rule(path: str) -> None:
    class OwnError(Exception):
        pass

    def fail(*_: Any) -> Any:
        raise errors[0]

    kind, call = RULES[path]
    op = graphffi.define_op(
        f"raising::{path.replace(' ', '_')}",
        schema="(Tensor x) -> Tensor",
        kernel=None if kind == "reference" else lambda x, out: None,
        infer=graphffi.like,
        fallback="reference" if kind == "reference" else "",
        vmap=fail,
    )
    op.register_vjp(fail)
    op.register_jvp(fail)
    op.set_reference(fail)
    errors = [ValueError("too cold"), OwnError("too cold"), OSError(2, "too cold")]
    with pytest.raises(ValueError, match=rf"^{op.name}: {kind}: too cold(\n|$)"):
        call(op, np.ones((2, 3), "float32"))
    del errors[0]
    with pytest.raises(OwnError, match=r"^too cold(\n|$)"):
        call(op, np.ones((2, 3), "float32"))
    del errors[0]
    with pytest.raises(OSError, match=r"too cold") as caught:
        call(op, np.ones((2, 3), "float32"))
    assert caught.value.args == (2, "too cold")
