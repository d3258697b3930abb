# SPDX-License-Identifier: Apache-2.0
"""The kernels of these tests compile where there is nvcc, also without a GPU."""

from __future__ import annotations

import graphffi


def test_the_kernels_export_their_functions(library: str) -> None:
    module = graphffi.load_module(library)
    for name in ("scale", "scale_twice", "scale_through", "late_fill", "late_filled", "stream"):
        assert module.get_function(name).name == name
