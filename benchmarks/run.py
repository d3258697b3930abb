# SPDX-License-Identifier: Apache-2.0
"""Measures graphffi's calls against the other ways to make them, in one run on the CPU.

    python benchmarks/run.py [--only torch jax cpp import] [--json results.json]

Prints medians over rounds in which all contenders take turns, and graphffi's time over theirs with
the quartiles of the rounds' ratios. docs/benchmarks.md explains the method.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from importlib import metadata
from typing import Any

GROUPS = ("torch", "jax", "cpp", "import")
DISTRIBUTIONS = ("torch", "jaxlib", "apache-tvm-ffi", "jax-tvm-ffi")


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Prints one case, as a table of Markdown."""
    print(f"\n**{rows[0]['case']}**\n")
    print(f"| contender | {rows[0]['unit']} | graphffi / it | quartiles |")
    print("|---|---:|---:|---|")
    for row in rows:
        low, high = row["ratio_quartiles"]
        spread = f"{low:.2f} to {high:.2f}" if row is not rows[0] else ""
        ratio = f"{row['ratio']:.2f}" if row is not rows[0] else ""
        print(f"| {row['name']} | {row['median']:.1f} | {ratio} | {spread} |", flush=True)


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    versions = {name: metadata.version(name) for name in DISTRIBUTIONS}
    return {"python": platform.python_version(), "machine": platform.machine(), **versions}


def main() -> None:
    """Runs the groups that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS)
    parser.add_argument("--json", help="a file to write the results into")
    options = parser.parse_args()
    # The peers need apache-tvm-ffi's runtime; both sides run on it.
    os.environ.setdefault("GRAPHFFI_RUNTIME", "apache")
    import timing

    print(", ".join(f"{name} {version}" for name, version in machine().items()))
    results = []
    for group in options.only:
        for case in load(group):
            rows = [row.summary() for row in timing.run(case)]
            print_rows(rows)
            results += rows
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"machine": machine(), "results": results}, file, indent=1)


def load(group: str) -> list[Any]:
    """The cases of a group; their frameworks are imported only here."""
    import native

    if group == "torch":
        import torch_cases

        return torch_cases.cases(native.kernels())
    if group == "jax":
        import jax_cases

        return jax_cases.cases(native.kernels())
    if group == "cpp":
        import cpp_cases

        return cpp_cases.cases()
    import import_cases

    return import_cases.cases()


if __name__ == "__main__":
    main()
