// SPDX-License-Identifier: Apache-2.0
// Attention for heads of HEAD_DIM elements: what the factory of ops.py compiles.
#include "attention.h"

TVM_FFI_DLL_EXPORT_TYPED_FUNC(decode_attention, (llama::DecodeAttention<HEAD_DIM, false>));
