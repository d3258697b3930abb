# SPDX-License-Identifier: Apache-2.0
"""``graphffi generate``: definitions of ops as a Python file, and edits that a new run keeps."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from .._build.cache import write_text
from .._definition.define_text import TODO, define_text
from .._definition.op_text import op_texts, parse_op_text
from .._definition.parameter import is_name
from .._definition.stub_text import stub_text
from .._values.metadata import TENSORS, describe_function, describe_type, parameters_of
from .._values.module import Module, load_module
from .generate_module import definitions_of_module, is_module_name
from .generate_trace import Described, definitions_of_files, reference_text
from .outcome import Outcome

_BLOCK: Final = re.compile(
    r"^# generated: (?P<name>\w+) (?P<digest>[0-9a-f]{12})\n(?P<text>.*?)^# end: (?P=name)\n",
    re.MULTILINE | re.DOTALL,
)
_LACKING: Final = re.compile(rf"^ +(schema|kernel|plan|infer)=.*\b{TODO}\b", re.MULTILINE)
_ATTRIBUTES: Final = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "ffi.String": "str",
    "std::string": "str",
    "const char*": "str",
    "DataType": "dtype",
    "Device": "Device",
    "ffi.Shape": "int[]",
}
_HEAD: Final = '''\
"""Ops of {file}, by graphffi generate.

A new run writes each part from "generated" to "end" again, but for those that were edited.
TODO marks what the library does not say; the import is refused until it is filled in.
"""

from __future__ import annotations

from pathlib import Path

import graphffi
{kernels}'''
_HEAD_OF_STUBS: Final = '''\
"""Types of the ops of {file}, by graphffi generate --stubs.

