# SPDX-License-Identifier: Apache-2.0
"""Packages with kernels in Python: threads that call one, and kernels that call it again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import warm_python

PROGRAM = """
import sys
import threading

import torch

import graphffi
import graphffi_torch

def add_one(x, out):
    torch.from_dlpack(out).copy_(torch.from_dlpack(x) + 1)
    if again:
        again.pop()(torch.ones(3))

again = []
graphffi.register_global_func("package_threads.add_one", add_one)
add = graphffi.define_op(
    "package_threads::add_one", schema="(Tensor x) -> Tensor", kernel="package_threads.add_one",
    infer=lambda x: graphffi.like(x),
)

class Model(torch.nn.Module):
    def forward(self, x):
        return add(x) * 2

x = torch.ones(3)
graphffi_torch.package(torch.export.export(Model(), (x,)), sys.argv[1])
model = graphffi_torch.load_package(sys.argv[1], trust=True)
wrong = []

def work():
    for _ in range(100):
        if not model(x).eq(4).all():
            wrong.append(x)

sys.setswitchinterval(1e-5)  # a thread loses the GIL within each call
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong

again.append(model)
try:
    model(x)
except RuntimeError as error:
    assert "expected no recursive call of the model by one of its kernels" in str(error)
else:
    raise AssertionError("expected an error")
again.append(graphffi_torch.load_package(sys.argv[1], trust=True))
assert model(x).eq(4).all()
"""


@pytest.mark.slow
def test_threads_call_a_package_with_a_python_kernel(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path / "model.pt2")]
    warm_python.run(command, check=True)
