# SPDX-License-Identifier: Apache-2.0
"""The op in each framework against a plain formula."""

import numpy as np
import pytest
from kernel_library import rms_norm

X = np.random.default_rng(0).normal(size=(3, 4, 8)).astype("float32")
WEIGHT = np.linspace(0.5, 2, 8, dtype="float32")


def formula(x, weight):
    return x * ((x * x).mean(-1)[..., None] + 1e-6) ** -0.5 * weight


def test_numpy():
    np.testing.assert_allclose(rms_norm(X, WEIGHT), formula(X, WEIGHT), rtol=1e-5)


def test_other_data_types_are_refused():
    with pytest.raises(TypeError, match="kernel_library::rms_norm: operand 'x': expected float32"):
        rms_norm(X.astype("float64"), WEIGHT)


def test_torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("graphffi_torch")  # which makes torch.ops.kernel_library
    x = torch.from_numpy(X).requires_grad_()
    weight = torch.from_numpy(WEIGHT).requires_grad_()
    torch.library.opcheck(torch.ops.kernel_library.rms_norm.default, (x.detach(), weight.detach()))
    compiled = torch.compile(lambda x, w: rms_norm(x, w) + 1, fullgraph=True)
    torch.testing.assert_close(compiled(x, weight), formula(x, weight) + 1)
    found = torch.autograd.grad(rms_norm(x, weight).sum(), (x, weight))
    expected = torch.autograd.grad(formula(x, weight).sum(), (x, weight))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_jax():
    jax = pytest.importorskip("jax")
    np.testing.assert_allclose(jax.jit(rms_norm)(X, WEIGHT), formula(X, WEIGHT), rtol=1e-5)
    found = jax.grad(lambda x: rms_norm(x, WEIGHT).sum())(X)
    expected = jax.grad(lambda x: formula(x, WEIGHT).sum())(X)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
