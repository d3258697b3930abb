# SPDX-License-Identifier: Apache-2.0
"""The definition of an op, framework-free: operands, attributes, results, plan, shape rule."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import TYPE_CHECKING, Any, Final, Literal

from graphffi._describe import describe, is_tensor
from graphffi._device import Device
from graphffi._dtype import dtype
from graphffi._plan import CanonicalCall, PlanTemplate
from graphffi._spec import CheckError, TensorSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OperandKind = Literal["tensor", "optional", "list"]
AttributeKind = Literal["int", "float", "bool", "str", "dtype", "device"]


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()

_ARTICLE: Final = {
    "int": "an int",
    "float": "a float",
    "bool": "a bool",
    "str": "a str",
    "dtype": "a dtype",
    "device": "a device",
}


@dataclass(frozen=True)
class Operand:
    """A tensor parameter: one tensor, one or None (`optional`), or a list of them."""

    name: str
    kind: OperandKind = "tensor"
    mutated: bool = False

    def problem(self, value: Any) -> str | None:
        """What is wrong with `value`, or None."""
        if self.kind == "list":
            if not isinstance(value, (list, tuple)):
                return f"expected a list of tensors, got {describe(value)}"
            for i, item in enumerate(value):
                if not is_tensor(item):
                    return f"expected a tensor at index {i}, got {describe(item)}"
            return None
        if is_tensor(value) or (value is None and self.kind == "optional"):
            return None
        expected = "a tensor" if self.kind == "tensor" else "a tensor or None"
        return f"expected {expected}, got {describe(value)}"


@dataclass(frozen=True)
class Attribute:
    """A parameter that is no tensor: a Python value, fixed when a graph is traced."""

    name: str
    kind: AttributeKind
    is_list: bool = False
    optional: bool = False
    default: Any = MISSING

    @property
    def expected(self) -> str:
        """What error messages ask for."""
        text = f"a list of {self.kind}s" if self.is_list else _ARTICLE[self.kind]
        return f"{text} or None" if self.optional else text

    def convert(self, value: Any) -> Any:
        """The value as the plan takes it.

        Raises:
            TypeError: If it is of another kind.
        """
        if value is None and self.optional:
            return None
        if self.is_list:
            if not isinstance(value, (list, tuple)):
                raise TypeError(f"expected {self.expected}, got {describe(value)}")
            return [self._convert_scalar(item) for item in value]
        return self._convert_scalar(value)

    def _convert_scalar(self, value: Any) -> Any:
        converted = _CONVERT[self.kind](value)
        if converted is None:
            hint = "; attributes are plain Python values" if is_tensor(value) else ""
            raise TypeError(f"expected {self.expected}, got {describe(value)}{hint}")
        return converted


def _is_symbolic(value: Any) -> bool:
    # torch.SymInt, SymFloat, SymBool pass as they are: frameworks keep them in their graphs.
    return type(value).__name__ in ("SymInt", "SymFloat", "SymBool")


def _is_scalar(value: Any) -> bool:
    """A number of Python or NumPy; no array, not even one without dimensions."""
    return not is_tensor(value) or _is_numpy_scalar(value)


def _is_numpy_scalar(value: Any) -> bool:
    return any(b.__module__ == "numpy" and b.__name__ == "generic" for b in type(value).__mro__)


def _to_int(value: Any) -> Any:
    if type(value) is int or _is_symbolic(value):
        return value
    if isinstance(value, bool) or not _is_scalar(value) or not hasattr(value, "__index__"):
        return None
    return operator.index(value)


def _to_float(value: Any) -> Any:
    if type(value) is float or _is_symbolic(value):
        return value
    if isinstance(value, (bool, str)) or not _is_scalar(value) or not hasattr(value, "__float__"):
        return None
    return float(value)


def _to_bool(value: Any) -> Any:
    if isinstance(value, bool) or _is_symbolic(value):
        return value
    return bool(value) if type(value).__name__ in ("bool_", "bool") else None


def _to_str(value: Any) -> Any:
    return value if isinstance(value, str) else None


def _to_dtype(value: Any) -> Any:
    try:
        return None if is_tensor(value) else dtype(value)
    except (TypeError, ValueError):
        return None


def _to_device(value: Any) -> Any:
    try:
        return Device(value)
    except (TypeError, ValueError):
        return None


_CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _to_int,
    "float": _to_float,
    "bool": _to_bool,
    "str": _to_str,
    "dtype": _to_dtype,
    "device": _to_device,
}


@dataclass(frozen=True)
class BoundCall:
    """Checked arguments: one value per operand (tensor, None, list) and one per attribute."""

    operands: tuple[Any, ...]
    attributes: tuple[Any, ...]

    def tensors(self) -> list[Any]:
        """All tensors, lists flattened."""
        flat: list[Any] = []
        for value in self.operands:
            if isinstance(value, (list, tuple)):
                flat.extend(value)
            elif value is not None:
                flat.append(value)
        return flat


@dataclass(frozen=True, eq=False)
class Definition:
    """One op as graph compilers see it.

    Args:
        name: ``namespace::op``.
        parameters: `Operand` and `Attribute` in signature order.
        results: Names of the results that the op allocates; mutated operands are returned after them.
        kernel: Kernel reference: a global function's name or ``library.so::symbol``.
        plan: Plan text over the names above. Empty: the parameters, then the results.
        rule: Gets one `TensorSpec` (None, list) per operand and one value per attribute, in signature order;
            returns the specs of the results.
        result_type: A NamedTuple class for several results, or None.
        doc: What the op computes.
    """

    name: str
    parameters: tuple[Operand | Attribute, ...]
    results: tuple[str, ...]
    kernel: str
    plan: str
    rule: Callable[..., Any] | None
    result_type: Any = None
    doc: str = ""
    _templates: dict[Any, PlanTemplate] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        namespace, separator, base = self.name.partition("::")
        if not (separator and namespace.isidentifier() and base.isidentifier()):
            raise ValueError(f"graphffi: op name: expected 'namespace::name', got {self.name!r}")
        seen: set[str] = set()
        for name in (*(p.name for p in self.parameters), *self.results):
            if name in seen:
                raise ValueError(f"{self.name}: expected distinct names, got {name!r} twice")
            seen.add(name)
        # An operand of each kind that is there: shows a plan that does not parse where the op is defined.
        self.canonical(
            tuple(() if o.kind == "list" else "tensor" for o in self.operands),
            tuple(_sample(a) for a in self.attributes),
        )

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The tensor parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Operand))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The other parameters, in signature order."""
        return tuple(p for p in self.parameters if isinstance(p, Attribute))

    @cached_property
    def signature(self) -> str:
        """``(x, weight, eps=1e-06) -> out`` for messages and digests."""
        parts = []
        for p in self.parameters:
            if isinstance(p, Operand):
                parts.append(f"{p.name}: {p.kind}{'!' if p.mutated else ''}")
            else:
                default = "" if p.default is MISSING else f" = {p.default!r}"
                parts.append(f"{p.name}: {p.expected}{default}")
        return f"({', '.join(parts)}) -> ({', '.join(self.results)})"

    @cached_property
    def digest(self) -> str:
        """Changes when signature, plan, kernel reference, kernel library or shape rule do."""
        text = "\n".join((self.name, self.signature, self.plan, self.kernel))
        hasher = hashlib.sha256(text.encode())
        hasher.update(_library_content(self.kernel))
        hasher.update(_rule_text(self.rule).encode())
        return hasher.hexdigest()[:16]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundCall:
        """Matches arguments with parameters.

        Raises:
            TypeError: For missing, unknown, surplus or wrong-typed arguments; all of them in one message.
        """
        problems: list[str] = []
        if len(args) > len(self.parameters):
            problems.append(f"expected at most {len(self.parameters)} arguments, got {len(args)}")
        values: dict[str, Any] = {}
        for parameter, value in zip(self.parameters, args, strict=False):
            values[parameter.name] = value
        for name, value in kwargs.items():
            if name in values:
                problems.append(f"argument {name!r}: expected one value, got two")
            else:
                values[name] = value
        operands: list[Any] = []
        attributes: list[Any] = []
        known = 0
        for parameter in self.parameters:
            present = parameter.name in values
            known += present
            value = values[parameter.name] if present else MISSING
            if isinstance(parameter, Operand):
                if not present and parameter.kind == "optional":
                    value = None
                problem = _MISSING_OPERAND[parameter.kind] if value is MISSING else parameter.problem(value)
                if problem is not None:
                    problems.append(f"operand {parameter.name!r}: {problem}")
                operands.append(value)
            else:
                if not present:
                    value = parameter.default
                try:
                    if value is MISSING:
                        raise TypeError(f"expected {parameter.expected}, got nothing")
                    attributes.append(parameter.convert(value))
                except TypeError as error:
                    problems.append(f"attribute {parameter.name!r}: {error}")
        if known != len(values):
            names = {p.name for p in self.parameters}
            problems.extend(f"argument {n!r}: unknown" for n in values if n not in names)
        if problems:
            raise TypeError(self._message(problems))
        return BoundCall(tuple(operands), tuple(attributes))

    def _message(self, problems: list[str]) -> str:
        text = f"{self.name}: " + "; ".join(problems)
        if any("attribute" in p or "unknown" in p for p in problems):
            if self.attributes:
                text += f"; known attributes: {', '.join(a.name for a in self.attributes)}"
            if any("unknown" in p for p in problems):
                text += f"; operands: {', '.join(o.name for o in self.operands) or 'none'}"
        return text

    def infer(self, operands: Sequence[Any], attributes: Sequence[Any]) -> tuple[TensorSpec, ...]:
        """Runs the shape rule.

        Args:
            operands: One `TensorSpec`, None or list of specs per operand.
            attributes: One value per attribute.

        Returns:
            One spec per result that the op allocates; dtypes are `graphffi.dtype`, devices `graphffi.Device` or None.

        Raises:
            ValueError: If a `check` of the rule fails.
            TypeError: If the rule returns something else than the declared results.
        """
        if self.rule is None:
            specs: tuple[Any, ...] = ()
        else:
            specs = self._run_rule(operands, attributes)
        if len(specs) != len(self.results):
            raise TypeError(
                f"{self.name}: shape rule: expected {len(self.results)} results, got {len(specs)}"
            )
        default_device = next(
            (s.device for s in BoundCall(tuple(operands), ()).tensors()), None
        )
        return tuple(
            self._checked_spec(name, spec, default_device)
            for name, spec in zip(self.results, specs, strict=True)
        )

    def _run_rule(self, operands: Sequence[Any], attributes: Sequence[Any]) -> tuple[Any, ...]:
        assert self.rule is not None
        tensors, values = iter(operands), iter(attributes)
        args = [next(tensors if isinstance(p, Operand) else values) for p in self.parameters]
        try:
            returned = self.rule(*args)
        except CheckError as error:
            raise ValueError(f"{self.name}: {error}") from None
        if returned is None:
            return ()
        return (returned,) if isinstance(returned, TensorSpec) else tuple(returned)

    def _checked_spec(self, name: str, spec: Any, default_device: Any) -> TensorSpec:
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{self.name}: shape rule: result {name!r}: expected graphffi.like(...) or "
                f"graphffi.empty(...), got {describe(spec)}"
            )
        device = default_device if spec.device is None else Device(spec.device)
        return TensorSpec(tuple(spec.shape), dtype(spec.dtype), device)

    def canonical(self, operands: Sequence[Any], attributes: Sequence[Any]) -> CanonicalCall:
        """The call in the form that every framework's primitive takes.

        Args:
            operands: One object, None or list per operand: tensors, specs or graph nodes; only None and lists
                are looked at.
            attributes: One converted value per attribute.
        """
        key = (
            tuple(_structure(o) for o in operands),
            tuple(_structure(a) for a in attributes),
        )
        template = self._templates.get(key)
        if template is None:
            template = PlanTemplate.make(self, *key)
            self._templates[key] = template
        return template.fill(self, operands, attributes)

    def pack_results(self, operands: Sequence[Any], fresh: Sequence[Any], mutated: Sequence[Any]) -> Any:
        """What a call returns.

        Args:
            operands: As given to `canonical`.
            fresh: One tensor per result that the op allocates.
            mutated: The updated tensors, flat, in the order of `CanonicalCall.mutated`.

        Returns:
            The results, then the mutated operands: one object if there is one, a tuple otherwise (the NamedTuple
            of the annotation if only results are returned).
        """
        updated = iter(mutated)
        values = list(fresh)
        for operand, value in zip(self.operands, operands, strict=True):
            if not operand.mutated:
                continue
            if isinstance(value, (list, tuple)):
                values.append([next(updated) for _ in value])
            else:
                values.append(None if value is None else next(updated))
        if self.result_type is not None and len(values) == len(self.results):
            return self.result_type(*values)
        if not values:
            return None
        return values[0] if len(values) == 1 else tuple(values)


_MISSING_OPERAND: Final = {
    "tensor": "expected a tensor, got nothing",
    "list": "expected a list of tensors, got nothing",
    "optional": "",
}


def _structure(value: Any) -> int | None:
    """None for None, -1 for one value, the length of a list."""
    if value is None:
        return None
    return len(value) if isinstance(value, (list, tuple)) else -1


def _sample(attribute: Attribute) -> Any:
    if attribute.is_list:
        return ()
    return {"int": 0, "float": 0.0, "bool": False}.get(attribute.kind, "")


def _library_content(reference: str) -> bytes:
    path = reference.partition("::")[0]
    if not path.startswith("/"):
        return b""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest()
    except OSError:
        return b""


def _rule_text(rule: Any) -> str:
    """Text that changes when what a rule computes does; without addresses, so that it serves other processes."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return type(rule).__qualname__
    cells = [cell.cell_contents for cell in rule.__closure__ or () if cell.cell_contents is not rule]
    captured = [value for value in cells if isinstance(value, (int, float, str, tuple, type(None)))]
    return f"{_code_text(code)} {rule.__defaults__!r} {captured!r}"


def _code_text(code: CodeType) -> str:
    constants = [
        _code_text(c) if isinstance(c, CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    ]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"
