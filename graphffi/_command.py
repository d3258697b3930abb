# SPDX-License-Identifier: Apache-2.0
"""The command ``graphffi``: its subcommands, their options and what they print."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._config import add_options, find_flags


@dataclass(frozen=True)
class Outcome:
    """The result of a subcommand.

    Args:
        facts: For ``--json``.
        lines: For people.
        status: Of the process: 0, or 1 where something is wrong.
    """

    facts: Any
    lines: Sequence[str]
    status: int = 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Kernels of the TVM FFI ABI as ops of graph compilers.

    Returns:
        The status of the process: 0; 1 where something failed or was found; 2 for wrong usage.
    """
    chosen = _parser().parse_args(arguments)
    try:
        outcome: Outcome = chosen.run(chosen)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as failure:
        print(json.dumps({"error": str(failure)}) if chosen.json else failure, file=sys.stderr)
        return 1
    for line in (json.dumps(outcome.facts, indent=1),) if chosen.json else outcome.lines:
        print(line)
    return outcome.status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="graphffi", description="Ops of TVM FFI's kernels.")
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
    generate = add("generate", _generate, "write the definitions of a library's ops as Python")
    generate.add_argument(
        "sources", nargs="+", help="library.so, or FlashInfer-Bench's .json files"
    )
    generate.add_argument("-o", "--output", required=True, help="the Python file")
    generate.add_argument("--namespace", help="of the ops")
    generate.add_argument("--check", action="store_true", help="write nothing, compare only")
    check = add("check", _check, "check ops on every path: see graphffi.testing")
    check.add_argument("target", help="module, module:op, library.so or library.so:op")
    check.add_argument("--namespace", help="of a library's ops")
    check.add_argument("--seed", type=int, default=0, help="of the operands' contents")
    check.add_argument("--budget", type=float, default=60, help="seconds for each op")
    check.add_argument("--frameworks", default="torch,jax", help="beside NumPy")
    bench = add("bench", _bench, "measure calls of ops, beside torch.library.custom_op")
    bench.add_argument("target", help="module, module:op, library.so or library.so:op")
    bench.add_argument("--namespace", help="of a library's ops")
    bench.add_argument("--frameworks", default="torch,jax", help="beside NumPy")
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
    config = add("config", _config, "print flags for the compiler and the linker")
    add_options(config)
    return parser


def _doctor(_: argparse.Namespace) -> Outcome:
    from ._doctor import examine  # imports frameworks

    return examine()


def _inspect(chosen: argparse.Namespace) -> Outcome:
    from ._inspect import inspect_library

    return inspect_library(chosen.library)


def _build_plugin(_: argparse.Namespace) -> Outcome:
    from ._build_plugin import build_plugin

    folder = build_plugin()
    return Outcome({"folder": str(folder)}, [f"built {folder}"])


def _generate(chosen: argparse.Namespace) -> Outcome:
    from ._generate import generate

    return generate(chosen.sources, chosen.output, chosen.namespace, check=chosen.check)


def _check(chosen: argparse.Namespace) -> Outcome:
    from .testing import check_command  # which needs NumPy

    reports = check_command(
        chosen.target,
        chosen.namespace,
        seed=chosen.seed,
        budget=chosen.budget,
        frameworks=[name for name in chosen.frameworks.split(",") if name],
    )
    status = int(any(report.findings for report in reports))
    lines = [str(report) for report in reports]
    return Outcome([report.to_json() for report in reports], lines, status)


def _bench(chosen: argparse.Namespace) -> Outcome:
    from .testing import bench_command, facts_of, lines_of  # which need NumPy

    names = [name for name in chosen.frameworks.split(",") if name]
    rows = bench_command(chosen.target, chosen.namespace, frameworks=names)
    return Outcome(facts_of(rows), lines_of(rows))


def _replay(chosen: argparse.Namespace) -> Outcome:
    from ._replay import list_calls, replay

    if chosen.list:
        return list_calls(chosen.record)
    return replay(chosen.record, chosen.call, chosen.process, chosen.modules, chosen.library)


def _config(chosen: argparse.Namespace) -> Outcome:
    flags = find_flags(chosen)
    return Outcome(flags, [" ".join(flag for found in flags.values() for flag in found)])
