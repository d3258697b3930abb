// SPDX-License-Identifier: Apache-2.0
// Handlers to give away. XLA does not tell a handler for which target it is called, so that each
// target needs one of its own. The library knows nothing of what they do.
#include <utility>

namespace {

constexpr int kSize = 1024;

using Dispatch = void* (*)(void* context, void* call);
struct Entry {
  Dispatch dispatch;
  void* context;
};
Entry entries[kSize];

template <int kIndex>
void* Handle(void* call) {
  return entries[kIndex].dispatch(entries[kIndex].context, call);
}

using Handler = void* (*)(void* call);
struct Table {
  Handler handlers[kSize];
};
template <int... kIndices>
constexpr Table MakeTable(std::integer_sequence<int, kIndices...>) {
  return {{&Handle<kIndices>...}};
}
constexpr Table kTable = MakeTable(std::make_integer_sequence<int, kSize>());

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int graphffi_bank_size() { return kSize; }

/// The handler number `index`, which from now on calls `dispatch(context, call)`. Each is given
/// once.
__attribute__((visibility("default"))) void* graphffi_bank_take(int index, Dispatch dispatch,
                                                                void* context) {
  entries[index] = {dispatch, context};
  return reinterpret_cast<void*>(kTable.handlers[index]);
}

}  // extern "C"
