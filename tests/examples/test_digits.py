# SPDX-License-Identifier: Apache-2.0
"""The digits network: kernels against plain operations, and trainings on both."""

import importlib
import subprocess

import numpy as np
import pytest

EPOCHS = 10
RNG = np.random.default_rng(0)
OPERANDS = {
    "rms_norm": ([(2, 5, 12), (12,)], {}),
    "swish": ([(3, 7)], {}),
    "attention": ([(2, 5, 3, 4, 6)], {"scale": 0.4}),
}
BACKWARD = {  # of saved results there are any of the right shapes
    "rms_norm_backward": ([(2, 5, 12), (2, 5), (2, 5, 12), (12,), (2, 5)], {}),
    "swish_backward": ([(3, 7), (3, 7)], {}),
    "attention_backward": (
        [(2, 5, 4, 6), (2, 4, 5), (2, 5, 3, 4, 6), (2, 5, 4, 6), (2, 4, 5)],
        {"scale": 0.4},
    ),
}
FRAMEWORKS = ["torch", "jax"]


def example(name):
    return importlib.import_module(f"examples.digits.{name}")


def random(shape):
    return RNG.standard_normal(shape).astype(np.float32)


def value_and_gradients_torch(f, operands, weights):
    import torch

    tensors = [torch.tensor(x, requires_grad=True) for x in operands]
    out = f(*tensors)
    out = out[0] if isinstance(out, tuple) else out
    gradients = torch.autograd.grad((out * torch.from_numpy(weights)).sum(), tensors)
    return [x.detach().numpy() for x in (out, *gradients)]


def value_and_gradients_jax(f, operands, weights):
    import jax

    def first(*arrays):
        out = f(*arrays)
        return out[0] if isinstance(out, tuple) else out

    out, pull = jax.vjp(first, *map(jax.numpy.asarray, operands))
    return [np.asarray(x) for x in (out, *pull(jax.numpy.asarray(weights)))]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", OPERANDS)
def test_values_and_gradients_are_those_of_plain_operations(framework, name):
    pytest.importorskip(framework)
    shapes, attributes = OPERANDS[name]
    operands = [random(shape) for shape in shapes]
    run = globals()[f"value_and_gradients_{framework}"]
    plain, kernels = example(f"reference_{framework}"), example("ops")
    out_shape = (2, 5, 4, 6) if name == "attention" else shapes[0]
    weights = random(out_shape)
    expected, got = (
        run(lambda *x, m=m: getattr(m, name)(*x, **attributes), operands, weights)
        for m in (plain, kernels)
    )
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_second_results_have_gradients_too():
    torch = pytest.importorskip("torch")
    ops = example("ops")
    x, weight, qkv = (torch.tensor(random(s)) for s in [(2, 5, 12), (12,), (2, 5, 3, 4, 6)])

    def plain_inverse(x):
        return (x.square().mean(-1) + 1e-5).rsqrt()

    def plain_logsumexp(qkv):
        q, k, _ = qkv.unbind(-3)
        return (0.4 * torch.einsum("bihd,bjhd->bhij", q, k)).logsumexp(-1)

    for kernel, plain, operand in (
        (lambda x: ops.rms_norm(x, weight).inverse, plain_inverse, x),
        (lambda qkv: ops.attention(qkv, 0.4).logsumexp, plain_logsumexp, qkv),
    ):
        got, expected = (
            torch.func.grad(lambda t, f=f: f(t).square().sum())(operand) for f in (kernel, plain)
        )
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OPERANDS | BACKWARD)
def test_opcheck(name):
    torch = pytest.importorskip("torch")
    shapes, attributes = (OPERANDS | BACKWARD)[name]
    getattr(example("ops"), name)
    operands = [torch.tensor(random(shape), requires_grad=name in OPERANDS) for shape in shapes]
    operator = getattr(torch.ops.digits, name).default
    torch.library.opcheck(operator, tuple(operands), attributes)


def test_opcheck_is_about_every_op():
    import graphffi

    module = example("ops")
    names = {name for name, value in vars(module).items() if isinstance(value, graphffi.Op)}
    assert names == set(OPERANDS | BACKWARD)


@pytest.mark.slow
def test_training_with_torch_compile_is_as_good_as_plain_torch():
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    training = example("train_torch")
    plain = training.train(example("reference_torch"), epochs=EPOCHS, compiled=False)
    accuracy = training.train(example("ops"), epochs=EPOCHS)
    assert accuracy >= 0.95
    assert abs(accuracy - plain) < 0.02


@pytest.mark.slow
def test_training_with_jax_is_as_good_as_plain_jax():
    pytest.importorskip("jax")
    pytest.importorskip("sklearn")
    training = example("train_jax")
    plain = training.train(example("reference_jax"), epochs=EPOCHS)
    accuracy = training.train(example("ops"), epochs=EPOCHS)
    assert accuracy >= 0.95
    assert abs(accuracy - plain) < 0.02


