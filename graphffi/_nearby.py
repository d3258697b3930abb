# SPDX-License-Identifier: Apache-2.0
"""Suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable


def near_names(name: str, known: Iterable[str]) -> str:
    """Return the end of an error text: all known names if few, else those that look alike."""
    names = sorted(set(known))
    if 0 < len(names) <= 8:
        return f"; known: {', '.join(names)}"
    from difflib import get_close_matches

    near = get_close_matches(name, names, n=3, cutoff=0.6)
    return f"; near: {', '.join(near)}" if near else ""
