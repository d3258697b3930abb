# SPDX-License-Identifier: Apache-2.0
"""The example with FlashInfer's kernels, where their sources or libraries are."""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("graphffi_torch")
run = importlib.import_module("examples.flashinfer.run")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU for torch")


@pytest.fixture(scope="module")
def _kernels() -> None:
    try:
        run.compile_kernels()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("_kernels")
@pytest.mark.parametrize(
    ("framework", "name"), [(f, name) for f, made in run.DECODERS.items() for name in made]
)
def test_logits_are_those_of_plain_torch(framework: str, name: str) -> None:
    if framework == "jax":
        jax = pytest.importorskip("jax")
        pytest.importorskip("graphffi_jax")
        if jax.default_backend() != "gpu":
            pytest.skip("needs a GPU for JAX")
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    decode = run.DECODERS[framework][name]()
    run.compare(decode)
    assert torch._dynamo.utils.counters["inductor"]["cudagraph_skips"] == 0
    print(f"{name}: {run.tokens_per_second(decode):.0f} tokens a second")
