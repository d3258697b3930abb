# SPDX-License-Identifier: Apache-2.0
"""``python -m graphffi``: ``info``, ``inspect LIBRARY`` and ``build-plugin``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata, util
from pathlib import Path

from ._location import plugin_cache
from ._metadata import describe_function
from ._module import Module, load_module
from ._runtime import runtime_info

_REASONS = {
    "adopted": "it was loaded before graphffi",
    "apache": "apache-tvm-ffi is installed, or GRAPHFFI_RUNTIME asks for it",
    "bundled": "GRAPHFFI_RUNTIME asks for it, or no apache-tvm-ffi is installed",
    "path": "GRAPHFFI_RUNTIME names it",
}
_PLUGINS = {"graphffi_torch": "torch", "graphffi_jax": "jax"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The status of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m graphffi", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="the runtime in use and why, versions, plugins")
    inspect = commands.add_parser("inspect", help="the functions and imports of a library")
    inspect.add_argument("library", help="a library of kernels; it is loaded")
    commands.add_parser("build-plugin", help="build the PyTorch plugin for this torch")
    chosen = parser.parse_args(arguments)
    actions = {
        "info": _info,
        "inspect": lambda: _inspect(chosen.library),
        "build-plugin": _build_plugin,
    }
    lines = actions[chosen.command]()
    try:
        for line in lines:
            print(line)
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def _info() -> Iterator[str]:
    runtime = runtime_info()
    facts = [
        ("graphffi", f"{_version('graphffi', 'a source tree')}, {Path(__file__).parent}"),
        ("runtime", f"{runtime.kind}: {_REASONS[runtime.kind]}"),
        ("", f"TVM FFI {'.'.join(map(str, runtime.version))}, {runtime.path}"),
    ]
    for package, framework in _PLUGINS.items():
        facts.append((framework, f"{_version(framework)}, plugin {_plugin(package)}"))
    facts += [(peer, _version(peer)) for peer in ("apache-tvm-ffi", "jax-tvm-ffi")]
    for name, fact in facts:
        yield f"{name:<16}{fact}"


def _version(distribution: str, otherwise: str = "not installed") -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return otherwise


def _plugin(package: str) -> str:
    spec = util.find_spec(package)
    if spec is None or spec.origin is None:
        return "not installed"
    folders = (Path(spec.origin).parent / "lib", Path(plugin_cache()))
    libraries = [str(p) for folder in folders for p in sorted(folder.glob(f"**/lib{package}.so"))]
    return ", ".join(libraries) or "not built; python -m graphffi build-plugin"


def _build_plugin() -> Iterator[str]:
    from ._build_plugin import build_plugin

    yield f"built {build_plugin()}"


def _inspect(path: str) -> Iterator[str]:
    module = load_module(path)
    yield f"{module.path}: {module.kind}"
    for name in module.function_names():
        if not module.implements_function(name, query_imports=True):
            continue
        facts = module.get_function_metadata(name, query_imports=True) or {}
        schema = facts.get("type_schema")
        signature = describe_function(name, schema if isinstance(schema, dict) else {})
        doc = module.get_function_doc(name, query_imports=True)
        yield f"  {signature}" + (f"  # {doc.splitlines()[0]}" if doc else "")
    yield from _imports(module, "  ")


def _imports(module: Module, indent: str) -> Iterator[str]:
    for imported in module.imports:
        yield f"{indent}imports {imported.kind}"
        yield from _imports(imported, indent + "  ")


if __name__ == "__main__":
    sys.exit(main())
