// SPDX-License-Identifier: Apache-2.0
// Parts that the tests of the kernel-author headers share.
#pragma once

#include <pthread.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include <sstream>

#include "check.h"

using namespace tvm::ffi;  // as kernels do

/// "Kind: message" of the Error that run throws.
inline std::string Message(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "no error";
}

/// Runs it in a thread whose stack is 256 MiB: sanitizers make frames many times as large.
inline void RunOnLargeStack(void (*run)()) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK_EQ(pthread_attr_init(&attributes), 0);
  CHECK_EQ(pthread_attr_setstacksize(&attributes, size_t{256} << 20), 0);
  auto entry = [](void* function) -> void* {
    reinterpret_cast<void (*)()>(function)();
    return nullptr;
  };
  CHECK_EQ(pthread_create(&thread, &attributes, entry, reinterpret_cast<void*>(run)), 0);
  CHECK_EQ(pthread_join(thread, nullptr), 0);
  pthread_attr_destroy(&attributes);
}
