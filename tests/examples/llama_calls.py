# SPDX-License-Identifier: Apache-2.0
"""Ops of the decoder in every framework: their arguments, references in NumPy, and calls."""

import numpy as np

BATCH, HEADS, KV_HEADS, HEAD_DIM, CAPACITY = 2, 6, 2, 8, 12


# ---- references, in float64


def rms_norm(x, weight, eps=1e-5):
    mean = (x * x).sum(-1, keepdims=True) / max(x.shape[-1], 1)
    return (x / np.sqrt(mean + eps) * weight,)


def rope(q, k, cos, sin, positions):
    c, s = cos[positions][:, None, :], sin[positions][:, None, :]

    def rotate(x):
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate((a * c - b * s, b * c + a * s), axis=-1)

    return rotate(q), rotate(k)


def silu_and_mul(x):
    gate, up = np.split(x, 2, axis=-1)
    return (gate / (1 + np.exp(-gate)) * up,)


def kv_cache_append(cache_k, cache_v, k, v, positions):
    new_k, new_v = cache_k.copy(), cache_v.copy()
    new_k[:, :, positions] = k.swapaxes(1, 2)
    new_v[:, :, positions] = v.swapaxes(1, 2)
    return new_k, new_v


def decode_attention(q, k_cache, v_cache, length, mask=None, scale=1.0):
    group = q.shape[2] // k_cache.shape[1]
    keys, values = (np.repeat(cache, group, axis=1) for cache in (k_cache, v_cache))
    scores = np.einsum("bthd,bhcd->bhtc", q, keys) * scale
    seen = np.arange(keys.shape[2])[None, :] < length.reshape(())
    seen = np.broadcast_to(seen if mask is None else seen & mask, scores.shape)
    weights = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True, initial=0)), 0)
    weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    return (np.einsum("bhtc,bhcd->bthd", weights, values),)


# ---- arguments: (operands as NumPy arrays, attributes)


def generator():
    return np.random.default_rng(0)


def normal(*shape):
    return generator().standard_normal(shape).astype(np.float32)


def norm_arguments(*shape):
    return [normal(*shape), normal(shape[-1])], {"eps": 1e-3}


