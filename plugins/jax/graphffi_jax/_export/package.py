# SPDX-License-Identifier: Apache-2.0
"""Exported programs in one file with their kernel libraries."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from jax.extend.mlir import ir
from jax.interpreters import mlir

import graphffi
from graphffi.plugin import (
    PackagedLibraries,
    new_archive,
    open_archive,
    split_reference,
    trusted_hashes,
)
from graphffi_jax._library import ALL_TARGETS
from graphffi_jax._lowering import call_text

if TYPE_CHECKING:
    from jax import export

_PROGRAM: Final = "program.jax_export"
_MAX_MANIFEST: Final = 1 << 20
_RUNTIME_PREFIXES: Final = ("ffi.", "graphffi_jax.", "runtime.")  # some load code, too
_lock: Final = threading.Lock()


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
        for reference, library in _kernels("graphffi_jax: package", program):
            _add(libraries, reference, library)
        if order < vjp_order:
            program = program.vjp()
    content = exported.serialize(vjp_order=vjp_order)
    with new_archive(file) as archive:
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
    file = os.fspath(path)
    subject = f"graphffi_jax: package {file!r}"
    with open_archive(subject, file) as archive:
        return _load(subject, archive, trust)


def _load(subject: str, archive: zipfile.ZipFile, trust: bool | Collection[str]) -> export.Exported:
    manifest = _read_manifest(subject, archive)
    words = manifest.split()
    listed = dict(zip(words[1::2], words[::2], strict=False))
    trusted = trusted_hashes(subject, "a program", listed.items(), trust)
    program, kernels = _deserialize(subject, archive.read(_PROGRAM))
    _check_kernels(subject, kernels, listed, trusts_all=trusted is None)
    folder = PackagedLibraries.FOLDER
    names = {n[len(folder) :]: n for n in archive.namelist() if n.startswith(folder)}
    contents = {name: archive.read(record) for name, record in names.items()}
    # Written anew, because C++ may find other words in the archive's text than were checked here.
    libraries = "".join(f"{digest}  {name}\n" for name, digest in listed.items())
    load_libraries = graphffi.get_global_func("graphffi_jax.load_libraries")
    with _lock:  # two threads would map a library twice
        load_libraries(subject, libraries, trusted, contents)
    _check_functions(subject, kernels)
    return program


def _read_manifest(subject: str, archive: zipfile.ZipFile) -> str:
    names = archive.namelist()
    manifest = PackagedLibraries.MANIFEST
    if manifest not in names or _PROGRAM not in names:
        raise ValueError(
            f"{subject}: expected one that graphffi_jax.package wrote, got another archive"
        )
    if archive.getinfo(manifest).file_size > _MAX_MANIFEST:
        raise ValueError(
            f"{subject}: expected a list of libraries of {_MAX_MANIFEST} bytes at most, got "
            f"{archive.getinfo(manifest).file_size}"
        )
    return archive.read(manifest).decode(errors="replace")


def _deserialize(subject: str, content: bytes) -> tuple[export.Exported, list[tuple[str, str]]]:
    """The program, and the kernels of it and its gradients, as of `_kernels`."""
    from jax import export

    try:
        programs = [export.deserialize(bytearray(content))]
        while programs[-1].has_vjp():
            programs.append(programs[-1].vjp())
        kernels = [kernel for program in programs for kernel in _kernels(subject, program)]
    except (ImportError, call_text.OtherFormatError):
        raise
    except Exception as error:  # of many kinds: struct.error, JaxRuntimeError, …
        raise ValueError(
            f"{subject}: expected a program that jax.export wrote, got a damaged one: {error}"
        ) from error
    return programs[0], kernels


def _check_kernels(
    subject: str,
    kernels: Sequence[tuple[str, str]],
    listed: Collection[str],
    *,
    trusts_all: bool,
) -> None:
    """Refuses kernels of code that the package does not hold, and so has no hash for."""
    for reference, library in kernels:
        is_global = not split_reference(reference)[0]
        if not is_global and library not in listed:
            raise ValueError(
                f"{subject}: kernel {reference!r}: expected its library in the package, got a "
                "program that loads another file"
            )
        if is_global and not trusts_all and reference.startswith(_RUNTIME_PREFIXES):
            raise ValueError(
                f"{subject}: kernel {reference!r}: expected a kernel, got a function of the "
                "runtime; pass trust=True if all that is in the package may run"
            )


def _check_functions(subject: str, kernels: Sequence[tuple[str, str]]) -> None:
    missing = {
        reference: None
        for reference, _ in kernels
        if not split_reference(reference)[0]
        and graphffi.get_global_func(reference, allow_missing=True) is None
    }
    if missing:
        raise KeyError(
            f"{subject}: expected the global functions of its kernels, found none called "
            f"{', '.join(map(repr, missing))}; register them before the package is loaded"
        )


def _kernels(subject: str, program: export.Exported) -> Iterator[tuple[str, str]]:
    """The kernel references of a program, and the names of their libraries in packages."""
    found: dict[tuple[str, str], None] = {}

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            target = ir.StringAttr(operation.attributes["call_target_name"]).value
            if target in ALL_TARGETS:
                places = ("mhlo.backend_config", "backend_config")
                place = next(name for name in places if name in operation.attributes)
                lines = dict(call_text.read(subject, operation.attributes[place]))
                found[lines.get("kernel", ""), lines.get("library", "")] = None
        return ir.WalkResult.ADVANCE

    with mlir.make_ir_context():
        ir.Module.parse(program.mlir_module()).operation.walk(visit)
    return iter(found)
