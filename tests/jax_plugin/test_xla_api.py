# SPDX-License-Identifier: Apache-2.0
"""The handlers under every version of XLA's FFI API, and on devices that this machine lacks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "plugins" / "jax" / "csrc"


def test_declarations_agree_with_jaxlib(compiler: str) -> None:
    flags = ["-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof"]
    includes = [f"-I{jax.ffi.include_dir()}", f"-I{SOURCES}"]
    command = [compiler, *flags, *includes, str(HERE / "xla_layout.cc")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr


def test_declarations_are_really_compared(compiler: str, tmp_path: Path) -> None:
    source = (HERE / "xla_layout.cc").read_text() + "SAME_VALUE(kS8, XLA_FFI_DataType_S16);\n"
    broken = tmp_path / "broken.cc"
    broken.write_text(source)
    flags = ["-std=c++17", "-fsyntax-only", "-Wno-invalid-offsetof"]
    includes = [f"-I{jax.ffi.include_dir()}", f"-I{SOURCES}"]
    result = subprocess.run(
        [compiler, *flags, *includes, str(broken)], capture_output=True, text=True, timeout=300
    )
    assert "static assertion failed" in result.stderr


@pytest.mark.parametrize("minor", [1, 2, 3, 4, 5])
def test_each_api_version_gets_its_layout(fake_xla: Callable[..., str], minor: int) -> None:
    text = fake_xla(version=(0, minor))
    state_type = -1 if minor == 1 else 42
    assert f"version 0.{minor} traits 0 type {state_type}\n" in text
    assert "execute: ok\nout 2 3 4 5\nstate deleted\nleft 0 errors, 0 blocks" in text


@pytest.mark.parametrize("version", [(0, 6), (0, 99), (1, 0)])
def test_an_unknown_version_is_refused(
    fake_xla: Callable[..., str], version: tuple[int, int]
) -> None:
    text = fake_xla(version=version)
    assert f"metadata: ok\nversion 0.{min(5, version[1])} " in text
    assert (
        "instantiate: error 12: graphffi: expected XLA FFI API version 0.5 or older, got "
        f"{version[0]}.{version[1]}; install a newer graphffi, or an older jaxlib" in text
    )


def test_only_the_graph_target_is_command_buffer_compatible(fake_xla: Callable[..., str]) -> None:
    assert "traits 0 " in fake_xla(target="tvm_ffi.call")
    assert "traits 1 " in fake_xla(target="tvm_ffi.call_graph")


def test_a_wrong_stage_is_an_error(fake_xla: Callable[..., str]) -> None:
    assert "execute: error 13: InternalError: graphffi: expected execution stage 3, got 1" in (
        fake_xla(stage=1)
    )


def test_a_short_call_frame_is_an_error(fake_xla: Callable[..., str]) -> None:
    assert "expected a call frame of 168 bytes, got 100" in fake_xla(frame_size=100)


def test_a_token_operand_is_an_error(fake_xla: Callable[..., str]) -> None:
    assert "TypeError: " in (text := fake_xla(token=True))
    assert "operand 0: expected an array, got a token" in text


def test_a_gpu_call_sees_its_stream_and_restores_null(
    fake_xla: Callable[..., str], library: str
) -> None:
    import graphffi

    module = graphffi.load_module(library)
    before = module.allocator()
    text = fake_xla(kernel="stream", plan="i0, stream, o0", platform="CUDA")
    assert f"out {0x5000} 0 0 0" in text
    assert module.current_stream(2, 3) == 0
    assert module.allocator() == before


def test_gpu_scratch_memory_is_given_back(fake_xla: Callable[..., str]) -> None:
    # The imitated device memory is host memory, of malloc's alignment.
    text = fake_xla(kernel="scratch_any_alignment", platform="ROCM")
    assert "out 1 2 3 4" in text
    assert "0 blocks" in text


def test_a_kept_gpu_tensor_is_an_error(fake_xla: Callable[..., str]) -> None:
    text = fake_xla(kernel="keep_one", platform="CUDA")
    assert "RuntimeError: " in text
    assert "the kernel kept 1 of the tensors that it allocated" in text
    assert "0 blocks" in text


def test_gpu_memory_that_runs_out_is_an_error(fake_xla: Callable[..., str]) -> None:
    text = fake_xla(kernel="large_scratch", platform="CUDA")
    assert "MemoryError: " in text
    assert "out of scratch memory" in text


def test_a_recorded_kernel_cannot_allocate(fake_xla: Callable[..., str]) -> None:
    text = fake_xla(kernel="scratch_any_alignment", target="tvm_ffi.call_graph", platform="CUDA")
    assert "a kernel that is recorded into a command buffer can't allocate tensors" in text
