# SPDX-License-Identifier: Apache-2.0
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "quickstart"
FRAMEWORKS = {
    "run_numpy": "numpy",
    "run_torch": "torch",
    "run_torch_compile": "torch",
    "run_jax": "jax",
}


@pytest.fixture(scope="module")
def quickstart():
    spec = importlib.util.spec_from_file_location("quickstart", FOLDER / "quickstart.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("driver", FRAMEWORKS)
def test_driver_gives_the_promised_numbers(quickstart, driver):
    pytest.importorskip(FRAMEWORKS[driver])
    assert np.asarray(getattr(quickstart, driver)()).tolist() == [10.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("driver", FRAMEWORKS)
def test_driver_has_ten_lines_at_most(quickstart, driver):
    assert len(inspect.getsource(getattr(quickstart, driver)).splitlines()) <= 10


def test_kernel_has_fifteen_lines_at_most():
    source = (FOLDER / "kernels.cc").read_text()
    body = re.search(r"^void AddOne.*?^}", source, re.DOTALL | re.MULTILINE)
    assert len(body[0].splitlines()) <= 15


def test_script_prints_the_promised_numbers_for_numpy():
    # Without the frameworks: hiding them keeps the test short, and shows that a bare machine works.
    hide = (
        "import importlib.util, runpy\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n in ('torch', 'jax') else find(n, *a)\n"
        f"runpy.run_path({str(FOLDER / 'quickstart.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, check=True)
    assert re.search(r"NumPy: \[10\. 20\. 30\. 40\.\]", done.stdout)
    assert "jax is not installed" in done.stdout


def test_wrong_dtype_is_a_type_error(quickstart):
    with pytest.raises(TypeError, match=r"add_one: operand 'x': expected float32, got float64"):
        quickstart.add_one(np.zeros(3))


def test_strided_input_is_copied(quickstart):
    x = np.arange(16, dtype=np.float32).reshape(4, 4)[:, ::2]
    np.testing.assert_array_equal(quickstart.scale(x, 2.0), x * 2)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (5, 7)])
def test_every_shape_works(quickstart, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = quickstart.scale(quickstart.add_one(x), 3.0)
    assert y.shape == shape
    np.testing.assert_allclose(y, (x + 1) * np.float32(3), rtol=1e-6)


@pytest.mark.parametrize(("name", "attributes"), [("add_one", ()), ("scale", (2.0,))])
def test_opcheck(quickstart, name, attributes):
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    getattr(quickstart, name)(x, *attributes)  # registers it
    torch.library.opcheck(getattr(torch.ops.quickstart, name).default, (x, *attributes))


def test_integer_factor_is_taken_as_a_float(quickstart):
    np.testing.assert_array_equal(quickstart.scale(np.ones(2, np.float32), 3), [3, 3])
