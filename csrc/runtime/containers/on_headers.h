// SPDX-License-Identifier: Apache-2.0
// Short names for the files that are written against the headers of kernels.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/reflection/accessor.h>

namespace graphffi::runtime {

namespace ffi = tvm::ffi;
namespace refl = tvm::ffi::reflection;
using ffi::Any;
using ffi::AnyView;
using ffi::Object;

}  // namespace graphffi::runtime
