// SPDX-License-Identifier: Apache-2.0
// Tables that a child of fork can use, whichever thread of its parent had them locked.
#pragma once

#include <pthread.h>

#include <new>
#include <shared_mutex>

namespace graphffi::runtime {

/// The table that `kGet` gives, for the rest of the process. No other lock is taken, and nothing is
/// called, while its `mutex` is locked.
template <typename Table, Table& (*kGet)()>
Table* NewUsableAfterFork() {
  pthread_atfork([] { kGet().mutex.lock(); }, [] { kGet().mutex.unlock(); },
                 // Made anew: glibc takes the unlocking thread, whose number is another one in the
                 // child, for a reader.
                 [] { new (&kGet().mutex) std::shared_mutex(); });
  return new Table();
}

}  // namespace graphffi::runtime
