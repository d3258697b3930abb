# SPDX-License-Identifier: Apache-2.0
"""``python -m graphffi``: the command ``graphffi``."""

from __future__ import annotations

import sys

from ._command.command import main

if __name__ == "__main__":
    sys.exit(main())
