# SPDX-License-Identifier: Apache-2.0
"""The inputs of a library's build."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PRELUDE: Final = "#include <tvm/ffi/extra/c_env_api.h>\n#include <tvm/ffi/tvm_ffi.h>\n"


@dataclass(frozen=True)
class Recipe:
    """The inputs of a library's build, all paths absolute.

    Attributes:
        name: of the library.
        sources: files.
        cpp_text: C++ text, compiled as one more file.
        cuda_text: CUDA text, likewise.
        functions: what the text exports, with documentation or an empty string.
        cflags: extra flags of the C++ compiler.
        cuda_cflags: extra flags of nvcc.
        ldflags: extra flags of the linker.
        include_paths: folders searched before graphffi's headers.
    """

    name: str
    sources: tuple[Path, ...]
    cpp_text: str
    cuda_text: str
    functions: tuple[tuple[str, str], ...]
    cflags: tuple[str, ...]
    cuda_cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    include_paths: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse what can't be compiled.

        Raises:
            ValueError: a bad name, or nothing to compile.
        """
        is_text = isinstance(self.name, str)
        if not (is_text and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", self.name)):
            raise ValueError(
                "graphffi.cpp: name: expected a file name of letters, digits, '_', '-' and '.', "
                f"got {self.name!r}"
            )
        if not (self.sources or self.cpp_text or self.cuda_text):
            raise ValueError(f"graphffi.cpp: {self.name}: expected sources, got none")
        for source in self.sources:
            if not source.is_file():
                raise ValueError(
                    f"graphffi.cpp: {self.name}: expected a source file, got {str(source)!r}"
                )

    @property
    def uses_cuda(self) -> bool:
        """True if anything is for nvcc."""
        return bool(self.cuda_text) or any(source.suffix == ".cu" for source in self.sources)

    @property
    def uses_c(self) -> bool:
        """True if anything is for the C compiler: C++ would give its functions other symbols."""
        return any(source.suffix == ".c" for source in self.sources)

    def texts(self) -> dict[str, str]:
        """The files to be written before compiling, by name."""
        exports = "".join(_export(name, doc) for name, doc in self.functions)
        texts = {}
        if self.cpp_text:
            texts[f"{self.name}.cc"] = self._complete(".cc", self.cpp_text, exports)
        if self.cuda_text:
            own = "" if self.cpp_text else exports
            texts[f"{self.name}.cu"] = self._complete(".cu", self.cuda_text, own)
        return texts

    def _complete(self, suffix: str, text: str, exports: str) -> str:
        # Compilers are to report lines of the user's text.
        return f'{_PRELUDE}#line 1 "{self.name}{suffix}"\n{text}\n#line 1 "exports"\n{exports}'


def _export(name: str, doc: str) -> str:
    lines = f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({name}, {name});\n"
    if doc:
        lines += f"TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC({name}, {c_string(doc.encode())});\n"
    return lines


def c_string(text: bytes) -> str:
    """Return a string literal of C++, with C0 80 for NUL, which would end the text."""
    text = text.replace(b"\0", b"\xc0\x80")
    plain = set(range(32, 127)) - set(b'"\\?')
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text) + '"'
