# SPDX-License-Identifier: Apache-2.0
"""Exported programs in one file with their kernel libraries."""

from __future__ import annotations

import itertools
import os
import zipfile
import zlib
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from jax.extend.mlir import ir
from jax.interpreters import mlir

import graphffi
from graphffi.plugin import PackagedLibraries, trusted_hashes

from ._library import TARGET, TARGET_GRAPH

if TYPE_CHECKING:
    from jax import export

_PROGRAM: Final = "program.jax_export"


def package(exported: export.Exported, path: str | os.PathLike[str], *, vjp_order: int = 0) -> str:
    """Writes a program into a package that holds its kernel libraries.

    Kernels of libraries are found in the package; global functions are to be registered by the
    process that runs it, and so are targets of `register_ffi_target`.

    Args:
        exported: From `jax.export.export`.
        path: Of the package to write, ``model.zip``.
        vjp_order: How often the program is to be differentiated, as of `Exported.serialize`.

    Returns:
        The path.

    Raises:
        TypeError: If `exported` is no exported program.
        FileNotFoundError: If a kernel library is not where its reference says.
        ValueError: If a library is another one than when the program was exported.
        ImportError: If the package flatbuffers is missing, which jax.export needs.

    Example:
        >>> exported = jax.export.export(f, disabled_checks=export_checks())(x)  # doctest: +SKIP
        >>> graphffi_jax.package(exported, "model.zip")  # doctest: +SKIP
        >>> y = graphffi_jax.load_package("model.zip", trust=True).call(x)  # doctest: +SKIP
    """
    file = os.fspath(path)
    if not hasattr(exported, "mlir_module"):
        raise TypeError(
            "graphffi_jax: package: expected a program of jax.export.export, got "
            f"{type(exported).__name__}"
        )
    libraries = PackagedLibraries("graphffi_jax: package")
    program = exported
    for order in range(vjp_order + 1):
        for reference, library in _kernels(program):
            _add(libraries, reference, library)
        if order < vjp_order:
            program = program.vjp()
    content = exported.serialize(vjp_order=vjp_order)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_PROGRAM, bytes(content))
        libraries.write(archive)
    return file


def _add(libraries: PackagedLibraries, reference: str, library: str) -> None:
    """Takes up the library of a kernel; `library` is the name by which the program asks for it."""
    added = libraries.add(reference)
    name = added.rpartition("::")[0]
    if added != reference and name != library:
        raise ValueError(
            f"graphffi_jax: package: kernel {reference!r}: expected the library with which the "
            f"program was exported, {library or 'unknown'}, got {name}; export the program again"
        )


def load_package(
    path: str | os.PathLike[str], *, trust: bool | Collection[str] = False
) -> export.Exported:
    """Loads a package that `package` wrote.

    Its kernel libraries are compared with the hashes that it holds for them.

    Args:
        path: Of the package.
        trust: Loading runs native code: True if all that is in the package may run, or the SHA-256
            of the kernel libraries that may.

    Returns:
        The program; its `call` runs it, also in other programs.

    Raises:
        TypeError: If `trust` is of another kind.
        ValueError: Without `trust`, for a library that is not trusted or differs from its hash, and
            for a file that is no such package.
        KeyError: For global functions of the program that are not registered.
        FileNotFoundError: If there is no such file.
        ImportError: If the package flatbuffers is missing, which jax.export needs.
    """
    from jax import export

    file = os.fspath(path)
    subject = f"graphffi_jax: package {file!r}"
    records = _read(subject, file)
    record = records.get(PackagedLibraries.MANIFEST)
    if record is None or _PROGRAM not in records:
        raise ValueError(
            f"{subject}: expected one that graphffi_jax.package wrote, got another archive"
        )
    manifest = record.decode(errors="replace")
    words = manifest.split()
    listed = list(zip(words[1::2], words[::2], strict=False))
    trusted = trusted_hashes(subject, "a program", listed, trust)
    folder = PackagedLibraries.FOLDER
    contents = {name[len(folder) :]: c for name, c in records.items() if name.startswith(folder)}
    graphffi.get_global_func("graphffi_jax.load_libraries")(
        subject,
        manifest,
        None if trusted is None else " ".join(trusted),
        *itertools.chain.from_iterable(contents.items()),
    )
    program = export.deserialize(bytearray(records[_PROGRAM]))
    _check_functions(subject, program)
    return program


def _read(subject: str, file: str) -> dict[str, bytes]:
    """All records of an archive, whose checksums are compared."""
    try:
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(
            f"{subject}: expected a whole archive, got a damaged one: {error}"
        ) from error


def _check_functions(subject: str, program: export.Exported) -> None:
    missing = {
        reference: None
        for reference, _ in _kernels(program)
        if ".so" not in reference.rpartition("::")[0]
        and graphffi.get_global_func(reference, allow_missing=True) is None
    }
    if missing:
        raise KeyError(
            f"{subject}: expected the global functions of its kernels, found none called "
            f"{', '.join(map(repr, missing))}; register them before the package is loaded"
        )


def _kernels(program: export.Exported) -> Iterator[tuple[str, str]]:
    """The kernel references of a program, and the names of their libraries in packages."""
    found: dict[tuple[str, str], None] = {}

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            if target in (TARGET, TARGET_GRAPH):
                found[_text(operation, "func"), _text(operation, "library")] = None
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        ir.Module.parse(program.mlir_module()).operation.walk(visit)
    return iter(found)


def _text(operation: Any, name: str) -> str:
    for place in ("mhlo.backend_config", "backend_config"):
        attribute = operation.attributes[place] if place in operation.attributes else None
        if isinstance(attribute, ir.DictAttr):
            return ir.StringAttr(attribute[name]).value if name in attribute else ""
    return ""
