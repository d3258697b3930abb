# SPDX-License-Identifier: Apache-2.0
"""Actions for when another package is imported, without importing it for that."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def when_imported(name: str, action: Callable[[], None]) -> None:
    """Runs an action as soon as a module has been imported: now, if it has been.

    Args:
        name: Dotted name of the module.
        action: Runs once, in the thread that imports the module. Must not raise.
    """
    module = sys.modules.get(name)
    is_initializing = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if module is not None and (name in _executed or not is_initializing):
        action()
        return

    def act_at_end(spec: ModuleSpec) -> None:
        loader = spec.loader
        if loader is None:
            return
        execute = loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            # A loader may be that of other modules, too.
            if module.__name__ == name and _finder.remove(name, act_at_end):
                _executed.add(name)  # for actions that wait for the same module
                try:
                    action()
                finally:
                    _executed.discard(name)

        loader.exec_module = execute_and_act  # type: ignore[method-assign]

    change_import(name, act_at_end)


def change_import(name: str, change: Callable[[ModuleSpec], None]) -> None:
    """Changes how a module is loaded.

    Args:
        name: Dotted name of the module.
        change: Gets the specification that other finders made of it.
    """
    _finder.add(name, change)


def find_elsewhere(
    name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """The specification by other finders; importing importlib.util would cost milliseconds."""
    for finder in sys.meta_path:
        if finder is not _finder:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


class _Finder:
    """Finds what others find, and changes it: the one finder that graphffi has in sys.meta_path."""

    def __init__(self) -> None:
        self._changes: dict[str, list[Callable[[ModuleSpec], None]]] = {}

    def add(self, name: str, change: Callable[[ModuleSpec], None]) -> None:
        self._changes.setdefault(name, []).append(change)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self, name: str, change: Callable[[ModuleSpec], None]) -> bool:
        """True if it was there: of two threads, one runs an action."""
        try:
            self._changes.get(name, []).remove(change)
        except ValueError:
            return False
        return True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification of a module that is to be changed, as Python's import asks for it."""
        changes = self._changes.get(fullname)
        spec = find_elsewhere(fullname, path, target) if changes else None
        if spec is not None:
            for change in list(changes or ()):
                change(spec)
        return spec


_finder = _Finder()
# Modules whose code has run, while actions run; Python says of them that they are being imported.
_executed: set[str] = set()