def summed_logits(operations, parameters, image):
    return (example("model").logits(operations, parameters, image) ** 2).sum()


def test_gradients_of_every_example_at_once_in_torch():
    torch = pytest.importorskip("torch")
    ops = example("ops")
    parameters = {n: torch.from_numpy(p) for n, p in example("model").initial_parameters(1).items()}
    images = torch.from_numpy(random((3, 8, 8)))
    gradient = torch.func.grad(lambda p, image: summed_logits(ops, p, image))
    got = torch.func.vmap(gradient, in_dims=(None, 0))(parameters, images)
    for i in range(3):
        for name, expected in gradient(parameters, images[i]).items():
            torch.testing.assert_close(got[name][i], expected, rtol=1e-3, atol=1e-4)


def test_gradients_of_every_example_at_once_in_jax():
    jax = pytest.importorskip("jax")
    ops = example("ops")
    parameters = jax.tree.map(jax.numpy.asarray, example("model").initial_parameters(1))
    images = jax.numpy.asarray(random((3, 8, 8)))
    gradient = jax.jit(jax.grad(lambda p, image: summed_logits(ops, p, image)))
    got = jax.jit(jax.vmap(gradient, in_axes=(None, 0)))(parameters, images)
    for i in range(3):
        for name, expected in gradient(parameters, images[i]).items():
            np.testing.assert_allclose(got[name][i], expected, rtol=1e-3, atol=1e-4)


def test_wrong_operands_are_refused():
    ops = example("ops")
    with pytest.raises(ValueError, match=r"digits::rms_norm: operand 'weight': expected the size"):
        ops.rms_norm(random((2, 3)), random((4,)))
    with pytest.raises(
        ValueError, match=r"digits::attention: operand 'qkv': expected \[\.\.\., tok"
    ):
        ops.attention(random((2, 5, 2, 4, 6)), 1.0)
    with pytest.raises(ValueError, match="digits::swish: operand 'x': expected row-major float32"):
        ops.swish(np.zeros(3))


def test_operands_in_another_layout_are_copied():
    ops = example("ops")
    x = random((3, 4)).T
    np.testing.assert_array_equal(ops.swish(x), ops.swish(x.copy(order="C")))


def test_empty_batches():
    ops = example("ops")
    assert ops.attention(random((0, 5, 3, 4, 6)), 1.0).out.shape == (0, 5, 4, 6)
    assert ops.rms_norm(random((0, 6)), random((6,))).inverse.shape == (0,)


def test_operands_of_backward_ops_are_checked():
    ops = example("ops")
    x, weight, inverse = random((4, 3)), random((3,)), random((4,))
    for wrong in (random((5,)), random((2,)), random((4, 1))):
        with pytest.raises(ValueError, match="operand 'inverse': expected shape"):
            ops.rms_norm_backward(x, inverse, x, weight, wrong)
    qkv, out, logsumexp = random((5, 3, 4, 6)), random((5, 4, 6)), random((4, 5))
    with pytest.raises(ValueError, match="operand 'logsumexp': expected shape"):
        ops.attention_backward(out, logsumexp, qkv, out, random((4, 4)), 1.0)
    with pytest.raises(ValueError, match="operand 'grad': expected shape"):
        ops.swish_backward(random((3,)), random((4,)))


def test_attention_over_heads_without_elements_has_sums():
    _, logsumexp = example("ops").attention(random((2, 5, 3, 4, 0)), 0.4)
    np.testing.assert_allclose(logsumexp, np.full((2, 4, 5), np.log(5)), rtol=1e-6)


@pytest.mark.slow
def test_hessian_of_the_loss_in_jax():
    jax = pytest.importorskip("jax")
    pytest.importorskip("array_api_compat")
    model = example("model")
    parameters = {n: jax.numpy.asarray(p) for n, p in model.initial_parameters(0).items()}
    images, labels = jax.numpy.asarray(random((2, 8, 8))), jax.numpy.asarray([1, 7])
    names = ("last_norm", "attention_norm0")

    def hessian(operations):
        def loss(*chosen):
            changed = parameters | dict(zip(names, chosen, strict=True))
            logits = model.logits(operations, changed, images)
            return -jax.nn.log_softmax(logits)[jax.numpy.arange(2), labels].mean()

        return jax.jit(jax.hessian(loss, (0, 1)))(*(parameters[n] for n in names))

    got, expected = hessian(example("ops")), hessian(example("reference_jax"))
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_a_program_in_c_trains_with_a_library(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    export = example("export")
    library, program, images = (str(tmp_path / name) for name in ("digits.so", "train", "images"))
    export.export(library)
    export.build(program, library)
    export.write_data(images)
    done = subprocess.run([program, images, str(EPOCHS)], check=True, capture_output=True)
    assert float(done.stdout) >= 0.95
