# SPDX-License-Identifier: Apache-2.0
"""Plugins for frameworks: which there are, and their imports; no framework is imported for that."""

from __future__ import annotations

import importlib
import sys
from typing import Final

PLUGINS: Final = {"torch": "graphffi_torch", "jax": "graphffi_jax"}
"""The plugin for each framework."""
PACKAGES: Final = {**PLUGINS, "jaxlib": PLUGINS["jax"]}
"""The plugin for the types of each package: by the first part of their module."""
served: Final[set[str]] = set()
"""The packages whose types a framework that is registered takes."""
_broken: Final[dict[str, tuple[type[ImportError], str]]] = {}  # plugins, and what imports raise


def prepare_for_tracing() -> None:
    """Imports the plugin for torch: a tracer of Python code can't in the middle of its work."""
    prepare("torch")


def prepare(package: str) -> None:
    """Imports the plugin of a framework that is imported, unless that is still under way."""
    module = sys.modules.get(package)
    if module is None or package in served:
        return
    if not getattr(module.__spec__, "_initializing", False):
        _import_if_possible(PACKAGES[package])


def load_plugin_of(kind: type) -> None:
    """Imports the plugin for the framework that a type belongs to.

    One that can't be imported is reported by the first call with a tensor of the framework.
    """
    prefix = kind.__module__.partition(".")[0]
    if prefix in PACKAGES and prefix not in served:
        _import_if_possible(PACKAGES[prefix])


def _import_if_possible(plugin: str) -> None:
    """Others can do without; the first call with a tensor of the framework tries again."""
    if plugin in _broken:
        return
    try:
        importlib.import_module(plugin)
    except Exception as error:
        missing = _is_missing(error, plugin)
        _broken[plugin] = (
            (ModuleNotFoundError, _missing(plugin)) if missing else (ImportError, str(error))
        )


def failed_import(plugin: str) -> tuple[type[ImportError], str] | None:
    """The error by which a plugin could not be imported before: its type and text."""
    return _broken.get(plugin)


def import_plugin(subject: str, package: str) -> None:
    """Imports the plugin for the types of a package, if there is one.

    Raises:
        ModuleNotFoundError: If graphffi was built without it.
    """
    if package in served or package not in PACKAGES:
        return
    plugin = PACKAGES[package]
    try:
        importlib.import_module(plugin)
    except ModuleNotFoundError as error:
        if not _is_missing(error, plugin):
            raise
        raise ModuleNotFoundError(f"{subject}: {_missing(plugin)}", name=plugin) from None


def _is_missing(error: Exception, plugin: str) -> bool:
    return isinstance(error, ModuleNotFoundError) and error.name == plugin


def _missing(plugin: str) -> str:
    name = plugin.removeprefix("graphffi_")
    return (
        f"expected the plugin for {name}, {plugin}, got none; install graphffi with "
        f"GRAPHFFI_BUILD_{name.upper()}=1 where {name} is installed"
    )
