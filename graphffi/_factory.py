# SPDX-License-Identifier: Apache-2.0
"""Factories: kernels that are made when a call first needs them, one for each key."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import operator
import os
import re
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from . import _core
from ._cached import cached_property
from ._conditions import ConditionSize, UndecidedError
from ._describe import describe
from ._device import Device
from ._error import FactoryError
from ._factory_sources import noted_files
from ._factory_store import HeaderList, Store, prebuilt, prebuilt_libraries
from ._kernel import complete_kernel
from ._library import hash_if_there, renew_library_of
from ._rule_text import read_rule
from ._shape_rule import call_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ._definition import Definition
    from ._op_kernel import OpKernel

log: Final = logging.getLogger("graphffi.kernels")
# Texts of values that are no strings.
_VALUES: Final = ("None", "True", "False", "inf", "nan")


@dataclass(frozen=True)
class Key:
    """Static facts of calls for which one kernel is made.

    Args:
        values: What the factory gets.
        text: Equal for equal keys, in every process.
    """

    values: tuple[Any, ...]
    text: str

    @staticmethod
    def of(subject: str, given: Any) -> Key:
        """The key that a key function gave.

        Raises:
            TypeError: If there is something in it that is no static fact.
            UndecidedError: If a size in it is not known.
        """
        found = _static(subject, given)
        values = found if isinstance(found, tuple) else (found,)
        return Key(values, ", ".join(map(_text, values)))


def _static(subject: str, value: Any) -> Any:
    if isinstance(value, ConditionSize):
        return value.fixed()
    if value is None or isinstance(value, (bool, str)):
        # A size of the eager tracer claims to be an int or a bool; by these it becomes one.
        return bool(value) if isinstance(value, bool) else value
    if isinstance(value, int) or hasattr(value, "__index__"):
        with contextlib.suppress(TypeError):  # of arrays of more than an int
            return operator.index(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Device):
        return str(value)
    if isinstance(value, (tuple, list)):
        return tuple(_static(subject, item) for item in value)
    raise TypeError(
        f"{subject}: key: expected static facts (int, float, bool, str, dtype, Device, None, "
        f"tuples of them), got {describe(value)}"
    )


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    is_plain = isinstance(value, str) and value.isidentifier() and value not in _VALUES
    return str(value) if is_plain else repr(value)


@dataclass
class _Build:
    """A build in progress. If it fails, `failure` is set before `done`."""

    thread: int = field(default_factory=threading.get_ident)
    done: threading.Event = field(default_factory=threading.Event)
    failure: BaseException | None = None


class Factory:
    """A maker of kernels of an op. Thread-safe.

    Args:
        op: Name of the op.
        name: Of the factory, among the op's kernels.
        key: Gets what the shape rule gets.
        make: Gets the key; gives a function, a kernel reference or the path of a library.
        depends: What its libraries are made of beside code and key: files, and texts.
    """

    def __init__(
        self,
        op: str,
        name: str,
        key: Callable[..., Any],
        make: Callable[..., Any],
        depends: Sequence[str | os.PathLike[str]],
    ) -> None:
        self.op = op
        self.name = name
        self.key = key
        self.make = make
        self.files = tuple(os.path.abspath(d) for d in depends if isinstance(d, os.PathLike))
        # Where a prebuilt grid is used, sources need not be there.
        self.depends = tuple(
            hash_if_there(os.path.abspath(d)) if isinstance(d, os.PathLike) else d for d in depends
        )
        self._lock = threading.Lock()
        self._keyed: dict[str, OpKernel] = {}
        self._made: dict[str, OpKernel] = {}
        self._building: dict[str, _Build] = {}
        _factories.add(self)

    @property
    def subject(self) -> str:
        """Begins error messages."""
        return f"{self.op}: factory {self.name!r}"

    @cached_property
    def identity(self) -> str | None:
        """Identifies the code in every process; None if the code has no text."""
        rules = read_rule((self.make, self.key))
        if rules.unknown and not self.depends:
            return None
        return "\n".join((self.op, self.name, *self.depends, rules.text))

    def traced_text(self, *, is_prebuilt: bool) -> str | None:
        """The state of what its libraries depend on: where they are, which graphs say, and headers.

        Args:
            is_prebuilt: Whether kernels were made ahead of time; those have hashes of their own.

        Returns:
            None where nobody knows: before it made the first one.
        """
        if self.identity is None:
            return None
        text = HeaderList.of(self.op, self.name, self.identity).text()
        return f"{text}\n{prebuilt_libraries(self.op, self.name)}" if is_prebuilt else text

    def keyed(
        self,
        definition: Definition,
        kernel: OpKernel,
        operands: Sequence[Any],
        attributes: Sequence[Any],
    ) -> OpKernel:
        """The kernel that a factory has for a call; it may be still to be made.

        Raises:
            NotImplementedError: If the key depends on a size that is not known, and not to be
                guarded.
            TypeError: If the key is none.
        """
        try:
            kind = f"factory {self.name!r}: key"
            found = call_rule(definition, self.key, operands, attributes, kind)
            return self.of_key(kernel, Key.of(self.subject, found))
        except UndecidedError:
            raise NotImplementedError(
                f"{self.subject}: key: expected known sizes, got one that the program "
                "leaves open; fix the size, or give the op a kernel for all sizes before it"
            ) from None

    def of_key(self, kernel: OpKernel, key: Key) -> OpKernel:
        """The same object for the same key, before it is made."""
        with self._lock:
            found = self._keyed.get(key.text)
            if found is None:
                found = dataclasses.replace(kernel, key=key)
                self._keyed[key.text] = found
            return found

    def made(self, definition: Definition, keyed: OpKernel) -> OpKernel:
        """The kernel of a key: made now, unless it was before. Threads that ask meanwhile wait.

        Raises:
            FactoryError: If the factory fails.
        """
        key = keyed.key
        assert key is not None
        while True:
            with self._lock:
                if (made := self._made.get(key.text)) is not None:
                    return made
                build = self._building.get(key.text)
                if build is None:
                    mine = self._building[key.text] = _Build()
            if build is None:
                return self._run(mine, definition, keyed, key)
            if build.thread == threading.get_ident():
                raise FactoryError(
                    f"{self._title(key)}: expected a kernel, got a call of the kernel that "
                    "is being made"
                )
            build.done.wait()
            if isinstance(build.failure, FactoryError):
                raise FactoryError(str(build.failure)) from build.failure
            # One that was interrupted says nothing of the factory: this thread tries.

    def forget_made(self) -> None:
        """Makes kernels be made, or found, anew: others may be there now."""
        with self._lock:
            self._keyed.clear()
            self._made.clear()

    def forget_builds(self) -> None:
        """Forgets builds of threads that a child process does not have."""
        self._lock = threading.Lock()
        self._building.clear()

    def _title(self, key: Key) -> str:
        return f"{self.subject}, key ({key.text})"

    def _run(self, build: _Build, definition: Definition, keyed: OpKernel, key: Key) -> OpKernel:
        try:
            made = self._build(definition, keyed, key)
            self._made[key.text] = made
            return made
        except BaseException as error:
            build.failure = error
            raise
        finally:
            with self._lock:
                self._building.pop(key.text, None)
            build.done.set()

    def _build(self, definition: Definition, keyed: OpKernel, key: Key) -> OpKernel:
        title = self._title(key)
        log.info("%s: making a kernel", title)
        start = time.monotonic()
        returned = self._obtain(key)
        try:
            made = self._kernel(definition, keyed, key, returned)
            definition.check_kernel(made)
            renew_library_of(made.reference)
            made.install()
            _core.resolve_kernel(made.reference)
        except Exception as error:
            self._store(key).forget()
            text = error.args[0] if error.args else error
            raise FactoryError(f"{title}: {text}") from error
        log.info("%s: made in %.3f s", title, time.monotonic() - start)
        return made

    def _obtain(self, key: Key) -> Any:
        """The value that the factory returned, in this process or another."""
        if kept := prebuilt(self.op, self.name, key.text):
            return kept
        if self.identity is None:
            return self._call(key)
        store = self._store(key)
        if kept := store.read():  # also from a cache that may only be read
            return kept
        with store.locked():
            return store.read() or store.keep(self._call(key))

    def _store(self, key: Key) -> Store:
        return Store.of(self.op, self.name, f"{self.identity}\n{key.text}")

    def _call(self, key: Key) -> Any:
        title = self._title(key)
        try:
            with noted_files() as noted:
                returned = self.make(*key.values)
        except Exception as error:
            raise FactoryError(
                f"{title}: expected a kernel, got {type(error).__name__}: {error}"
            ) from error
        if unknown := sorted(noted.sources - set(self.files)):
            raise FactoryError(
                f"{title}: expected depends= to name the files that it compiles, got none for "
                f"{', '.join(map(repr, unknown))}; pass each as a pathlib.Path: a str is not the "
                f"name of a file here"
            )
        if self.identity is not None:
            HeaderList.of(self.op, self.name, self.identity).add(noted.headers)
        return returned

    def _kernel(self, definition: Definition, keyed: OpKernel, key: Key, returned: Any) -> OpKernel:
        """The kernel of what the factory returned."""
        is_text = isinstance(returned, (str, os.PathLike))
        if not is_text and (not callable(returned) or isinstance(returned, type)):
            raise TypeError(
                "expected a function, a kernel reference or the path of a library, got "
                f"{describe(returned)}"
            )
        given = _reference(self.op, os.fspath(returned)) if is_text else returned
        name = f"{self.name}.{_name(key.text)}"
        made = complete_kernel(definition, keyed, given, name)
        if made.function is not None:
            _functions.add(made.reference)
        return made


_factories: Final[weakref.WeakSet[Factory]] = weakref.WeakSet()
_functions: Final[set[str]] = set()  # by name, that factories made and no library holds


def is_made_function(reference: str) -> bool:
    """True if a reference is that of a function that a factory made, and no library holds."""
    return reference in _functions


def _name(text: str) -> str:
    """A key's text as part of a global function's name."""
    import hashlib

    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', text).strip('_')[:60]}.{digest}"


def _reference(op: str, text: str) -> str:
    """A kernel reference, or that of the function of a library's path."""
    if "::" in text or not text.endswith(".so"):
        return text
    from ._module import load_module

    path = os.path.abspath(text)
    names = load_module(path).function_names()
    own = op.partition("::")[2]
    if own not in names and len(names) != 1:
        listed = ", ".join(map(repr, names)) or "none"
        raise ValueError(f"expected one function in '{path}', or one {own!r}, got {listed}")
    return f"{path}::{own if own in names else names[0]}"


def _after_fork() -> None:
    for factory in _factories:
        factory.forget_builds()


os.register_at_fork(after_in_child=_after_fork)
