# SPDX-License-Identifier: Apache-2.0
"""AOTInductor packages that carry their kernel libraries."""

from __future__ import annotations

import json
import logging
import os
import threading
import zipfile
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

import graphffi_torch._C as _C
from graphffi.plugin import PackagedLibraries, open_archive, trusted_hashes
from graphffi_torch._errors import original_of
from graphffi_torch._export.decompose import (
    changed,
    check_branches,
    check_exported,
    decompose,
    options_for_updates,
)
from graphffi_torch._export.updates import check_not_tied, check_updates
from graphffi_torch._operators.primitive import PRIMITIVES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from graphffi_torch._export.package_inputs import Inputs

_log: Final = logging.getLogger("graphffi_torch")
# As plugins/torch/csrc/package.cc reads it: a name a line.
_FUNCTIONS: Final = "graphffi/functions"
_INPUTS: Final = "graphffi/inputs.json"


def package(
    exported: torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    *,
    inductor_configs: Mapping[str, Any] | None = None,
) -> str:
    """Compiles a program with AOTInductor into a package that holds its kernel libraries.

    Kernels of libraries are found in the package. Global functions, Python callables among them,
    have to be registered by the process that loads it: a warning in the log names them.

    Args:
        exported: From `torch.export.export`.
        path: Of the package to write, ``model.pt2``.
        inductor_configs: Options of Inductor.

    Returns:
        The path.

    Raises:
        FileNotFoundError: If a kernel library is not where its reference says.
        NotImplementedError: For calls with side effects in branches and loops.
        TypeError: If `exported` is no exported program.
        ValueError: If the path does not end in ``.pt2``, or two inputs of the example were one
            tensor; if the program updates a parameter or a constant, such as a tensor of a closure,
            or one of two buffers that share memory.

    Example:
        >>> exported = torch.export.export(model, (x,))  # doctest: +SKIP
        >>> graphffi_torch.package(exported, "model.pt2")  # doctest: +SKIP
        >>> model = graphffi_torch.load_package("model.pt2", trust=True)  # doctest: +SKIP
    """
    import torch._inductor

    from graphffi_torch._export.package_description import describe_inputs
    from graphffi_torch._export.sizes_of_one import as_exported

    check_exported("package", exported)
    check_not_tied("package", exported)
    check_updates("package", exported)
    if not os.fspath(path).endswith(".pt2"):
        raise ValueError(
            f"graphffi_torch: package: expected a path that ends in '.pt2', got {os.fspath(path)!r}"
        )
    libraries = PackagedLibraries("graphffi_torch: package")
    functions: set[str] = set()
    with as_exported(exported):
        decomposed = decompose(exported)
        check_branches("package", decomposed)
        program = _with_own_libraries(decomposed, libraries, functions)
        written: str = torch._inductor.aoti_compile_and_package(
            program,
            package_path=os.fspath(path),
            inductor_configs={
                **(options_for_updates() if _updates_buffers(program) else {}),
                **(inductor_configs or {}),
            },
        )
    with zipfile.ZipFile(written, "a") as archive:
        root = archive.namelist()[0].partition("/")[0]
        libraries.write(archive, f"{root}/")
        archive.writestr(f"{root}/{_INPUTS}", json.dumps(describe_inputs(exported, program)))
        archive.writestr(f"{root}/{_FUNCTIONS}", "".join(f"{name}\n" for name in sorted(functions)))
    if functions:
        _log.warning(
            "graphffi_torch: package %r: does not hold the global functions %s; a process has to "
            "register them before it loads the package",
            written,
            ", ".join(map(repr, sorted(functions))),
        )
    return written


def _updates_buffers(program: torch.export.ExportedProgram) -> bool:
    # Before decompositions, no buffer is listed as updated.
    has_any = bool(program.graph_signature.buffers)
    return has_any and bool(program.run_decompositions({}).graph_signature.buffers_to_mutate)


