// SPDX-License-Identifier: Apache-2.0
// Parameters of functions that change what they are given.
#pragma once

#include <string>

#include "on_headers.h"

namespace graphffi::runtime {

/// A List or Dict that is the argument itself. As a List, an Array would be taken too, and its copy
/// changed.
template <typename Ref>
struct InPlace : Ref {
  using Ref::Ref;
};

}  // namespace graphffi::runtime

template <typename Ref>
inline constexpr bool tvm::ffi::use_default_type_traits_v<graphffi::runtime::InPlace<Ref>> = false;

template <typename Ref>
struct tvm::ffi::TypeTraits<graphffi::runtime::InPlace<Ref>>
    : tvm::ffi::ObjectRefTypeTraitsBase<graphffi::runtime::InPlace<Ref>> {
  static std::string TypeSchema() { return TypeTraits<Ref>::TypeSchema(); }
};
