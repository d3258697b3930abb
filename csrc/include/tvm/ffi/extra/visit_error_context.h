// SPDX-License-Identifier: Apache-2.0
// VisitErrorContext: which nodes of a structure a visitor was in when it failed, carried by the
// error.
#pragma once

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/expected.h>
#include <tvm/ffi/extra/base.h>
#include <tvm/ffi/memory.h>
#include <tvm/ffi/object.h>
#include <tvm/ffi/optional.h>
#include <tvm/ffi/reflection/access_path.h>

#include <optional>
#include <utility>

namespace tvm::ffi {
inline namespace graphffi_v1 {

class VisitErrorContextObj : public Object {
 public:
  /// The nodes, from the innermost outwards.
  List<ObjectRef> reverse_visit_pattern;
  /// The context that the error carried before.
  Optional<ObjectRef> prev_error_context;

  static constexpr bool _type_mutable = true;
  static constexpr TVMFFISEqHashKind _type_s_eq_hash_kind = kTVMFFISEqHashKindUnsupported;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("ffi.VisitErrorContext", VisitErrorContextObj, Object);
};

class VisitErrorContext : public ObjectRef {
 public:
  explicit VisitErrorContext(ObjectPtr<VisitErrorContextObj> data) : ObjectRef(std::move(data)) {
    TVM_FFI_ICHECK_NOTNULL(data_.get());
  }
  /// Nothing if the error carries none, or was made by another library.
  static Optional<VisitErrorContext> TryGetFromError(const Error& error) {
    std::optional<ObjectRef> context = error.extra_context();
    if (!context.has_value()) return std::nullopt;
    return context->as<VisitErrorContext>();
  }
  /// Where in root the nodes are. With allow_prefix_match also as far as they lead.
  static Array<reflection::AccessPath> FindAccessPaths(const ObjectRef& root,
                                                       const VisitErrorContext& context,
                                                       bool allow_prefix_match = false) {
    return TVM_FFI_RUNTIME_FUNCTION_("ffi.VisitErrorContext.FindAccessPaths")(root, context,
                                                                              allow_prefix_match)
        .cast<Array<reflection::AccessPath>>();
  }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NOTNULLABLE(VisitErrorContext, ObjectRef, VisitErrorContextObj);
};

namespace detail {

TVM_FFI_COLD_CODE inline VisitErrorContext MakeVisitErrorContext(const ObjectRef& node) {
  auto context = make_object<VisitErrorContextObj>();
  context->reverse_visit_pattern.push_back(node);
  return VisitErrorContext(std::move(context));
}

/// Adds node, an outer one, to what the error carries.
TVM_FFI_COLD_CODE inline void UpdateVisitErrorContext(Error& error, const ObjectRef& node) {
  if (Optional<VisitErrorContext> context = VisitErrorContext::TryGetFromError(error)) {
    const_cast<VisitErrorContextObj*>(context.value().get())->reverse_visit_pattern.push_back(node);
    return;
  }
  VisitErrorContext context = MakeVisitErrorContext(node);
  if (std::optional<ObjectRef> previous = error.extra_context()) {
    const_cast<VisitErrorContextObj*>(context.get())->prev_error_context = *std::move(previous);
  }
  error.SetExtraContext(context);
}
/// The same for a node of any kind; only objects leave a trace.
TVM_FFI_COLD_CODE inline void UpdateVisitErrorContext(Error& error, AnyView node) noexcept {
  if (node.type_index() < kTVMFFIStaticObjectBegin) return;
  UpdateVisitErrorContext(error, node.cast<ObjectRef>());
}

}  // namespace detail

/// Around the body of a visitor of node: an error that passes through remembers node.
#define TVM_FFI_VISIT_BEGIN() try {
#define TVM_FFI_VISIT_END(node)                                          \
  }                                                                      \
  catch (::tvm::ffi::Error & tvm_ffi_error_) {                           \
    ::tvm::ffi::detail::UpdateVisitErrorContext(tvm_ffi_error_, (node)); \
    throw;                                                               \
  }
/// The same for a visitor that returns an Expected.
#define TVM_FFI_VISIT_END_RETURN_EXPECTED(node)                          \
  }                                                                      \
  catch (::tvm::ffi::Error & tvm_ffi_error_) {                           \
    ::tvm::ffi::detail::UpdateVisitErrorContext(tvm_ffi_error_, (node)); \
    return ::tvm::ffi::Unexpected(tvm_ffi_error_);                       \
  }
/// Throws an error that carries node.
#define TVM_FFI_VISIT_THROW(ErrorKind, node)                                         \
  ::tvm::ffi::detail::ErrorBuilder(#ErrorKind, __FILE__, __LINE__, TVM_FFI_FUNC_SIG, \
                                   TVM_FFI_ALWAYS_LOG_BEFORE_THROW,                  \
                                   ::tvm::ffi::detail::MakeVisitErrorContext(node))  \
      .stream()

}  // namespace graphffi_v1
}  // namespace tvm::ffi
