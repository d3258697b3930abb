// SPDX-License-Identifier: Apache-2.0
#include "call_op.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "autograd/autograd_node.h"
#include "autograd/gradients.h"
#include "errors.h"
#include "kernels/kernel_ref.h"
#include "lazy_bits.h"
#include "op_forms.h"
#include "sites/call_site.h"
#include "sites/site_cache.h"

namespace graphffi_torch {
namespace {

using graphffi::Plan;
using torch::jit::Stack;

constexpr size_t kNumArguments = 8;  // of the schema below

int32_t Count(c10::ArrayRef<c10::IValue> list) { return static_cast<int32_t>(list.size()); }

/// Calls the kernel with `outputs` in the place of those among the arguments.
void RunCall(c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> outputs) {
  c10::ArrayRef<c10::IValue> inputs = ListOf(arguments[1]);
  c10::ArrayRef<c10::IValue> ints = ListOf(arguments[4]), floats = ListOf(arguments[5]),
                             strs = ListOf(arguments[6]);
  const std::shared_ptr<const CallSite> site = SiteCache::Global().Get(
      {arguments[0].toStringRef(), arguments[3].toStringRef(), arguments[7].toStringRef()},
      {Count(inputs), Count(outputs), Count(ints), Count(floats), Count(strs)});
  c10::SmallVector<const at::Tensor*, 16> tensors;
  for (c10::ArrayRef<c10::IValue> list : {inputs, outputs}) {
    for (const c10::IValue& value : list) {
      tensors.push_back(value.isTensor() ? &value.toTensor() : nullptr);
    }
  }
  TVMFFIAny room[graphffi::Layout::kMost];
  graphffi::Spill spill;
  AttributeBank attributes(room, {0, graphffi::Layout::kMost}, &spill);
  for (c10::ArrayRef<c10::IValue> list : {ints, floats, strs}) {
    for (const c10::IValue& value : list) attributes.Add(value);
  }
  site->Run(tensors.data(), attributes.bank().values, 0);
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

/// Whether tensors without data share elements, as far as that is known without their sizes.
bool ShareElements(const at::Tensor& a, const at::Tensor& b) {
  const c10::TensorImpl &first = *a.unsafeGetTensorImpl(), &second = *b.unsafeGetTensorImpl();
  if (first.has_symbolic_sizes_strides() || second.has_symbolic_sizes_strides()) {
    return a.is_same(b);
  }
  return (a.is_same(b) && a.numel() != 0) || Overlap(a, b);
}

bool HasOverlap(const at::Tensor& tensor) {
  return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && OverlapsItself(tensor);
}

/// How errors name a tensor of a call.
std::string NameOf(const CallNames& names, Plan::Op op, size_t i) {
  return "'" + names.NameOf(op, i) + "'";
}

/// Raises what the call on data would: compilers may not even know the data type.
void CheckDataTypes(const CallNames& names, Plan::Op op, c10::ArrayRef<c10::IValue> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].isTensor()) continue;
    CheckDataType(names.subject + ": " + NameOf(names, op, i), tensors[i].toTensor().scalar_type());
  }
}

/// Whether tensors share memory in a way that torch's compilers do not see: as `x` and `x.detach()`
/// do, of which they (2.13) give an operator that writes both a copy each, and lose one.
bool AreApart(const at::Tensor& a, const at::Tensor& b) {
  const auto base = [](const at::Tensor& x) { return x.is_view() ? x._base() : x; };
  const bool share = a.has_storage() && b.has_storage() && a.is_alias_of(b);
  return share && (a.is_view() || b.is_view()) && !base(a).is_same(base(b));
}

/// Raises what the call on data would: compilers give the kernel copies, which share nothing.
void CheckMemory(const CallNames& names, c10::ArrayRef<c10::IValue> inputs,
                 c10::ArrayRef<c10::IValue> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string output = NameOf(names, Plan::Op::kOutput, i);
    if (HasOverlap(outputs[i].toTensor())) FailOverlap(names.subject, output);
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].isTensor() || !ShareElements(outputs[i].toTensor(), inputs[k].toTensor()))
        continue;
      FailSharedMemory(names.subject, output, NameOf(names, Plan::Op::kInput, k));
    }
    for (size_t k = 0; k < i; ++k) {
      const at::Tensor &a = outputs[i].toTensor(), &b = outputs[k].toTensor();
      if (!ShareElements(a, b) && !AreApart(a, b)) continue;
      FailSharedMemory(names.subject, output, NameOf(names, Plan::Op::kOutput, k));
    }
  }
}

/// Raises what a call on data would, of one whose outputs are written, or copied before.
void CheckTraced(const Stack& stack, bool writes_outputs) {
  PrepareForCalls();
  c10::ArrayRef<c10::IValue> arguments = torch::jit::last(stack, kNumArguments);
  CheckNoData(arguments[0].toStringRef(), arguments.slice(1, 2));
  try {
    const c10::ArrayRef<c10::IValue> inputs = ListOf(arguments[1]), outputs = ListOf(arguments[2]);
    CallNames names = CallNames::Parse(arguments[7].toStringRef(), arguments[0].toStringRef());
    names.Keep(inputs.size(), outputs.size());
    CheckDataTypes(names, Plan::Op::kInput, inputs);
    CheckDataTypes(names, Plan::Op::kOutput, outputs);
    if (writes_outputs) CheckMemory(names, inputs, outputs);
  } catch (const graphffi::Error& error) {
    ThrowTracedError(error);
  }
}

void CallMeta(const c10::OperatorHandle&, Stack* stack) {
  CheckTraced(*stack, /*writes_outputs=*/true);
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
  CheckTraced(*stack, /*writes_outputs=*/false);
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
  ResolveLazyBits(library, name);
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

void UseLibrary(const std::string& path) {
  if (graphffi::RenewKernels(path)) SiteCache::Global().Forget();
}

}  // namespace graphffi_torch
