# SPDX-License-Identifier: Apache-2.0
"""Text of a rule: equal in every process for the same code and values, another one otherwise.

The text is of code objects and of all values that they reach, as these are now. A value is read
completely, or it is unknown: the text then says no more than its type. An object that was met
before is a number, so that the text also tells which objects are the same.

Code reaches its constants, defaults, closures and globals, and what it imports. Of modules and
classes, those attributes are read whose names some of the reached code mentions.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import (
    BuiltinFunctionType,
    CodeType,
    EllipsisType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    NotImplementedType,
)
from typing import TYPE_CHECKING, Any, Final

from .rule_values import (
    ANYTHING,
    cell_value,
    class_attributes,
    codes_of,
    has_hooks,
    home_of,
    imported_modules,
    is_open,
    is_packaged,
    is_public,
    is_pure,
    is_raised,
    mentioned_names,
    names_of_reads,
    reader_of,
    state_of,
    version_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLAIN: Final = (
    *(type(None), bool, float, complex, str, bytes),
    *(EllipsisType, NotImplementedType),
)
# With these, code reads attributes by names that it computes.
_ANY_ATTRIBUTE: Final = frozenset({"getattr", "hasattr", "vars", "dir", "__dict__", "getmembers"})
_ATTRIBUTE_READERS: Final = ("operator.attrgetter", "operator.methodcaller")
_FUNCTION_NAMES: Final = ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__")
_MOST_VALUES: Final = 5000
_DEEPEST: Final = 60


@dataclass(frozen=True, eq=False)
class RuleText:
    """The text of a rule, and the values that it does not tell.

    Two are equal if their texts are, and the same objects are unknown.
    """

    text: str
    unknown: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RuleText)
            and self.text == other.text
            and len(self.unknown) == len(other.unknown)
            and all(mine is its for mine, its in zip(self.unknown, other.unknown, strict=True))
        )

    def __hash__(self) -> int:
        return hash(self.text)


def read_rule(rule: Any, op: str = "") -> RuleText:
    """The text of a rule, or of a tuple of rules and texts.

    Args:
        rule: A callable, or what there is in place of one.
        op: The name of the op that has the rule, to which the rule may refer.
    """
    mentioned: frozenset[str] = frozenset()
    while True:
        walk = _Walk(mentioned, op)
        text = walk.text(rule)
        if walk.mentioned <= mentioned:
            return RuleText(text, tuple(walk.unknown))
        mentioned |= walk.mentioned


class _Walk:
    """One walk over what a rule reaches.

    Attributes:
        mentioned: Names in the code that was reached.
        unknown: Values that the text does not tell.
    """

    def __init__(self, names: frozenset[str], op: str) -> None:
        """Begins a walk.

        Args:
            names: Of the attributes that are read of modules and classes.
            op: See `read_rule`.
        """
        self.mentioned: set[str] = set()
        self.unknown: list[Any] = []
        self._names = names
        self._reads_any = not names.isdisjoint(_ANY_ATTRIBUTE)
        self._ops = {op}
        self._left = _MOST_VALUES
        self._depth = 0
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no id is used twice

    def text(self, value: Any) -> str:
        """The text of a value."""
        kind = type(value)
        if kind is int:
            return hex(value)  # of any length
        if kind in _PLAIN:
            return repr(value)
        if self._left <= 0 or self._depth >= _DEEPEST:
            return self._unknown(value)
        self._left -= 1
        self._depth += 1
        text = self._composed(value)
        self._depth -= 1
        return text

    def _unknown(self, value: Any) -> str:
        self.unknown.append(value)
        return f"?{type(value).__qualname__}"

    def _join(self, kind: str, values: Iterable[Any]) -> str:
        return f"{kind}({', '.join(map(self.text, values))})"

    def _composed(self, value: Any) -> str:
        kind = type(value)
        # Python may or may not make one object of two of these that are equal.
        if kind is tuple:
            return self._join("", value)
        if kind is CodeType:
            return self._code(value)
        if kind is frozenset:
            return self._set("frozenset", value)
        if kind is MethodType:
            return self._join("method", (value.__func__, value.__self__))
        if isinstance(value, (BuiltinFunctionType, MethodWrapperType)):
            return self._builtin(value)
        number = self._numbers.get(id(value))
        if number is not None:
            return f"#{number}"
        self._numbers[id(value)] = len(self._numbers)
        self._kept.append(value)
        return self._numbered(value)

    def _numbered(self, value: Any) -> str:
        kind = type(value)
        if kind is list:
            return self._join("list", value)
        if kind is dict:
            return self._join("dict", value.items())
        if kind is set:
            return self._set("set", value)
        if kind is FunctionType:
            return self._function(value)
        if isinstance(value, ModuleType) and (kind is ModuleType or is_packaged(value.__name__)):
            return self._module(value)
        if kind.__module__ == "graphffi._definition.op":
            return self._op(value.definition)
        return self._class(value) if isinstance(value, type) else self._object(value)

    def _set(self, kind: str, values: Iterable[Any]) -> str:
        """Sets have no order: each item has numbers of its own."""
        numbers = self._numbers
        texts = []
        for value in values:
            self._numbers = {}
            texts.append(self.text(value))
        self._numbers = numbers
        return f"{kind}({', '.join(sorted(texts))})"

    def _op(self, definition: Any) -> str:
        if definition.name in self._ops:
            return f"op {definition.name}"
        self._ops.add(definition.name)
        text = self._join("op", definition.parts)
        self._ops.remove(definition.name)
        return text

    def _code(self, code: CodeType) -> str:
        self.mentioned.update(mentioned_names(code))
        numbers = (
            *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
            getattr(code, "co_exceptiontable", b""),  # of Python 3.11
        )
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return self._join("code", (code.co_code, *numbers, *names, code.co_consts))

    def _function(self, function: FunctionType) -> str:
        parts: list[Any] = [function.__defaults__, function.__kwdefaults__, vars(function)]
        parts += [cell_value(cell) for cell in function.__closure__ or ()]
        parts += [getattr(function, name) for name in _FUNCTION_NAMES if name in self._names]
        # `functools.wraps` gives the user's function another one's `__module__`, and the reverse.
        home = str(function.__globals__.get("__name__"))
        if is_packaged(home):
            return self._join(self._packaged(function, home, function.__qualname__), parts)
        for code in codes_of(function.__code__):
            parts += self._globals(function, code)
        return self._join("function", (function.__code__, *parts))

    def _globals(self, function: FunctionType, code: CodeType) -> Iterator[Any]:
        """The globals that a function's code mentions, and its imports."""
        scope = function.__globals__
        # Only sets and dictionaries call it, which give the same for any hashes.
        is_hash = function.__name__ == "__hash__" and "__hash__" not in self._names
        for name in sorted(code.co_names):
            if name in scope:
                yield name, scope[name]
            elif name in ANYTHING and not (name == "hash" and is_hash):
                self._unknown(function)
        for imported in imported_modules(code, str(scope.get("__package__") or "")):
            if imported is None or (isinstance(imported, str) and not is_pure(imported)):
                self._unknown(function)
            yield imported

    def _packaged(self, value: Any, module: str, name: str) -> str:
        """A part of a package, whose version tells the code."""
        public = getattr(value, "__module__", None) or module  # `numpy` for parts of its modules
        if not (is_pure(f"{module}.{name}") and is_pure(f"{public}.{name}")):
            return self._unknown(value)
        return f"{module}.{name} {version_of(module)}"

    def _builtin(self, function: Any) -> str:
        """A function of C, or a method of a value, such as `table.get`."""
        owner = function.__self__
        if not isinstance(owner, (type(None), ModuleType, type)):
            return self._join(f"method {function.__name__}", (owner,))
        home = owner.__name__ if isinstance(owner, ModuleType) else home_of(function)
        if home == "builtins" and isinstance(owner, type):
            home = owner.__module__
        if is_packaged(home):
            return self._packaged(function, home, function.__qualname__)
        return self._unknown(function)

    def _module(self, module: ModuleType) -> str:
        name, found = module.__name__, vars(module)
        mentioned = sorted(self._names & found.keys())
        if is_packaged(name):
            # Of what it has, only modules may lead to what its version does not tell.
            parts = [found[n] for n in mentioned if isinstance(found[n], ModuleType)]
            if not all(is_pure(f"{name}.{n}") for n in mentioned):
                self._unknown(module)
            return self._join(self._packaged(module, name, "*"), parts)
        if "__getattr__" in found:
            self._unknown(module)
        if self._reads_any:
            mentioned = sorted(n for n in found if n in self._names or not n.startswith("__"))
        return self._join(f"module {name}", ((n, found[n]) for n in mentioned))

    def _class(self, kind: type) -> str:
        if is_packaged(kind.__module__):
            return self._packaged(kind, kind.__module__, kind.__qualname__)
        read = class_attributes(kind, self._names, reads_any=self._reads_any)
        name = f"class {kind.__module__}.{kind.__qualname__}"
        return self._join(name, (type(kind), kind.__bases__, *read.items()))

    def _object(self, value: Any) -> str:
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}"
        read = reader_of(kind)
        if read is not None:
            reads = names_of_reads(kind)
            if reads and (self._reads_any or not reads.isdisjoint(self._names)):
                self._unknown(value)
            if name in _ATTRIBUTE_READERS:
                self.mentioned.add("getattr")
            return self._join(name, read(value))
        if is_packaged(home_of(value)) and is_public(value):
            return self._packaged(value, home_of(value), value.__name__)
        if not (is_open(kind) and is_pure(name)) or has_hooks(kind) or is_raised(value):
            return self._unknown(value)
        if is_packaged(kind.__module__):
            return self._join(f"{name} {version_of(kind.__module__)}", state_of(value))
        return self._join("object", (kind, *state_of(value)))
