# SPDX-License-Identifier: Apache-2.0
"""The layout of maps, read without the runtime's help, as kernels' inline code reads it."""

from __future__ import annotations

import pytest
from toolchain import HERE, RUNTIMES, Toolchain

SIZES = [0, 1, 2, 4, 5, 7, 8, 15, 16, 17, 100, 1000, 5000]


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("size", SIZES)
def test_every_key_is_found_and_the_order_is_that_of_insertion(
    toolchain: Toolchain, size: int, runtime: str
) -> None:
    reader = toolchain.program(HERE / "cpp/map_reader.cc")
    toolchain.run(reader, str(size), runtime=runtime)
