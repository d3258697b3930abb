// SPDX-License-Identifier: Apache-2.0
// Whether elements of tensors lie in the same memory.
#pragma once

#include <dlpack/dlpack.h>

namespace graphffi {

/// True if elements of a tensor share memory with one another, as those of an expanded one do.
/// Also true for layouts in which they might: where a stride is shorter than all that the
/// dimensions of smaller strides take.
bool OverlapsItself(const DLTensor& tensor);

/// True if an element of one shares memory with an element of the other, or if that takes too long
/// to find out. Both are in the same address space.
bool ShareMemory(const DLTensor& a, const DLTensor& b);

}  // namespace graphffi
