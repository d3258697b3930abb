# SPDX-License-Identifier: Apache-2.0
"""Checks every op with a seeded fault as `graphffi check` does, and says which faults it finds.

    python tests/testing/count_faults.py [name ...]

A line for each fault: the seconds of its check and what was found; then how many were found.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import test_check

import graphffi
from graphffi.testing import find

FRAMEWORKS = ("torch", "jax")


def faults() -> Iterator[tuple[dict[str, str], set[str], Sequence[str]]]:
    """Where each op is, what has to be found, as kinds or kinds and paths, and the frameworks."""
    path = graphffi.cpp.build("fault_ops", [test_check.HERE / "faults.cc"], extra_cflags=["-O1"])
    for name, kinds in test_check.FAULTS.items():
        yield {"op": f"faults::{name}", "library": path}, kinds, FRAMEWORKS
    for name, kinds in test_check.PYTHON_FAULTS.items():
        yield test_check._python_op(name), kinds, FRAMEWORKS
    # What one framework shows is not looked for in the other: each alone.
    for name, (kind, way) in test_check.FRAMEWORK_FAULTS.items():
        for framework in FRAMEWORKS:
            place = f"{framework}.{way}" if way else framework
            yield test_check._python_op(name), {f"{kind} ({place})"}, [framework]


def main() -> None:
    """Checks one op after the other."""
    found, total, slowest = 0, 0, 0.0
    for target, expected, frameworks in faults():
        name = target["op"].partition("::")[2]
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        report = find(target, frameworks=frameworks)
        got = {f"{finding.kind} ({finding.path})" for finding in report.findings}
        is_found = bool(expected & (got | {finding.kind for finding in report.findings}))
        total += 1
        found += is_found
        slowest = max(slowest, report.seconds)
        what = ", ".join(sorted(got)) or "nothing"
        mark = "" if is_found else "NOT FOUND: "
        print(f"{report.seconds:5.1f} s  {name}: {mark}{what}", flush=True)
    print(f"{found} of {total} found, the slowest in {slowest:.1f} s")


if __name__ == "__main__":
    main()
