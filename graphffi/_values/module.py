# SPDX-License-Identifier: Apache-2.0
"""Libraries of kernels."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from .. import _core
from .._kernels.library import renew_library
from .describe import near_names
from .registry import get_global_func

_MODULE_TYPE_INDEX = 73
# Keyed by module, since several Python objects may stand for one: the argument of load_module; and
# for library modules the file, and the path to it from import to import.
_files: dict[_core.Object, str] = {}
_origins: dict[_core.Object, tuple[Module, tuple[int, ...]]] = {}


class Module(_core.Object):
    """A library of kernels: ``mod.name``, ``mod["name"]`` or ``mod.get_function("name")``.

    Attributes:
        path: the library's file, None for a module that was not loaded from one.
    """

    @property
    def path(self) -> str | None:
        """The file that it was loaded from."""
        return _files.get(self)

    def __copy__(self) -> Module:
        """Itself, as for Python's modules and functions: nothing of it changes."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """Itself."""
        return self

    def get_function(self, name: str, *, query_imports: bool = False) -> _core.Function:
        """Look a function up.

        Args:
            name: its exported name.
            query_imports: whether to look into imported modules as well.

        Returns:
            The function.

        Raises:
            AttributeError: if there is none; the known names are listed.
        """
        own = self._find(name, query_imports=False)
        function = own
        if function is None and query_imports:
            function = self._find(name, query_imports=True)
        if function is None:
            names = self.function_names()
            known = near_names(name, names)
            if self.path and (not names or name in names) and os.path.isfile(self.path):
                fault = "hides it" if names else "exports none"
                known = f', from a file that {fault}; is __tvm_ffi_{name} extern "C", visible?'
            raise AttributeError(
                f"graphffi: {self._title}: expected the name of a function, got {name!r}{known}",
                name=name,
                obj=self,
            )
        # A graph can name what a file exports; what an import provides has no such name.
        reference = f"{self.path}::{name}" if self.path and own is not None else None
        doc = self.get_function_doc(name, query_imports=own is None)
        metadata = self._metadata_text(name, query_imports=own is None)
        _core.describe_function(function, name, reference, doc, metadata)
        return function

    def __getattr__(self, name: str) -> _core.Function:
        if name.startswith("__"):
            raise AttributeError(name)
        function = self.get_function(name)
        self.__dict__[name] = function  # from now on an ordinary attribute
        return function

    def __getitem__(self, name: str) -> _core.Function:
        try:
            return self.get_function(name)
        except AttributeError as missing:
            raise KeyError(str(missing)) from None

    def implements_function(self, name: str, *, query_imports: bool = False) -> bool:
        """Return whether it has a function of that name."""
        implements = get_global_func("ffi.ModuleImplementsFunction")
        return bool(implements(self, name, query_imports))

    def import_module(self, other: Module) -> None:
        """Import another module, for the rest of this one's life.

        Args:
            other: whose functions this module's own can call, and ``query_imports`` finds.

        Raises:
            RuntimeError: if the other one imports this one.
        """
        get_global_func("ffi.ModuleImportModule")(self, other)

    def clear_imports(self) -> None:
        """Forget all imports."""
        get_global_func("ffi.ModuleClearImports")(self)

    def inspect_source(self, format: str = "") -> str:
        """Return its source as text, empty if its kind has none to show."""
        return str(get_global_func("ffi.ModuleInspectSource")(self, format))

    @property
    def property_mask(self) -> int:
        """Flags of its abilities: 1 save to bytes, 2 run, 4 write as object files."""
        return int(get_global_func("ffi.ModuleGetPropertyMask")(self))

    @property
    def write_formats(self) -> list[str]:
        """The formats that `write_to_file` knows; for most kinds none."""
        return list(get_global_func("ffi.ModuleGetWriteFormats")(self))

    def write_to_file(self, path: str | os.PathLike[str], format: str) -> None:
        """Write it in one of its formats.

        Raises:
            RuntimeError: if its kind can't be written.
        """
        get_global_func("ffi.ModuleWriteToFile")(self, os.fspath(path), format)

    def save_to_bytes(self) -> bytes:
        """Return what ``ffi.Module.load_from_bytes.<kind>`` makes an equal module of.

        Raises:
            RuntimeError: if its kind can't be saved.
        """
        return _core.save_module_to_bytes(self)

    def function_names(self) -> list[str]:
        """Return the names that its file exports; none for a module without a file."""
        try:
            return _exported_names(self.path) if self.path else []
        except FileNotFoundError:  # removed since it was loaded
            return []

    def get_function_doc(self, name: str, *, query_imports: bool = False) -> str | None:
        """Return a function's documentation, None if it has none."""
        get_doc = get_global_func("ffi.ModuleGetFunctionDoc", allow_missing=True)
        return None if get_doc is None else get_doc(self, name, query_imports)

    def get_function_metadata(
        self, name: str, *, query_imports: bool = False
    ) -> dict[str, Any] | None:
        """Return what the kernel's compiler recorded about a function, such as its type.

        Raises:
            ValueError: if what the library says is no JSON object.
        """
        text = None
        try:
            text = self._metadata_text(name, query_imports=query_imports)
            if text is None:
                return None
            metadata: dict[str, Any] = json.loads(text)
            schema = metadata.get("type_schema")
            if isinstance(schema, str):
                metadata["type_schema"] = json.loads(schema)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"graphffi: {self._title}: metadata of function {name!r}: expected a JSON object, "
                f"got {str(text)[:80]!r}: {error}"
            ) from None
        return metadata

    @property
    def kind(self) -> str:
        """``"library"`` for a shared library."""
        return str(get_global_func("ffi.ModuleGetKind")(self))

    @property
    def imports(self) -> list[Module]:
        """The modules that it imports."""
        modules: list[Module] = _core.module_imports(self)
        return modules

    @property
    def _title(self) -> str:
        return f"module {self.path!r}" if self.path else "module"

    def _metadata_text(self, name: str, *, query_imports: bool) -> str | None:
        get = get_global_func("ffi.ModuleGetFunctionMetadata")
        text: str | None = get(self, name, query_imports)
        return text

    def _find(self, name: str, *, query_imports: bool) -> _core.Function | None:
        get = get_global_func("ffi.ModuleGetFunction")
        function: _core.Function | None = get(self, name, query_imports)
        return function

    def __repr__(self) -> str:
        return f"<graphffi.Module {self.path or self.kind!r}>"


