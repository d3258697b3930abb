# SPDX-License-Identifier: Apache-2.0
"""Kernels of factories, made ahead of time."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._build.cache import copy_file, locked, write_text
from .._definition.op import check_op
from .._definition.op_table import renew_factories
from .._values.error import FactoryError
from .factory import Key
from .factory_store import FORMAT, INDEX, load_index, read_index
from .library import content_hash, hash_if_there, split_reference
from .make_kernel import is_made_function, kernel_of_key
from .package import library_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .._definition.op import Op
    from .op_kernel import OpKernel


def prebuild(
    op: Op,
    keys: Iterable[Any],
    folder: str | os.PathLike[str],
    *,
    factory: str = "",
    workers: int | None = None,
) -> list[str]:
    """Makes kernels of a factory ahead of time, in a folder that travels with a program.

    A process that is given the folder, by `use_prebuilt` or ``GRAPHFFI_PREBUILT``, makes none of
    them: no compiler is started. More kernels, and those of other ops, may be added to a folder.

    Args:
        op: The op.
        keys: What the factory's key function gives for calls: tuples, or single values.
        folder: Where the libraries and their list go.
        factory: Its name. Default: the op's only one.
        workers: How many kernels are made at once. Default: as many as there are processors.

    Returns:
        The files of the libraries, in the order of the keys.

    Raises:
        FactoryError: If the factory fails, or makes functions without a library.
        OSError: If there cannot be such a folder.
        TypeError: If `op` is none.
        ValueError: If the op has no such factory, or `workers` is less than 1.

    Example:
        >>> grid = itertools.product(["float32", "bfloat16"], [64, 128])  # doctest: +SKIP
        >>> graphffi.prebuild(rms_norm, grid, "kernels")  # doctest: +SKIP
    """
    return make_grid(op, keys, Path(folder), factory, workers, lambda _done, _next: None)


def make_grid(
    op: Op,
    keys: Iterable[Any],
    folder: Path,
    factory: str,
    workers: int | None,
    progress: Callable[[int, str], None],
) -> list[str]:
    """Does what `prebuild` does; `progress` gets how many kernels are made, and what comes."""
    check_op("graphffi: prebuild", op)
    kernel = _factory_of(op, factory)
    workers = (os.cpu_count() or 1) if workers is None else workers
    if workers < 1:
        raise ValueError(f"{op.name}: prebuild: workers: expected 1 or more, got {workers}")
    place = folder.absolute()
    place.mkdir(parents=True, exist_ok=True)
    assert kernel.factory is not None
    subject = kernel.factory.subject
    wanted = [kernel_of_key(kernel, Key.of(subject, key)) for key in keys]
    made = []
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(workers) as pool:
        progress(0, "compiling")
        for one in pool.map(op.definition.made, wanted):
            made.append(one)
            progress(len(made), "compiling")
    entries = [_copy(op.name, one, place) for one in made]
    with locked(place / f"{INDEX}.lock"):
        known = load_index(place) if (place / INDEX).is_file() else []
        index = {(e["op"], e["kernel"], e["key"]): e for e in (*known, *entries)}
        text = json.dumps({"format": FORMAT, "kernels": list(index.values())}, indent=1)
        write_text(place / INDEX, text)
    return [str(place / entry["library"]) for entry in entries]


def use_prebuilt(folder: str | os.PathLike[str]) -> None:
    """Makes factories use the kernels that `prebuild` made, in the place of making them.

    ``GRAPHFFI_PREBUILT``, folders with ":" between them, does it for a process.

    Args:
        folder: That it made.

    Raises:
        FileNotFoundError: If it is none.
        ValueError: If another version of graphffi made it.
    """
    renew_factories(read_index(folder))


def _factory_of(op: Op, name: str) -> OpKernel:
    factories = [kernel for kernel in op.definition.kernels if kernel.factory is not None]
    found = [kernel for kernel in factories if name in ("", kernel.name)]
    if len(found) != 1:
        listed = ", ".join(repr(kernel.name) for kernel in factories) or "none"
        raise ValueError(f"{op.name}: prebuild: factory: expected one of {listed}, got {name!r}")
    return found[0]


def _copy(op: str, made: OpKernel, place: Path) -> dict[str, str]:
    assert made.key is not None
    library, symbol = split_reference(made.reference)
    if not library or is_made_function(made.reference):
        raise FactoryError(
            f"{op}: factory {made.name!r}, key ({made.key.text}): expected a library to keep, got "
            f"the function {made.reference!r}; return the path of a library"
        )
    digest = content_hash(library)
    name = library_name(library)
    if hash_if_there(str(place / name)) != digest:
        copy_file(library, place / name)
    return {
        "op": op,
        "kernel": made.name,
        "key": made.key.text,
        "library": name,
        "symbol": symbol,
        "sha256": digest,
    }
