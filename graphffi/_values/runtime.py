# SPDX-License-Identifier: Apache-2.0
"""The one libtvm_ffi.so of the process: found, opened, and guarded against a second."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Final, Literal

from .._frameworks.import_hook import change_import, find_elsewhere

_SONAME: Final = "libtvm_ffi.so"
_VARIABLE: Final = "GRAPHFFI_RUNTIME"
_APACHE_PACKAGE: Final = "tvm_ffi"
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_BUNDLED: Final = os.path.join(_PACKAGE, "_lib", _SONAME)
_Kind = Literal["adopted", "apache", "bundled", "path"]
_FLAGS: Final = os.RTLD_NOW | os.RTLD_GLOBAL

# The functions that graphffi's binaries import. Kernels may need more.
NEEDED_SYMBOLS: Final = (
    "TVMFFIAnyViewToOwnedAny",
    "TVMFFIBacktrace",
    "TVMFFIBytesFromByteArray",
    "TVMFFIDataTypeFromString",
    "TVMFFIDataTypeToString",
    "TVMFFIEnvGetDLPackManagedTensorAllocator",
    "TVMFFIEnvGetStream",
    "TVMFFIEnvModLookupFromImports",
    "TVMFFIEnvModRegisterContextSymbol",
    "TVMFFIEnvRegisterCAPI",
    "TVMFFIEnvSetDLPackManagedTensorAllocator",
    "TVMFFIEnvSetStream",
    "TVMFFIEnvTensorAlloc",
    "TVMFFIErrorCreate",
    "TVMFFIErrorCreateWithCauseAndExtraContext",
    "TVMFFIErrorMoveFromRaised",
    "TVMFFIErrorSetRaised",
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIFunctionCall",
    "TVMFFIFunctionCreate",
    "TVMFFIFunctionGetGlobal",
    "TVMFFIFunctionSetGlobal",
    "TVMFFIGetTypeAttrColumn",
    "TVMFFIGetTypeInfo",
    "TVMFFIGetVersion",
    "TVMFFIHandleInitOnce",
    "TVMFFIObjectCreateOpaque",
    "TVMFFIObjectDecRef",
    "TVMFFIObjectIncRef",
    "TVMFFIStringFromByteArray",
    "TVMFFITensorCreateUnsafeView",
    "TVMFFITensorFromDLPack",
    "TVMFFITensorFromDLPackVersioned",
    "TVMFFITensorToDLPack",
    "TVMFFITensorToDLPackVersioned",
)


@dataclass(frozen=True)
class Runtime:
    """Which runtime the process has.

    Attributes:
        kind: ``adopted``: it was loaded before graphffi; ``apache``: the installed
            apache-tvm-ffi's; ``bundled``: graphffi's own; ``path``: the one that
            GRAPHFFI_RUNTIME names.
        path: its file.
        version: the TVM FFI release whose ABI it has.
    """

    kind: _Kind
    path: str
    version: tuple[int, int, int]


def open_runtime() -> Runtime:
    """Open the runtime that the environment asks for, or else the first that there is.

    The order is: one that is loaded already, the installed apache-tvm-ffi's, the bundled one.
    Called once, before anything that needs the runtime is loaded.

    Raises:
        ImportError: in free-threaded Python, in a sub-interpreter, or if this graphffi was not
            built for this Python.
        RuntimeError: if it does not load, lacks a function, or another one is loaded already.
    """
    _check_interpreter()
    _check_build()
    choice = os.environ.get(_VARIABLE, "")
    kind: _Kind
    loaded = _loaded_runtime()
    if loaded is None:
        kind, path = _choose(choice)
        library = _open(path)
    else:
        kind, library = "adopted", loaded
        path = _path_of(library)
        _check_choice(choice, path)
    _check_symbols(library, path)
    if _is_same(path, _BUNDLED):
        kind = "bundled"
        change_import(_APACHE_PACKAGE, _refuse)
    return Runtime(kind, path, _version_of(library))


def _check_interpreter() -> None:
    """Refuse free-threaded Python: nothing but the GIL keeps threads apart in much of graphffi.

    Sub-interpreters are refused, too: the extension module would wait for the main one's GIL for
    ever.
    """
    if "t" in sys.abiflags:
        raise ImportError(
            "graphffi: expected Python with the GIL, got its free-threaded build",
            name="graphffi",
        )
    python = ctypes.PyDLL(None)
    current, main = python.PyInterpreterState_Get, python.PyInterpreterState_Main
    current.restype = main.restype = ctypes.c_void_p
    if current() != main():
        raise ImportError(
            "graphffi: expected to be imported by the main interpreter, got a sub-interpreter; "
            "use threads or processes",
            name="graphffi",
        )


def _check_build() -> None:
    """Refuse sources that nothing was built of, and a build for another Python."""
    if find_spec("graphffi._core") is None:
        built = sorted(
            name for name in os.listdir(_PACKAGE) if re.fullmatch(r"_core\..*\.so", name)
        )
        raise ImportError(
            f"graphffi: expected _core{EXTENSION_SUFFIXES[0]} in {_PACKAGE!r}, got "
            f"{', '.join(built) or 'none'}; install graphffi for this Python, or build these "
            "sources with `make build`; in their folder, Python finds no installed graphffi",
            name="graphffi",
        )


def _choose(choice: str) -> tuple[Literal["apache", "bundled", "path"], str]:
    if choice == "bundled":
        return "bundled", _BUNDLED
    if choice not in ("", "apache"):
        return "path", _named_path(choice)
    apache = _apache_library()
    if apache is not None:
        return "apache", apache
    if choice == "apache":
        raise RuntimeError(
            f"graphffi: {_VARIABLE}=apache: expected an installed apache-tvm-ffi, got none; "
            "pip install apache-tvm-ffi"
        )
    return "bundled", _BUNDLED


def _named_path(choice: str) -> str:
    if os.sep not in choice:
        raise RuntimeError(
            f"graphffi: {_VARIABLE}: expected bundled, apache or the path of a library, "
            f"got {choice!r}"
        )
    return os.path.realpath(choice)


def _apache_library() -> str | None:
    """Return the installed apache-tvm-ffi's library; the package is not imported."""
    spec = find_elsewhere(_APACHE_PACKAGE)
    return None if spec is None else _library_in(spec)


