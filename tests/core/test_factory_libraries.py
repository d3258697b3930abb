# SPDX-License-Identifier: Apache-2.0
"""Libraries that factories return: keys in caches, processes, kernels made ahead of time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphffi
from graphffi.plugin import FactoryError
from tests.core.array_calls import calling, compiled, ones, value
from tests.core.factories import (
    HERE,
    SOURCE,
    Recorder,
    build_filling,
    by_width,
    define,
    filling,
    narrow,
)

pytestmark = pytest.mark.usefixtures("cache")


def test_a_digest_covers_factory_key_and_files(tmp_path: Path) -> None:
    def of_width(x: Any, n: int, mode: str, f: float) -> int:
        return x.shape[-1]

    def of_rows(x: Any, n: int, mode: str, f: float) -> int:
        return x.shape[0]

    def parts(make: Any = filling, **options: Any) -> str:
        op = define()
        by_width(op, make, **{"key": of_width, "name": "tile", **options})
        return str(op.definition.kernels[0].parts())

    assert parts() == parts()
    file = tmp_path / "source.c"
    found = [parts(), parts(narrow), parts(key=of_rows), parts(depends=["1.0"])]
    for text in ("one", "two"):
        file.write_text(text)
        found.append(parts(depends=[file]))
    assert len(set(found)) == len(found)


def test_a_factory_may_return_the_path_of_a_library(arrays: Any) -> None:
    op = define()
    by_width(op, build_filling, depends=[SOURCE])
    assert [value(op(ones(arrays, n))) for n in (3, 4)] == [3, 4]


@pytest.mark.parametrize("wrong", ["no library", "another symbol"])
def test_a_library_that_does_not_fit_is_not_kept(arrays: Any, wrong: str, tmp_path: Path) -> None:
    library = tmp_path / "fill.so"
    references = []

    def returned(size: int) -> str:
        return references.pop(0)

    op = define()
    by_width(op, returned)
    library.write_bytes(b"cut off")
    if wrong == "another symbol":
        shutil.copy(build_filling(3), library)
    references += [f"{library}::another", f"{build_filling(3)}::fill"]
    with pytest.raises(FactoryError, match=f"{op.name}: factory 'returned', key \\(3\\): "):
        op(ones(arrays, 3))
    assert value(op(ones(arrays, 3))) == 3


def test_files_that_caches_do_not_know_of_are_refused() -> None:
    op = define()
    by_width(op, build_filling, depends=[str(SOURCE)])  # a text, not a path
    text = (
        r"expected depends= to name the files .* got none for '/.*c'; pass each as a pathlib.Path"
    )
    with pytest.raises(FactoryError, match=text):
        op(np.ones(3, np.float32))


def build_in_a_thread(source: Path) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(graphffi.cpp.build, "fill", [source]).result()


def source_with_header(folder: Path) -> tuple[Path, Path]:
    source, header = folder / "filling.c", folder / "value.h"
    source.write_text(f'#include "value.h"\n{SOURCE.read_text()}')
    header.write_text("#define VALUE 1\n")
    return source, header


def test_files_that_a_thread_compiles_are_noted(tmp_path: Path) -> None:
    source, header = source_with_header(tmp_path)
    op = define()
    by_width(op, lambda size: build_in_a_thread(source), name="tile")
    with pytest.raises(FactoryError, match=r"expected depends= to name the files .*filling\.c"):
        op(np.ones(3, np.float32))
    by_width(
        op, lambda size: build_in_a_thread(source), name="tile", depends=[source], override=True
    )
    assert value(op(np.ones(3, np.float32))) == 1
    before = op.definition.traced_digest()
    assert op.definition.traced_digest() == before
    header.write_text("#define VALUE 20\n")
    assert op.definition.traced_digest() != before


class Elsewhere:
    """Factories that build outside of the cache, in a new folder each time."""

    def __init__(self, folder: Path, source: Path = SOURCE) -> None:
        self.folder = folder
        self.source = source
        self.op = define()

    def build(self, *flags: str) -> str:
        folder = tempfile.mkdtemp(dir=self.folder, prefix="made")
        return graphffi.cpp.build("fill", [self.source], extra_cflags=flags, build_directory=folder)

    def start(self, make: Callable[[int], str]) -> None:
        """Gives the op its factory as in a new process, which knows only what the cache has."""
        by_width(self.op, filling, name="tile", override=True)  # the same one would stay
        by_width(self.op, make, depends=[self.source], name="tile", override=True)

    def value(self, size: int = 3) -> float:
        return value(self.op(np.ones(size, np.float32)))

    def digest(self) -> str:
        return self.op.definition.traced_digest()

    def count(self) -> int:
        return len(list(self.folder.glob("made*")))


def test_a_library_that_was_kept_is_made_anew_once_a_header_changed(tmp_path: Path) -> None:
    source, header = source_with_header(tmp_path)
    elsewhere = Elsewhere(tmp_path, source)
    for number, count in ((1, 1), (1, 1), (20, 2), (20, 2)):
        header.write_text(f"#define VALUE {number}\n")
        elsewhere.start(lambda size: elsewhere.build())
        assert (elsewhere.value(), elsewhere.count()) == (number, count)


def test_a_source_that_was_edited_for_a_while_leaves_nothing_behind(tmp_path: Path) -> None:
    source, _ = source_with_header(tmp_path)
    elsewhere = Elsewhere(tmp_path, source)
    original = source.read_text()
    elsewhere.start(lambda size: elsewhere.build())
    digest = elsewhere.digest
    source.write_text(original.replace("= VALUE", "= VALUE + 19"))
    assert elsewhere.value() == 20
    edited = digest()
    source.write_text(original)
    assert digest() != edited
    elsewhere.start(lambda size: elsewhere.build())
    assert elsewhere.value() == 1


def test_a_library_whose_source_changes_meanwhile_is_not_kept(tmp_path: Path) -> None:
    source, _ = source_with_header(tmp_path)
    elsewhere = Elsewhere(tmp_path, source)
    original, edits = source.read_text(), tmp_path / "edits"
    edits.touch()

    def make(size: int) -> str:
        if edits.exists():
            source.write_text(original.replace("= VALUE", "= VALUE + 19"))
        return elsewhere.build()

    elsewhere.start(make)
    assert elsewhere.value() == 20
    digest = elsewhere.digest
    assert digest() != digest()  # nobody knows of which source
    edits.unlink()
    source.write_text(original)
    elsewhere.start(make)
    assert elsewhere.value() == 1


def test_a_library_is_kept_for_the_values_with_which_it_was_made(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path)
    digest = elsewhere.digest
    values = [4]

    def make(size: int) -> str:
        return elsewhere.build(f"-DVALUE={values[0]}")

    elsewhere.start(make)
    assert elsewhere.value(3) == 4
    of_four = digest()
    assert digest() == of_four
    values[0] = 8
    assert elsewhere.value(5) == 8
    assert digest() != of_four
    values[0] = 4
    assert digest() != of_four  # there is a kernel of 8
    elsewhere.start(make)
    assert (elsewhere.value(3), elsewhere.value(5)) == (4, 4)
    values[0] = 8
    elsewhere.start(make)
    assert (elsewhere.value(5), elsewhere.count()) == (8, 3)


def test_a_factory_may_remember_its_calls(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path)
    for sizes in ((3, 4), (4, 3)):
        remembered: dict[int, str] = {}
        digests = []

        def make(size: int, remembered: dict[int, str] = remembered) -> str:
            remembered[size] = elsewhere.build(f"-DVALUE={size}")
            return remembered[size]

        elsewhere.start(make)
        for size in sizes:
            assert elsewhere.value(size) == size
            digests.append(elsewhere.digest())
        assert len(set(digests)) == 1
    assert elsewhere.count() == 2


def run_processes(notes: Path, cache: Path, count: int = 1, **environment: str) -> list[str]:
    variables = {"FILLING_NOTES": str(notes), "GRAPHFFI_CACHE_DIR": str(cache), **environment}
    command = [sys.executable, str(HERE / "filling_op.py"), *map(str, range(3, 8))]
    processes = [
        subprocess.Popen(command, env=os.environ | variables, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    found = [process.communicate()[0].strip() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return found


ALL_FILLED = "3=3 4=4 5=5 6=6 7=7"


def test_threads_of_two_processes_make_each_kernel_once(tmp_path: Path, cache: Path) -> None:
    notes = tmp_path / "notes"
    assert run_processes(notes, cache, 2) == [ALL_FILLED] * 2
    assert sorted(notes.read_text().split()) == list("34567")
    assert run_processes(notes, cache) == [ALL_FILLED]
    assert len(notes.read_text().split()) == 5


def test_kernels_in_a_cache_that_is_only_read_are_used(tmp_path: Path, cache: Path) -> None:
    notes = tmp_path / "notes"
    found = run_processes(notes, cache)
    for lock in cache.glob("*.kernel.lock"):  # as root may write everywhere
        lock.unlink()
        lock.mkdir()
    assert run_processes(notes, cache) == found
    assert len(notes.read_text().split()) == 5


def test_a_library_in_the_cache_that_was_damaged_is_made_anew(tmp_path: Path, cache: Path) -> None:
    notes = tmp_path / "notes"
    found = run_processes(notes, cache)
    libraries = list(cache.glob("kernel-*/fill.so"))
    assert len(libraries) == 5
    for library in libraries:
        library.write_bytes(b"cut off")
    assert run_processes(notes, cache) == found


def test_a_process_with_prebuilt_kernels_makes_none(tmp_path: Path) -> None:
    sys.path.insert(0, str(HERE))
    try:
        import filling_op
    finally:
        sys.path.remove(str(HERE))
    folder = tmp_path / "grid"
    files = graphffi.prebuild(filling_op.fill, range(3, 6), folder)
    files += graphffi.prebuild(filling_op.fill, [(6,), (7,)], folder, workers=1)
    assert sorted(str(file) for file in folder.glob("*.so")) == sorted(files)
    notes = tmp_path / "notes"
    empty = tmp_path / "no programs"  # nor compilers
    given = {"GRAPHFFI_PREBUILT": str(folder), "PATH": str(empty), "CC": "/none", "CXX": "/none"}
    assert run_processes(notes, tmp_path / "other", **given) == [ALL_FILLED]
    assert not notes.exists()


def test_kernels_made_ahead_of_time_are_used_from_then_on(arrays: Any, tmp_path: Path) -> None:
    op, factory = define(), Recorder(build_filling)
    by_width(op, factory, depends=[SOURCE], name="tile")
    function = compiled(arrays, calling(op))
    assert value(function(ones(arrays, 3))) == 3
    graphffi.prebuild(op, [3], tmp_path / "grid")
    graphffi.use_prebuilt(tmp_path / "grid")
    assert value(op(ones(arrays, 3))) == value(function(ones(arrays, 3))) == 3
    assert factory.keys == [(3,)]
    assert value(op(ones(arrays, 4))) == 4


def test_a_library_of_a_grid_that_was_changed_is_refused(tmp_path: Path) -> None:
    op = define()
    by_width(op, build_filling, depends=[SOURCE], name="tile")
    (file,) = graphffi.prebuild(op, [3], tmp_path)
    graphffi.use_prebuilt(tmp_path)
    Path(file).write_bytes(b"something else")
    with pytest.raises(FactoryError, match="that was made ahead of time, got another"):
        op(np.ones(3, np.float32))


def test_making_a_grid_again_replaces_a_library_that_was_changed(tmp_path: Path) -> None:
    op = define()
    by_width(op, build_filling, depends=[SOURCE], name="tile")
    (file,) = graphffi.prebuild(op, [3], tmp_path)
    made = Path(file).read_bytes()
    Path(file).write_bytes(b"something else")
    assert graphffi.prebuild(op, [3], tmp_path) == [file]
    assert Path(file).read_bytes() == made


def test_only_libraries_are_made_ahead_of_time(tmp_path: Path) -> None:
    op = define()
    by_width(op, filling, name="tile")
    with pytest.raises(FactoryError, match="expected a library to keep, got the function"):
        graphffi.prebuild(op, [3], tmp_path)
    with pytest.raises(ValueError, match="factory: expected one of 'tile', got 'other'"):
        graphffi.prebuild(op, [3], tmp_path, factory="other")
    with pytest.raises(ValueError, match="prebuild: workers: expected 1 or more, got -1"):
        graphffi.prebuild(op, [3], tmp_path, workers=-1)
    with pytest.raises(FileExistsError):
        graphffi.prebuild(op, [3], __file__)
    with pytest.raises(FileNotFoundError, match=r"expected a folder that graphffi\.prebuild made"):
        graphffi.use_prebuilt(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"format": 1}', '{"format": 1, "kernels": 5}', '{"format": 1, "kernels": [{}]}'],
)
def test_a_list_of_something_else_is_no_grid(text: str, tmp_path: Path) -> None:
    (tmp_path / "prebuilt.json").write_text(text)
    expected = r"expected a list that graphffi\.prebuild wrote, got '.*prebuilt\.json'; run"
    with pytest.raises(ValueError, match=expected):
        graphffi.use_prebuilt(tmp_path)
