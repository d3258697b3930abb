# SPDX-License-Identifier: Apache-2.0
"""What all tests share: which runtime they run on, and what a test may ask for."""

from __future__ import annotations

import gc
import importlib.util
import os
import zlib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Tests of what no runtime changes: rules, traces, guards, generated text. `make test` runs each
# on one of the runtimes, of each file about as many on each.
ONCE = (
    "docs/",
    "examples/test_digits.py",
    "examples/test_llama_block.py",
    "examples/test_references.py",
    "gpu/test_jax_programs.py",
    "guards/",
    "testing/",
    *(f"core/test_{name}.py" for name in (
        "add_factory", "commands", "factory_libraries", "fallback", "generate", "generate_module",
        "load_ops", "override", "star_parameters", "tune",
    )),
    *(f"interop/test_{name}.py" for name in (
        "errors_of_rules", "family_derivatives", "frozen_sizes", "readme",
    )),
    *(f"jax_plugin/test_{name}.py" for name in (
        "attributes", "effects", "export", "family", "jvp", "packages", "refusals", "remat",
        "sharding", "transforms", "vjp", "vmap",
    )),
    "onnxruntime_plugin/test_export.py",
    "onnxruntime_plugin/test_family",
    *(f"torch_plugin/test_{name}.py" for name in (
        "aliasing", "apache_calls", "compile", "cuda_graphs", "decompose", "direct_calls",
        "effects", "export", "family", "flashinfer_shape", "fx", "gradients", "guard_conditions",
        "inductor", "jvp", "mutation", "odd_tensors", "opcheck", "override", "private_names",
        "recompute", "row_major", "size_guards", "traced_attributes", "traced_modules", "vjp",
        "vmap", "workarounds",
    )),
)  # fmt: skip
DISTRIBUTIONS = (
    *("torch", "jaxlib", "numpy", "onnxruntime"),
    *("apache-tvm-ffi", "jax-tvm-ffi", "apache-tvm"),
)


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
    # Of a package's code, the part that calls kernels takes 10 s to compile with -O1, 7 s without.
    os.environ.setdefault("AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL", "O0")
    # Threads that spin while they wait take the processor from the other processes that run tests:
    # training a model took 53 s of processor time, and takes 20 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # torch 2.13 reads there what another process has only begun to write.
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        caches = os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(ROOT / "build" / "inductor"))
        sanitizer = os.environ.get("GRAPHFFI_SANITIZE", "")  # both are tested at the same time
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(caches, sanitizer, worker))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that divides tests among the runtimes that they run on."""
    text = "where the tests run one after the other, separated by spaces: those of ONCE are divided"
    parser.addoption("--runtimes", default="", help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the tests that run on another runtime."""
    runtimes = config.getoption("--runtimes").split()
    if not runtimes:
        return
    own = runtimes.index(os.environ["GRAPHFFI_RUNTIME"])

    def runs_here(item: pytest.Item) -> bool:
        path = item.path.relative_to(ROOT / "tests").as_posix()
        is_own = zlib.crc32(item.nodeid.encode()) % len(runtimes) == own
        return is_own or not path.startswith(ONCE)

    config.hook.pytest_deselected(items=[item for item in items if not runs_here(item)])
    items[:] = filter(runs_here, items)


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
