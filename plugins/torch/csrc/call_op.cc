// SPDX-License-Identifier: Apache-2.0
#include "call_op.h"

#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "call_site.h"
#include "errors.h"
#include "gradients.h"

namespace graphffi_torch {
namespace {

using torch::jit::Stack;

constexpr size_t kNumArguments = 8;  // of the schema below

/// Call sites of the primitive, for the life of the process: graphs hold few, and keep them.
class SiteCache {
 public:
  static SiteCache& Global() {
    static auto* instance = new SiteCache();
    return *instance;
  }

  const CallSite& Get(const std::string& func, const std::string& plan, const CallCounts& counts,
                      const std::string& digest) {
    Key<std::string_view> key{func, plan, digest, Fields(counts)};
    {
      std::shared_lock<std::shared_mutex> lock(mutex_);
      auto found = sites_.find(key);
      if (found != sites_.end()) return *found->second;
    }
    auto site = std::make_unique<CallSite>(func, plan, counts, digest);
    std::unique_lock<std::shared_mutex> lock(mutex_);
    return *sites_.emplace(Key<std::string>{func, plan, digest, Fields(counts)}, std::move(site))
                .first->second;
  }

 private:
  using Counts = std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t>;
  template <typename Text>
  using Key = std::tuple<Text, Text, Text, Counts>;

  static Counts Fields(const CallCounts& counts) {
    return {counts.inputs, counts.outputs, counts.ints, counts.floats, counts.strs};
  }

  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a < b;
    }
  };
  std::shared_mutex mutex_;
  std::map<Key<std::string>, std::unique_ptr<CallSite>, Less> sites_;
};

int32_t Count(c10::ArrayRef<c10::IValue> list) { return static_cast<int32_t>(list.size()); }

void RunCall(c10::ArrayRef<c10::IValue> arguments) {
  c10::ArrayRef<c10::IValue> inputs = ListOf(arguments[1]), outputs = ListOf(arguments[2]);
  c10::ArrayRef<c10::IValue> ints = ListOf(arguments[4]), floats = ListOf(arguments[5]),
                             strs = ListOf(arguments[6]);
  const CallSite& site = SiteCache::Global().Get(
      arguments[0].toStringRef(), arguments[3].toStringRef(),
      {Count(inputs), Count(outputs), Count(ints), Count(floats), Count(strs)},
      arguments[7].toStringRef());
  TensorBank input_bank = site.MakeInputs(), output_bank = site.MakeOutputs();
  input_bank.AddEach(inputs);
  output_bank.AddEach(outputs);
  AttributeBank attributes;
  for (c10::ArrayRef<c10::IValue> list : {ints, floats, strs}) attributes.AddEach(list);
  site.Run(input_bank, output_bank, attributes.bank());
}

void CallKernel(const c10::OperatorHandle&, Stack* stack) {
  try {
    RunCall(torch::jit::last(*stack, kNumArguments));
  } catch (const graphffi::Error& error) {
    ThrowTorchError(error);
  }
  torch::jit::drop(*stack, kNumArguments);
}

void CallMeta(const c10::OperatorHandle&, Stack* stack) { torch::jit::drop(*stack, kNumArguments); }

/// `call(str func, Tensor?[] inputs, Tensor(a!)[] outputs, str plan="", SymInt[] ints=[], float[]
/// floats=[], str[] strs=[], str digest="") -> ()`
c10::FunctionSchema CallSchema() {
  c10::FunctionSchema schema = torch::jit::parseSchema(
      "tvm_ffi::call(str func, Tensor?[] inputs, Tensor(a!)[] outputs, str plan, SymInt[] ints, "
      "float[] floats, str[] strs, str digest) -> ()");
  // Set here because torch's parser knows no default for a list of strings.
  const c10::IValue defaults[] = {"", c10::List<int64_t>(), c10::List<double>(),
                                  c10::List<std::string>(), ""};
  std::vector<c10::Argument> arguments = schema.arguments();
  size_t i = arguments.size() - std::size(defaults);
  for (const c10::IValue& value : defaults) {
    const c10::Argument& old = arguments[i];
    arguments[i++] = c10::Argument(old.name(), old.type(), old.real_type(), old.N(), value);
  }
  return schema.cloneWithArguments(std::move(arguments));
}

TORCH_LIBRARY_FRAGMENT(tvm_ffi, library) {
  library.def(CallSchema(), {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  library.impl("call", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                       torch::CppFunction::makeFromBoxedFunction<&CallKernel>()));
  library.impl("call", torch::dispatch(c10::DispatchKey::Meta,
                                       torch::CppFunction::makeFromBoxedFunction<&CallMeta>()));
  library.impl("call", torch::dispatch(c10::DispatchKey::Autograd, RefuseRecording()));
  library.impl("call", torch::dispatch(c10::DispatchKey::ADInplaceOrView, BumpVersions()));
  library.impl("call", torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  RegisterNoGradient(library);
}

}  // namespace
}  // namespace graphffi_torch
