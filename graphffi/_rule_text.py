# SPDX-License-Identifier: Apache-2.0
"""Text that changes when what a rule computes does, and is the same in every process.

Values are read as they are now. What can't be read (the state of an object that is written in C,
attributes that come through `__getattr__`, the time, the environment) makes a text unknown.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import sys
import threading
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Their code changes with their versions, which caches know.
_OTHERS: Final = sys.stdlib_module_names - {"__main__"} | {
    *("graphffi", "graphffi_torch", "graphffi_jax"),
    *("torch", "jax", "jaxlib", "numpy", "sympy", "ml_dtypes"),
}
# Modules whose functions give what no text tells.
_OF_THE_MACHINE: Final = frozenset(
    {"os", "time", "random", "secrets", "io", "pathlib", "subprocess"}
)
_MOST_VALUES: Final = 2000
_DEEPEST: Final = 40
_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: not of C, as a rule


def rule_text(rule: Any) -> str:
    """The code of a rule, and the values, functions and ops that it refers to by name."""
    return _RuleText().of(rule, frozenset())


def known_rule_text(rule: Any) -> str | None:
    """The text of a rule, or None where the rule refers to something that no text tells."""
    walk = _RuleText()
    text = walk.of(rule, frozenset())
    return text if walk.is_known else None


@contextlib.contextmanager
def digesting(name: str) -> Iterator[None]:
    """Has rules that refer to an op name it, while its own digest is computed."""
    names = _digested()
    names.append(name)
    try:
        yield
    finally:
        names.remove(name)


_local: Final = threading.local()


def _digested() -> list[str]:
    names: list[str] = _local.__dict__.setdefault("names", [])
    return names


class _RuleText:
    """One walk over what a rule refers to.

    Attributes:
        is_known: Whether the text tells all values so far.
    """

    def __init__(self) -> None:
        self.is_known = True
        self._depth = 0
        # Keyed by id, and by what is read of objects. Values are kept, so that no id is used twice.
        self._seen: dict[tuple[int, frozenset[str]], Any] = {}

    def of(self, value: Any, names: frozenset[str]) -> str:
        """The text of a value.

        Args:
            value: What the rule refers to.
            names: Of attributes that the code before mentions.
        """
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, enum.Enum)):
            return repr(value)
        key = (id(value), frozenset() if isinstance(value, FunctionType) else names)
        if key in self._seen:
            return ""
        if len(self._seen) >= _MOST_VALUES or self._depth >= _DEEPEST:
            self.is_known = False
            return ""
        self._seen[key] = value
        self._depth += 1
        text = self._of_new(value, names)
        self._depth -= 1
        return f"({text})"

    def _of_new(self, value: Any, names: frozenset[str]) -> str:
        if type(value).__module__ == "graphffi._op":
            definition = value.definition
            if definition.name in _digested():
                return str(definition.name)  # by a rule of its own
            return f"{definition.base_digest} {self._join(definition.added_rules, names)}"
        if isinstance(value, (set, frozenset)):
            walks = [(_RuleText(), item) for item in value]
            texts = sorted(walk.of(item, names) for walk, item in walks)
            self.is_known = self.is_known and all(walk.is_known for walk, _ in walks)
            return " ".join(texts)
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            return f"{value.dtype} {value.shape} {_hash(value.tobytes())}"
        if isinstance(value, MethodType):
            return self._join((value.__func__, value.__self__), names | _names(value))
        if isinstance(value, FunctionType):
            return self._of_function(value)
        if isinstance(value, (BuiltinFunctionType, MethodWrapperType)) and _is_bound(value):
            return f"{value.__qualname__} {self.of(value.__self__, names)}"  # such as `table.get`
        opt_parts = _parts(value)
        return self._of_object(value, names) if opt_parts is None else self._join(opt_parts, names)

    def _join(self, values: Iterable[Any], names: frozenset[str]) -> str:
        return " ".join(self.of(value, names) for value in values)

    def _of_function(self, function: FunctionType) -> str:
        names = _names(function)
        found = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
        # `functools.wraps` gives the user's function another one's `__module__`, and the reverse.
        if _is_other(function.__globals__.get("__name__")):
            name = f"{function.__module__}.{function.__qualname__}"
            return f"{name} {self._join(found, names)}" if found else name
        found += [function.__globals__[n] for n in sorted(names) if n in function.__globals__]
        found += [function.__defaults__, function.__kwdefaults__]
        return f"{_code_text(function.__code__)} {self._join(found, names)}"

    def _of_object(self, value: Any, names: frozenset[str]) -> str:
        """A module, class or object: those of its attributes that the code mentions."""
        if isinstance(value, ModuleType):
            owners: list[Any] = [value]
            home = value.__name__
        else:
            kind = value if isinstance(value, type) else type(value)
            owners = [value, *kind.__mro__]
            home = kind.__module__
        self.is_known = self.is_known and _is_readable(value)
        if _is_other(home) and not _has_state(value):
            return _name_of(value)
        if not isinstance(value, (ModuleType, type)):
            names = names | {"__call__"}
        attributes = {n: v for owner in owners[::-1] for n, v in _attributes(owner)}
        mentioned: frozenset[str] = frozenset()
        while mentioned != names:  # methods mention attributes in turn
            mentioned = names
            names = names.union(*(_names(attributes[n]) for n in names & attributes.keys()))
        read = names.union(vars(value)) if _has_state(value) else names
        found = [item for n in sorted(read & attributes.keys()) for item in (n, attributes[n])]
        return f"{home} {self._join(found, names)}"


def _hash(content: bytes) -> str:
    import hashlib  # which few programs need

    return hashlib.sha256(content).hexdigest()


def _name_of(value: Any) -> str:
    """The text of what is another package's, whose version caches know."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, (type, BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    text = repr(value)  # of `torch.float32` or `operator.itemgetter(1)`, for example
    return f"a {type(value).__qualname__}" if " at 0x" in text else text


