# SPDX-License-Identifier: Apache-2.0
"""`subprocess.run` for programs that import torch: a process forks that has imported its compiler.

Importing it takes 4 s of processor time, and 9 s with all that compiling imports. graphffi is not
imported there, nor anything of the test: a program begins as in a process of its own, except that
torch's modules are there. What sets variables that torch reads when it is imported starts Python.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MODULES = ("torch.export", "torch._inductor.compile_fx", "torch._inductor.codegen.cpp_wrapper_cpu")
#: For programs of which it matters whether the compiler was imported before graphffi.
TORCH = ("torch",)
_SERVERS: dict[Sequence[str], subprocess.Popen[str]] = {}


def run(
    command: Sequence[Any],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    check: bool = False,
    modules: tuple[str, ...] = MODULES,
) -> subprocess.CompletedProcess[str]:
    """Runs `sys.executable`, `-W ignore` or not, `-c` and code or a file, and arguments.

    The modules are imported before it, with the variables of the first program that asks for them.
    """
    executable, *words = map(str, command)
    assert executable == sys.executable
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("stdout", "stderr")]
        asked = {
            "words": words, "cwd": str(cwd or Path.cwd()), "env": {**(env or os.environ)},
            "output": [str(path) for path in paths],
        }  # fmt: skip
        server = _SERVERS.get(modules) or _start(modules, asked["env"])
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked) + "\n")
        server.stdin.flush()
        status = int(server.stdout.readline())
        done = subprocess.CompletedProcess(words, status, *(p.read_text() for p in paths))
    if check and status:
        raise AssertionError(f"exit status {status}: {done.stdout}{done.stderr}")
    return done


def _start(modules: Sequence[str], env: Any) -> subprocess.Popen[str]:
    server = _SERVERS[modules] = subprocess.Popen(
        [sys.executable, __file__, *modules],
        env={**env, "OPENBLAS_NUM_THREADS": "1"},  # NumPy's would start one that none sees
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)
    return server


def _wait_for_program() -> dict[str, Any]:
    """Forks for each program, and returns in the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in sys.argv[1:]:
            __import__(name)
    assert len(os.listdir("/proc/self/task")) == 1
    gc.freeze()
    while line := sys.stdin.readline():
        if not (child := os.fork()):
            return dict(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def _prepare(words: list[str], cwd: str, env: dict[str, str], output: list[str]) -> tuple[Any, ...]:
    """Makes this process one that began with a program; gives its code and its names."""
    for path, target in ((os.devnull, 0), (output[0], 1), (output[1], 2)):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, target)
        os.close(opened)
    signal.alarm(600)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    if words[0] == "-W":
        warnings.simplefilter(words[1])
        words = words[2:]
    is_code = words[0] == "-c"
    name, text = ("<string>", words[1]) if is_code else (words[0], Path(words[0]).read_text())
    sys.argv = ["-c", *words[2:]] if is_code else words
    sys.path[:1] = ["" if is_code else str(Path(name).resolve().parent)]
    sys.path[1:1] = env["PYTHONPATH"].split(os.pathsep) if env.get("PYTHONPATH") else []
    main = types.ModuleType("__main__")
    if not is_code:
        main.__file__ = name
    sys.modules["__main__"] = main
    return compile(text, name, "exec", dont_inherit=True), main.__dict__


if __name__ == "__main__":
    exec(*_prepare(**_wait_for_program()))
