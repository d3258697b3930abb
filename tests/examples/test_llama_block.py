# SPDX-License-Identifier: Apache-2.0
"""Every op of the decoder against a reference in NumPy, in every framework."""

import functools
import importlib

import numpy as np
import pytest

import graphffi
from tests.examples.llama_calls import (
    BATCH,
    CALLS,
    CAPACITY,
    EDGES,
    HEAD_DIM,
    HEADS,
    KV_HEADS,
    TYPICAL,
    as_list,
    attention_arguments,
    call_numpy,
    call_torch,
    call_torch_compile,
    check,
    keep_tables,
    norm_arguments,
    normal,
    rope,
    rope_arguments,
    torch_operands,
)


@pytest.fixture(scope="module")
def ops():
    return importlib.import_module("examples.llama_block.ops")


@pytest.fixture(params=CALLS)
def call(request):
    pytest.importorskip(request.param.partition(".")[0])
    return CALLS[request.param]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", TYPICAL)
def test_op_agrees_with_the_reference(ops, call, name, dtype):
    if call is call_numpy and dtype == "bfloat16":
        pytest.skip("NumPy has no bfloat16")
    check(name, getattr(ops, name), call, TYPICAL[name], dtype)


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax.jit"])
@pytest.mark.parametrize("case", range(len(EDGES)), ids=lambda i: f"{EDGES[i][0]}-{i}")
def test_edge_sizes_agree_with_the_reference(ops, framework, case):
    pytest.importorskip(framework.partition(".")[0])
    name, arguments = EDGES[case]
    check(name, getattr(ops, name), CALLS[framework], arguments, "float32")


def sized(op, size):
    """A call for which the kernels of an op differ by `size`: of rows, or of heads."""
    if op == "rms_norm":
        return norm_arguments(3, size)
    q, caches = normal(1, 2, 2, size), [normal(1, 1, 5, size) + i for i in range(2)]
    return [q, *caches, np.array([4], np.int32)], {}


# By op and size: what runs, and what else can.
CHOICES = {
    ("rms_norm", 1 << 17): ("threaded", {"avx2", "scalar"}),
    ("rms_norm", 8): ("avx2", {"scalar"}),
    ("rms_norm", 7): ("scalar", set()),
    ("decode_attention", 1 << 18): ("threaded", {"avx2", "scalar"}),
    ("decode_attention", 32): ("head_size", {"avx2", "scalar"}),
    ("decode_attention", 8): ("avx2", {"scalar"}),
    ("decode_attention", 6): ("scalar", set()),
}


def kernel_that_runs(op, operands):
    (line,) = (line for line in op.explain(*operands).splitlines() if line.endswith(": runs"))
    return line.split("'")[1]


@pytest.mark.parametrize(("name", "size"), CHOICES)
def test_each_kernel_runs_where_its_condition_says(ops, name, size):
    if not ops.HAS_AVX2:
        pytest.skip("no AVX2 here")
    op, (operands, attributes) = getattr(ops, name), sized(name, size)
    chosen, others = CHOICES[name, size]
    assert kernel_that_runs(op, operands) == chosen
    for kernel in (chosen, *others):
        with op.use_kernel(kernel):
            check(name, op, call_numpy, (operands, attributes), "float32")