A new run writes each part from "generated" to "end" again, but for those that were edited.
"""

import graphffi
'''
# Names in these files, and in the rules of ops: an op of that name would take their place.
_USED: Final = (
    *("Path", "graphffi", "min", "max", "len"),
    *("bool", "float", "int", "list", "str", "tuple"),
)


@dataclass
class Generated:
    """The outcome of a run for a file.

    Args:
        text: Of the new file.
        written: Names of ops that were written.
        kept: Names of ops that were edited, and stay.
        todo: Names of ops with something to fill in.
        lacking: How many ops lack a field, by its name.
        num_ops: Of all ops in the file.
        left_out: Names of functions that no op can be made of, and why.
    """

    text: str
    written: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)
    lacking: dict[str, int] = field(default_factory=dict)
    num_ops: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def generate(
    sources: Sequence[str], output: str, namespace: str | None, *, check: bool, stubs: bool = False
) -> Outcome:
    """Writes definitions, or says whether they are up to date.

    Args:
        sources: A library; files with definitions of FlashInfer-Bench; or a module with templates,
            and libraries with the kernels of some.
        output: The Python file.
        namespace: Of the ops; default: the file's name without ``lib`` and suffix.
        check: Whether to write nothing, with the status 1 where something would change.
        stubs: Whether to write the ops' types for type checkers in place of definitions.

    Raises:
        ValueError: If a source is none of these.
        RuntimeError: If the library does not load.
    """
    target = Path(output).absolute()
    try:
        old = target.read_text(encoding="utf-8") if target.is_file() else ""  # no pipe
    except UnicodeDecodeError as error:
        raise ValueError(
            f"graphffi generate: {output}: expected a file in UTF-8: {error}"
        ) from None
    names = namespace or re.sub(r"\W", "_", Path(sources[0]).stem.removeprefix("lib"))
    if not is_name(names):
        raise ValueError(
            f"graphffi generate: namespace: expected an identifier, got {names!r}; pass --namespace"
        )
    if stubs and target.suffix != ".pyi":
        raise ValueError(
            f"graphffi generate: --stubs: expected -o with a file <name>.pyi, got {output!r}"
        )
    head, blocks, left_out = _blocks(sources, names, target.parent, stubs=stubs)
    made = merged(old, head, blocks)
    made.left_out = left_out
    is_changed = made.text != old
    if is_changed and not check:
        if target.exists() and not target.is_file():
            target.write_text(made.text, encoding="utf-8")  # a pipe, which nothing can replace
        else:
            write_text(target.resolve(), made.text)
    return _outcome(made, output, is_changed=is_changed, check=check)


def _blocks(
    sources: Sequence[str], namespace: str, folder: Path, *, stubs: bool
) -> tuple[str, dict[str, str], dict[str, str]]:
    """The head of a new file, the text of each definition, and why there is none of the others."""
    first, libraries = sources[0], sources[1:]
    kernels: dict[str, str] = {}
    left_out: dict[str, str] = {}
    if all(source.endswith(".json") for source in sources):
        described = definitions_of_files(sources)
        named, libraries = ", ".join(Path(source).name for source in sources), []
    elif is_module_name(first):
        described, left_out = definitions_of_module(first)
        named, kernels = first, _kernels_of(libraries, described)
    elif not libraries:
        described, left_out = definitions_of_library(load_module(first))
        kernels = {
            name: f"{_variable(0)}.{op.fields.get('kernel', name)}"
            for name, op in described.items()
        }
        named, libraries = Path(first).name, [first]
    else:
        raise ValueError(
            f"graphffi generate: expected a library, .json files, or a module with templates and "
            f"libraries of its kernels, got {sources}"
        )
    blocks = {}
    for name, op in described.items():
        if name in _USED:
            left_out[name] = "its name is one that the file itself uses"
            continue
        full_name = f"{namespace}::{name}"
        try:
            if stubs:
                blocks[name] = stub_text(full_name, op.fields)
            else:
                text = define_text(full_name, kernels.get(name, ""), op.fields)
                blocks[name] = text + reference_text(name, op.reference)
        except ValueError as error:
            left_out[name] = str(error)
    return _head(named, libraries, folder, stubs=stubs), blocks, left_out


def _head(named: str, libraries: Sequence[str], folder: Path, *, stubs: bool) -> str:
    """The beginning of a new file, which loads libraries, but for stubs."""
    if stubs:
        return _HEAD_OF_STUBS.format(file=named)
    kernels = ""
    for i, library in enumerate(libraries):
        relative = os.path.relpath(os.path.realpath(library), os.path.realpath(folder))
        kernels += f"\n{_variable(i)} = graphffi.load_module(Path(__file__).parent / {relative!r})"
    head = _HEAD.format(file=named, kernels=f"{kernels}\n" if kernels else "")
    return head if kernels else head.replace("\nfrom pathlib import Path\n", "")


def _variable(index: int) -> str:
    return f"_kernels{index or ''}"


def _kernels_of(libraries: Sequence[str], described: Mapping[str, Described]) -> dict[str, str]:
    """The expressions of the kernels of ops, by name; sets the plans of those that have one."""
    found: dict[str, str] = {}
    for i, library in enumerate(libraries):
        module = load_module(library)
        for name in module.function_names():
            if name not in described or name in found:
                continue
            fields = described[name].fields
            schema = (module.get_function_metadata(name) or {}).get("type_schema")
            fields["plan"] = _plan(fields["schema"], schema)
            if isinstance(schema, dict):
                fields["comment"] = describe_function(name, schema)
            found[name] = f"{_variable(i)}.{name}"
    return found


def _plan(schema: str, metadata: Any) -> str:
    """The arguments of a function whose types allow one order of operands and results only."""
    parameters = parameters_of(metadata) if isinstance(metadata, dict) else None
    if parameters is None or TODO in schema:
        return TODO
    operands, results = (
        [part.rpartition(" ")[::2] for part in side.strip("() ").split(", ") if part]
        for side in schema.split(" -> ")
    )
    written = [("Tensor(a!)", name) for _, name in results]
    fits = {
        ", ".join(name for _, name in order)
        for order in ([*operands, *written], [*written, *operands])
        if len(order) == len(parameters)
        and all(_takes(p, kind) for p, (kind, _) in zip(parameters, order, strict=True))
    }
    return fits.pop() if len(fits) == 1 else TODO


def _takes(parameter: Mapping[str, Any], kind: str) -> bool:
    """True if the type of a function's parameter is that of a parameter in a schema."""
    taken = _parameter(parameter)
    says_writes = "view" in json.dumps(parameter)
    return taken == (kind if says_writes else kind.replace("(a!)", ""))


def _outcome(made: Generated, output: str, *, is_changed: bool, check: bool) -> Outcome:
    state = "up to date" if not is_changed else "out of date" if check else "written"
    lines = [f"{output}: {state}, {len(made.written)} ops"]
    if made.lacking:
        lacks = ", ".join(f"{what} {count}" for what, count in made.lacking.items())
        complete = made.num_ops - len(made.todo)
        lines.append(f"  complete: {complete} of {made.num_ops}; to fill in: {lacks}")
    lines += [f"  kept as edited: {name}" for name in made.kept]
    lines += [f"  to fill in: {name}" for name in made.todo]
    lines += [f"  left out: {name}: {why}" for name, why in made.left_out.items()]
    facts = {"state": state, "written": made.written, "kept": made.kept, "todo": made.todo,
             "lacking": made.lacking, "left_out": made.left_out}  # fmt: skip
    return Outcome(facts, lines, status=int(check and is_changed))


