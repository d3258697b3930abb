# SPDX-License-Identifier: Apache-2.0
"""What the tests of the ABI share."""

from __future__ import annotations

import pytest
from toolchain import Toolchain


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    """Compiles C and C++ into a folder of this session."""
    return Toolchain(tmp_path_factory.mktemp("abi"))