def rope_arguments(tokens, index=np.int32):
    tables = normal(CAPACITY, HEAD_DIM // 2), normal(CAPACITY, HEAD_DIM // 2) + 1
    q, k = normal(BATCH, tokens, HEADS, HEAD_DIM), normal(BATCH, tokens, KV_HEADS, HEAD_DIM)
    return [q, k, *tables, np.arange(2, 2 + tokens, dtype=index)], {}


def append_arguments(tokens, index=np.int32):
    caches = [normal(BATCH, KV_HEADS, CAPACITY, HEAD_DIM) + i for i in range(2)]
    new = [normal(BATCH, tokens, KV_HEADS, HEAD_DIM) - i for i in range(2)]
    positions = generator().permutation(CAPACITY)[:tokens].astype(index)
    return [*caches, *new, positions], {}


def attention_arguments(tokens, length, *, mask=False, index=np.int32):
    caches = [normal(BATCH, KV_HEADS, CAPACITY, HEAD_DIM) + i for i in range(2)]
    operands = [normal(BATCH, tokens, HEADS, HEAD_DIM), *caches, np.array([length], index)]
    if mask:
        operands.append(generator().random((tokens, CAPACITY)) < 0.5)
    return operands, {"scale": HEAD_DIM**-0.5}


REFERENCES = (rms_norm, rope, silu_and_mul, kv_cache_append, decode_attention)
TYPICAL = {
    "rms_norm": norm_arguments(2, 5, 33),
    "rope": rope_arguments(5),
    "silu_and_mul": ([normal(2, 3, 38) * 4], {}),
    "kv_cache_append": append_arguments(3),
    "decode_attention": attention_arguments(3, 7, mask=True),
}
EDGES = [
    ("rms_norm", norm_arguments(1)),
    ("rms_norm", norm_arguments(0, 8)),
    ("rms_norm", norm_arguments(3, 0)),
    ("rms_norm", norm_arguments(7)),
    ("rope", rope_arguments(1)),
    ("rope", rope_arguments(0)),
    ("rope", rope_arguments(10, np.int64)),
    ("silu_and_mul", ([normal(2)], {})),
    ("silu_and_mul", ([normal(0, 6)], {})),
    ("silu_and_mul", ([normal(4, 0)], {})),
    ("silu_and_mul", ([np.linspace(-120, 120, 482, dtype=np.float32)], {})),
    ("kv_cache_append", append_arguments(0)),
    ("kv_cache_append", append_arguments(1)),
    ("kv_cache_append", append_arguments(CAPACITY, np.int64)),
    ("decode_attention", attention_arguments(1, 1)),
    ("decode_attention", attention_arguments(1, CAPACITY, index=np.int64)),
    ("decode_attention", attention_arguments(4, CAPACITY)),
    ("decode_attention", attention_arguments(1, 0)),
    ("decode_attention", attention_arguments(0, 4, mask=True)),
]


# ---- how each framework calls an op: (op, operands, attributes, dtype) -> float32 NumPy arrays


def as_list(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def call_numpy(op, operands, attributes, dtype):
    copies = [x.copy() for x in operands]
    return as_list(op(*copies, **attributes))


def torch_operands(operands, dtype):
    import torch

    tensors = [torch.from_numpy(np.array(x)) for x in operands]
    return [x.to(getattr(torch, dtype)) if x.is_floating_point() else x for x in tensors]


def keep_tables(name, operands, converted):
    """The tables of rope stay float32."""
    if name.endswith("rope"):
        converted[2:4] = operands[2:4]
    return converted


def call_torch(op, operands, attributes, dtype, *, wrap=lambda function: function):
    converted = torch_operands(operands, dtype)
    converted = keep_tables(op.name, torch_operands(operands, "float32"), converted)
    results = wrap(lambda *xs: op(*xs, **attributes))(*converted)
    return [x.float().numpy() for x in as_list(results)]


def call_torch_compile(op, operands, attributes, dtype, *, dynamic=True):
    import torch

    def wrap(function):
        torch.compiler.reset()
        return torch.compile(function, fullgraph=True, dynamic=dynamic)

    return call_torch(op, operands, attributes, dtype, wrap=wrap)


def call_jax(op, operands, attributes, dtype, *, wrap=lambda function: function):
    import jax.numpy as jnp

    def convert(x, to):
        return jnp.asarray(x, to if x.dtype == np.float32 else None)

    operands = [x.astype(np.int32) if x.dtype == np.int64 else x for x in operands]
    converted = [convert(x, dtype) for x in operands]
    converted = keep_tables(op.name, [convert(x, "float32") for x in operands], converted)
    results = wrap(lambda *xs: op(*xs, **attributes))(*converted)
    return [np.asarray(x.astype(jnp.float32)) for x in as_list(results)]


def call_jax_jit(op, operands, attributes, dtype):
    import jax

    return call_jax(op, operands, attributes, dtype, wrap=jax.jit)


CALLS = {
    "numpy": call_numpy,
    "torch": call_torch,
    "torch.compile": call_torch_compile,
    "jax": call_jax,
    "jax.jit": call_jax_jit,
}


def round_to(operands, dtype):
    """The operands with values that `dtype` can hold."""
    if dtype == "float32":
        return operands

    def nearest(x):
        bits = x.view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return bits.astype(np.uint32).view(np.float32)

    return [nearest(x) if x.dtype == np.float32 else x for x in operands]


def check(name, op, call, arguments, dtype):
    operands, attributes = arguments
    converted = keep_tables(name, operands, round_to(operands, dtype))
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in converted]
    expected = {f.__name__: f for f in REFERENCES}[name](*wide, **attributes)
    actual = call(op, converted, attributes, dtype)
    assert len(actual) == len(expected)
    tolerance = {"rtol": 2e-5, "atol": 2e-6} if dtype == "float32" else {"rtol": 5e-3, "atol": 1e-6}
    for got, wanted in zip(actual, expected, strict=True):
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, **tolerance)
