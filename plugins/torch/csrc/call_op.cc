// SPDX-License-Identifier: Apache-2.0
#include "call_op.h"

#include <ATen/ops/empty_like.h>
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

#include "autograd_node.h"
#include "call_site.h"
#include "errors.h"
#include "gradients.h"
#include "lazy_bits.h"
#include "op_forms.h"

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

  /// Leaks them: calls are under way.
  void Forget() {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    for (auto& [key, site] : sites_) (void)site.release();
    sites_.clear();
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

/// Calls the kernel with `outputs` in the place of those among the arguments.
void RunCall(c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> outputs) {
  c10::ArrayRef<c10::IValue> inputs = ListOf(arguments[1]);
  c10::ArrayRef<c10::IValue> ints = ListOf(arguments[4]), floats = ListOf(arguments[5]),
                             strs = ListOf(arguments[6]);
  const CallSite& site = SiteCache::Global().Get(
      arguments[0].toStringRef(), arguments[3].toStringRef(),
      {Count(inputs), Count(outputs), Count(ints), Count(floats), Count(strs)},
      arguments[7].toStringRef());
  KernelCall call(site.target());
  call.inputs().AddEach(inputs);
  call.outputs().AddEach(outputs);
  for (c10::ArrayRef<c10::IValue> list : {ints, floats, strs}) call.attributes().AddEach(list);
  site.Run(&call);
}

void CallKernel(const c10::OperatorHandle&, Stack* stack) {
  try {
    c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, kNumArguments);
    RunCall(arguments, ListOf(arguments[2]));
  } catch (const graphffi::Error& error) {
    ThrowTorchError(error);
  }
  torch::jit::drop(*stack, kNumArguments);
}

/// Torch (2.10 to 2.15) takes a call with one tensor on the device meta for one about shapes alone.
void CheckNoData(const Stack& stack) {
  c10::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, kNumArguments);
  for (int list : {1, 2}) {
    ForEachTensor(arguments[list], [&](const at::Tensor& tensor, int) {
      if (tensor.is_meta()) return;
      ThrowTorchError({"ValueError", arguments[0].toStringRef() +
                                         ": expected all tensors on the device meta, or none, got "
                                         "one on " +
                                         tensor.device().str()});
    });
  }
}

void CallMeta(const c10::OperatorHandle&, Stack* stack) {
  CheckNoData(*stack);
  torch::jit::drop(*stack, kNumArguments);
}

void CallEffectKernel(const c10::OperatorHandle&, Stack* stack) {
  c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, kNumArguments);
  c10::List<at::Tensor> copies;
  for (const c10::IValue& output : ListOf(arguments[2]))
    copies.push_back(output.toTensor().clone());
  try {
    RunCall(arguments, c10::IValue(copies).toListRef());
  } catch (const graphffi::Error& error) {
    ThrowTorchError(error);
  }
  ReturnList(std::move(copies), kNumArguments, stack);
}

void CallEffectMeta(const c10::OperatorHandle&, Stack* stack) {
  CheckNoData(*stack);
  c10::List<at::Tensor> copies;
  for (const c10::IValue& output : ListOf(torch::jit::last(*stack, kNumArguments)[2])) {
    copies.push_back(at::empty_like(output.toTensor()));
  }
  ReturnList(std::move(copies), kNumArguments, stack);
}

/// `call(str func, Tensor?[] inputs, Tensor(a!)[] outputs, str plan="", SymInt[] ints=[], float[]
/// floats=[], str[] strs=[], str digest="") -> ()`, and the like.
c10::FunctionSchema CallSchema(const std::string& name, const std::string& outputs,
                               const std::string& returned) {
  c10::FunctionSchema schema = torch::jit::parseSchema(
      name + "(str func, Tensor?[] inputs, " + outputs +
      " outputs, str plan, SymInt[] ints, float[] floats, str[] strs, str digest) -> " + returned);
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

template <c10::BoxedKernel::BoxedKernelFunction* kKernel,
          c10::BoxedKernel::BoxedKernelFunction* kMeta>
void Implement(torch::Library* library, const char* name) {
  library->impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                      torch::CppFunction::makeFromBoxedFunction<kKernel>()));
  library->impl(name, torch::dispatch(c10::DispatchKey::Meta,
                                      torch::CppFunction::makeFromBoxedFunction<kMeta>()));
  library->impl(name, torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  for (c10::DispatchKey lazy : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    library->impl(name, torch::dispatch(lazy, ResolveLazyBits()));
  }
}

void DefineCall(torch::Library* library, const char* name, const std::vector<at::Tag>& tags) {
  library->def(CallSchema(name, "Tensor(a!)[]", "()"), tags);
  Implement<&CallKernel, &CallMeta>(library, name);
  library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, RefuseRecording()));
  library->impl(name, torch::dispatch(c10::DispatchKey::ADInplaceOrView, BumpVersions()));
}

TORCH_LIBRARY_FRAGMENT(tvm_ffi, library) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  const std::vector<at::Tag> unsafe_tags = {tags[0], tags[1], at::Tag::cudagraph_unsafe};
  DefineCall(&library, kCallName, unsafe_tags);
  DefineCall(&library, kCallGraphName, tags);
  library.def(CallSchema(kCallEffectName, "Tensor[]", "Tensor[]"), unsafe_tags);
  Implement<&CallEffectKernel, &CallEffectMeta>(&library, kCallEffectName);
  library.impl(kCallEffectName, torch::dispatch(c10::DispatchKey::Autograd, RecordGradient()));
  RegisterNoGradient(library);
}

}  // namespace

void ForgetCallSites() { SiteCache::Global().Forget(); }

}  // namespace graphffi_torch
