# SPDX-License-Identifier: Apache-2.0
"""Libraries that are cross-built for 64-bit ARM, in a program of that machine."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphffi
import graphffi_torch

ROOT = Path(__file__).resolve().parents[2]
COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"
# Where Debian's cross compilers have the libraries of that machine.
SYSTEM = "/usr/aarch64-linux-gnu"

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec:FutureWarning")
needs_compiler = pytest.mark.skipif(
    platform.machine() == "aarch64" or not (shutil.which(COMPILER) and shutil.which(EMULATOR)),
    reason=f"needs another machine with {COMPILER} and {EMULATOR}",
)


class Model(torch.nn.Module):
    """Products, attention, a reduction, and a buffer that counts calls."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.into = torch.nn.Linear(16, 96)
        self.out = torch.nn.Linear(32, 5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        q, k, v = (h.unflatten(-1, (4, 8)).transpose(0, 1) for h in self.into(x).chunk(3, -1))
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        y = self.out(attended.transpose(0, 1).flatten(1)).softmax(-1)
        return y + x.sum(-1, keepdim=True), self.calls.clone()


def exported_model() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=2, max=64)
    with torch.no_grad():
        return torch.export.export(Model(), (torch.randn(6, 16),), dynamic_shapes=({0: rows},))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the runtime and the host for that machine."""
    folder = tmp_path_factory.mktemp("aarch64")
    tools = Path(sys.executable).parent
    configure = [
        *(tools / "cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        *("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"),
        *(f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DPython3_EXECUTABLE={sys.executable}"),
        f"-DGRAPHFFI_RUNTIME_OUTPUT={folder}",
    ]
    build = [tools / "cmake", "--build", folder / "build", "--target", "tvm_ffi"]
    host = [
        *(COMPILER.replace("g++", "gcc"), Path(__file__).with_name("aarch64_host.c")),
        *(f"-I{graphffi.cpp.include_path()}", f"-L{folder}", "-ltvm_ffi", "-ldl"),
        *(f"-Wl,-rpath,{folder}", "-o", folder / "host"),
    ]
    for command in (configure, build, host):
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    return folder


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("weights", ["embed", "file"])
def test_a_program_for_arm_computes_what_torch_does(
    system: Path, tmp_path: Path, weights: str
) -> None:
    exported = exported_model()
    path = tmp_path / "model.so"
    assert graphffi_torch.to_library(exported, path, weights=weights, isa="aarch64") == str(path)

    header = subprocess.run(["readelf", "-hd", path], capture_output=True, text=True).stdout
    assert "Machine:                           AArch64" in header
    needed = {line.split("[")[1].rstrip("]") for line in header.splitlines() if "(NEEDED)" in line}
    system_libraries = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libgomp.so.1"}
    assert "libtvm_ffi.so" in needed
    assert needed <= {"libtvm_ffi.so", "ld-linux-aarch64.so.1", *system_libraries}

    for rows in (2, 6, 33):
        x = torch.randn(rows, 16)
        command = [EMULATOR, "-L", SYSTEM, system / "host", path, *map(str, (rows, 16, rows, 5))]
        result = subprocess.run(
            list(map(str, command)), input=x.numpy().tobytes(), capture_output=True
        )
        assert result.returncode == 0, result.stderr.decode()
        got = torch.frombuffer(bytearray(result.stdout), dtype=torch.float32).view(rows, 5)
        expected, _ = exported.module()(x)
        torch.testing.assert_close(got, expected)


@needs_compiler
@pytest.mark.slow
def test_a_library_of_another_machine_is_refused(tmp_path: Path) -> None:
    path = graphffi_torch.to_library(exported_model(), tmp_path / "model.so", isa="aarch64")
    with pytest.raises(RuntimeError, match="expected a library for x86_64, got one for aarch64"):
        graphffi.load_module(path)


@pytest.mark.skipif(platform.machine() == "aarch64", reason="needs no cross compiler there")
def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match="expected the compiler 'aarch64-"):
        graphffi_torch.to_library(exported_model(), tmp_path / "model.so", isa="aarch64")