_core.register_class(_MODULE_TYPE_INDEX, Module)


def load_module(path: str | os.PathLike[str]) -> Module:
    """Load a library of kernels, for the rest of the process.

    Args:
        path: a shared library that exports functions of TVM FFI's calling convention.

    Returns:
        The module; the same one for the same library. For one that was built anew since it was
        loaded, another one: what was compiled before goes on with the old kernels, calls and
        compilations of its ops from now on use the new ones.

    Raises:
        RuntimeError: if there is no such file, or it does not load: it is no library, lacks a
            library or a symbol that it needs, or has modules embedded that can't be read; if it was
            changed in place while it is in use.
    """
    file = os.path.realpath(path)
    renew_library(file)
    module: Module = _core.load_library(file)
    if module not in _files:
        _files[module] = file
        _note_origins(module, module, ())
    return module


def loaded_module(path: str) -> Module | None:
    """The module that `load_module` made of the file that is at a path now, if it did."""
    file = path if path in _files.values() else os.path.realpath(path)
    if not _core.is_library_current(file):
        return None
    found = (module for module, known in reversed(_files.items()) if known == file)
    return next((module for module in found if isinstance(module, Module)), None)


def as_module(module: Any) -> Module:
    """Return a module of another package, such as a ``tvm_ffi.Module``, as one of this.

    Raises:
        TypeError: if it is no module of the process's runtime.
    """
    if not isinstance(module, Module):
        (module,) = get_global_func("ffi.Array")(module)
    if not isinstance(module, Module):
        raise TypeError(f"graphffi: expected a module, got {type(module).__name__}")
    return module


def origin_of(module: Module) -> tuple[Module, str, tuple[int, ...]] | None:
    """Return where a library module came from.

    Returns:
        The module of a file, the file, and positions in lists of imports from there to `module`;
        None for a module of another kind, or that `load_module` did not load.
    """
    if module not in _origins:
        return None
    root, way = _origins[module]
    return root, _files[root], way


def _note_origins(module: Module, root: Module, way: tuple[int, ...]) -> None:
    if module.kind == "library":
        _origins.setdefault(module, (root, way))
    for index, imported in enumerate(module.imports):
        _note_origins(imported, root, (*way, index))


def _exported_names(path: str) -> list[str]:
    """Return the exported functions of a library, found as names in its string table.

    Those of a library that is embedded in it, by `export_library`, are found with them.
    """
    with open(path, "rb") as file:
        content = file.read()
    found = re.findall(rb"\0__tvm_ffi_([A-Za-z0-9][A-Za-z0-9_]*)(?=\0)", content)
    return sorted({name.decode() for name in found})
