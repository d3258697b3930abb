// SPDX-License-Identifier: Apache-2.0
// GRAPHFFI_EXPORT_OP: a kernel that carries the definition of its op, for `graphffi.load_ops`.
// Works with the TVM FFI headers beside it and with those of apache-tvm-ffi.
#pragma once

#include <graphffi/op_text.h>
#include <graphffi/view.h>
#include <tvm/ffi/tvm_ffi.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace graphffi::op_detail {

/// The values that a parameter of the function takes; types that are not listed take any.
template <typename T, typename = void>
struct Takes {
  static constexpr unsigned value = kAnyKind;
};
template <unsigned kKinds>
struct TakesKinds {
  static constexpr unsigned value = kKinds;
};
template <>
struct Takes<::tvm::ffi::TensorView> : TakesKinds<kTensor> {};
template <>
struct Takes<::tvm::ffi::Tensor> : TakesKinds<kTensor> {};
template <typename T, int kRank, DLDeviceType kDevice>
struct Takes<View<T, kRank, kDevice>> : TakesKinds<kTensor> {};
template <>
struct Takes<DLTensor*> : TakesKinds<kTensor | kNone> {};
template <>
struct Takes<bool> : TakesKinds<kInt | kBool> {};
template <typename T>
struct Takes<T, std::enable_if_t<std::is_integral_v<T>>> : TakesKinds<kInt | kBool> {};
template <typename T>
struct Takes<T, std::enable_if_t<std::is_floating_point_v<T>>> : TakesKinds<kInt | kBool | kFloat> {
};
template <>
struct Takes<::tvm::ffi::String> : TakesKinds<kText> {};
template <>
struct Takes<std::string> : TakesKinds<kText> {};
template <>
struct Takes<const char*> : TakesKinds<kText> {};
template <>
struct Takes<DLDataType> : TakesKinds<kDType | kText> {};
template <>
struct Takes<DLDevice> : TakesKinds<kDevice | kText> {};
template <>
struct Takes<::tvm::ffi::Shape> : TakesKinds<kList> {};
template <typename T>
struct Takes<::tvm::ffi::Array<T>> : TakesKinds<kList> {};
template <typename... T>
struct Takes<::tvm::ffi::Tuple<T...>> : TakesKinds<kList> {};
template <typename T>
struct Takes<std::vector<T>> : TakesKinds<kList> {};
template <typename T>
struct Takes<::tvm::ffi::Optional<T>> : TakesKinds<Takes<T>::value | kNone> {};
template <typename T>
struct Takes<std::optional<T>> : TakesKinds<Takes<T>::value | kNone> {};

/// Whether a parameter takes tensors that the kernel may keep.
template <typename T>
struct Owns : std::is_same<T, ::tvm::ffi::Tensor> {};
template <typename T>
struct Owns<::tvm::ffi::Optional<T>> : Owns<T> {};
template <typename T>
struct Owns<::tvm::ffi::Array<T>> : Owns<T> {};

template <typename T>
using Bare = std::remove_cv_t<std::remove_reference_t<T>>;

/// One value of the plan and the parameter that gets it.
template <int kIndex, typename Parameter, unsigned kKinds>
struct Value {
  static_assert((kKinds & ~Takes<Parameter>::value) == 0,
                "GRAPHFFI_EXPORT_OP: the function does not take what the schema (or the plan) "
                "passes as this value: see the index and the parameter's type in Value<...>");
  static constexpr bool kFits = true;
};

template <typename Text, typename Is, typename... Args>
struct Values;
template <typename Text, size_t... Is, typename... Args>
struct Values<Text, std::index_sequence<Is...>, Args...> {
  static constexpr bool kFit = (Value<Is, Bare<Args>, Text::kCall.kinds[Is]>::kFits && ...);
};