def _is_bound(function: BuiltinFunctionType | MethodWrapperType) -> bool:
    """Whether it is a method of a value; those of C's modules are functions."""
    return not isinstance(function.__self__, (ModuleType, type, type(None)))


def _has_state(value: Any) -> bool:
    """Whether it is an object that keeps values in attributes, which code may read by any means."""
    is_named = isinstance(value, (ModuleType, type, FunctionType, BuiltinFunctionType))
    return not is_named and hasattr(value, "__dict__")


def _is_readable(value: Any) -> bool:
    """Whether attributes tell what code can learn of an object."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] not in _OF_THE_MACHINE
    if isinstance(value, (type, BuiltinFunctionType)):
        return str(value.__module__).partition(".")[0] not in _OF_THE_MACHINE
    if isinstance(value, SimpleNamespace):
        return True
    if not _has_state(value) and " at 0x" not in repr(value):
        return True  # such as torch.float32
    kinds = [kind for kind in type(value).__mro__ if kind is not object]
    if any(not kind.__flags__ & _HEAP_TYPE for kind in kinds):
        return False
    hooks = ("__getattr__", "__getattribute__")
    return not any(hook in kind.__dict__ for kind in kinds for hook in hooks)


def _parts(value: Any) -> Iterable[Any] | None:
    """The parts of a container or of a wrapper of a function; None for other values."""
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, dict):
        return [item for pair in value.items() for item in pair]
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, (staticmethod, classmethod)):
        return (value.__func__,)
    if "__wrapped__" in getattr(value, "__dict__", ()):  # by functools.cache, for example
        return (value.__wrapped__,)
    return None


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()
    if not isinstance(owner, type):
        for name in getattr(type(owner), "__slots__", ()):
            try:
                value = getattr(owner, name)
            except (AttributeError, TypeError):  # unset, or no object has it (JAX's arrays)
                continue
            yield name, value


def _names(function: Any) -> frozenset[str]:
    """The names that a function mentions; none for other values."""
    if isinstance(function, property):
        function = function.fget
    elif isinstance(function, (staticmethod, classmethod, MethodType)):
        function = function.__func__
    is_code = isinstance(function, FunctionType)
    return frozenset(_code_names(function.__code__)) if is_code else frozenset()


def _code_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_names(constant)


def _is_other(module: str | None) -> bool:
    return str(module).partition(".")[0] in _OTHERS


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:  # assigned later than this
        return False
    return True


def _code_text(code: CodeType) -> str:
    constants = [
        _code_text(c)
        if isinstance(c, CodeType)
        else sorted(map(repr, c))
        if isinstance(c, frozenset)
        else repr(c)
        for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