def merged(old: str, head: str, blocks: dict[str, str]) -> Generated:
    """The text of a file: what was edited stays, and what stands between the blocks.

    Args:
        old: The file's text, empty for a new one.
        head: The beginning of a new file.
        blocks: The text of each definition, by name.
    """
    made = Generated("")
    seen = set()

    def renew(match: re.Match[str]) -> str:
        name, text = match["name"], match["text"]
        seen.add(name)
        if _digest(text) != match["digest"]:
            made.kept.append(name)
            return match[0]
        return _block(name, blocks[name]) if name in blocks else ""

    text = _BLOCK.sub(renew, old) if old else head
    for name, block in blocks.items():
        if name not in seen:
            text += "\n" * (2 - (len(text) - len(text.rstrip("\n")) - 1)) + _block(name, block)
    made.text = text
    made.written = [name for name in blocks if name not in made.kept]
    found = {match["name"]: match["text"] for match in _BLOCK.finditer(text)}
    made.todo = [name for name, block in found.items() if re.search(rf"\b{TODO}\b", block)]
    made.num_ops = len(found)
    for block in found.values():
        for what in _LACKING.findall(block):
            made.lacking[what] = made.lacking.get(what, 0) + 1
    return made


def _block(name: str, text: str) -> str:
    return f"# generated: {name} {_digest(text)}\n{text}# end: {name}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def definitions_of_library(module: Module) -> tuple[dict[str, Described], dict[str, str]]:
    """Ops: those that the library describes, and functions that take tensors; why no others."""
    assert module.path is not None
    texts = op_texts(module.path)
    found: dict[str, Described] = {}
    left_out: dict[str, str] = {}
    functions = filter(module.implements_function, module.function_names())
    for name in dict.fromkeys((*functions, *texts)):
        if not is_name(name):
            left_out[name] = "its name is no identifier of Python"
            continue
        doc = module.get_function_doc(name) or ""
        try:
            fields = parse_op_text(name, texts[name]) if name in texts else _fields(module, name)
        except ValueError as error:
            left_out[name] = str(error)
            continue
        fields.setdefault("doc", doc)
        found[name] = Described(fields, "")
    return found, left_out


def _fields(module: Module, name: str) -> dict[str, str]:
    """The fields of an op, as far as a function's metadata tells them.

    Raises:
        ValueError: If it takes no tensor, or says nothing.
    """
    schema = (module.get_function_metadata(name) or {}).get("type_schema")
    parameters = parameters_of(schema) if isinstance(schema, dict) else None
    if schema is None or parameters is None:
        raise ValueError("the library exports no metadata of it")
    kinds = [_parameter(parameter) for parameter in parameters]
    if not any(kind.startswith("Tensor") for kind in kinds):
        raise ValueError("it takes no tensor")
    result = describe_function("", schema).rpartition(" -> ")[2]
    fields = {"comment": describe_function(name, schema)}
    names = [f"arg{i}" for i in range(len(kinds))]
    returned = "Tensor" if result in TENSORS else TODO
    if result in TENSORS:
        fields["plan"] = ", ".join(names)
    elif views := _num_results(parameters):
        kinds, names = kinds[:-views], names[:-views]
        returned = "Tensor" if views == 1 else f"({', '.join(['Tensor'] * views)})"
    elif "Tensor(a!)" in kinds and all(map(_is_known, parameters)):
        returned = "()"
    items = ", ".join(f"{kind} {arg}" for kind, arg in zip(kinds, names, strict=True))
    fields["schema"] = f"({items}) -> {returned}"
    if returned != "()":
        fields["shape"] = TODO
    return fields


def _is_known(parameter: Mapping[str, Any]) -> bool:
    """True if a type says whether the kernel writes what it gets."""
    inner = parameter["args"][0] if parameter.get("type") == "Optional" else parameter
    return "view" in inner or inner.get("type") not in (*TENSORS, "ffi.Array", "ffi.List")


def _num_results(parameters: list[Mapping[str, Any]]) -> int:
    """The views at the end that the kernel writes, behind others; 0 if they may be operands."""
    count = 0
    for parameter in reversed(parameters):
        if not parameter.get("view", {}).get("writes"):
            break
        count += 1
    return count if count < len(parameters) else 0


def _parameter(parameter: Mapping[str, Any]) -> str:
    """The type in a schema of a type in metadata."""
    if "view" in parameter:
        return "Tensor(a!)" if parameter["view"]["writes"] else "Tensor"
    if parameter.get("type") == "Optional" and "view" in parameter["args"][0]:
        return _parameter(parameter["args"][0]) + "?"
    kind, bar, _ = describe_type(parameter).partition(" | None")
    list_of = re.fullmatch(r"(?:ffi\.Array|ffi\.List|Array|List)\[(.*)\]", kind)
    inner = list_of[1] if list_of else kind
    found = "Tensor" if inner in TENSORS else _ATTRIBUTES.get(inner)
    if found is None:
        return TODO
    return found + ("[]" if list_of else "") + ("?" if bar else "")
