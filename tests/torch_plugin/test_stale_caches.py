# SPDX-License-Identifier: Apache-2.0
"""Torch's caches on disk serve no code that was made from other values of what rules refer to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import argparse, sys
import graphffi, torch
import graphffi_torch

class Computed:
    def __getattr__(self, name):
        return float(sys.argv[1])

args, computed = argparse.Namespace(scale=1.0), Computed()

@graphffi.Function
def copy(x, out):
    torch.from_dlpack(out).copy_(torch.from_dlpack(x))

graphffi.register_global_func("stale.copy", copy)
op = graphffi.define_op(
    "stale::copy", schema="(Tensor x) -> Tensor", kernel="stale.copy", infer=graphffi.like
)
op.register_vjp(RULE)
args.scale = float(sys.argv[1])  # after the definition
x = torch.ones(2, requires_grad=True)
torch.compile(op, fullgraph=True)(x).sum().backward()
print(x.grad[0].item())
"""
RULES = {
    "namespace": "lambda saved, grad: grad * args.scale",
    "__getattr__": "lambda saved, grad: grad * computed.scale",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", RULES)
def test_a_later_process_has_its_own_values(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("RULE", RULES[kind]))
    environment: dict[str, Any] = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    for scale in ("2.0", "5.0"):
        done = subprocess.run(
            [sys.executable, str(program), scale],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )
        assert done.stdout == f"{scale}\n", done.stderr