def load_package(path: str | os.PathLike[str], *, trust: bool | Collection[str] = False) -> Package:
    """Loads a package that `package` wrote.

    Its kernel libraries are compared with the hashes that it holds for them.

    Args:
        path: Of the package.
        trust: Loading runs native code: True if all that is in the package may run, or the SHA-256
            of the kernel libraries that may.

    Returns:
        The model, to be called like the module that was exported.

    Raises:
        TypeError: If `trust` is of another kind.
        ValueError: Without `trust`, for a library that is not trusted or differs from its hash, and
            for a file that is no such package, or damaged.
        KeyError: For global functions of the model that are not registered.
        FileNotFoundError: If there is no such file.
    """
    file = os.fspath(path)
    subject = f"graphffi_torch: package '{file}'"
    with open_archive(subject, file) as archive:
        # Torch's reader does not compare the records with their checksums.
        damaged = archive.testzip()
        if damaged is not None:
            raise zipfile.BadZipFile(f"Bad CRC-32 for file {damaged!r}")
        libraries = _C.package_libraries(file)
        trusted = trusted_hashes(subject, "a compiled model", libraries, trust)
        inputs = _inputs_of(subject, archive)
    _C.load_package_libraries(file, trusted)
    import torch._inductor

    if torch.__version__.startswith("2.10."):
        import torch._inductor.codecache  # which 2.10 needs here, and does not import

    return Package(torch._inductor.aoti_load_package(file), inputs)


def _inputs_of(subject: str, archive: zipfile.ZipFile) -> Inputs | None:
    """The inputs as the package describes them; None if it does not."""
    from graphffi_torch._export.package_description import FORMAT
    from graphffi_torch._export.package_inputs import Inputs

    entries = [name for name in archive.namelist() if name.endswith(f"/{_INPUTS}")]
    if not entries:
        return None
    try:
        described = json.loads(archive.read(entries[0]))
        if isinstance(described, dict) and described["format"] == FORMAT:
            return Inputs(described)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{subject}: expected a description of inputs that this graphffi reads, got another "
            f"one: {type(error).__name__}: {error}; package the program again"
        ) from error
    raise ValueError(
        f"{subject}: expected a package of this version of graphffi, got one that another version "
        "made; export and package the program again"
    )


class Package:
    """A model of a package."""

    def __init__(self, model: Any, opt_inputs: Inputs | None = None) -> None:
        """Not for users: see `load_package`."""
        self.model = model
        self._opt_inputs = opt_inputs
        # Torch (2.10 to 2.15) lets in one thread at a time, and others wait with the GIL, which
        # Python kernels of the running call need. Here, they wait without it.
        self._lock = threading.Lock()
        self._caller: int | None = None

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Runs the model, one thread at a time.

        Args:
            *args: As of the module that was exported.
            **kwargs: The same.

        Raises:
            Exception: What a kernel raised, as in eager code.
            TypeError: For inputs of other kinds than the exported program's, or nested otherwise.
            ValueError: For inputs of other sizes or strides, and other constants.
            RuntimeError: A kernel of the running call calls the model.
        """
        if self._caller == threading.get_ident():
            raise RuntimeError(
                "graphffi_torch: package: expected no recursive call of the model by one of its "
                "kernels, got one; load the package once more for it"
            )
        with self._lock:
            self._caller = threading.get_ident()
            try:
                return self._run(*args, **kwargs)
            finally:
                self._caller = None

    def __reduce__(self) -> NoReturn:
        """Refuses copies, which would share buffers with the model, and pickling."""
        raise TypeError(
            "graphffi_torch: package: expected no copy of a loaded model, got one; load the "
            "package once more"
        )

    def _run(self, *args: Any, **kwargs: Any) -> Any:
        if self._opt_inputs is not None:
            args, kwargs = self._opt_inputs.arrange(args, kwargs)
        _C.clear_aot_error()
        try:
            return self.model(*args, **kwargs)
        except RuntimeError as error:
            original = original_of(error)
            if original is None:
                raise
            # Generated code carries no exceptions: its own says nothing more.
            raise original from None


def _with_own_libraries(
    program: torch.export.ExportedProgram, libraries: PackagedLibraries, functions: set[str]
) -> torch.export.ExportedProgram:
    """Renames libraries to names that only the package gives; notes these and global functions."""

    def change(graph: torch.fx.Graph) -> dict[str, str]:
        for node in graph.nodes:
            if node.target in PRIMITIVES:
                reference = libraries.add(node.args[0])
                if reference == node.args[0]:
                    functions.add(reference)
                node.args = (reference, *node.args[1:])
        return {}

    return changed(program, change)
