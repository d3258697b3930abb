# SPDX-License-Identifier: Apache-2.0
"""Properties that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):
    """`functools.cached_property` without the lock of Python 3.10 and 3.11.

    All instances share that lock, and a process that is forked while another thread has it waits
    for it forever. Without it, two threads may both compute a value.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        """Of a method."""
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """The instance keeps the value under this name."""
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | cached_property[T]:
        """Computes the value; from then on, the instance has an ordinary attribute."""
        if instance is None:
            return self
        value = vars(instance)[self._name] = self._function(instance)
        return value
