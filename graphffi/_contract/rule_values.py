# SPDX-License-Identifier: Apache-2.0
"""Reads values that rules reach: what they hold, and of which code a package's version tells."""

from __future__ import annotations

import hashlib
import sys
from opcode import EXTENDED_ARG, opmap
from types import CodeType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Their code changes with their versions. A user's module may be called like one of Python's.
_STDLIB: Final = sys.stdlib_module_names - {"__main__", "test", "this", "idlelib"}
_PACKAGES: Final = _STDLIB | {
    *("graphffi", "graphffi_torch", "graphffi_jax"),
    *("torch", "jax", "jaxlib", "numpy", "sympy", "ml_dtypes"),
}
# Modules of Python whose functions give the same for the same arguments.
_PURE: Final = frozenset(
    {"builtins", "operator", "_operator", "math", "cmath", "functools", "_functools", "itertools"}
    | {"collections", "_collections", "_collections_abc", "typing", "types", "dataclasses", "enum"}
    | {"abc", "_abc", "re", "_sre", "string", "textwrap", "fractions", "numbers", "copy", "struct"}
    | {"_struct", "bisect", "heapq", "statistics", "contextlib", "json", "__future__", "warnings"}
    | {"hashlib", "_hashlib", "array", "keyword", "base64", "binascii", "zlib", "argparse"}
    | {"reprlib"}  # of the methods that dataclasses of Python 3.14 have
)
# Of those and of other packages, what does not.
_STATEFUL: Final = (
    *("reprlib.repr", "reprlib.aRepr"),
    *("numpy.random", "numpy.geterr", "numpy.load", "numpy.fromfile", "numpy.loadtxt"),
    *("numpy.genfromtxt", "numpy.fromregex", "numpy.memmap", "numpy.lib.format"),
    *("graphffi.get_global_func", "graphffi.load_module", "graphffi.load_ops", "graphffi.cpp"),
    *("torch.cuda", "torch.backends", "torch.random", "torch.load", "torch.from_file"),
    *("torch.get_default_dtype", "torch.get_default_device", "torch.get_num_threads"),
    *("torch.is_grad_enabled", "torch.is_inference_mode_enabled", "torch.initial_seed"),
    *("torch.get_float32_matmul_precision", "torch.are_deterministic_algorithms_enabled"),
    *("jax.devices", "jax.local_devices", "jax.device_count", "jax.local_device_count"),
    *("jax.default_backend", "jax.process_index", "jax.process_count", "jax.config"),
)
ANYTHING: Final = frozenset(
    {"open", "input", "id", "hash", "globals", "locals", "eval", "exec", "__import__"}
)
"""Builtins that give what no text tells."""
_NOT_READ: Final = frozenset(
    {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__qualname__"}
    | {"__annotate__", "__annotate_func__", "__annotations_cache__", "__firstlineno__"}
    | {"__static_attributes__", "__abstractmethods__", "__parameters__", "__orig_bases__"}
    | {"__dataclass_fields__", "__dataclass_params__", "_abc_impl", "__slots__"}
)
_BASES: Final = (list, dict, tuple, set, frozenset, int, float, str, BaseException, object)
_POINTER: Final = tuple.__itemsize__
_IMPORT_NAME: Final = opmap["IMPORT_NAME"]


def is_packaged(module: str) -> bool:
    """True if the version of a module's package tells its code."""
    return module.partition(".")[0] in _PACKAGES


def is_pure(name: str) -> bool:
    """True if what a package has under a name with dots depends on nothing but arguments."""
    top, _, last = name.partition(".")
    if top in _STDLIB and (top not in _PURE or (top == "builtins" and last in ANYTHING)):
        return False
    return not any(name == one or name.startswith(f"{one}.") for one in _STATEFUL)


def version_of(module: str) -> str:
    """The version of a module's package."""
    top = module.partition(".")[0]
    if top in _STDLIB:
        return ".".join(map(str, sys.version_info[:3]))
    return str(getattr(sys.modules.get(top), "__version__", ""))


def codes_of(code: CodeType) -> Iterator[CodeType]:
    """A code object and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


def mentioned_names(code: CodeType) -> Iterator[str]:
    """Names of globals and attributes; constants may name attributes, too."""
    yield from code.co_names
    for constant in code.co_consts:
        for text in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(text, str) and text.isidentifier():
                yield text


def imported_modules(code: CodeType, package: str) -> Iterator[ModuleType | str | None]:
    """The imports of code: modules, names of those of packages, None for one not yet there."""
    argument = 0
    for instruction, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        argument = argument << 8 | low
        if instruction == _IMPORT_NAME:
            yield from _imported(code.co_names[argument], package)
        if instruction != EXTENDED_ARG:
            argument = 0


def _imported(name: str, package: str) -> Iterator[ModuleType | str | None]:
    """All that the name may mean: it may be relative to the package, or one of those above it."""
    parts = package.split(".") if package else []
    above = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
    candidates = [name, name.partition(".")[0], *(f"{one}.{name}".rstrip(".") for one in above)]
    found = [sys.modules[one] for one in dict.fromkeys(candidates) if one in sys.modules]
    if found:
        yield from found
    else:
        yield name if is_packaged(name) else None


def cell_value(cell: Any) -> Any:
    """The value of a closure's variable."""
    try:
        return cell.cell_contents
    except ValueError:  # assigned later than this
        return NotImplemented


def is_public(value: Any) -> bool:
    """True if its package has it under the name that it says."""
    names = (getattr(value, kind, None) for kind in ("__qualname__", "__name__"))
    name = next((name for name in names if isinstance(name, str) and name), None)
    if name is None:
        return False
    found: Any = sys.modules.get(home_of(value))
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def home_of(value: Any) -> str:
    """The module that has a value under its name."""
    modules = (getattr(each, "__module__", None) for each in (value, type(value)))
    return next((module for module in modules if isinstance(module, str) and module), "")


def class_attributes(kind: type, names: frozenset[str], *, reads_any: bool) -> dict[str, Any]:
    """The attributes of a user's class that code may read.

    Args:
        kind: The class.
        names: That code mentions.
        reads_any: Whether code reads attributes by names that it computes.
    """
    found = vars(kind)
    # What packages bring calls methods by names that no code of the user's mentions.
    is_own = all(c is object or not is_packaged(c.__module__) for c in kind.__mro__)
    is_own = is_own and type(kind).__module__ in ("builtins", "abc")
    read = found.keys() & names
    if reads_any or not is_own:
        read |= found.keys() - _NOT_READ
    else:
        read |= {n for n in found.keys() - _NOT_READ if n.startswith("__") and n.endswith("__")}
    return {name: found[name] for name in sorted(read)}


def has_hooks(kind: type) -> bool:
    """True if attributes of instances come from a user's function."""
    return any(
        hook in vars(c)
        for c in kind.__mro__
        if not is_packaged(c.__module__)
        for hook in ("__getattr__", "__getattribute__")
    )


def is_open(kind: type) -> bool:
    """True if attributes and items tell all that an instance holds: C code adds no fields to it."""
    base = _base(kind)
    pointers = sum(1 for _ in _slots(kind))
    pointers += (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ != 0)
    size = kind.__basicsize__ - base.__basicsize__
    return bool(kind.__itemsize__ == base.__itemsize__ and size <= pointers * _POINTER)


def is_raised(value: Any) -> bool:
    """True for an exception that refers to the frames of calls."""
    return isinstance(value, BaseException) and not (
        value.__traceback__ is None and value.__context__ is None
    )


def state_of(value: Any) -> Iterator[Any]:
    """The items and attributes of an instance of an open class."""
    base = _base(type(value))
    if base in (list, tuple):
        yield list(base.__iter__(value))
    elif base is dict:
        yield list(dict.items(value))
    elif base in (set, frozenset):
        yield frozenset(base.__iter__(value))
    elif base is BaseException:
        yield value.args, value.__cause__
    elif base is not object:
        yield _PLAIN_VALUE[base](value)
    yield from sorted(getattr(value, "__dict__", {}).items(), key=lambda pair: str(pair[0]))
    for slot in _slots(type(value)):
        try:
            yield slot.__name__, slot.__get__(value)
        except AttributeError:  # never set
            continue


_PLAIN_VALUE: Final[dict[type, Callable[[Any], Any]]] = {
    int: int.__index__,
    float: float.__float__,
    str: str.__str__,
}


def _base(kind: type) -> Any:
    return next(base for base in kind.__mro__ if base in _BASES)


def _slots(kind: type) -> Iterator[Any]:
    for c in kind.__mro__:
        if "__slots__" in vars(c):
            yield from (m for m in vars(c).values() if isinstance(m, MemberDescriptorType))


def names_of_reads(kind: type) -> set[str]:
    """The names by which a path reads files, which its text does not tell; none for others."""
    pure = next((c for c in kind.__mro__ if c.__name__ == "PurePath"), kind)
    return {*dir(kind)} - {*dir(pure)}


def _array(array: Any) -> tuple[Any, ...]:
    if array.dtype.hasobject:
        return str(array.dtype), array.shape, array.tolist()
    return repr(array.dtype), array.shape, hashlib.sha256(array.tobytes()).digest()


def _reduced(value: Any) -> tuple[Any, ...]:
    return tuple(value.__reduce__()[1:])


def _text(value: Any) -> tuple[Any, ...]:
    return (repr(value),)


def _of(*names: str) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: tuple(getattr(value, name) for name in names)


_PATHS: Final = ("PurePosixPath", "PureWindowsPath", "PosixPath", "WindowsPath")
READERS: Final[dict[str, Callable[[Any], tuple[Any, ...]]]] = {
    "re.Pattern": _of("pattern", "flags"),
    "builtins.range": _of("start", "stop", "step"),
    "builtins.slice": _of("start", "stop", "step"),
    "builtins.property": _of("fget", "fset", "fdel"),
    "builtins.staticmethod": _of("__func__"),
    "builtins.classmethod": _of("__func__"),
    "builtins.bytearray": lambda value: (bytes(value),),
    "builtins.mappingproxy": lambda value: (dict(value),),
    **dict.fromkeys(
        (
            *("builtins.method_descriptor", "builtins.wrapper_descriptor"),
            *("builtins.getset_descriptor", "builtins.member_descriptor"),
            "builtins.classmethod_descriptor",
        ),
        _of("__objclass__", "__name__"),
    ),
    "types.GenericAlias": _of("__origin__", "__args__"),
    "types.UnionType": _of("__args__"),
    "functools.partial": _of("func", "args", "keywords", "__dict__"),
    "functools.cached_property": _of("func", "attrname"),  # in Python 3.11, it has a lock
    "functools._lru_cache_wrapper": _of("__wrapped__", "__dict__"),
    "collections.deque": lambda value: (list(value), value.maxlen),
    "collections.OrderedDict": lambda value: tuple(value.items()),
    "collections.defaultdict": lambda value: (value.default_factory, *value.items()),
    "collections._tuplegetter": _reduced,
    "_collections._tuplegetter": _reduced,
    "operator.itemgetter": _reduced,
    "operator.attrgetter": _reduced,
    "operator.methodcaller": _reduced,
    "array.array": _text,
    **dict.fromkeys(("datetime.date", "datetime.timedelta", "datetime.timezone"), _text),
    "decimal.Decimal": _text,
    **{f"{m}.{kind}": _text for m in ("pathlib", "pathlib._local") for kind in _PATHS},
    **dict.fromkeys(("torch.dtype", "torch.device", "torch.layout", "torch.memory_format"), _text),
    "torch._ops.OpOverload": _text,
    "numpy.ndarray": _array,
    "numpy.generic": _array,
    "numpy.dtype": _text,
}
"""The parts of values of C, and of others that hold more than they say, by their classes' names."""


def reader_of(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """The function that gives the parts of a value of a package's class."""
    classes = kind.__mro__ if kind.__module__.partition(".")[0] == "numpy" else (kind,)
    names = (f"{c.__module__}.{c.__qualname__}" for c in classes)
    return next((READERS[name] for name in names if name in READERS), None)
