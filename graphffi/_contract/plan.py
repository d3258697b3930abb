# SPDX-License-Identifier: Apache-2.0
"""From an op's plan to the canonical one: operands become i0…, o0…, n0…, f0… and s0…."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .._values.describe import plain_text
from .attribute_kind import KINDS
from .plan_text import plan_tokens, split_plan, write_computed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .._definition.interface import Interface
    from .._kernels.op_kernel import OpKernel
    from .traits import CallTraits

_KEYWORDS: Final = frozenset(
    ("None", "true", "false", "True", "False", "stream", "workspace", "inf", "nan")
)
# Texts: compiled where they are first used, not by every import.
_NAME: Final = r"\*?[A-Za-z_]\w*"


@dataclass(frozen=True)
class CanonicalCall:
    """One call of a kernel, without op: what `tvm_ffi::call` and the JAX custom call take.

    Args:
        func: Kernel reference.
        plan: Plan text over the canonical names. The outputs that it names are first the results
            to allocate,
            then `mutated`.
        inputs: Tensors that are only read.
        mutated: Tensors that the kernel updates in place.
        ints: 64-bit integers.
        floats: Doubles.
        strs: Strings.
        subject: The op's or function's name, for error messages.
        digest: Changes with the definition.
        traits: What the framework may have to know of the kernel; None: nothing.
        names: ``x, xs[0] -> out, cache``: those of the tensors, for errors; empty: i0, o0 and on.
    """

    func: str
    plan: str
    inputs: list[Any]
    mutated: list[Any]
    ints: list[Any]
    floats: list[float]
    strs: list[str]
    subject: str = ""
    digest: str = ""
    traits: CallTraits | None = None  # torch's tracer takes no instance as default
    names: str = ""


@dataclass(frozen=True)
class PlanTemplate:
    """The canonical plan of all calls whose operands and attributes have one structure."""

    plan: str
    counts: tuple[int, ...]  #: of inputs, outputs, ints, floats and strings
    names: str = ""

    @staticmethod
    def make(
        definition: Interface,
        kernel: OpKernel,
        operand_structure: Sequence[int | None],
        attribute_structure: Sequence[int | None],
    ) -> PlanTemplate:
        """Names the operands and attributes of such calls.

        Raises:
            ValueError: If the plan names something unknown.
        """
        names: dict[str, str] = {}
        inputs = _Counter("i")
        results = _Counter("o")
        for name in definition.results:
            names[name] = next(results)
        for operand, structure in zip(definition.operands, operand_structure, strict=True):
            as_passed = "strided({})" if operand.name in definition.strided else "{}"
            bank = results if operand.mutated else inputs
            names[operand.name] = _item(bank, structure, as_passed)
        banks = {bank: _Counter(bank) for bank in "nfs"}
        for attribute, structure in zip(definition.attributes, attribute_structure, strict=True):
            kind = KINDS[attribute.kind]
            names[attribute.name] = _item(banks[kind.bank], structure, kind.plan_item("{}"))
        parameters = [p.name for p in definition.parameters]
        text = kernel.plan or ", ".join((*parameters, *definition.results))
        if takes_ruled_workspace(definition, kernel):
            names["workspace"] = f"workspace({next(banks['n'])})"
        elif kernel.workspace is not None:
            names.setdefault("workspace", f"workspace({kernel.workspace})")
        elif "workspace" not in names and "workspace" in plan_tokens(text):
            raise ValueError(
                f"{definition.name}: plan {text!r}: expected workspace= to say how many bytes, got "
                "nothing"
            )
        names["*inputs"] = ", ".join(names[p.name] for p in definition.operands)
        names["*outputs"] = ", ".join(names[name] for name in definition.results)
        tensors = _tensor_names(definition, operand_structure)
        plan = _substitute(definition, text, names)
        counts = tuple(b.count for b in (inputs, results, banks["n"], banks["f"], banks["s"]))
        return PlanTemplate(plan, counts, tensors)

    def fill(
        self,
        definition: Interface,
        kernel: OpKernel,
        operands: Sequence[Any],
        attributes: Sequence[Any],
        workspace: Any,
        digest: str,
    ) -> CanonicalCall:
        """The call with its values."""
        ints: list[Any] = []
        floats: list[float] = []
        strs: list[str] = []
        for attribute, value in zip(definition.attributes, attributes, strict=True):
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if item is not None:
                    append_attribute(attribute.kind, item, ints, floats, strs)
        if takes_ruled_workspace(definition, kernel):
            ints.append(workspace)
        return CanonicalCall(
            kernel.reference,
            self.plan,
            definition.read(operands),
            definition.updated(operands),
            ints,
            floats,
            strs,
            definition.name,
            digest,
            kernel.traits,
            self.names,
        )


def named_plan(definition: Interface, kernel: OpKernel) -> str:
    """A kernel's plan over the op's own names, written out."""
    parameters = [p.name for p in definition.parameters]
    names = {name: name for name in (*parameters, *definition.results)}
    # The shape program tells how large one is that follows a rule.
    size = "workspace" if callable(kernel.workspace) else f"workspace({kernel.workspace})"
    names.setdefault("workspace", size)
    names |= {name: f"strided({name})" for name in definition.strided}
    names["*inputs"] = ", ".join(names[o.name] for o in definition.operands)
    names["*outputs"] = ", ".join(definition.results)
    text = kernel.plan or ", ".join((*parameters, *definition.results))
    return _substitute(definition, text, names)


def takes_ruled_workspace(definition: Interface, kernel: OpKernel) -> bool:
    """True if a kernel's plan passes a workspace whose size follows a rule."""
    names = {*(p.name for p in definition.parameters), *definition.results}
    if not callable(kernel.workspace) or "workspace" in names:
        return False
    return "workspace" in plan_tokens(kernel.plan)


