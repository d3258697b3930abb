# SPDX-License-Identifier: Apache-2.0
"""Ops that are defined while another thread imports parts of torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEFINES_MEANWHILE = """
import importlib, sys, threading
from importlib.machinery import PathFinder
import numpy as np
import graphffi
import torch

paused, imported = sys.argv[1:]
has_begun, may_go_on = threading.Event(), threading.Event()

class Pausing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != paused:
            return None
        spec = PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def pause(module):
            has_begun.set()
            assert may_go_on.wait(60), "the definition waits for the import"
            execute(module)

        spec.loader.exec_module = pause
        return spec

def double(x, out):
    np.from_dlpack(out)[...] = 2 * np.from_dlpack(x)

def define(name):
    return graphffi.define_op(
        name, schema="(Tensor x) -> Tensor", kernel=double, infer=graphffi.like
    )

ops = [define("imports::before")]
sys.meta_path.insert(1, Pausing)  # behind graphffi's own
thread = threading.Thread(target=importlib.import_module, args=(imported,))
thread.start()
assert has_begun.wait(300)
ops.append(define("imports::meanwhile"))
assert ops[1](torch.ones(2)).tolist() == [2, 2]
may_go_on.set()
thread.join()
for op in ops:
    compiled = torch.compile(lambda x, op=op: op(x), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2, 2]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paused", "imported"),
    [
        ("graphffi_torch._compiled.traced_call", "torch._dynamo"),
        ("torch.distributed.tensor", "torch.distributed.tensor"),
    ],
)
def test_an_op_is_defined_while_a_thread_imports(paused: str, imported: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", DEFINES_MEANWHILE, paused, imported]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
