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
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))


class _Watch:
    """A finder that finds what others find, and adds the action."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self._name = name
        self._action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module, whose loader runs the action at its end."""
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            # For actions that wait for the same module.
            module.__spec__._initializing = False  # type: ignore[union-attr]
            self._action()

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
