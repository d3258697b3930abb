# SPDX-License-Identifier: Apache-2.0
"""Measures calls with graphffi and with other tools, in one run on the CPU, or with `--only cuda`.

    python benchmarks/run.py [--only GROUP ...] [--json results.json]
    python benchmarks/run.py --write docs/benchmarks.md

Prints medians over rounds in which all contenders take turns, and graphffi's time over theirs with
the quartiles of the rounds' ratios. docs/benchmarks.md explains the method.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import report

GROUPS = (
    "torch",
    "peer",
    "jax",
    "kernels",
    "cpp",
    "build",
    "start",
    "graph",
    "import",
    "onnx",
    "relax",
)
OTHERS = ("cuda",)  # need more than a processor: not a part of a full run
DISTRIBUTIONS = ("torch", "jaxlib", "apache-tvm-ffi", "jax-tvm-ffi")


def machine() -> dict[str, str]:
    """The versions and the machine of a run."""
    versions = {name: metadata.version(name) for name in DISTRIBUTIONS}
    return {
        "python": platform.python_version(),
        "machine": f"{platform.machine()} with {os.cpu_count()} processors",
        **versions,
    }


def main() -> None:
    """Runs the requested groups."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=(*GROUPS, *OTHERS), default=GROUPS)
    parser.add_argument("--json", help="a file to write the results into")
    parser.add_argument("--write", type=Path, help="a document whose result to replace")
    options = parser.parse_args()
    if options.write and set(options.only) != set(GROUPS):
        parser.error("--write needs all groups")
    if options.write:
        report.replace_result(options.write.read_text(), "")  # fails now rather than at the end
    # The peers need apache-tvm-ffi's runtime; both sides run on it.
    os.environ.setdefault("GRAPHFFI_RUNTIME", "apache")
    import timing

    print(report.machine_line(machine()))
    results = []
    for group in options.only:
        for case in load(group):
            rows = [row.summary() for row in timing.run(case)]
            print("\n" + report.table(rows), end="", flush=True)
            results += rows
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(), "results": results}, file, indent=1)
    if options.write:
        report.write_result(options.write, machine(), results)


def load(group: str) -> Iterable[Any]:
    """The cases of a group; their frameworks are imported only here."""
    import native

    module = importlib.import_module(f"{group}_cases")
    with_kernels = group in ("torch", "peer", "jax", "kernels", "start", "graph", "relax")
    cases: Iterable[Any] = module.cases(native.kernels()) if with_kernels else module.cases()
    return cases


if __name__ == "__main__":
    main()