@pytest.mark.parametrize("framework", ["torch", "torch.compile", "jax.jit"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_head_size_has_a_kernel_of_its_own_in_every_framework(ops, framework, dtype):
    pytest.importorskip(framework.partition(".")[0])
    arguments = sized("decode_attention", 32)
    check("decode_attention", ops.decode_attention, CALLS[framework], arguments, dtype)


def test_query_that_sees_nothing_gives_zeros(ops):
    operands, attributes = attention_arguments(2, 5)
    mask = np.zeros((2, CAPACITY), bool)
    mask[1, 3] = True
    out = ops.decode_attention(*operands, mask, **attributes)
    assert (out[:, 0] == 0).all()
    np.testing.assert_allclose(out[:, 1, :3], np.broadcast_to(operands[2][:, :1, 3], (2, 3, 8)))


def test_bfloat16_rounds_to_nearest_even_and_keeps_nan(ops):
    torch = pytest.importorskip("torch")
    bits = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
    gate = torch.full((1 << 16,), 1.0, dtype=torch.bfloat16)
    up = bits.view(torch.bfloat16)
    actual = ops.silu_and_mul(torch.stack((gate, up), dim=1)).squeeze(1)
    expected = (torch.nn.functional.silu(gate.float()) * up.float()).to(torch.bfloat16)
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    # The exponential may be an ulp of float32 off, so a tie of bfloat16 may fall to the other side.
    assert (~same).sum() <= 4
    assert actual.isnan().sum() == expected.isnan().sum()


# ---- layouts


def strided(torch, x):
    """The same values with gaps between the rows."""
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", TYPICAL)
def test_rows_may_have_any_strides(ops, name, compiled):
    torch = pytest.importorskip("torch")
    operands, attributes = TYPICAL[name]
    op = getattr(ops, name)
    expected = call_torch(op, operands, attributes, "float32")
    tensors = torch_operands(operands, "float32")
    if compiled:
        torch.compiler.reset()
        function = torch.compile(lambda *xs: op(*xs, **attributes), fullgraph=True, dynamic=True)
    else:
        function = lambda *xs: op(*xs, **attributes)  # noqa: E731
    views = [strided(torch, x) if x.is_floating_point() and x.ndim > 1 else x for x in tensors]
    assert not views[0].is_contiguous()
    for got, wanted in zip(as_list(function(*views)), expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_in_place_op_on_views_of_one_tensor(ops):
    torch = pytest.importorskip("torch")
    operands, _ = rope_arguments(5)
    q, k, *rest = torch_operands(operands, "float32")
    q_size, k_size = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM

    def rotate(qk):
        qk = qk * 1.0  # an intermediate, so that the compiler decides where it lives
        q, k = qk.split((q_size, k_size), dim=-1)
        ops.rope(q.unflatten(-1, (-1, HEAD_DIM)), k.unflatten(-1, (-1, HEAD_DIM)), *rest)
        return qk

    qk = torch.cat((q.flatten(2), k.flatten(2)), dim=-1)
    q_out, k_out = rope(*(x.astype(np.float64) for x in operands[:4]), operands[4])
    expected = np.concatenate((q_out.reshape(BATCH, 5, -1), k_out.reshape(BATCH, 5, -1)), axis=-1)
    torch.compiler.reset()
    for function in (rotate, torch.compile(rotate, fullgraph=True, dynamic=True)):
        np.testing.assert_allclose(function(qk).numpy(), expected, rtol=2e-5, atol=2e-6)


def test_in_place_op_returns_the_same_tensors_in_torch(ops):
    pytest.importorskip("torch")
    operands, _ = TYPICAL["kv_cache_append"]
    tensors = torch_operands(operands, "float32")
    cache_k, cache_v = ops.kv_cache_append(*tensors)
    assert cache_k is tensors[0]
    assert cache_v is tensors[1]


def test_in_place_op_leaves_its_operands_alone_in_jax(ops):
    jnp = pytest.importorskip("jax.numpy")
    operands, _ = TYPICAL["kv_cache_append"]
    arrays = [jnp.asarray(x) for x in operands]
    ops.kv_cache_append(*arrays)
    np.testing.assert_array_equal(np.asarray(arrays[0]), operands[0])


def test_columns_with_strides_are_refused(ops):
    torch = pytest.importorskip("torch")
    with pytest.raises(
        ValueError, match=r"rms_norm: operand 'x': expected elements of the last dimension side by"
    ):
        ops.rms_norm(torch.zeros(4, 8).t(), torch.zeros(4))


# ---- what is refused, with the same sentence everywhere


def change(name, **operands_by_index):
    operands, attributes = TYPICAL[name]
    operands = list(operands)
    for index, value in operands_by_index.items():
        operands[int(index[1:])] = value
    return operands, attributes


ERRORS = {
    "weight-size": (
        "rms_norm",
        change("rms_norm", _1=normal(7)),
        ValueError,
        r"operand 'weight': expected shape \[33\], got float32\[7\]",
    ),
    "norm-of-a-scalar": (
        "rms_norm",
        ([np.array(1, np.float32), normal(1)], {}),
        ValueError,
        r"operand 'x': expected at least 1 dimensions, got float32\[\]",
    ),
    "weight-dtype": (
        "rms_norm",
        change("rms_norm", _1=np.ones(33, np.int32)),
        TypeError,
        r"operand 'weight': expected float32, got int32\[33\]",
    ),
    "integer-norm": (
        "rms_norm",
        change("rms_norm", _0=np.ones((2, 33), np.int32)),
        TypeError,
        r"operand 'x': expected float32 or bfloat16, got int32\[2, 33\]",
    ),
    "rope-rank": (
        "rope",
        change("rope", _0=normal(5, HEADS, HEAD_DIM)),
        ValueError,
        r"operand 'q': expected \[batch, tokens, heads, head_dim\], got float32\[5, 6, 8\]",
    ),
    "rope-table": (
        "rope",
        change("rope", _3=normal(CAPACITY, 3)),
        ValueError,
        r"operand 'sin': expected shape \[12, 4\], got float32\[12, 3\]",
    ),
    "rope-position": (
        "rope",
        change("rope", _4=np.array([0, 1, 2, 3, 12], np.int32)),
        IndexError,
        r"operand 'positions': expected values from 0 to 11, got 12 at index 4",
    ),
    "rope-position-dtype": (
        "rope",
        change("rope", _4=np.arange(5, dtype=np.uint8)),
        TypeError,
        r"operand 'positions': expected int32 or int64, got uint8\[5\]",
    ),
    "odd-gate": (
        "silu_and_mul",
        ([normal(2, 5)], {}),
        ValueError,
        r"operand 'x': expected an even last dimension, got float32\[2, 5\]",
    ),
    "append-heads": (
        "kv_cache_append",
        change("kv_cache_append", _3=normal(BATCH, 3, 1, HEAD_DIM)),
        ValueError,
        r"operand 'v': expected shape \[2, 3, 2, 8\], got float32\[2, 3, 1, 8\]",
    ),
    "append-position": (
        "kv_cache_append",
        change("kv_cache_append", _4=np.array([0, -1, 2], np.int32)),
        IndexError,
        r"operand 'positions': expected values from 0 to 11, got -1 at index 1",
    ),
    "attention-groups": (
        "decode_attention",
        change("decode_attention", _0=normal(BATCH, 3, 5, HEAD_DIM)),
        ValueError,
        r"operand 'q': expected heads to be a multiple of the 2 kv_heads",
    ),
    "attention-length": (
        "decode_attention",
        change("decode_attention", _3=np.array([13], np.int32)),
        ValueError,
        r"operand 'length': expected a value from 0 to 12, got 13",
    ),
    "attention-mask": (
        "decode_attention",
        change("decode_attention", _4=np.ones((3, 11), bool)),
        ValueError,
        r"operand 'mask': expected shape \[3, 12\], got bool\[3, 11\]",
    ),
    "attention-mask-dtype": (
        "decode_attention",
        change("decode_attention", _4=np.ones((3, CAPACITY), np.int32)),
        TypeError,
        r"operand 'mask': expected bool, got int32\[3, 12\]",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_wrong_operand_is_refused_by_name(ops, call, case):
    name, (operands, attributes), kind, sentence = ERRORS[case]
    # Compilers wrap errors in their own: what counts there is the sentence.
    expected = kind if call in (call_numpy, call_torch) else Exception
    if call is call_torch_compile:  # with dynamic shapes the sentence has symbols for sizes
        call = functools.partial(call, dynamic=False)
    with pytest.raises(expected, match=rf"{name}: {sentence}"):
        call(getattr(ops, name), operands, attributes, "float32")
    check(name, getattr(ops, name), call_numpy, TYPICAL[name], "float32")  # and life goes on


# ---- torch's own checks of an op


def test_every_op_of_the_example_is_checked(ops):
    names = {name for name, value in vars(ops).items() if isinstance(value, graphffi.Op)}
    assert names == set(TYPICAL)


@pytest.mark.parametrize("name", TYPICAL)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_opcheck_passes(ops, name, dtype):
    torch = pytest.importorskip("torch")
    operands, attributes = TYPICAL[name]
    getattr(ops, name)(*torch_operands(operands, "float32"), **attributes)  # registers it
    tensors = torch_operands(operands, dtype)
    tensors = keep_tables(name, torch_operands(operands, "float32"), tensors)
    operator = getattr(torch.ops.llama, name).default
    torch.library.opcheck(operator, tuple(tensors), attributes)
