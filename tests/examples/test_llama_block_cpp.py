# SPDX-License-Identifier: Apache-2.0
"""The decoder in a C++ program without Python decodes what Python decodes."""

import importlib
import subprocess

import pytest

pytestmark = [
    pytest.mark.slow,  # two compilers of C++
]

PROMPT, COUNT = [1, 2, 3, 4, 5], 16


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program, the package, and the dimensions of its model."""
    pytest.importorskip("torch")
    export = importlib.import_module("examples.llama_block_cpp.export")
    config = importlib.import_module("examples.llama_block.config").Config(
        layers=2, hidden=64, heads=8, kv_heads=2, intermediate=96, vocabulary=128, capacity=32
    )
    folder = tmp_path_factory.mktemp("llama_block_cpp")
    program, package = folder / "decode", folder / "model.pt2"
    export.build(str(program))
    export.export(config, str(package))
    return program, package, config


def test_it_decodes_the_tokens_that_python_decodes(built):
    import torch

    program, package, config = built
    model = importlib.import_module("examples.llama_block.model_torch")
    reference = importlib.import_module("examples.llama_block.reference_torch")
    weights = importlib.import_module("examples.llama_block.config").random_weights(config)
    step = model.make_step(
        config, reference, model.load_weights(weights, torch.float32), compiled=False
    )
    with torch.no_grad():
        caches = model.empty_caches(config, torch.float32)
        tokens, _ = model.generate(step, torch.tensor([PROMPT]), caches, count=COUNT)
    command = [program, package, COUNT, *PROMPT]
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)
    assert [int(token) for token in done.stdout.split()] == tokens[0].tolist()


def test_it_loads_no_python(built):
    program, _, _ = built
    done = subprocess.run(["ldd", str(program)], check=True, stdout=subprocess.PIPE, text=True)
    assert "libgraphffi_torch.so" in done.stdout
    assert "libtvm_ffi.so" in done.stdout
    assert "libpython" not in done.stdout


def test_it_says_what_is_wrong_with_a_package(built, tmp_path):
    (tmp_path / "model.pt2").write_text("nothing")
    command = [built[0], tmp_path / "model.pt2", 1, 1]
    done = subprocess.run([*map(str, command)], check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "expected a PyTorch archive" in done.stderr
