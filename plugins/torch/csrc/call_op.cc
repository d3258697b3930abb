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

#include "errors.h"
#include "gradients.h"
#include "kernel_call.h"

namespace graphffi_torch {
namespace {

using torch::jit::Stack;

constexpr size_t kNumArguments = 8;  // of the schema below

/// Parsed plans by text and counts, for the life of the process: graphs hold few, and keep them.
class PlanCache {
 public:
  using Counts = std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t>;

  static PlanCache& Global() {
    static auto* instance = new PlanCache();
    return *instance;
  }

  const graphffi::Plan& Get(const std::string& text, const Counts& counts,
                            const std::string& subject) {
    std::pair<std::string_view, Counts> key(text, counts);
    {
      std::shared_lock<std::shared_mutex> lock(mutex_);
      auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    graphffi::Plan plan =
        graphffi::Plan::Parse(text, std::apply(&graphffi::PlanNames::Raw, counts), subject);
    std::unique_lock<std::shared_mutex> lock(mutex_);
    return plans_.emplace(std::pair<std::string, Counts>(text, counts), std::move(plan))
        .first->second;
  }

 private:
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return std::tie(a.second, a.first) < std::tie(b.second, b.first);
    }
  };
  std::shared_mutex mutex_;
  std::map<std::pair<std::string, Counts>, graphffi::Plan, Less> plans_;
};

int32_t Count(c10::ArrayRef<c10::IValue> list) { return static_cast<int32_t>(list.size()); }

void RunCall(c10::ArrayRef<c10::IValue> arguments) {
  const std::string& func = arguments[0].toStringRef();
  c10::ArrayRef<c10::IValue> inputs = ListOf(arguments[1]), outputs = ListOf(arguments[2]);
  c10::ArrayRef<c10::IValue> ints = ListOf(arguments[4]), floats = ListOf(arguments[5]),
                             strs = ListOf(arguments[6]);
  const graphffi::Plan& plan = PlanCache::Global().Get(
      arguments[3].toStringRef(),
      {Count(inputs), Count(outputs), Count(ints), Count(floats), Count(strs)}, func);
  TensorBank input_bank(func, 'i'), output_bank(func, 'o');
  input_bank.AddEach(inputs);
  output_bank.AddEach(outputs);
  AttributeBank attributes;
  for (c10::ArrayRef<c10::IValue> list : {ints, floats, strs}) attributes.AddEach(list);
  KernelCall{func, func, plan, input_bank, output_bank, attributes}.Run();
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
  library.def(CallSchema(), {at::Tag::pt2_compliant_tag});
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
