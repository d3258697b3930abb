# SPDX-License-Identifier: Apache-2.0
"""A process forked before any kernel ran: calls there tell what depends on earlier calls."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .._guarded import guarded_call
from .ending import how_it_ended

if TYPE_CHECKING:
    from ..._definition.op import Op
    from .._case import Case


_PR_SET_PDEATHSIG: Final = 1  # of linux/prctl.h


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
        try:
            # One that hangs ends with the check.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(self._ask)
            with os.fdopen(asked, "rb") as file:
                cases = pickle.load(file)
            with os.fdopen(answers, "wb") as file:
                for case in cases:
                    pickle.dump(_answer(op, case), file)
                    file.flush()
        finally:
            os._exit(1)  # which nobody reads, once all is answered

    def run(self, cases: Sequence[Case]) -> list[list[Any] | str]:
        """The results of calls in this order; for one that fails, how, in words.

        Those after one that ends the process are missing.
        """
        with os.fdopen(self._ask, "wb") as file:
            pickle.dump(list(cases), file)
        found: list[list[Any] | str] = []
        with os.fdopen(self._answer, "rb") as file, contextlib.suppress(EOFError):
            while len(found) < len(cases):
                found.append(pickle.load(file))
        _, status = os.waitpid(self._pid, 0)
        if len(found) < len(cases):
            found.append(how_it_ended(os.waitstatus_to_exitcode(status)))
        return found


def _answer(op: Op, case: Case) -> list[Any] | str:
    try:
        return guarded_call(op, case).arrays
    except Exception as error:  # of the user's rule or kernel
        return f"{type(error).__name__}: {error}"
