// SPDX-License-Identifier: Apache-2.0
// The name of base_detail.h before TVM FFI 0.1.15.
#pragma once
#include <tvm/ffi/base_detail.h>
