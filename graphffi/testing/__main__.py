# SPDX-License-Identifier: Apache-2.0
"""The process in which a check runs an op's kernels: see `_worker`."""

from __future__ import annotations

from ._worker import main

main()
