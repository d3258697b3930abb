# SPDX-License-Identifier: Apache-2.0
"""The exported model gives in ONNX Runtime, in Python and in C, what it gives in eager torch."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

NEEDED = ("torch", "onnx", "onnxruntime", "onnxscript")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    example = importlib.import_module("examples.onnx.export")
    path = tmp_path_factory.mktemp("onnx")
    example.export(str(path / "model.onnx"))
    example.deploy(path)
    return path


@pytest.fixture(scope="module")
def expected():
    """What eager torch gives for both calls."""
    import torch

    model = importlib.import_module("examples.onnx.export").Model()
    x = torch.arange(8.0).reshape(2, 4)
    return [model(x).ravel().tolist(), model(x[:1]).ravel().tolist()]


def numbers(*command, **options):
    done = subprocess.run(
        list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True, **options
    )
    return [[float(word) for word in line.split()] for line in done.stdout.splitlines()]


def test_a_program_in_c_without_python_gives_the_results(folder, expected):
    found = numbers("env", "-i", "./host", "model.onnx", cwd=folder)
    assert found == [pytest.approx(values, abs=1e-6) for values in expected]


def test_a_program_in_python_without_torch_gives_the_results(folder, expected):
    script = (
        "import sys; from examples.onnx.run import main; main(); assert 'torch' not in sys.modules"
    )
    root = Path(__file__).parents[2]
    found = numbers(sys.executable, "-c", script, folder / "model.onnx", cwd=root)
    assert found == [pytest.approx(values, abs=1e-6) for values in expected]
