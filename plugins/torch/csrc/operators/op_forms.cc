// SPDX-License-Identifier: Apache-2.0
#include "op_forms.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#include <torch/version.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "autograd/autograd_node.h"
#include "autograd/gradients.h"
#include "call/error.h"
#include "lazy_bits.h"
#include "op_call.h"

namespace graphffi_torch {
namespace {

using torch::jit::Stack;

/// The definition that an op's operators run: another one, once it is replaced. Lives as long as
/// the process, as every definition that it had does.
using OpSlot = std::atomic<const OpCall*>;

/// The kernel of an operator: `kRun` of the op's definition.
template <void (*kRun)(const OpCall& call, Stack* stack)>
class Form : public c10::OperatorKernel {
 public:
  explicit Form(const OpSlot* slot) : slot_(slot) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    try {
      const OpCall& call = *slot_->load(std::memory_order_acquire);
      if (!call.may_run_again()) CheckIsNoRepetition(call.subject());
      kRun(call, stack);
    } catch (const graphffi::Error& error) {
      ThrowTorchError(error);
    }
  }

 private:
  const OpSlot* slot_;
};

/// `ns::name`: allocates the results.
void RunAllocating(const OpCall& call, Stack* stack) {
  const size_t num_arguments = call.parameters().size();
  OpFrame frame(call);
  frame.Add(torch::jit::last(*stack, num_arguments + 1).slice(0, num_arguments));
  frame.Run();
  torch::jit::drop(*stack, num_arguments + 1);
  for (at::Tensor& result : frame.results()) stack->emplace_back(std::move(result));
}

/// `ns::name.out`: fills what it is given.
void RunInto(const OpCall& call, Stack* stack) {
  const size_t num_arguments = call.parameters().size();
  const size_t count = num_arguments + call.num_results() + 1;
  {
    c10::ArrayRef<c10::IValue> all = torch::jit::last(*stack, count);
    OpFrame frame(call);
    frame.Add(all.slice(0, num_arguments));
    frame.RunInto(all.slice(num_arguments, call.num_results()));
  }
  torch::jit::drop(*stack, count);
}

c10::IValue Copied(const c10::IValue& argument, c10::List<at::Tensor>* copies) {
  if (argument.isNone()) return argument;
  if (argument.isTensor()) {
    copies->push_back(argument.toTensor().clone());
    return copies->get(copies->size() - 1);
  }
  c10::List<at::Tensor> list;
  for (const c10::IValue& item : argument.toListRef()) list.push_back(item.toTensor().clone());
  copies->append(list);
  return list;
}

/// `ns::name.effect`: leaves what it is given, and gives the results and changed copies.
void RunOnCopies(const OpCall& call, Stack* stack) {
  const size_t num_arguments = call.parameters().size();
  c10::List<at::Tensor> copies, returned;
  std::vector<c10::IValue> arguments;
  for (const c10::IValue& argument :
       torch::jit::last(*stack, num_arguments + 1).slice(0, num_arguments)) {
    const bool is_written = call.parameters()[arguments.size()].role == OpCall::Role::kOutput;
    arguments.push_back(is_written ? Copied(argument, &copies) : argument);
  }
  OpFrame frame(call);
  frame.Add(arguments);
  frame.Run();
  for (at::Tensor& result : frame.results()) returned.push_back(std::move(result));
  returned.append(std::move(copies));
  ReturnList(std::move(returned), num_arguments + 1, stack);
}

/// Meta of the destination-passing form: nothing is allocated, nothing computed.
void DropArguments(const c10::OperatorHandle& op, Stack* stack) {
  const size_t num_arguments = op.schema().arguments().size();
  CheckNoData(op.schema().name(), torch::jit::last(*stack, num_arguments));
  torch::jit::drop(*stack, num_arguments);
}

void RegisterWriteGuards(torch::Library* library, const char* name) {
  library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, RefuseRecording()));
  library->impl(name, torch::dispatch(c10::DispatchKey::ADInplaceOrView, BumpVersions()));
}

std::vector<at::Tag> TagsOf(const OpDescription& description) {
  std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides};
  if (!description.allow_cuda_graph) tags.push_back(at::Tag::cudagraph_unsafe);