def _library_in(spec: ModuleSpec) -> str | None:
    for folder in spec.submodule_search_locations or ():
        library = os.path.join(folder, "lib", _SONAME)
        if os.path.isfile(library):
            return library
    return None


def _loaded_runtime() -> ctypes.CDLL | None:
    """Return the runtime that is loaded already, made visible to every library."""
    try:
        return ctypes.CDLL(_SONAME, mode=_FLAGS | os.RTLD_NOLOAD)
    except OSError:
        return None


def _open(path: str) -> ctypes.CDLL:
    if not os.path.isfile(path):
        raise RuntimeError(f"graphffi: cannot load the runtime {path!r}: there is no such file")
    try:
        return ctypes.CDLL(path, mode=_FLAGS)
    except OSError as failure:
        raise RuntimeError(f"graphffi: cannot load the runtime {path!r}: {failure}") from failure


def _check_choice(choice: str, loaded: str) -> None:
    """Refuse a choice that comes too late: the process has its runtime."""
    if not choice:
        return
    wanted = _choose(choice)[1]
    if not _is_same(wanted, loaded):
        raise RuntimeError(
            f"graphffi: {_VARIABLE}={choice}: expected {wanted}, got {loaded}, which was loaded "
            f"before graphffi was imported; import graphffi first, or unset {_VARIABLE}"
        )


def _check_symbols(library: ctypes.CDLL, path: str) -> None:
    missing = [name for name in NEEDED_SYMBOLS if not hasattr(library, name)]
    if missing:
        raise RuntimeError(
            f"graphffi: cannot use the runtime {path!r}: it lacks {', '.join(missing)}; "
            f"upgrade apache-tvm-ffi, or set {_VARIABLE}=bundled"
        )


def _is_same(one: str, other: str) -> bool:
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def _version_of(library: ctypes.CDLL) -> tuple[int, int, int]:
    version = (ctypes.c_uint32 * 3)()
    library.TVMFFIGetVersion(version)
    return version[0], version[1], version[2]


class _SymbolLocation(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _path_of(library: ctypes.CDLL) -> str:
    """Return the file that a library was loaded from."""
    location = _SymbolLocation()
    address = ctypes.cast(library.TVMFFIGetVersion, ctypes.c_void_p)
    ctypes.CDLL(None).dladdr(address, ctypes.byref(location))
    return os.fsdecode(location.file or b"")


def _refuse(spec: ModuleSpec) -> None:
    """Refuses apache's package beside the bundled runtime: two crash the process.

    One whose library is the bundled runtime, by a link, brings no second.
    """
    library = _library_in(spec)
    if library is not None and _is_same(library, _BUNDLED):
        return
    spec.loader = _RefusingLoader()  # type: ignore[assignment]


class _RefusingLoader:
    """Takes the package's place."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        raise ImportError(
            f"graphffi: cannot import {spec.name}: this process runs on graphffi's bundled "
            f"runtime, and a second one would crash it; "
            f"set {_VARIABLE}=apache, or import {spec.name} before graphffi",
            name=spec.name,
        )

    def exec_module(self, module: ModuleType) -> None:
        """Never reached: nothing was created."""


RUNTIME: Final = open_runtime()


def runtime_info() -> Runtime:
    """Return which runtime the process has, where it is, and its version."""
    return RUNTIME
