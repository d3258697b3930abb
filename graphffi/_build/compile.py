# SPDX-License-Identifier: Apache-2.0
"""Makes libraries of recipes: objects and libraries are kept in the cache, by content."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .._cached import cached_property
from .._kernels.factory_sources import note_files
from .._values.runtime import runtime_info
from .cache import OBJECTS, building, copy_file, is_kept, locked, make_folder, mark_used
from .location import cache_folder
from .objects import FORMAT, Contents, Unit, content_of, hash_of
from .recipe import Recipe
from .toolchain import Toolchain, linked_files, num_jobs, output_of


def build_library(recipe: Recipe, opt_folder: Path | None, *, verbose: bool) -> Path:
    """Build a library from the objects that changed, or find it in the cache.

    Args:
        recipe: what to build.
        opt_folder: where a copy goes; None leaves it in the cache.
        verbose: show commands and what compilers say.

    Returns:
        The library's file.
    """
    toolchain = Toolchain.for_recipe(recipe)
    cache = cache_folder()
    make_folder(cache / OBJECTS)
    key = hash_of(FORMAT, repr(recipe), repr(toolchain))
    with locked(cache / f"{recipe.name}-{key}.lock"), building(cache) as folder:
        build = _Build(recipe, toolchain, folder, verbose)
        library = build.link(build.compile_all())
        note_files(recipe.sources, build.headers().union(linked_files(recipe.ldflags)))
        return library if opt_folder is None else _install(library, opt_folder)


@dataclass(frozen=True)
class _Build:
    """One library's build, in a folder that is removed afterwards."""

    recipe: Recipe
    toolchain: Toolchain
    folder: Path
    verbose: bool
    contents: Contents = field(default_factory=Contents)

    @cached_property
    def _units(self) -> list[Unit]:
        units = [*map(self._unit_of_file, self.recipe.sources)]
        return units + [self._unit_of_text(*item) for item in self.recipe.texts().items()]

    def headers(self) -> set[str]:
        """Return what the files include, once they are compiled."""
        found = (header for unit in self._units for header in unit.headers())
        return {os.path.join(os.getcwd(), header) for header in found}

    def compile_all(self) -> list[Path]:
        """Return the objects; those that are not in the cache are compiled, several at a time.

        Raises:
            RuntimeError: if a compiler failed.
        """
        units = self._units
        objects = {unit.key: found for unit in units if (found := unit.find()) is not None}
        missing = {unit.key: unit for unit in units if unit.key not in objects}
        with ThreadPoolExecutor(num_jobs()) as pool:
            try:
                for unit, made in zip(
                    missing.values(), pool.map(self._compile, missing.values()), strict=True
                ):
                    objects[unit.key] = made
                    self._show_progress(len(objects), len(units))
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [objects[unit.key] for unit in units]

    def link(self, objects: Sequence[Path]) -> Path:
        """Return the library: a file there never changes, since processes map it.

        Raises:
            RuntimeError: if the linker failed.
        """
        command = self.toolchain.link_command(self.recipe, objects, runtime_info().path)
        # The library is the same for each runtime, which it names by SONAME only.
        named = self.toolchain.link_command(self.recipe, objects, "libtvm_ffi.so")
        linked = [self.contents[file] for file in linked_files(self.recipe.ldflags)]
        content = hash_of(FORMAT, repr(named), repr(self.toolchain.versions), *linked)
        library = cache_folder() / f"{self.recipe.name}-{content}" / f"{self.recipe.name}.so"
        if is_kept(library):
            mark_used(library.parent)
            return library
        made = self.folder / "linked.so"
        self._run([*command, "-o", str(made)])
        library.parent.mkdir(parents=True, exist_ok=True)
        made.replace(library)
        return library

    def _unit_of_file(self, source: Path) -> Unit:
        return self._unit(source, str(source), self.contents[str(source)])

    def _unit_of_text(self, name: str, text: str) -> Unit:
        source = self.folder / name
        source.write_text(text, encoding="utf-8")
        return self._unit(source, name, text)

    def _unit(self, source: Path, *identity: str) -> Unit:
        command = self.toolchain.compile_command(self.recipe, source.suffix)
        return Unit.of(source, command, (*self.toolchain.versions, *identity), self.contents)

    def _compile(self, unit: Unit) -> Path:
        return unit.compile(self.folder, self._run)

    def _run(self, command: Sequence[str]) -> None:
        # In the compiler's own language setting, so that errors read the same everywhere.
        environment = {**os.environ, "LC_ALL": "C"}
        result = output_of(command, environment)
        text = f"{shlex.join(command)}\n{result.stderr}{result.stdout}"
        if result.returncode != 0:
            raise RuntimeError(
                f"graphffi.cpp: {self.recipe.name}: {command[0]} failed with status "
                f"{result.returncode}\n{text}"
            )
        if self.verbose:
            print(text, end="", file=sys.stderr)

    def _show_progress(self, count: int, total: int) -> None:
        """Show how many files are compiled, on one line of a terminal."""
        is_terminal = sys.stderr.isatty() and total > 1
        if self.verbose or is_terminal:
            end = "\n" if self.verbose or count == total else "\r"
            text = f"graphffi.cpp: {self.recipe.name}: {count} of {total} files compiled"
            print(text, end=end, file=sys.stderr, flush=True)


def _install(library: Path, folder: Path) -> Path:
    target = folder.absolute() / library.name
    if not target.is_file() or content_of(target) != content_of(library):
        copy_file(library, target)
    return target