/// The checks of an op against its function, each with an error text of its own.
template <typename Text, typename R, typename... Args>
constexpr bool Check() {
  constexpr Problem kProblem = Text::kCall.problem;
  static_assert(kProblem != Problem::kField,
                "GRAPHFFI_EXPORT_OP: expected fields such as \"shape: like(x)\" after the schema; "
                "known: shape, check, dims, dtypes, plan, strided, workspace, vmap, gradient, "
                "recompute, allow_cuda_graph, has_side_effect, pass_owning_tensor, doc (the last)");
  static_assert(kProblem != Problem::kSchema,
                "GRAPHFFI_EXPORT_OP: the schema does not parse: expected a text such as "
                "\"(Tensor x, Tensor? mask, Tensor[] xs, Tensor(a!) cache, int[] dims, "
                "float eps=1e-6) -> Tensor\"");
  static_assert(kProblem != Problem::kPlan,
                "GRAPHFFI_EXPORT_OP: the plan names what is no parameter and no result");
  static_assert(kProblem != Problem::kTooMany,
                "GRAPHFFI_EXPORT_OP: expected at most 64 parameters and results");
  if constexpr (kProblem == Problem::kNone_ && !Text::kCall.is_open) {
    constexpr bool kCounts = Text::kCall.num_values == static_cast<int>(sizeof...(Args));
    static_assert(kCounts,
                  "GRAPHFFI_EXPORT_OP: the schema (or the plan) passes another number of values "
                  "than the function takes; results are passed, too, unless the plan leaves them "
                  "out");
    static_assert(!Text::kCall.returns || !std::is_void_v<R>,
                  "GRAPHFFI_EXPORT_OP: the plan passes no results, and the function returns none");
    if constexpr (kCounts) return Values<Text, std::index_sequence_for<Args...>, Args...>::kFit;
  }
  return true;
}

template <typename F, typename = void>
struct Function;
template <typename R, typename... Args>
struct Function<R (*)(Args...), void> {
  static constexpr bool kOwns = (Owns<Bare<Args>>::value || ...);
  template <typename Text>
  static constexpr bool Fits() {
    return Check<Text, R, Args...>();
  }
};
template <typename R, typename... Args>
struct Function<R (*)(Args...) noexcept, void> : Function<R (*)(Args...)> {};
template <typename C, typename R, typename... Args>
struct Function<R (C::*)(Args...) const, void> : Function<R (*)(Args...)> {};
/// Lambdas.
template <typename F>
struct Function<F, std::void_t<decltype(&F::operator())>> : Function<decltype(&F::operator())> {};

}  // namespace graphffi::op_detail

/// Exports a function as the kernel `Name`, as TVM_FFI_DLL_EXPORT_TYPED_FUNC does, and beside it
/// the definition of its op (the C symbol `__graphffi_op_Name`, a text).
///
///     GRAPHFFI_EXPORT_OP(rms_norm, RmsNorm, "(Tensor x, Tensor weight, float eps=1e-6) -> Tensor",
///                        "dims: ... [h], [h] -> ... [h]", "shape: like(x)",
///                        "doc: Root-mean-square norm over the last dimension.");
///
/// Function is the name of a function or of a lambda at namespace scope. After it come string
/// literals: the schema, then fields, of which docs/ops.md has the list. A schema or plan that does
/// not fit the function's parameters does not compile.
#define GRAPHFFI_EXPORT_OP(Name, Function_, ...)                                             \
  TVM_FFI_DLL_EXPORT_TYPED_FUNC(Name, Function_)                                             \
  struct GraphffiOp_##Name {                                                                 \
    using Function = ::graphffi::op_detail::Function<std::decay_t<decltype(Function_)>>;     \
    static constexpr auto kCall = ::graphffi::op_detail::ReadCall(__VA_ARGS__);              \
    static constexpr auto kText = ::graphffi::op_detail::Join(Function::kOwns, __VA_ARGS__); \
  };                                                                                         \
  static_assert(GraphffiOp_##Name::Function::Fits<GraphffiOp_##Name>(),                      \
                "GRAPHFFI_EXPORT_OP: " #Name);                                               \
  extern "C" {                                                                               \
  extern TVM_FFI_DLL_EXPORT const decltype(GraphffiOp_##Name::kText) __graphffi_op_##Name;   \
  const decltype(GraphffiOp_##Name::kText) __graphffi_op_##Name = GraphffiOp_##Name::kText;  \
  }                                                                                          \
  static_assert(true, "")
