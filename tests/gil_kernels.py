# SPDX-License-Identifier: Apache-2.0
"""Kernels that wait for Python threads, call Python by other means, fork and exit."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import graphffi

KERNELS = r"""
#include <dlfcn.h>
#include <sched.h>
#include <sys/wait.h>
#include <tvm/ffi/tvm_ffi.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace ffi = tvm::ffi;

void nothing() {}
void run(int64_t address) { reinterpret_cast<void (*)()>(address)(); }
void run_in_thread(int64_t address) {
  std::thread(reinterpret_cast<void (*)()>(address)).join();
}
int64_t ask(int64_t address) { return reinterpret_cast<int (*)()>(address)(); }
void fail() { TVM_FFI_THROW(LookupError) << "of the kernel"; }
void leave(int64_t opt_status) {
  if (opt_status >= 0) std::exit(static_cast<int>(opt_status));
}

// Sets words[0] and waits for words[1].
void meet(int64_t words) {
  auto* word = reinterpret_cast<std::atomic<int32_t>*>(words);
  word[0].store(1);
  while (word[1].load() == 0) sched_yield();
}

// The exit status of a child that calls there.
int64_t fork_and_run(int64_t address) {
  const pid_t child = fork();
  if (child == 0) {
    reinterpret_cast<void (*)()>(address)();
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// For ops: out[0] says where.
void meet_at(ffi::TensorView out) { meet(*static_cast<int64_t*>(out.data_ptr())); }
void run_at(ffi::TensorView out) { run(*static_cast<int64_t*>(out.data_ptr())); }

// y[0] becomes 1 if the thread holds the GIL, else 0.
void holds_gil(ffi::TensorView x, ffi::TensorView y) {
  auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  *static_cast<float*>(y.data_ptr()) = static_cast<float>(check());
}
"""
NAMES = (
    "nothing",
    "run",
    "run_in_thread",
    "fail",
    "ask",
    "leave",
    "meet",
    "fork_and_run",
    "meet_at",
    "run_at",
    "holds_gil",
)


def load_kernels() -> graphffi.Module:
    """What KERNELS are compiled to."""
    return graphffi.cpp.load_inline("gil_kernels", cpp_sources=KERNELS, functions=list(NAMES))


def address_of(callback: Any) -> int:
    """Of what ctypes made of a Python function: it takes the GIL itself."""
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


@contextmanager
def answering() -> Iterator[int]:
    """Where two words are, of which a Python thread sets the second once the first is set."""
    words = (ctypes.c_int32 * 2)()

    def answer() -> None:
        while words[0] == 0:
            time.sleep(0)  # releases the GIL and takes it again
        words[1] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    yield ctypes.addressof(words)
    thread.join()
