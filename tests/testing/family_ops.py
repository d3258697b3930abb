# SPDX-License-Identifier: Apache-2.0
"""The family of random ops, for the checks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.families.op_family import Member

OPS = [Member(number).define("family_check") for number in range(12)]
