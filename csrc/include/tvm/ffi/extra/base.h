// SPDX-License-Identifier: Apache-2.0
// What the extra headers stand on.
#pragma once

#include <tvm/ffi/base_detail.h>

/// Everything in the extra headers is header-only here.
#define TVM_FFI_EXTRA_CXX_API
