# SPDX-License-Identifier: Apache-2.0
"""What all tests share: which runtime they run on, and what a test may ask for."""

from __future__ import annotations

import gc
import importlib.util
import os
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DISTRIBUTIONS = ("torch", "jaxlib", "numpy", "apache-tvm-ffi", "jax-tvm-ffi", "apache-tvm")


def version_of(distribution: str) -> str:
    """What is installed of it, as the header of a test run says it."""
    try:
        return f"{distribution} {metadata.version(distribution)}"
    except metadata.PackageNotFoundError:
        return f"no {distribution}"


def pytest_report_header() -> list[str]:
    """Names the runtime in use and the frameworks."""
    asked = os.environ.get("GRAPHFFI_RUNTIME", "unset")
    return [
        f"graphffi runtime: GRAPHFFI_RUNTIME={asked}",
        f"frameworks: {', '.join(version_of(name) for name in DISTRIBUTIONS)}",
    ]


def pytest_configure(config: pytest.Config) -> None:
    """Declares the markers; gives each process that runs tests a cache of its own."""
    config.addinivalue_line(
        "markers", "slow: takes long and need not run on each runtime; part of `make test-slow`"
    )
    config.addinivalue_line(
        "markers", "needs(*modules): skips the test where one of the modules is not importable"
    )
    # Without it, Inductor compiles a program for each set of vector instructions, in each cache.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    # Debuggers read them only, and a sixth of the time of compiling a package goes into them.
    os.environ.setdefault("AOT_INDUCTOR_ENABLE_LINE_TABLES", "0")
    # Threads that spin while they wait take the processor from the other processes that run tests:
    # training a model took 53 s of processor time, and takes 20 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch 2.13 reads there what another process has only begun to write.
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))
        sanitizer = os.environ.get("GRAPHFFI_SANITIZE", "")  # both are tested at the same time
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(caches, sanitizer, worker))


def pytest_collection_finish() -> None:
    """Takes what is imported now, most of it frameworks, out of all later garbage collections.

    They were a third of the processor time: tests of leaks ask for many.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what this machine can't run, and says what is missing."""
    for marker in item.iter_markers("needs"):
        missing = [name for name in marker.args if importlib.util.find_spec(name) is None]
        if missing:
            pytest.skip(f"needs {', '.join(missing)}")
