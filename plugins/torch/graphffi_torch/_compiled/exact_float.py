# SPDX-License-Identifier: Apache-2.0
"""The place in traced code where a float becomes an attribute; uses no private names of torch."""

from __future__ import annotations

from typing import Any, Final


class ExactFloat:
    """Gives a value as it is. Dynamo guards its bits; see `_dynamo_float`."""

    def __call__(self, value: Any) -> Any:
        """The value."""
        return value


exact_float: Final = ExactFloat()
