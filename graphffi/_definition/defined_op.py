# SPDX-License-Identifier: Apache-2.0
"""An op as frameworks are given it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core

if TYPE_CHECKING:
    from collections.abc import Callable

    from .definition import Definition


class DefinedOp(_core.OpBase):
    """The base of `Op`: a definition that has a name, and can be called.

    Attributes:
        definition: The framework-neutral definition.
        traced_call: What runs while a tracer follows a call, set by a plugin: tracing the checks
            of `call_eagerly` would be slow, and guarded.
        is_traced: Whether one does.
    """

    definition: Definition
    traced_call: Callable[..., Any]
    is_traced: Callable[[], bool] | None

    @property
    def name(self) -> str:
        """``namespace::op``."""
        return self.definition.name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the op."""
        raise NotImplementedError
