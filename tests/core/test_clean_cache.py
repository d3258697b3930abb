# SPDX-License-Identifier: Apache-2.0
"""`graphffi cache`."""

from __future__ import annotations

import fcntl
import json
import os
import re
import resource
import time
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi._build.cache import building, locked, write_text
from graphffi._build.clean_cache import clean_cache
from graphffi._build.location import plugin_cache
from graphffi._command.command import main

DAY = 86400


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three libraries of 1 MB that were last used 1, 2 and 3 days ago, and an object."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(folder))
    for days in (1, 2, 3):
        entry = folder / f"lib{days}-0123456789abcdef"
        entry.mkdir(parents=True)
        (entry / f"lib{days}.so").write_bytes(bytes(2**20))
        set_age(entry, days)
    (folder / "objects").mkdir()
    (folder / "objects" / "k-0123456789abcdef.o").write_bytes(bytes(2**20))
    set_age(folder / "objects" / "k-0123456789abcdef.o", 4)
    return folder


def set_age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def left(cache: Path) -> set[str]:
    return {path.name.partition("-")[0] for path in cache.rglob("*-*")}


def test_a_file_that_cannot_be_written_stays_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    write_text(file, "{}")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as if the disk were full
    try:
        with pytest.raises(OSError, match=re.escape(f"File too large: '{file}'")):
            write_text(file, "x" * 10000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (file.read_text(), os.listdir(tmp_path)) == ("{}", ["found.json"])


def test_without_limits_nothing_is_removed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "folder": str(cache),
        "removed": {"entries": 0, "bytes": 0},
        "kept": {"entries": 4, "bytes": 4 * 2**20},
    }
    assert left(cache) == {"lib1", "lib2", "lib3", "k"}


def test_old_entries_are_removed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "--max-age", "2.5"]) == 0
    assert "removed: 2 entries, 2.0 MB" in capsys.readouterr().out
    assert left(cache) == {"lib1", "lib2"}


def test_the_cache_shrinks_to_a_size(cache: Path) -> None:
    assert main(["cache", "--max-size", "2.1"]) == 0
    assert left(cache) == {"lib1", "lib2"}
    assert main(["cache", "--max-size", "0"]) == 0
    assert left(cache) == set()


def test_files_of_others_stay(cache: Path) -> None:
    (cache / "thesis").mkdir()
    names = ("thesis/chapter-1.txt", "notes-2026.md", "objects/own.o")
    for name in names:
        (cache / name).write_text("not made by graphffi")
        set_age(cache / name, 9)
    set_age(cache / "thesis", 9)
    (cache / "building-k_3x9a").mkdir()  # of a build that was killed
    set_age(cache / "building-k_3x9a", 9)
    assert main(["cache", "--max-size", "0"]) == 0
    found = {str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file()}
    assert found == set(names)
    assert not (cache / "building-k_3x9a").exists()


@pytest.mark.slow
def test_what_was_just_used_stays(cache: Path) -> None:
    code = "int f() { return 1; }"
    path = graphffi.cpp.build("fresh", cpp_sources=code, functions="f")
    assert main(["cache", "--max-size", "0", "--max-age", "0"]) == 0
    assert os.path.isfile(path)
    assert "lib1" not in left(cache)


def test_a_use_makes_a_library_young(cache: Path) -> None:
    code = "int f() { return 1; }"
    path = graphffi.cpp.build("again", cpp_sources=code, functions="f")
    for entry in cache.rglob("*"):
        set_age(entry, 9)
    graphffi.cpp.build("again", cpp_sources=code, functions="f")
    clean_cache(max_bytes=0, max_seconds=0)
    assert os.path.isfile(path)


@pytest.mark.slow
def test_a_removed_library_is_built_again(cache: Path) -> None:
    code = "int f() { return 7; }"
    path = graphffi.cpp.build("gone", cpp_sources=code, functions="f")
    for entry in cache.rglob("*"):
        set_age(entry, 9)
    clean_cache(max_bytes=0, max_seconds=DAY)
    assert not os.path.exists(path)
    again = graphffi.cpp.build("gone", cpp_sources=code, functions="f")
    assert graphffi.load_module(again).f() == 7


def test_a_build_that_takes_long_keeps_its_folder(cache: Path) -> None:
    with building(cache) as folder:
        (folder / "k.cc").write_text("")
        set_age(folder, 1)
        clean_cache(max_bytes=0, max_seconds=0)
        assert (folder / "k.cc").exists()
    assert not folder.exists()


def test_a_lock_that_is_held_stays(cache: Path) -> None:
    lock = cache / "k-0123456789abcdef.lock"
    with locked(lock):
        set_age(lock, 9)
        clean_cache(max_bytes=0, max_seconds=DAY)
        assert lock.exists()
    set_age(lock, 9)
    clean_cache(max_bytes=0, max_seconds=DAY)
    assert not lock.exists()


def test_the_plugin_of_this_graphffi_stays(cache: Path) -> None:
    plugin, other = plugin_cache(), cache / "plugins-other-0123456789abcdef"
    for folder in (plugin, other):
        folder.mkdir()
        set_age(folder, 99)
    clean_cache(max_bytes=0, max_seconds=0)
    assert plugin.is_dir()
    assert not other.exists()


@pytest.mark.parametrize("arguments", [["--max-size", "-1"], ["--max-age", "nan"]])
def test_bad_limits_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", *arguments]) == 1
    expected = f"cache: expected limits of 0 or more, got {float(arguments[1])}"
    assert expected in capsys.readouterr().err


def test_a_missing_cache_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRAPHFFI_CACHE_DIR", str(tmp_path / "none"))
    assert main(["cache", "--max-size", "0"]) == 0
    assert "kept: 0 entries" in capsys.readouterr().out


def test_a_user_without_a_home_has_an_empty_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def home(_: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("GRAPHFFI_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(home))
    assert main(["cache"]) == 0
    assert "kept: 0 entries" in capsys.readouterr().out


def test_a_lock_that_was_removed_before_it_was_held_is_made_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, take = cache / "k-0123456789abcdef.lock", fcntl.flock
    removed = []

    def remove_first(file: Any, operation: int) -> None:
        if not removed:
            removed.append(lock)
            lock.unlink()
        take(file, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with locked(lock):
        monkeypatch.undo()
        with lock.open("w") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_forked_process_does_not_keep_a_lock(run_python: Any, cache: Path) -> None:
    code = f"""
import fcntl, os
from pathlib import Path
from graphffi._build.cache import locked

lock = Path({str(cache)!r}) / "k-0123456789abcdef.lock"
reader, writer = os.pipe()
with locked(lock):
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)  # until the parent closes its end
        os._exit(0)
with lock.open("w") as file:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.close(writer)
assert os.waitpid(child, 0) == (child, 0)
"""
    assert run_python(code) == (0, "")
