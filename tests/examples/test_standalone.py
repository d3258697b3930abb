# SPDX-License-Identifier: Apache-2.0
"""The decoder as a library decodes in C, NumPy and JAX what it decodes in torch."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
]

PROMPT, COUNT = [1, 2, 3, 4, 5], 16
SIZES = {
    "layers": 2,
    "hidden": 64,
    "heads": 8,
    "kv_heads": 2,
    "intermediate": 96,
    "vocabulary": 128,
    "capacity": 32,
}
SCRIPT = """
import sys
from examples.llama_block.config import Config
from examples.standalone import hosts
print(*getattr(hosts, sys.argv[1])(sys.argv[2], Config(**{sizes}), {prompt}, {count}))
# The package tvm_ffi imports torch.
assert ("graphffi" if sys.argv[1] == "decode_apache" else "torch") not in sys.modules
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    pytest.importorskip("torch")
    export = importlib.import_module("examples.standalone.export")
    config = importlib.import_module("examples.llama_block.config").Config(**SIZES)
    path = tmp_path_factory.mktemp("standalone") / "llama.so"
    export.export(config, str(path))
    export.build(str(path.parent / "decode"), str(path))
    return path


@pytest.fixture(scope="module")
def expected():
    """What torch decodes with plain operations."""
    import torch

    model = importlib.import_module("examples.llama_block.model_torch")
    reference = importlib.import_module("examples.llama_block.reference_torch")
    configs = importlib.import_module("examples.llama_block.config")
    config = configs.Config(**SIZES)
    weights = model.load_weights(configs.random_weights(config), torch.float32)
    step = model.make_step(config, reference, weights, compiled=False)
    with torch.no_grad():
        caches = model.empty_caches(config, torch.float32)
        tokens, _ = model.generate(step, torch.tensor([PROMPT]), caches, count=COUNT)
    return tokens[0].tolist()


def read(*command):
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    return [int(token) for token in done.stdout.split()]


def test_a_program_in_c_decodes_the_tokens(library, expected):
    sizes = [SIZES[name] for name in ("layers", "kv_heads", "capacity")]
    head_dim = SIZES["hidden"] // SIZES["heads"]
    found = read(library.parent / "decode", *sizes, head_dim, COUNT, *PROMPT)
    assert found == expected


@pytest.mark.parametrize(
    ("host", "package"),
    [("decode_numpy", "numpy"), ("decode_jax", "jax"), ("decode_apache", "tvm_ffi")],
)
def test_hosts_in_python_without_torch_decode_the_tokens(library, expected, host, package):
    if importlib.util.find_spec(package) is None:  # this process may refuse to import it
        pytest.skip(f"needs {package}")
    script = SCRIPT.format(sizes=SIZES, prompt=PROMPT, count=COUNT)
    assert read(sys.executable, "-c", script, host, library) == expected
