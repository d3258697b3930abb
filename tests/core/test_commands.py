# SPDX-License-Identifier: Apache-2.0
"""The subcommands of ``graphffi`` with wrong arguments, and what long ones show."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import graphffi
from graphffi import _core
from graphffi._build import build_plugin as _build_plugin
from graphffi._command.command import main
from graphffi._command.progress import Progress
from graphffi._frameworks.plugins import PLUGINS

pytest.importorskip("numpy")

OPS = """
import graphffi
from graphffi import Tensor

@graphffi.op("commands::twice", kernel=lambda x, out: None)
def twice(x: Tensor) -> Tensor:
    return graphffi.like(x)

@graphffi.op("commands::scale", kernel=lambda x, out: None)
def scale(x: Tensor, by: int) -> Tensor:
    return graphffi.like(x)

def make(by):
    text = f"void scale(tvm::ffi::TensorView x, int64_t by, tvm::ffi::TensorView out) {{}} // {by}"
    return graphffi.cpp.build("made", cpp_sources=text, functions="scale") + "::scale"

scale.add_factory(name="made", key=lambda x, by: (by,))(make)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current one, with modules, and files that are no libraries."""
    (tmp_path / "commands_ops.py").write_text(OPS)
    (tmp_path / "commands_fail.py").write_text("1 / 0\n")
    (tmp_path / "commands_end.py").write_text("raise SystemExit(0)\n")
    (tmp_path / "text.so").write_text("text")
    (tmp_path / "cut.so").write_bytes(Path(str(_core.__file__)).read_bytes()[:6000])
    (tmp_path / "text.json").write_text("text")
    (tmp_path / "broken.cc").write_text("int f() { return; }")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("inspect none.so", "cannot load"),
        ("inspect text.so", "cannot load"),
        ("generate none.so -o ops.py", "cannot load"),
        ("generate text.so -o ops.py", "cannot load"),
        ("generate text.so none.so -o ops.py", "expected a library, .json files"),
        ("generate none.json -o ops.py", "graphffi generate: none.json: No such file"),
        ("generate text.json -o ops.py", "text.json: expected a definition"),
        ("check none.so", "graphffi check: none.so: expected a library, got no file"),
        ("check text.so", "/text.so': expected a library, got another file"),
        ("check cut.so", "tables of symbols, got none that can be read: the file is truncated"),
        ("check text.so", "text.so"),
        ("check no_such_module", "check: no_such_module: expected a module that can be imported"),
        ("check commands_fail", "got ZeroDivisionError: division by zero"),
        ("check commands_end", "can be imported, got SystemExit: 0"),
        ("check json", "graphffi check: json: expected a module that defines ops, got one without"),
        ("check commands_ops:none", "expected an op of commands::twice, commands::scale"),
        ("check commands_ops --frameworks tf", "--frameworks: expected torch, jax, got 'tf'"),
        ("bench none.so", "graphffi bench: none.so: expected a library, got no file"),
        ("bench commands_ops:none", "graphffi bench: commands_ops:none: expected an op"),
        ("bench commands_ops --frameworks tf", "bench: --frameworks: expected torch, jax"),
        ("replay none", "expected a folder with .jsonl files, got 'none'"),
        ("replay text.so --list", "text.so"),
        ("build none.cc -o a.so", "graphffi build: expected a file, got 'none.cc'"),
        ("build broken.cc -o a.txt", "-o: expected a file <name>.so, got 'a.txt'"),
        ("build broken.cc -o a.so", "broken.cc"),
        ("build text.json -o a.so", "text.json: expected a source file by its ending, got one"),
        ("prebuild none.so 1 -o made", "graphffi prebuild: none.so: expected a library"),
        ("prebuild commands_ops 1 -o made", "expected one op, got commands::twice, commands::scal"),
        ("prebuild commands_ops:twice 1 -o made", "factory: expected one of none, got ''"),
        ("prebuild commands_ops:scale [ -o made", "graphffi prebuild: key: expected JSON, got '['"),
        ("prebuild commands_ops:scale 1 -o made --factory no", "expected one of 'made', got 'no'"),
    ],
)
def test_wrong_arguments_are_an_error_and_no_traceback(
    folder: Path, capsys: Any, command: str, text: str
) -> None:
    assert main(command.split()) == 1
    plain = capsys.readouterr()
    assert plain.out == ""
    assert text in plain.err
    assert "Traceback" not in plain.err
    assert main([*command.split(), "--json"]) == 1
    assert text in json.loads(capsys.readouterr().err)["error"]


@pytest.mark.parametrize(
    "command",
    ["none", "inspect", "check ops --budget x", "replay a --call x", "config --none", "build -o a"],
)
def test_wrong_usage_has_a_status_of_its_own(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(command.split())
    assert ended.value.code == 2


def test_a_library_is_built(folder: Path, capsys: Any) -> None:
    (folder / "one.cc").write_text(
        "#include <tvm/ffi/function.h>\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(one, [] { return ONE; });"
    )
    assert main(["build", "one.cc", "-o", "made/one.so", "--cflag=-DONE=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"library": str(folder / "made" / "one.so")}
    assert graphffi.load_module(folder / "made" / "one.so").one() == 1


@pytest.mark.parametrize("jobs", ["none", "0", "-1", "1.5"])
def test_a_number_of_jobs_is_one(
    jobs: str, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHFFI_JOBS", jobs)
    assert main(["build", "broken.cc", "-o", "a.so"]) == 1
    expected = f"graphffi.cpp: GRAPHFFI_JOBS: expected a number above 0, got '{jobs}'\n"
    assert capsys.readouterr().err == expected


def test_a_compiler_that_no_shell_would_run_is_none(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", '"g++')
    assert main(["build", "broken.cc", "-o", "a.so"]) == 1
    assert 'graphffi.cpp: expected a C++ compiler, got CXX="g++;' in capsys.readouterr().err


def test_kernels_are_made_ahead_of_time(folder: Path, capsys: Any) -> None:
    assert main(["prebuild", "commands_ops:scale", "1", "2", "-o", "made", "--json"]) == 0
    libraries = json.loads(capsys.readouterr().out)["libraries"]
    assert [Path(one).is_file() for one in libraries] == [True, True]


def test_the_console_script_is_the_same_as_the_module() -> None:
    script = "import sys, graphffi_command; sys.exit(graphffi_command.main())"
    for arguments in (["inspect", "none.so", "--json"], ["config", "--json"], ["none"], ["-h"]):
        one, other = (
            subprocess.run([sys.executable, *way, *arguments], capture_output=True, text=True)
            for way in (["-m", "graphffi"], ["-c", script])
        )
        assert (one.returncode, one.stdout, one.stderr) == (
            other.returncode, other.stdout, other.stderr,
        )  # fmt: skip


def test_a_refused_variable_is_an_error_and_no_traceback() -> None:
    """Also for `graphffi doctor`, although the package can't be imported."""
    script = "import sys, graphffi_command; sys.exit(graphffi_command.main())"
    text = "graphffi: GRAPHFFI_RUNTIME: expected bundled, apache or the path of a library, got 'no'"
    for arguments, output in (([], text), (["--json"], json.dumps({"error": text}))):
        command = [sys.executable, "-c", script, "doctor", *arguments]
        env = os.environ | {"GRAPHFFI_RUNTIME": "no"}
        done = subprocess.run(command, env=env, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{output}\n")


@pytest.mark.parametrize("command", ["check", "bench"])
def test_a_framework_that_is_named_must_be_installed(
    folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setitem(PLUGINS, "json", "graphffi_json")
    assert main([command, "commands_ops", "--frameworks", "json"]) == 1
    text = f"graphffi {command}: --frameworks: expected json with its plugin, got no graphffi_json"
    assert text in capsys.readouterr().err


def test_a_plugin_is_built_for_a_torch_only(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(metadata, "version", version)
    assert main(["build-plugin"]) == 1
    assert "build-plugin: expected torch in" in capsys.readouterr().err


def test_what_a_build_says_is_no_part_of_the_output(capfd: Any) -> None:
    _build_plugin._run([sys.executable, "-c", "print('compiling')"])
    assert capfd.readouterr() == ("", "compiling\n")


def test_completion_is_shown_on_terminals_only(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Progress("work", 3, "parts") as progress:
        progress(1, "next")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with Progress("work", 3, "parts") as progress:
        progress(1, "next")
    assert "\rwork: 1/3 parts: next" in capsys.readouterr().err


def test_a_reader_of_the_output_may_stop_early() -> None:
    command = [sys.executable, "-m", "graphffi", "cache", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("command", ["cache", "config"])
@pytest.mark.parametrize(
    ("output", "expected"),
    [(">&-", (0, "")), (">/dev/full", (1, "output: No space left on device\n"))],
)
def test_output_may_go_nowhere(command: str, output: str, expected: tuple[int, str]) -> None:
    program = "import sys, graphffi_command; sys.exit(graphffi_command.main())"
    line = f"{sys.executable} -c {shlex.quote(program)} {command} {output}"
    process = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True)
    status, text = expected
    assert (process.returncode, process.stderr) == (status, text and f"graphffi {command}: {text}")


def test_names_are_printed_in_any_encoding(tmp_path: Path) -> None:
    environment = {"PYTHONIOENCODING": "ascii", "GRAPHFFI_CACHE_DIR": str(tmp_path / "größe")}
    command = [sys.executable, "-m", "graphffi", "cache"]
    process = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert r"gr\xf6\xdfe" in process.stdout


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path, capsys: Any) -> None:
    library = graphffi.cpp.build("oplib", [Path(__file__).with_name("op_library.cc")])
    (tmp_path / "file").write_bytes(b"\xff")
    for name, problem in (
        ("file", "expected a file in UTF-8: 'utf-8' codec can't decode"),
        ("file/ops.py", "Not a directory"),
        ("none/ops.py", "No such file or directory"),
    ):
        output = tmp_path / name
        assert main(["generate", library, "-o", str(output)]) == 1
        assert capsys.readouterr().err.startswith(f"graphffi generate: {output}: {problem}")


def test_definitions_may_be_written_to_a_pipe() -> None:
    library = graphffi.cpp.build("oplib", [Path(__file__).with_name("op_library.cc")])
    command = [sys.executable, "-m", "graphffi", "generate", library, "-o", "/dev/stdout"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60)
    assert process.returncode == 0
    assert "import graphffi" in process.stdout


def test_version_is_printed(capsys: Any) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"graphffi {graphffi.__version__}\n"
