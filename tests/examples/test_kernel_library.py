# SPDX-License-Identifier: Apache-2.0
"""The template of a project with kernels: built as a wheel, installed elsewhere, tested there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).resolve().parents[2] / "examples" / "kernel_library"


def run(*command, cwd, **environment):
    result = subprocess.run(
        [str(part) for part in command],
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.slow
def test_a_copy_of_it_is_built_installed_and_passes_its_tests(tmp_path):
    pytest.importorskip("scikit_build_core")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    copy, installed = tmp_path / "copy", tmp_path / "installed"
    shutil.copytree(TEMPLATE, copy)
    flags = ("--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path)
    run(*pip, "wheel", *flags, copy, cwd=tmp_path)
    (wheel,) = tmp_path.glob("kernel_library-0.1.0-py3-none-*.whl")
    run(*pip, "install", "--no-deps", "--no-index", "--target", installed, wheel, cwd=tmp_path)
    tests = shutil.copytree(TEMPLATE / "tests", tmp_path / "tests")
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    output = run(*command, cwd=tmp_path, PYTHONPATH=str(installed))
    assert "4 passed" in output