#if TORCH_VERSION_MINOR >= 13  // 2.10 fails for such an operator in a compiled checkpoint
  // Compilers also make calls of which they know all operands once, for all runs.
  if (!description.may_run_again) tags.push_back(at::Tag::nondeterministic_seeded);
#endif
  return tags;
}

template <void (*kRun)(const OpCall& call, Stack* stack)>
void RegisterForm(torch::Library* library, const std::string& schema, const char* name,
                  const std::vector<at::Tag>& tags, const OpSlot* slot) {
  library->def(torch::schema(schema.c_str()), tags);
  library->impl(name, torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                      torch::CppFunction::makeFromBoxedFunctor(
                                          std::make_unique<Form<kRun>>(slot))));
  ResolveLazyBits(library, name);
}

void Register(const OpDescription& description, const OpSlot* slot) {
  const OpCall* call = slot->load();
  std::string ns = call->subject().substr(0, call->subject().find("::"));
  // Never destroyed: destroying it would unregister the operators while Python is being torn down.
  auto* library =
      new torch::Library(torch::Library::FRAGMENT, ns, std::nullopt, __FILE__, __LINE__);
  const char* name = call->subject().c_str();
  const std::vector<at::Tag> tags = TagsOf(description);
  RegisterForm<&RunAllocating>(library, description.schema, name, tags, slot);
  if (call->writes_operands()) {
    RegisterWriteGuards(library, name);
  } else {
    library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, RecordGradient()));
  }
  if (!description.has_vmap_rule) {
    library->impl(name, torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  }
  if (!description.opt_effect_schema.empty()) {
    std::string effect_name = call->subject() + ".effect";
    RegisterForm<&RunOnCopies>(library, description.opt_effect_schema, effect_name.c_str(), tags,
                               slot);
    library->impl(effect_name.c_str(),
                  torch::dispatch(c10::DispatchKey::Autograd, RefuseRecording()));
    library->impl(effect_name.c_str(),
                  torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  }
  if (description.opt_out_schema.empty()) return;
  std::string out_name = call->subject() + ".out";
  RegisterForm<&RunInto>(library, description.opt_out_schema, out_name.c_str(), tags, slot);
  RegisterWriteGuards(library, out_name.c_str());
  library->impl(out_name.c_str(),
                torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  library->impl(out_name.c_str(),
                torch::dispatch(c10::DispatchKey::Meta,
                                torch::CppFunction::makeFromBoxedFunction<&DropArguments>()));
}

/// Ops that are registered, by name.
struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, OpSlot*> slots;
  static Registry& Global() {
    static auto* instance = new Registry();
    return *instance;
  }
};

}  // namespace

void CheckNoData(const std::string& subject, c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    ForEachTensor(argument, [&](const at::Tensor& tensor, int) {
      if (tensor.is_meta()) return;
      ThrowTorchError({"ValueError",
                       subject + ": expected all tensors on the device meta, or none, got one on " +
                           tensor.device().str()});
    });
  }
}

void ReturnList(c10::List<at::Tensor> list, size_t num_arguments, Stack* stack) {
  if (list.empty()) {
    at::Tensor given;
    for (const c10::IValue& argument : torch::jit::last(*stack, num_arguments)) {
      ForEachTensor(argument, [&](const at::Tensor& tensor, int) { given = tensor; });
    }
    list.push_back(given.defined() ? given.new_empty({0}) : at::empty({0}));
  }
  torch::jit::drop(*stack, num_arguments);
  stack->emplace_back(std::move(list));
}

const OpCall* DefineOp(const OpDescription& description) {
  auto call = std::make_unique<const OpCall>(description);
  const std::string& name = call->subject();
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = registry.slots.find(name);
  if (found != registry.slots.end()) {
    found->second->store(call.get(), std::memory_order_release);
    return call.release();  // calls may be under way that use the former one
  }
  auto slot = std::make_unique<OpSlot>(call.get());
  Register(description, slot.get());
  registry.slots.emplace(name, slot.release());
  return call.release();  // the dispatcher uses it until the process ends
}

}  // namespace graphffi_torch
