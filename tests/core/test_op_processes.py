# SPDX-License-Identifier: Apache-2.0
"""Ops in processes with another locale, that fork, or whose threads import meanwhile."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

LOCALE = """
import locale
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.str(0.5) == "0,5"
import os
from pathlib import Path
import numpy as np
import graphffi
folder = Path(os.environ["LOCPATH"]) / "record"
seen = []
graphffi.register_global_func("locale.see", lambda n, x, out: seen.append(n))
op = graphffi.define_op("locale::see", schema="(Tensor x) -> Tensor", kernel="locale.see",
                        plan="0.5, x, out", infer=lambda x: graphffi.like(x))
with graphffi.record(folder):
    op(np.ones(2))
assert seen == [0.5]
(file,) = folder.glob("*.jsonl")
assert '"args": [0.5, {' in file.read_text(), file.read_text()
parse = graphffi.get_global_func("ffi.json.Parse")
if os.environ["GRAPHFFI_RUNTIME"] == "bundled":  # apache-tvm-ffi's refuses fractions there
    assert [parse(text) for text in ("0.5", "1.5e999", "-1.5e-999")] == [0.5, float("inf"), 0]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime", ["bundled", pytest.param("apache", marks=pytest.mark.needs("tvm_ffi"))]
)
def test_numbers_are_the_same_in_any_locale(tmp_path: Path, run_python: Any, runtime: str) -> None:
    localedef = shutil.which("localedef")
    made = localedef and subprocess.run(
        [localedef, "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"], capture_output=True
    )
    if not made or not (tmp_path / "de_DE.UTF-8").exists():
        pytest.skip("needs localedef and the locale de_DE")
    status, text = run_python(LOCALE, LOCPATH=str(tmp_path), GRAPHFFI_RUNTIME=runtime)
    assert status == 0, text


FORKS_MEANWHILE = """
import os, signal, threading
import numpy as np
import graphffi

def fill(x, out):
    np.from_dlpack(out)[...] = 1

def define(name):
    return graphffi.define_op(
        name, schema="(Tensor x) -> Tensor", kernel=fill, infer=graphffi.like
    )

has_begun, may_end = threading.Event(), threading.Event()

class Reference:
    def __call__(self, xp, x):
        return x

    @property
    def __signature__(self):  # read while the op is changed
        has_begun.set()
        may_end.wait(20)
        raise AttributeError

op = define("forks::meanwhile")
thread = threading.Thread(target=op.set_reference, args=(Reference(),))
thread.start()
has_begun.wait(60)
os.register_at_fork(before=may_end.set)
if child := os.fork():
    print("status", os.waitpid(child, 0)[1])
    thread.join()
else:
    signal.alarm(60)  # ends a child that waits for ever
    assert op.definition.reference is not None
    define("forks::child")(np.zeros(1))
    graphffi.call_tvm_ffi(lambda out: None, out=graphffi.empty((1,), "float32"))
    os._exit(0)
"""


def test_a_process_forks_between_changes_of_ops(run_python: Any) -> None:
    status, text = run_python(FORKS_MEANWHILE, PYTHONWARNINGS="ignore")  # of Python 3.12
    assert (status, text) == (0, "status 0\n")


WHILE_NUMPY_IS_IMPORTED = """
import sys, types
import graphffi

sys.modules["numpy"] = types.ModuleType("numpy")  # as another thread has it at first
op = graphffi.define_op(
    "imports::op", schema="(Tensor x) -> Tensor", kernel=lambda x, out: None, infer=graphffi.like
)
x = graphffi.call_tvm_ffi(lambda out: None, out=graphffi.empty((3,), "float32"))
op(x)
graphffi.call_tvm_ffi(lambda x: None, x, mutates=(0,))
"""


def test_a_thread_calls_while_another_one_imports_numpy(run_python: Any) -> None:
    status, text = run_python(WHILE_NUMPY_IS_IMPORTED)
    assert (status, text) == (0, "")
