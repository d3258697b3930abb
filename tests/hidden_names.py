# SPDX-License-Identifier: Apache-2.0
"""The torch plugin as it is where torch lacks private names."""

from __future__ import annotations

import os

import pytest

from graphffi.plugin import when_imported

#: `make matrix` has a row for this.
HIDES_ALL = os.environ.get("GRAPHFFI_HIDE_PRIVATE_NAMES") == "1"
needs_private_names = pytest.mark.skipif(HIDES_ALL, reason="private names are hidden")


def hide_features(*features: str) -> None:
    """Has the plugin miss the names of these features, or of all; before its first import."""

    def hide() -> None:
        from graphffi_torch import _private_names

        original = _private_names.why_without

        def why_without(feature: str) -> str | None:
            is_hidden = not features or feature in features
            return "private names are hidden" if is_hidden else original(feature)

        _private_names.why_without = why_without

    when_imported("graphffi_torch._private_names", hide)
