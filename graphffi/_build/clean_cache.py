# SPDX-License-Identifier: Apache-2.0
"""``graphffi cache``: what is kept, and the removal of what was not used for long."""

from __future__ import annotations

import fcntl
import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .._command.outcome import Outcome
from .cache import OBJECTS
from .location import cache_folder, plugin_cache

# Names of what is kept: others may have files of their own in the folder.
_KEPT: Final = re.compile(r".+-[0-9a-f]{16}(\.[\w.]+)?|building-\w+")
# Another process may be about to load what it was just given.
_IN_USE_SECONDS: Final = 600


@dataclass(frozen=True)
class Entry:
    """A library with its folder, an object, or a small file that finds them again.

    Attributes:
        path: of the file or folder.
        size: bytes.
        used: when it was last asked for, in seconds since the epoch.
    """

    path: Path
    size: int
    used: float


@dataclass(frozen=True)
class Cleaned:
    """The entries that `clean_cache` left, and those that it removed."""

    kept: list[Entry]
    removed: list[Entry]


def clean_cache(max_bytes: float, max_seconds: float) -> Cleaned:
    """Removes what was not asked for the longest, until the rest fits.

    What was asked for in the last ten minutes stays, and the PyTorch plugin of this graphffi.

    Args:
        max_bytes: The size to which the cache shrinks; `math.inf` for any.
        max_seconds: For how long an entry may have been unused; `math.inf` for any.
    """
    entries = sorted(_entries(cache_folder()), key=lambda entry: entry.used)
    now = time.time()
    size = sum(entry.size for entry in entries)
    cleaned = Cleaned([], [])
    for entry in entries:
        unused = now - entry.used
        is_wanted = unused < _IN_USE_SECONDS or entry.path == plugin_cache()
        if is_wanted or (size <= max_bytes and unused <= max_seconds) or not _remove(entry.path):
            cleaned.kept.append(entry)
        else:
            cleaned.removed.append(entry)
            size -= entry.size
    return cleaned


def _entries(folder: Path) -> Iterator[Entry]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name == OBJECTS:
            yield from _entries(path)
        elif _KEPT.fullmatch(path.name):
            files = [path, *path.rglob("*")] if path.is_dir() else [path]
            try:
                size = sum(file.stat().st_size for file in files if file.is_file())
                yield Entry(path, size, path.stat().st_mtime)
            except OSError:  # another process removed it
                continue


def _remove(path: Path) -> bool:
    opened: list[int] = []
    try:
        if path.name.startswith("building-") or path.suffix == ".lock":
            opened.append(os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR))
            fcntl.flock(opened[0], fcntl.LOCK_EX | fcntl.LOCK_NB)  # kept while somebody builds
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    except OSError:
        return False
    finally:
        for file in opened:
            os.close(file)
    return True


def cache_command(max_megabytes: float | None, max_days: float | None) -> Outcome:
    """`graphffi cache`: shows what is kept; with a limit, removes what is beyond it first."""
    limits = (max_megabytes, max_days)
    for limit in limits:
        if limit is not None and not limit >= 0:
            raise ValueError(f"graphffi: cache: expected limits of 0 or more, got {limit}")
    max_bytes, max_seconds = (
        math.inf if limit is None else limit * unit
        for limit, unit in zip(limits, (2**20, 86400), strict=True)
    )
    cleaned = clean_cache(max_bytes, max_seconds)
    facts: dict[str, Any] = {"folder": str(cache_folder())}
    lines = [f"folder: {cache_folder()}"]
    for name, entries in (("removed", cleaned.removed), ("kept", cleaned.kept)):
        size = sum(entry.size for entry in entries)
        facts[name] = {"entries": len(entries), "bytes": size}
        lines.append(f"{name}: {len(entries)} entries, {size / 2**20:.1f} MB")
    return Outcome(facts, lines)
