# SPDX-License-Identifier: Apache-2.0
"""Tells if a process that says nothing hangs, on a machine that has other work, too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

_LEAST_SHARE: Final = 0.01  # of a core; a process that gets less waits for something else


class Limit:
    """The processor time that a step may take, in a process and in those that it started."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.seconds = seconds
        self._pid = pid
        self._begin = self._before = processor_time(pid)

    def is_over(self) -> bool:
        """True if it is used up, or the last `seconds` passed without any; asked that often."""
        now = processor_time(self._pid)
        waited = now - self._before < _LEAST_SHARE * self.seconds
        self._before = now
        return waited or now - self._begin >= self.seconds


def processor_time(pid: int) -> float:
    """Seconds that a process and its descendants used; 0 where the system does not say."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended
            fields = path.read_text().rpartition(")")[2].split()
            one = int(path.parent.name)
            ticks[one] = sum(map(int, fields[11:15]))  # its own, and of children that ended
            children.setdefault(int(fields[1]), []).append(one)
    total, rest = 0, [pid]
    while rest:
        one = rest.pop()
        total += ticks.get(one, 0)
        rest += children.get(one, ())
    return total / os.sysconf("SC_CLK_TCK")
