# SPDX-License-Identifier: Apache-2.0
"""Findings of a check, as text and as JSON, each with a script that reproduces it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .._values.describe import counted

FEWER_THREADS: Final = {"OPENBLAS_NUM_THREADS": "1"}
"""The environment in which the import of NumPy starts no threads, which a fork would not have."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with an op.

    Args:
        kind: In a word or two: ``crash``, ``out of bounds``, ``unwritten``, ``gradient``, …
        path: Where it shows: ``numpy``, ``torch.compile``, ``jax.vmap``, …
        text: Expected and got.
        arguments: Of the smallest call that shows it, as text.
        script: Python code that shows it again.
    """

    kind: str
    path: str
    text: str
    arguments: str = ""
    script: str = ""

    def __str__(self) -> str:
        where = f" with {self.arguments}" if self.arguments else ""
        return f"{self.kind} ({self.path}){where}: {self.text}"


@dataclass
class Report:
    """The result of a check.

    Args:
        op: Its name.
        findings: What is wrong.
        notes: What could not be checked, and why.
        num_cases: Different inputs.
        seconds: That it took.
    """

    op: str
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_cases: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        count = len(self.findings)
        head = f"{self.op}: {counted(count, 'finding')}"
        head += f" in {counted(self.num_cases, 'case')}" if self.num_cases else ", no case"
        lines = [f"{head}, {self.seconds:.1f} s"]
        for finding in self.findings:
            lines.append(f"  {finding}")
            lines += [f"    {line}" for line in finding.script.splitlines()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def script_of(target: dict[str, Any], step: str, case: dict[str, Any]) -> str:
    """A script that runs a step of a check again, in its own process."""
    environment = {"debug": {"GRAPHFFI_DEBUG": "1"}, "fresh": FEWER_THREADS}.get(step)
    begin = f"import os\n\nos.environ.update({environment!r})\n" if environment else ""
    return (
        f"{begin}from graphffi.testing import reproduce\n"
        f"reproduce({json.dumps(target)}, {step!r},\n"
        f"          {case!r})"
    )
