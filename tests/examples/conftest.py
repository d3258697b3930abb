# SPDX-License-Identifier: Apache-2.0
"""Makes the examples importable from wherever pytest is started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
