# SPDX-License-Identifier: Apache-2.0
"""A process forked before any kernel ran: calls there tell what depends on earlier calls."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .._guarded import guarded_call

if TYPE_CHECKING:
    from ..._definition.op import Op
    from .._case import Case


class FreshProcess:
    """Waits for cases, runs them once, and ends.

    Args:
        op: Whose kernel it calls. The process must have a single thread yet.
    """

    def __init__(self, op: Op) -> None:
        asked, self._ask = os.pipe()
        self._answer, answers = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(asked)
            os.close(answers)
            return
        status = 1
        try:
            os.close(self._ask)
            with os.fdopen(asked, "rb") as file:
                cases = pickle.load(file)
            found = [guarded_call(op, case).arrays for case in cases]
            with os.fdopen(answers, "wb") as file:
                pickle.dump(found, file)
            status = 0
        finally:
            os._exit(status)

    def run(self, cases: Sequence[Case]) -> list[list[Any]] | None:
        """The results of calls in this order; None if the process ended before."""
        with os.fdopen(self._ask, "wb") as file:
            pickle.dump(list(cases), file)
        try:
            with os.fdopen(self._answer, "rb") as file:
                found: list[list[Any]] = pickle.load(file)
        except EOFError:
            return None
        finally:
            os.waitpid(self._pid, 0)
        return found
