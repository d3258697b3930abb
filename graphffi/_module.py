# SPDX-License-Identifier: Apache-2.0
"""Libraries of kernels."""

from __future__ import annotations

import os
import re
from typing import Any

from . import _core
from ._nearby import near_names
from ._registry import get_global_func

_MODULE_TYPE_INDEX = 73
# By module, since several Python objects may stand for one: what load_module was asked for, and
# where the code of a library module is, which may also be an import of the former.
_files: dict[_core.Object, str] = {}
_code_files: dict[_core.Object, str] = {}


class Module(_core.Object):
    """A library of kernels: ``mod.name``, ``mod["name"]`` or ``mod.get_function("name")``.

    Attributes:
        path: the library's file, None for a module that was not loaded from one.
    """

    @property
    def path(self) -> str | None:
        """The file that it was loaded from."""
        return _files.get(self)

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
            known = near_names(name, self.function_names())
            raise AttributeError(
                f"graphffi: {self._title}: expected the name of a function, got {name!r}{known}",
                name=name,
                obj=self,
            )
        # A graph can name what a file exports; what an import provides has no such name.
        reference = f"{self.path}::{name}" if self.path and own is not None else None
        _core.describe_function(function, name, reference, self._doc(name))
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

    def function_names(self) -> list[str]:
        """Return the names that its file exports; none for a module without a file."""
        return _exported_names(self.path) if self.path else []

    def get_function_metadata(self, name: str) -> dict[str, Any] | None:
        """Return what the kernel's compiler recorded about a function, such as its type."""
        text = get_global_func("ffi.ModuleGetFunctionMetadata")(self, name, False)
        if text is None:
            return None
        import json

        metadata: dict[str, Any] = json.loads(text)
        if isinstance(metadata.get("type_schema"), str):
            metadata["type_schema"] = json.loads(metadata["type_schema"])
        return metadata

    @property
    def kind(self) -> str:
        """``"library"`` for a shared library."""
        kind: str = get_global_func("ffi.ModuleGetKind")(self)
        return kind

    @property
    def imports(self) -> list[Module]:
        """The modules that it imports."""
        modules: list[Module] = _core.module_imports(self)
        return modules

    @property
    def _title(self) -> str:
        return f"module {self.path!r}" if self.path else "module"

    def _find(self, name: str, *, query_imports: bool) -> _core.Function | None:
        get = get_global_func("ffi.ModuleGetFunction")
        function: _core.Function | None = get(self, name, query_imports)
        return function

    def _doc(self, name: str) -> str | None:
        get_doc = get_global_func("ffi.ModuleGetFunctionDoc", allow_missing=True)
        return None if get_doc is None else get_doc(self, name, False)

    def __repr__(self) -> str:
        return f"<graphffi.Module {self.path or self.kind!r}>"


_core.register_class(_MODULE_TYPE_INDEX, Module)


def load_module(path: str | os.PathLike[str]) -> Module:
    """Load a library of kernels, for the rest of the process.

    Args:
        path: a shared library that exports functions of TVM FFI's calling convention.

    Returns:
        The module; the same one for the same library.

    Raises:
        RuntimeError: if there is no such file, or it does not load: it is no library, lacks a
            library or a symbol that it needs, or has modules embedded that can't be read. With
            ``GRAPHFFI_CHECK_BINDING=1`` in the environment also if a TVM FFI function that it
            imports is bound to anything but the runtime in use.
    """
    file = os.path.realpath(path)
    module: Module = _core.load_library(file)
    if module not in _files:
        _files[module] = file
        _note_code(module, file)
    return module


def code_file(module: Module) -> str | None:
    """Return the shared library that has a module's functions, if a library module it is."""
    return _code_files.get(module)


def _note_code(module: Module, file: str) -> None:
    if module.kind == "library":
        _code_files.setdefault(module, file)
    for imported in module.imports:
        _note_code(imported, file)


def _exported_names(path: str) -> list[str]:
    """Return the exported functions of a library, found as names in its string table."""
    with open(path, "rb") as file:
        content = file.read()
    found = re.findall(rb"\0__tvm_ffi_([A-Za-z0-9][A-Za-z0-9_]*)(?=\0)", content)
    return sorted({name.decode() for name in found})
