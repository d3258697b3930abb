# SPDX-License-Identifier: Apache-2.0
"""Calls that park Python's lock, which happens when calls are frequent, and for short ones."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import graphffi
from graphffi import _core

KERNELS = r"""
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

// Sets words[0] and gives words[1].
int64_t look(int64_t words) {
  auto* word = reinterpret_cast<std::atomic<int32_t>*>(words);
  word[0].store(1);
  return word[1].load();
}

// For ops: out[0] says where.
void meet_at(ffi::TensorView out) { meet(*static_cast<int64_t*>(out.data_ptr())); }
void run_at(ffi::TensorView out) { run(*static_cast<int64_t*>(out.data_ptr())); }
"""
NAMES = (
    "nothing",
    "run",
    "run_in_thread",
    "fail",
    "leave",
    "meet",
    "look",
    "fork_and_run",
    "meet_at",
    "run_at",
)

needs_parking = pytest.mark.skipif(
    not hasattr(_core, "gil_keeper"), reason="this Python's lock can't be parked"
)


def load_kernels() -> graphffi.Module:
    """What KERNELS are compiled to."""
    return graphffi.cpp.load_inline("parked_calls", cpp_sources=KERNELS, functions=list(NAMES))


def address_of(callback: Any) -> int:
    """Of what ctypes made of a Python function: it takes Python's lock itself."""
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def num_parked() -> int:
    """How many calls have parked the lock."""
    return _core.parked_calls()[0]


def num_given_up() -> int:
    """For how many of them it was given up."""
    return _core.parked_calls()[1]


@contextmanager
def answering() -> Iterator[int]:
    """Where two words are, of which a Python thread sets the second once the first is set."""
    words = (ctypes.c_int32 * 2)()

    def answer() -> None:
        while words[0] == 0:
            time.sleep(0)  # gives the lock up, and needs it again
        words[1] = 1

    thread = threading.Thread(target=answer)
    thread.start()
    yield ctypes.addressof(words)
    thread.join()


def in_parked_call(nothing: Callable[[], None], make: Callable[[], Callable[[], Any]]) -> Any:
    """What a call gave that parked the lock.

    Args:
        nothing: A short call.
        make: Gives a callable that was not called before. It is called some times.
    """
    while True:
        call = make()
        call()  # the first call of all never parks
        before = num_parked()
        while num_parked() == before:  # till somebody watches over calls
            nothing()
        before = num_parked()
        result = call()
        if num_parked() != before:
            return result
