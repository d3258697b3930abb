# SPDX-License-Identifier: Apache-2.0
"""The progress of a long command: by tqdm on a terminal that has it, else in one line."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class Progress:
    """Shows how much of something is done; nothing where the error stream is no terminal."""

    def __init__(self, title: str, total: float, unit: str) -> None:
        self._title, self._total, self._unit = title, total, unit
        self._bar: Any = None
        self._is_shown = sys.stderr.isatty()
        if self._is_shown and importlib.util.find_spec("tqdm"):
            bar: Any = importlib.import_module("tqdm").tqdm
            form = "{desc}: {percentage:3.0f}%|{bar:20}| {n:.0f}/{total:.0f} {unit} {postfix}"
            self._bar = bar(total=total, desc=title, unit=unit, bar_format=form, leave=False)

    def __call__(self, done: float, text: str) -> None:
        """Shows that so much of the total is done, and what comes next."""
        done = min(done, self._total)
        if self._bar is not None:
            self._bar.n = done
            self._bar.set_postfix_str(text[:80])
        elif self._is_shown:
            share = f"{done:.0f}/{self._total:.0f} {self._unit}"
            print(f"\r{f'{self._title}: {share}: {text}'[:100]:<100}\r", end="", file=sys.stderr)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._is_shown:
            print(f"\r{'':<100}\r", end="", file=sys.stderr, flush=True)
