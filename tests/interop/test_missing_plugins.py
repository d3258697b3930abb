# SPDX-License-Identifier: Apache-2.0
"""Errors of a process in which a plugin is missing."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_missing_plugin_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WITHOUT_PLUGINS],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for_torch, for_jax = (
        f"expected the plugin for {name}, graphffi_{name}, got none; install graphffi with "
        f"GRAPHFFI_BUILD_{name.upper()}=1 where {name} is installed"
        for name in ("torch", "jax")
    )
    assert done.stdout.splitlines() == [
        f"ModuleNotFoundError nowhere::f: {for_torch}",
        f"ModuleNotFoundError nowhere.f: {for_torch}",
        f"ModuleNotFoundError nowhere::f: {for_torch}",
        f"Unsupported ModuleNotFoundError('nowhere::f: {for_torch}')",
        f"Unsupported ModuleNotFoundError('nowhere.f: {for_torch}')",
        f"ModuleNotFoundError nowhere::f: {for_jax}",
        f"ModuleNotFoundError nowhere::f: {for_jax}",
    ]


# Without the plugin, torch.compile wraps exceptions in its own.
WITHOUT_PLUGINS = """
import sys

sys.modules["graphffi_torch"] = sys.modules["graphffi_jax"] = None
import jax, torch, graphffi

f = graphffi.define_op("nowhere::f", schema="(Tensor(a!) x) -> ()", kernel="nowhere.f")
raw = lambda x: graphffi.call_tvm_ffi("nowhere.f", x, mutates=[0])
t, j = torch.ones(3), jax.numpy.ones(3)
calls = [
    lambda: f(t),
    lambda: raw(t),
    lambda: torch.compile(lambda x: f(x))(t),
    lambda: torch.compile(f, fullgraph=True)(t),
    lambda: torch.compile(raw, fullgraph=True)(t),
    lambda: f(j),
    lambda: jax.jit(f)(j),
]
for call in calls:
    try:
        call()
    except Exception as error:
        text = str(error)
        if isinstance(error, torch._dynamo.exc.Unsupported):
            (text,) = (line for line in text.splitlines() if "raised exception" in line)
            text = text.partition("raised exception ")[2]
        print(type(error).__name__, text)
"""
