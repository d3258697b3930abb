# SPDX-License-Identifier: Apache-2.0
"""Factories: kernels that are made when a call first needs them, one for each key."""

from __future__ import annotations

import contextlib
import operator
import os
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .._contract.rule_text import read_rule
from .._contract.shape_rule import call_rule
from .._contract.symbols import UndecidedError
from .._log import kernel_log
from .._values.describe import describe
from .._values.device import Device
from .._values.error import FactoryError
from .factory_sources import noted_files
from .factory_store import HeaderList, Store, library_of, prebuilt, prebuilt_libraries
from .library import hash_if_there

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .._definition.interface import Interface

K = TypeVar("K")

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
    if value is None or isinstance(value, (bool, str)):
        # A size of the eager tracer claims to be an int or a bool; by these it becomes one.
        return bool(value) if isinstance(value, bool) else value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) or hasattr(value, "__index__"):
        with contextlib.suppress(TypeError):  # of arrays of more than an int
            return operator.index(value)
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


@dataclass(frozen=True)
class _Inputs:
    """All that kernels are made of beside their keys and headers, as it is when it is read.

    Args:
        depends: Hashes of files, and texts.
        text: Identifies it in every process; None if the code has no text.
    """

    depends: tuple[str, ...]
    text: str | None


class Factory(Generic[K]):
    """A maker of kernels of an op, which are of the type K. Thread-safe.

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
        self._texts = tuple(d for d in depends if isinstance(d, str))
        self.depends = self._depends_now()
        self._lock = threading.Lock()
        self._keyed: dict[str, K] = {}
        self._made: dict[str, K] = {}
        self._made_of: dict[str, str] = {}  # texts of inputs
        self._begun_as: dict[str, str] = {}  # texts after making, to those before
        self._building: dict[str, _Build] = {}
        _factories.add(self)

    @property
    def subject(self) -> str:
        """Begins error messages."""
        return f"{self.op}: factory {self.name!r}"

    def _depends_now(self) -> tuple[str, ...]:
        # Where a prebuilt grid is used, sources need not be there.
        return (*map(hash_if_there, self.files), *self._texts)

    def _inputs(self) -> _Inputs:
        rules, depends = read_rule((self.make, self.key)), self._depends_now()
        if rules.unknown and not depends:
            return _Inputs(depends, None)
        text = "\n".join((self.op, self.name, *depends, rules.text))
        return _Inputs(depends, self._begun_as.get(text, text))

    def traced_text(self, *, is_prebuilt: bool) -> str | None:
        """The state of what its libraries depend on: where they are, which graphs say, and headers.

        Args:
            is_prebuilt: Whether kernels were made ahead of time; those have hashes of their own.

        Returns:
            None where nobody knows: before it made the first one.
        """
        now = self._inputs().text
        if now is None:
            return None
        with self._lock:  # a file or a global may have changed since one was made
            older = sorted(item for item in self._made_of.items() if item[1] != now)
        inputs = sorted({now, *dict(older).values()})
        headers = [HeaderList.of(self.op, self.name, text).text() for text in inputs]
        if None in headers:
            return None
        libraries = prebuilt_libraries(self.op, self.name) if is_prebuilt else ""
        return f"{now}\n{older}\n{headers}\n{libraries}"

    def key_of(
        self, definition: Interface, operands: Sequence[Any], attributes: Sequence[Any]
    ) -> Key:
        """The key of a call.

        Raises:
            NotImplementedError: If it depends on a size that is not known, and not to be guarded.
            TypeError: If it is none.
        """
        try:
            kind = f"factory {self.name!r}: key"
            return Key.of(self.subject, call_rule(definition, self.key, operands, attributes, kind))
        except UndecidedError:
            raise NotImplementedError(
                f"{self.subject}: key: expected known sizes, got one that the program "
                "leaves open; fix the size, or give the op a kernel for all sizes before it"
            ) from None

    def of_key(self, key: Key, new: Callable[[], K]) -> K:
        """The same object for the same key, before it is made: that of `new` at first."""
        with self._lock:
            found = self._keyed.get(key.text)
            if found is None:
                found = self._keyed[key.text] = new()
            return found

    def made(self, key: Key, complete: Callable[[Any], K]) -> K:
        """The kernel of a key: made now, unless it was before. Threads that ask meanwhile wait.

        Args:
            key: One that `key_of` gave.
            complete: Makes a kernel of what the factory's function returned.

        Raises:
            FactoryError: If the factory fails.
        """
        while True:
            with self._lock:
                if (made := self._made.get(key.text)) is not None:
                    return made
                build = self._building.get(key.text)
                if build is None:
                    mine = self._building[key.text] = _Build()
            if build is None:
                return self._run(mine, key, complete)
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
            self._made_of.clear()

    def forget_builds(self) -> None:
        """Forgets builds of threads that a child process does not have."""
        self._lock = threading.Lock()
        self._building.clear()

    def _title(self, key: Key) -> str:
        return f"{self.subject}, key ({key.text})"

    def _run(self, build: _Build, key: Key, complete: Callable[[Any], K]) -> K:
        try:
            made = self._build(key, complete)
            self._made[key.text] = made
            return made
        except BaseException as error:
            build.failure = error
            raise
        finally:
            with self._lock:
                self._building.pop(key.text, None)
            build.done.set()

    def _build(self, key: Key, complete: Callable[[Any], K]) -> K:
        title = self._title(key)
        kernel_log().info("%s: making a kernel", title)
        start = time.monotonic()
        inputs = self._inputs()
        returned = self._obtain(key, inputs)
        try:
            made = complete(returned)
        except Exception as error:
            self._store(key, inputs).forget()
            text = error.args[0] if error.args else error
            raise FactoryError(f"{title}: {text}") from error
        kernel_log().info("%s: made in %.3f s", title, time.monotonic() - start)
        return made

    def _obtain(self, key: Key, inputs: _Inputs) -> Any:
        """The value that the factory returned, in this process or another."""
        if kept := prebuilt(self.op, self.name, key.text):
            return kept
        self._note_inputs(key, inputs.text)
        if inputs.text is None:
            return self._call(key)[0]
        store = self._store(key, inputs)
        if kept := store.read():  # also from a cache that may only be read
            return kept
        with store.locked():
            return store.read() or self._keep(key, inputs, store)

    def _keep(self, key: Key, inputs: _Inputs, store: Store) -> Any:
        """Calls the factory, and keeps what it returned unless its files changed meanwhile."""
        returned, headers = self._call(key)
        now = self._inputs()
        if now.depends != inputs.depends:
            kernel_log().info("%s: not kept: a file changed while it was made", self._title(key))
            self._note_inputs(key, None)
            return returned
        assert inputs.text is not None
        if now.text is not None and now.text != inputs.text:
            # The factory itself did that: it loaded modules, or remembers calls.
            self._begun_as[now.text] = inputs.text
        HeaderList.of(self.op, self.name, inputs.text).add(headers)
        return store.keep(returned, headers)

    def _note_inputs(self, key: Key, text: str | None) -> None:
        """Notes what a kernel is made of; None if nobody knows: it has no equal elsewhere."""
        with self._lock:
            self._made_of[key.text] = text or os.urandom(8).hex()

    def _store(self, key: Key, inputs: _Inputs) -> Store:
        return Store.of(self.op, self.name, f"{inputs.text}\n{key.text}")

    def _call(self, key: Key) -> tuple[Any, set[str]]:
        """The kernel as the factory returns it, and the headers that it compiled."""
        title = self._title(key)
        try:
            with noted_files() as noted:
                returned = self.make(*key.values)
        except Exception as error:
            raise FactoryError(
                f"{title}: expected a kernel, got {type(error).__name__}: {error}"
            ) from error
        noted.add_library(library_of(returned)[0])
        if unknown := sorted(noted.sources - set(self.files)):
            raise FactoryError(
                f"{title}: expected depends= to name the files that it compiles, got none for "
                f"{', '.join(map(repr, unknown))}; pass each as a pathlib.Path: a str is not the "
                f"name of a file here"
            )
        return returned, noted.headers


_factories: Final[weakref.WeakSet[Factory[Any]]] = weakref.WeakSet()


def _after_fork() -> None:
    for factory in _factories:
        factory.forget_builds()


os.register_at_fork(after_in_child=_after_fork)
