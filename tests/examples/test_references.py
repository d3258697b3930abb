# SPDX-License-Identifier: Apache-2.0
"""The ops of the examples against their references, and derivatives against finite differences."""

import importlib

import numpy as np
import pytest

pytest.importorskip("array_api_compat")

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values):
    return np.asarray(values, np.int32)


CALLS = {
    "digits": {
        "rms_norm": (floats(4, 5), floats(5), 1e-3),
        "rms_norm_backward": (floats(4, 5), floats(4), floats(4, 5), floats(5), abs(floats(4))),
        "swish": (floats(3, 4),),
        "swish_backward": (floats(3, 4), floats(3, 4)),
        "attention": (floats(2, 4, 3, 2, 5), 0.4),
        "attention_backward": (
            *(floats(2, 4, 2, 5), floats(2, 2, 4), floats(2, 4, 3, 2, 5)),
            *(floats(2, 4, 2, 5), floats(2, 2, 4) + 3, 0.4),
        ),
    },
    "llama_block": {
        "rms_norm": (floats(4, 5), floats(5), 1e-3),
        "rope": (floats(2, 3, 4, 6), floats(2, 3, 2, 6), floats(9, 3), floats(9, 3), ints(8, 0, 3)),
        "silu_and_mul": (floats(3, 8),),
        "kv_cache_append": (
            *(floats(2, 3, 7, 4), floats(2, 3, 7, 4)),
            *(floats(2, 3, 3, 4), floats(2, 3, 3, 4), ints(5, 0, 5)),
        ),
        "decode_attention": (
            *(floats(2, 3, 4, 6), floats(2, 2, 7, 6), floats(2, 2, 7, 6), ints(5)),
            *(RNG.integers(0, 2, (3, 7)).astype(bool), 0.3),
        ),
    },
}
CASES = [(example, name) for example, calls in CALLS.items() for name in calls]
UPDATING = {"rope", "kv_cache_append"}
DIFFERENTIABLE = [(example, name) for example, name in CASES if name not in UPDATING]


def convert(framework, value):
    if not isinstance(value, np.ndarray):
        return value
    if framework == "torch":
        return pytest.importorskip("torch").from_numpy(value.copy())
    if framework == "jax":
        return pytest.importorskip("jax").numpy.asarray(value)
    return value.copy()


def flat(returned):
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def op_of(example, name):
    return getattr(importlib.import_module(f"examples.{example}.ops"), name)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
@pytest.mark.parametrize(("example", "name"), CASES)
def test_kernels_compute_what_references_do(example, name, framework):
    op = op_of(example, name)

    def call():
        arguments = [convert(framework, a) for a in CALLS[example][name]]
        return [np.asarray(r) for r in flat(op(*arguments))]

    got = call()
    with op.use_kernel("reference"):
        expected = call()
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def along(op, arguments, directions, step):
    changed = [
        a + np.float32(step) * d if d is not None else a
        for a, d in zip(arguments, directions, strict=True)
    ]
    return flat(op(*changed))


def derivatives_jax(op, arguments, directions, cotangents):
    jax = pytest.importorskip("jax")
    by = [i for i, d in enumerate(directions) if d is not None]

    def f(*values):
        changed = dict(zip(by, values, strict=True))
        return tuple(flat(op(*(changed.get(i, a) for i, a in enumerate(arguments)))))

    primals = [jax.numpy.asarray(arguments[i]) for i in by]
    _, tangents = jax.jvp(f, primals, [jax.numpy.asarray(directions[i]) for i in by])
    gradients = jax.vjp(f, *primals)[1](tuple(map(jax.numpy.asarray, cotangents)))
    return tangents, gradients


def derivatives_torch(op, arguments, directions, cotangents):
    torch = pytest.importorskip("torch")
    by = [i for i, d in enumerate(directions) if d is not None]
    others = [convert("torch", a) for a in arguments]

    def f(*values):
        changed = dict(zip(by, values, strict=True))
        return tuple(flat(op(*(changed.get(i, a) for i, a in enumerate(others)))))

    primals = tuple(torch.from_numpy(arguments[i]) for i in by)
    _, tangents = torch.func.jvp(f, primals, tuple(torch.from_numpy(directions[i]) for i in by))
    gradients = torch.func.vjp(f, *primals)[1](tuple(map(torch.from_numpy, cotangents)))
    return tangents, gradients


@pytest.mark.parametrize("derivatives", [derivatives_torch, derivatives_jax])
@pytest.mark.parametrize(("example", "name"), DIFFERENTIABLE)
def test_both_modes_are_what_finite_differences_give(example, name, derivatives):
    op, arguments = op_of(example, name), CALLS[example][name]
    directions = [
        floats(*a.shape) if isinstance(a, np.ndarray) and a.dtype == np.float32 else None
        for a in arguments
    ]
    step = 1e-2
    pairs = zip(*(along(op, arguments, directions, s) for s in (step, -step)), strict=True)
    expected = [(after - before) / (2 * step) for after, before in pairs]
    cotangents = [floats(*e.shape) for e in expected]
    tangents, gradients = derivatives(op, arguments, directions, cotangents)
    for got, wanted in zip(tangents, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-2, atol=2e-2 * abs(wanted).max())
    forward = sum(
        float((np.asarray(t) * c).sum()) for t, c in zip(tangents, cotangents, strict=True)
    )
    chosen = [d for d in directions if d is not None]
    back = sum(float((np.asarray(g) * d).sum()) for g, d in zip(gradients, chosen, strict=True))
    assert back == pytest.approx(forward, rel=1e-3, abs=1e-3)
