// SPDX-License-Identifier: Apache-2.0
// Tables that a child of fork can use, whichever thread of its parent had them locked.
#pragma once

#include <pthread.h>

#include <new>

namespace graphffi::runtime {

/// The process's table of that type, for the rest of the process. No other lock is taken, and
/// nothing is called, while its `mutex` is locked. The runtime makes its tables as it is loaded:
/// fork locks those last, after the locks of libraries that call the runtime while they hold one.
template <typename Table>
Table& TheTable() {
  static Table* table = [] {
    pthread_atfork([] { TheTable<Table>().mutex.lock(); }, [] { TheTable<Table>().mutex.unlock(); },
                   // Made anew: glibc takes the unlocking thread, whose number is another one in
                   // the child, for a reader.
                   [] { new (&TheTable<Table>().mutex) decltype(Table::mutex)(); });
    return new Table();
  }();
  return *table;
}

}  // namespace graphffi::runtime
