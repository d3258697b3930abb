# SPDX-License-Identifier: Apache-2.0
"""Checks of ops on every path: `check` for tests, ``graphffi check`` for the command line.

From an op's definition come inputs (allowed data types; empty, 0-d, strided, offset, expanded and
large operands; absent ones; attributes at their edges), which run in a process of their own:
eagerly in NumPy, PyTorch and JAX, compiled, under ``vmap``, in gradients, from several threads.
"""

from __future__ import annotations

from .._values.nested import flat as flat
from ._bench import Contest as Contest
from ._bench import bench_command as bench_command
from ._bench import facts_of as facts_of
from ._bench import lines_of as lines_of
from ._case import Case as Case
from ._case import View as View
from ._case import numpy_copy as numpy_copy
from ._command import check_command as check_command
from ._command import checked_frameworks as checked_frameworks
from ._command import targets_of as targets_of
from ._parent import check as check
from ._parent import find as find
from ._path import CheckedPath as CheckedPath
from ._report import Finding as Finding
from ._report import Report as Report
from ._steps import axis_of as axis_of
from ._steps import split_name as split_name
from ._worker import find_op as find_op
from ._worker import reproduce as reproduce
