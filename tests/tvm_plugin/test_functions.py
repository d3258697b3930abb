# SPDX-License-Identifier: Apache-2.0
"""The functions that Relax modules call, in this process and in others."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import tvm

import graphffi
import graphffi_tvm
from tests.tvm_plugin.relax_modules import convert, export, runner

OTHER = """
import json, sys
import graphffi_tvm, numpy, tvm
from tvm import relax
graphffi_tvm.register_functions(json.loads(sys.argv[2]))
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
print(machine["main"](tvm.runtime.tensor(numpy.ones(3, "float32")))[0].numpy().tolist())
"""


def test_a_compiled_module_runs_in_another_process(ops: Any, tmp_path: Path) -> None:
    module = convert(export(lambda x: ops.thrice(ops.twice(x)), [torch.ones(3)]))
    path = str(tmp_path / "module.so")
    tvm.compile(module, target="llvm").export_library(path)
    names = json.dumps(graphffi_tvm.function_names(module))
    command = [sys.executable, "-W", "ignore", "-c", OTHER, path, names]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[6.0, 6.0, 6.0]", result.stderr


def test_an_older_apache_tvm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(tvm.relax, "TensorType")
    with pytest.raises(ImportError, match=r"expected apache-tvm 0\.27 or newer, got an older one"):
        importlib.reload(graphffi_tvm)


@pytest.mark.parametrize("name", ["twice", "graphffi:", "graphffi:7", 'graphffi:["a", 1, 2, 3, 4]'])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected names that function_names gave"):
        graphffi_tvm.register_functions([name])


def test_a_replaced_function_is_called_next() -> None:
    def fill(value: float) -> Any:
        def kernel(out: Any, x: Any) -> None:
            torch.from_dlpack(out).fill_(value)

        return kernel

    graphffi.register_global_func("relax_tests.replaced", fill(1.0), override=True)
    op = graphffi.define_op(
        "relax_tests::replaced",
        schema="(Tensor x) -> Tensor",
        kernel="relax_tests.replaced",
        plan="out, x",
        infer=graphffi.like,
    )
    call = runner(convert(export(op, [torch.zeros(2)])))
    torch.testing.assert_close(call(torch.zeros(2)), [torch.full((2,), 1.0)])
    graphffi.register_global_func("relax_tests.replaced", fill(5.0), override=True)
    torch.testing.assert_close(call(torch.zeros(2)), [torch.full((2,), 5.0)])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1, 2), "relax_tests::thrice: argument 0: expected a tensor, got another value"),
        ((1,), "relax_tests::thrice: expected 2 arguments, got 1"),
    ],
)
def test_wrong_arguments_of_such_a_function_are_refused(
    ops: Any, args: tuple[Any, ...], message: str
) -> None:
    (name,) = graphffi_tvm.function_names(convert(export(ops.thrice, [torch.ones(3)])))
    with pytest.raises(TypeError, match=message):
        graphffi.get_global_func(name)(*args)