@functools.lru_cache(maxsize=1024)
def passes_results(plan: str, count: int) -> bool:
    """True if a kernel fills its results; otherwise it has to return them.

    It fills them if the plan passes one of them, or there are none.

    Args:
        plan: Plan text over the canonical names; empty: all inputs, then all outputs.
        count: Number of results.
    """
    return not plan or count == 0 or bool(results_in_plan(plan, count))


def results_in_plan(plan: str, count: int) -> set[int]:
    """Which of a number of results a plan over the canonical names passes."""
    names = (re.fullmatch(r"o(\d+)", token) for token in plan_tokens(plan))
    return {int(name[1]) for name in names if name is not None and int(name[1]) < count}


@functools.lru_cache(maxsize=1024)
def strided_tensors(plan: str) -> frozenset[str]:
    """The tensors, ``i0`` and so on, that the kernel takes with any strides."""
    return frozenset(re.findall(r"\bstrided\(([io]\d+)\)", plan))


def append_attribute(
    kind: str, value: Any, ints: list[Any], floats: list[float], strs: list[str]
) -> str:
    """Puts a value into its bank.

    Returns:
        The plan item that names it.
    """
    letter = KINDS[kind].bank
    if letter == "n":
        # In these words torch's tracer makes a constant of a symbolic bool.
        ints.append((1 if value else 0) if isinstance(value, bool) else value)
        name = f"n{len(ints) - 1}"
    elif letter == "f":
        floats.append(value)
        name = f"f{len(floats) - 1}"
    else:
        strs.append(plain_text(value))
        name = f"s{len(strs) - 1}"
    return KINDS[kind].plan_item(name)


def _tensor_names(definition: Interface, operand_structure: Sequence[int | None]) -> str:
    inputs: list[str] = []
    outputs = list(definition.results)
    for operand, structure in zip(definition.operands, operand_structure, strict=True):
        if structure is not None:
            items = (f"{operand.name}[{i}]" for i in range(structure))
            (outputs if operand.mutated else inputs).extend(
                items if structure >= 0 else [operand.name]
            )
    return f"{', '.join(inputs)} -> {', '.join(outputs)}"


class _Counter:
    """Names of one bank, such as i0, i1, …, and how many there are."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.count = 0

    def __next__(self) -> str:
        self.count += 1
        return f"{self.letter}{self.count - 1}"


def _item(names: _Counter, structure: int | None, conversion: str) -> str:
    """The plan item of one parameter: its name, None, or a list of names."""
    if structure is None:
        return "None"
    if structure < 0:
        return conversion.format(next(names))
    return "(" + ", ".join(conversion.format(next(names)) for _ in range(structure)) + ")"


def _substitute(interface: Interface, text: str, names: dict[str, str]) -> str:
    def write(item: str) -> str:
        space = item[: len(item) - len(item.lstrip())]
        return space + write_computed(interface, item, lambda name: _bare(names[name]))

    out: list[str] = []
    for piece, is_computed in split_plan(text):
        if is_computed:
            out.append(write(piece))
            continue
        for token in plan_tokens(piece):
            if token in names:
                out.append(names[token] or _NOTHING)
            elif token in _KEYWORDS or not re.fullmatch(_NAME, token):
                out.append(token)
            elif token in _sizes(interface):
                out.append(write(token))
            else:
                raise _unknown(interface, text, token, names)
    return _without_empty_items("".join(out))


def _bare(item: str) -> str:
    """The name in an item of one value, ``strided(i0)``."""
    return item.partition("(")[2].rstrip(")") or item


def _sizes(interface: Interface) -> set[str]:
    """The names of the operands' dimensions."""
    groups = () if interface.dims is None else interface.dims.operands
    return {name for group in groups for name in group.names} - {"_"}


def _unknown(interface: Interface, text: str, token: str, names: dict[str, str]) -> ValueError:
    known = ", ".join(n for n in (*names, *sorted(_sizes(interface))) if not n.startswith("*"))
    return ValueError(
        f"{interface.name}: plan {text!r}: expected a known name, got {token!r}; known names: "
        f"{known}, *inputs, *outputs, stream, workspace, None"
    )


# Stands for `*outputs` of an op without results, until the comma beside it is gone too.
_NOTHING: Final = "\0"
_EMPTY_ITEM: Final = rf",\s*{_NOTHING}|{_NOTHING}\s*,\s*|{_NOTHING}"


def _without_empty_items(plan: str) -> str:
    # An empty text would mean all inputs and outputs; an operand-less kernel is not expressible,
    # nor useful.
    return re.sub(_EMPTY_ITEM, "", plan)
