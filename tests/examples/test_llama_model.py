# SPDX-License-Identifier: Apache-2.0
"""The decoder on C++ kernels against the same decoder in plain torch and plain JAX."""

import functools
import importlib

import numpy as np
import pytest

PROMPT, STEPS = 7, 16
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.2}


def example(name):
    return importlib.import_module(f"examples.llama_block.{name}")


@functools.cache
def inputs():
    config = example("config").Config(
        layers=2, hidden=64, heads=8, kv_heads=2, intermediate=96, vocabulary=128, capacity=32
    )
    prompt = np.random.default_rng(1).integers(0, config.vocabulary, (2, PROMPT))
    return config, example("config").random_weights(config), prompt


@functools.cache
def torch_model(dtype, operations, compiled):
    """Gives a function of forced tokens, which decodes."""
    import torch

    model = example("model_torch")
    config, weights, prompt = inputs()
    torch_dtype = getattr(torch, dtype)
    loaded = model.load_weights(weights, torch_dtype)
    step = model.make_step(config, example(operations), loaded, compiled=compiled)

    def decode(forced=None, length=PROMPT):
        forced = None if forced is None else torch.from_numpy(forced)
        caches = model.empty_caches(config, torch_dtype, batch=2)
        tokens = torch.from_numpy(prompt[:, :length].copy())
        out = model.generate(step, tokens, caches, count=STEPS, forced=forced)
        return [x.numpy() for x in out]

    return decode


@functools.cache
def jax_model(dtype, operations, compiled):
    import jax.numpy as jnp

    model = example("model_jax")
    config, weights, prompt = inputs()
    loaded = model.load_weights(weights, dtype)
    step = model.make_step(config, example(operations), loaded, compiled=compiled)

    def decode(forced=None):
        forced = None if forced is None else jnp.asarray(forced, jnp.int32)
        caches = model.empty_caches(config, dtype, batch=2)
        out = model.generate(
            step, jnp.asarray(prompt, jnp.int32), caches, count=STEPS, forced=forced
        )
        return [np.asarray(x) for x in out]

    return decode


FRAMEWORKS = {
    "torch": (torch_model, "reference_torch"),
    "jax": (jax_model, "reference_jax"),
}


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    pytest.importorskip(request.param)
    return FRAMEWORKS[request.param]


@pytest.mark.slow
def test_greedy_tokens_equal_those_of_the_plain_model(framework):
    model, reference = framework
    expected, expected_logits = model("float32", reference, model is jax_model)()
    tokens, logits = model("float32", "ops", True)()
    assert tokens.shape == (2, STEPS + 1)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(logits, expected_logits, atol=TOLERANCE["float32"], rtol=0)


def test_eager_torch_decodes_as_the_plain_model_does():
    pytest.importorskip("torch")
    expected, _ = torch_model("float32", "reference_torch", False)()
    tokens, _ = torch_model("float32", "ops", False)()
    np.testing.assert_array_equal(tokens, expected)


@pytest.mark.slow
def test_bfloat16_logits_stay_near_those_of_the_plain_model(framework):
    model, reference = framework
    forced, wide_logits = model("float32", reference, model is jax_model)()
    _, plain = model("bfloat16", reference, model is jax_model)(forced)
    _, logits = model("bfloat16", "ops", True)(forced)
    assert np.abs(logits - plain).max() < TOLERANCE["bfloat16"]
    # No farther from the float32 model than plain bfloat16 is.
    assert np.abs(logits - wide_logits).max() < 1.5 * np.abs(plain - wide_logits).max()


def test_both_frameworks_decode_the_same():
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    torch_tokens, torch_logits = torch_model("float32", "ops", False)()
    jax_tokens, jax_logits = jax_model("float32", "ops", True)()
    np.testing.assert_array_equal(torch_tokens, jax_tokens)
    np.testing.assert_allclose(torch_logits, jax_logits, atol=TOLERANCE["float32"], rtol=0)


@pytest.mark.slow
def test_one_graph_serves_all_steps_and_another_all_prompts_in_torch():
    torch = pytest.importorskip("torch")
    decode = torch_model("float32", "ops", True)
    decode()
    with torch.compiler.set_stance("fail_on_recompile"):
        decode()
        decode(length=4)


def test_one_executable_serves_all_steps_in_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    model = example("model_jax")
    config, weights, prompt = inputs()
    loaded = model.load_weights(weights, "float32")
    traces = []

    @functools.partial(jax.jit, donate_argnums=2)
    def step(tokens, positions, caches):
        traces.append(tokens.shape)
        return model.forward(config, example("ops"), loaded, tokens, positions, caches)

    caches = model.empty_caches(config, "float32", batch=2)
    tokens = jnp.asarray(prompt, jnp.int32)
    for position in range(PROMPT):
        _, caches = step(tokens[:, position : position + 1], jnp.array([position]), caches)
    assert traces == [(2, 1)]


def test_donated_caches_are_updated_in_place_in_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    ops, config = example("ops"), inputs()[0]
    caches = example("model_jax").empty_caches(config, "float32")[0]
    new = jnp.ones((1, 1, config.kv_heads, config.head_dim))
    append = jax.jit(ops.kv_cache_append, donate_argnums=(0, 1))
    addresses = [x.unsafe_buffer_pointer() for x in caches]
    updated = append(*caches, new, new, jnp.array([3]))
    assert [x.unsafe_buffer_pointer() for x in updated] == addresses
    assert caches[0].is_deleted()
    assert (np.asarray(updated[0])[0, :, 3] == 1).all()


def op_names():
    import graphffi

    ops = vars(example("ops")).values()
    return {op.name for op in ops if isinstance(op, graphffi.Op)}


@pytest.mark.slow
def test_a_profile_of_torch_names_every_op():
    torch = pytest.importorskip("torch")
    decode = torch_model("float32", "ops", True)
    decode()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        decode()
    assert op_names() <= {event.name for event in profile.events()}


def test_a_profile_of_jax_names_every_op(tmp_path):
    jax = pytest.importorskip("jax")
    decode = jax_model("float32", "ops", True)
    decode()
    with jax.profiler.trace(tmp_path):
        decode()
    (file,) = tmp_path.glob("**/*.xplane.pb")
    profile = jax.profiler.ProfileData.from_file(str(file))
    lines = [line for plane in profile.planes for line in plane.lines]
    seen = {event.name.partition(".")[0] for line in lines for event in line.events}
    assert {name.replace("::", "__") for name in op_names()} <= seen
