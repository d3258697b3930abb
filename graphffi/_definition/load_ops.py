# SPDX-License-Identifier: Apache-2.0
"""Ops that libraries define."""

from __future__ import annotations

import inspect
import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from .._kernels.library import find_library
from .._values.module import load_module
from .define import define_op
from .op_text import define_arguments, op_texts, parse_op_text

if TYPE_CHECKING:
    from .op import Op


def load_ops(
    path: str | os.PathLike[str], *, namespace: str | None = None, override: bool = False
) -> SimpleNamespace:
    """Defines the ops that a library describes, each as `define_op` does.

    Args:
        path: Of a library whose kernels are exported by ``GRAPHFFI_EXPORT_OP``, or that exports
            the same texts. One that is not absolute is beside the calling file, in a folder of
            ``GRAPHFFI_LIBRARY_PATH``, or where the process is.
        namespace: Of the ops' names. Default: the file's name without ``lib`` and ``.so``.
        override: As for `op`.

    Returns:
        The ops, by their names.

    Raises:
        RuntimeError: If there is no such library, or it does not load.
        ValueError: If it describes no op, or a text does not parse or fit; it names the op and the
            library. Nothing is defined if a text does not parse.
        TypeError: If a text does not fit its kernel.

    Example:
        >>> mylib = graphffi.load_ops("libmylib.so")  # doctest: +SKIP
        >>> mylib.rms_norm(x, weight)  # doctest: +SKIP
    """
    frame = inspect.currentframe()
    caller = frame.f_back.f_globals if frame and frame.f_back else {}
    file = _find(os.fspath(path), caller.get("__file__"))
    module = load_module(file)
    assert module.path is not None
    names = namespace or os.path.basename(file).removeprefix("lib").partition(".")[0]
    definitions = op_arguments(module.path, names, caller.get("__name__", "__main__"))
    found: dict[str, Op] = {}
    for symbol, arguments in definitions.items():
        try:
            kernel = module.get_function(arguments.pop("kernel", symbol))
            op = define_op(f"{names}::{symbol}", kernel=kernel, override=override, **arguments)
        except (AttributeError, TypeError, ValueError) as error:
            raise _of_library(error, module.path) from None
        found[symbol] = op
    return SimpleNamespace(**found)


def op_arguments(path: str, namespace: str, module: str) -> dict[str, dict[str, Any]]:
    """The arguments of `define_op`, but for its name, of each op in a library.

    The kernel is there where it is not the function of the op's name, as a name.

    Raises:
        ValueError: As `load_ops` does.
    """
    texts = op_texts(path)
    if not texts:
        raise ValueError(
            f"graphffi: library {path!r}: expected definitions of ops (GRAPHFFI_EXPORT_OP), got "
            "none; graphffi generate writes definitions for a library without them"
        )
    if not namespace.isidentifier():
        raise ValueError(
            f"graphffi: library {path!r}: namespace: expected an identifier, got {namespace!r}; "
            "pass namespace="
        )
    found = {}
    for symbol, text in texts.items():
        name = f"{namespace}::{symbol}"
        try:
            found[symbol] = define_arguments(name, parse_op_text(name, text), module)
        except (TypeError, ValueError) as error:
            raise _of_library(error, path) from None
    return found


def _of_library(error: Exception, path: str) -> Exception:
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"{error}; in the library {path!r}")


def _find(path: str, caller: str | None) -> str:
    """The file that a path means."""
    if os.path.isabs(path):
        return path
    beside = os.path.join(os.path.dirname(os.path.abspath(caller)), path) if caller else path
    for place in (beside, find_library(path), path):
        if place and os.path.isfile(place):
            return place
    raise RuntimeError(
        f"graphffi: cannot load {path!r}: expected it {f'beside {caller!r}, ' if caller else ''}in "
        f"a folder of GRAPHFFI_LIBRARY_PATH or in {os.getcwd()!r}, found none"
    )
