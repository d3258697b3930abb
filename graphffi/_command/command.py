# SPDX-License-Identifier: Apache-2.0
"""The command ``graphffi``: its subcommands, their options and what they print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._build.config import add_options, find_flags, print_out
from .._version import __version__
from .outcome import Outcome
from .progress import Progress

_SOURCES = (
    "library.so, FlashInfer-Bench's .json files, or a module with templates and its libraries"
)
_FRAMEWORKS = "beside NumPy, separated by commas; by default, those that are installed"


def main(arguments: Sequence[str] | None = None) -> int:
    """Kernels of the TVM FFI ABI as ops of graph compilers.

    Returns:
        The status of the process: 0; 1 where something failed or was found; 2 for wrong usage.
    """
    chosen = _parser().parse_args(arguments)
    try:
        outcome: Outcome = chosen.run(chosen)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as failure:
        text = str(failure)
        if isinstance(failure, OSError) and failure.filename is not None:
            text = f"graphffi {chosen.command}: {failure.filename}: {failure.strerror}"
        print(json.dumps({"error": text}) if chosen.json else text, file=sys.stderr)
        return 1
    lines = [json.dumps(outcome.facts, indent=1)] if chosen.json else outcome.lines
    return print_out(chosen.command, lines) or outcome.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="graphffi", description="Ops of TVM FFI's kernels.")
    parser.add_argument("--version", action="version", version=f"graphffi {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(run=run)
        return command

    add("doctor", _doctor, "say what is installed and in use, and what to do about what is wrong")
    inspect = add("inspect", _inspect, "list the functions, ops and imports of a library")
    inspect.add_argument("library", help="a library of kernels; it is loaded")
    add("build-plugin", _build_plugin, "build the PyTorch plugin for the torch installed here")
    cache = add("cache", _cache, "show the libraries that were built, and remove old ones")
    cache.add_argument(
        "--max-size", type=float, metavar="MB", help="remove what was not used for longest"
    )
    cache.add_argument(
        "--max-age", type=float, metavar="DAYS", help="remove what was unused longer"
    )
    generate = add("generate", _generate, "write the definitions of a library's ops as Python")
    generate.add_argument("sources", nargs="+", help=_SOURCES)
    generate.add_argument("-o", "--output", required=True, help="the Python file")
    generate.add_argument("--namespace", help="of the ops")
    generate.add_argument("--check", action="store_true", help="write nothing, compare only")
    generate.add_argument("--stubs", action="store_true", help="write only types, to <name>.pyi")
    check = add("check", _check, "check ops on every path: see graphffi.testing")
    check.add_argument("target", help="module, module:op, library.so or library.so:op")
    check.add_argument("--namespace", help="of a library's ops")
    check.add_argument("--seed", type=int, default=0, help="of the operands' contents")
    check.add_argument("--budget", type=float, default=60, help="seconds for each op")
    check.add_argument("--patience", type=float, default=20, help="seconds until a call hangs")
    check.add_argument("--frameworks", help=_FRAMEWORKS)
    check.add_argument("--device", default="cpu", help="of the operands: cpu or cuda")
    bench = add("bench", _bench, "measure calls of ops, beside torch.library.custom_op")
    bench.add_argument("target", help="module, module:op, library.so or library.so:op")
    bench.add_argument("--namespace", help="of a library's ops")
    bench.add_argument("--frameworks", help=_FRAMEWORKS)
    replay = add("replay", _replay, "run a recorded call again, alone: see GRAPHFFI_RECORD")
    replay.add_argument("record", help="the folder, or one of its .jsonl files")
    replay.add_argument(
        "--call",
        type=int,
        metavar="N",
        help="default: the last one that was under way, else the last",
    )
    replay.add_argument("--process", type=int, metavar="PID", help="whose call")
    replay.add_argument("--list", action="store_true", help="show the calls, run none")
    replay.add_argument(
        "--import", dest="modules", action="append", default=[], metavar="MODULE",
        help="a module that registers kernels; may be given more than once",
    )  # fmt: skip
    replay.add_argument("--library", help="the kernel's library, in place of the recorded one")
    _add_makers(add)
    config = add("config", _config, "print flags for the compiler and the linker")
    add_options(config)
    return parser


def _add_makers(add: Any) -> None:
    build = add("build", _build, "compile a library of kernels: see graphffi.cpp.build")
    build.add_argument("sources", nargs="+", help="files of C++, C or CUDA")
    build.add_argument("-o", "--output", required=True, help="the library, <name>.so")
    for name, what in (
        ("cflag", "C++ and C compiler"),
        ("cuda-cflag", "nvcc"),
        ("ldflag", "linker"),
    ):
        build.add_argument(
            f"--{name}", action="append", default=[], metavar="FLAG", help=f"for the {what}"
        )
    build.add_argument("-I", dest="folders", action="append", default=[], metavar="FOLDER")
    prebuild = add("prebuild", _prebuild, "make kernels of a factory: see graphffi.prebuild")
    prebuild.add_argument("target", help="module:op")
    prebuild.add_argument("keys", nargs="+", help="of kernels, as JSON: '[\"float32\", 64]'")
    prebuild.add_argument("-o", "--output", required=True, help="the folder")
    prebuild.add_argument("--factory", default="", help="its name, of several")
    prebuild.add_argument("--workers", type=int, help="kernels that are made at once")


def _build(chosen: argparse.Namespace) -> Outcome:
    from ..cpp import build

    path = Path(chosen.output)
    if path.suffix != ".so":
        raise ValueError(f"graphffi build: -o: expected a file <name>.so, got {chosen.output!r}")
    for source in chosen.sources:
        if not Path(source).is_file():
            raise FileNotFoundError(f"graphffi build: expected a file, got {source!r}")
    with Progress(path.stem, 1, "libraries") as progress:
        progress(0, "compiling")
        library = build(
            path.stem,
            chosen.sources,
            extra_cflags=chosen.cflag,
            extra_cuda_cflags=chosen.cuda_cflag,
            extra_ldflags=chosen.ldflag,
            extra_include_paths=chosen.folders,
            build_directory=path.parent,
        )
    return Outcome({"library": library}, [library])


def _prebuild(chosen: argparse.Namespace) -> Outcome:
    from .._kernels.prebuild import make_grid
    from ..testing import find_op, targets_of

    targets = targets_of("prebuild", chosen.target, None)
    if len(targets) != 1:
        names = ", ".join(at["op"] for at in targets)
        raise ValueError(f"graphffi prebuild: {chosen.target}: expected one op, got {names}")
    op = find_op(targets[0])
    keys = [_key(text) for text in chosen.keys]
    folder, workers = Path(chosen.output), chosen.workers
    with Progress(op.name, len(keys), "kernels") as progress:
        files = make_grid(op, keys, folder, chosen.factory, workers, progress)
    return Outcome({"libraries": files}, files)


def _key(text: str) -> Any:
    try:
        key = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"graphffi prebuild: key: expected JSON, got {text!r}: {error}") from None
    return tuple(key) if isinstance(key, list) else key


def _doctor(_: argparse.Namespace) -> Outcome:
    from .doctor import examine  # imports frameworks

    return examine()


def _inspect(chosen: argparse.Namespace) -> Outcome:
    from .inspect import inspect_library

    return inspect_library(chosen.library)


def _build_plugin(_: argparse.Namespace) -> Outcome:
    from .._build.build_plugin import build_plugin

    folder = build_plugin()
    return Outcome({"folder": str(folder)}, [f"built {folder}"])


def _cache(chosen: argparse.Namespace) -> Outcome:
    from .._build.clean_cache import cache_command

    return cache_command(chosen.max_size, chosen.max_age)


def _generate(chosen: argparse.Namespace) -> Outcome:
    from .generate import generate

    return generate(
        *(chosen.sources, chosen.output, chosen.namespace),
        check=chosen.check,
        stubs=chosen.stubs,
    )


def _check(chosen: argparse.Namespace) -> Outcome:
    from ..testing import check_command, checked_frameworks  # which need NumPy

    reports = check_command(
        chosen.target,
        chosen.namespace,
        seed=chosen.seed,
        budget=chosen.budget,
        patience=chosen.patience,
        frameworks=checked_frameworks("check", chosen.frameworks),
        device=chosen.device,
    )
    status = int(any(report.findings for report in reports))
    lines = [str(report) for report in reports]
    return Outcome([report.to_json() for report in reports], lines, status)


def _bench(chosen: argparse.Namespace) -> Outcome:
    from ..testing import bench_command, checked_frameworks, facts_of, lines_of  # likewise

    names = checked_frameworks("bench", chosen.frameworks)
    rows = bench_command(chosen.target, chosen.namespace, frameworks=names)
    return Outcome(facts_of(rows), lines_of(rows))


def _replay(chosen: argparse.Namespace) -> Outcome:
    from .replay import list_calls, replay

    if chosen.list:
        return list_calls(chosen.record)
    return replay(chosen.record, chosen.call, chosen.process, chosen.modules, chosen.library)


def _config(chosen: argparse.Namespace) -> Outcome:
    flags = find_flags(chosen)
    return Outcome(flags, [" ".join(flag for found in flags.values() for flag in found)])
