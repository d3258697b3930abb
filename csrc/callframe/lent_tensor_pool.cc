// SPDX-License-Identifier: Apache-2.0
// Each thread's pool, in a file that is compiled for quick access to it.
#include "callframe/lent_tensor.h"

namespace graphffi {

namespace {

/// Constant-initialized and trivially destructible: readable at any time, at little cost.
thread_local LentTensorPool thread_pool{nullptr, 0, false};

}  // namespace

LentTensorPool& LentTensorPool::OfThread() { return thread_pool; }

}  // namespace graphffi
