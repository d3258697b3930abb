# SPDX-License-Identifier: Apache-2.0
"""Work that waits until another module has been imported, by whomever."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(name: str, action: Callable[[], None]) -> None:
    """Runs `action` once the module is imported; now, if it is.

    Args:
        name: Full name of the module.
        action: Must not raise.
    """
    module = sys.modules.get(name)
    if module is not None and not getattr(module.__spec__, "_initializing", False):
        action()
    else:
        sys.meta_path.insert(0, _Watch(name, action))


class _Watch:
    """Finds its module as others do, and adds the action to what loads it."""

    def __init__(self, name: str, action: Callable[[], None]) -> None:
        self.name = name
        self.action = action

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            self.action()

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]
        return spec
