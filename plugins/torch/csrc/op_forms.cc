// SPDX-License-Identifier: Apache-2.0
#include "op_forms.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <mutex>
#include <utility>

#include "callframe/error.h"
#include "gradients.h"
#include "op_call.h"

namespace graphffi_torch {
namespace {

using torch::jit::Stack;

/// `ns::name`: allocates the results.
class AllocatingForm : public c10::OperatorKernel {
 public:
  explicit AllocatingForm(const OpCall* call) : call_(call) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const size_t num_arguments = call_->parameters().size();
    OpFrame frame(*call_);
    try {
      frame.Add(torch::jit::last(*stack, num_arguments + 1).slice(0, num_arguments));
      frame.Run();
    } catch (const graphffi::Error& error) {
      ThrowTorchError(error);
    }
    torch::jit::drop(*stack, num_arguments + 1);
    for (at::Tensor& result : frame.results()) stack->emplace_back(std::move(result));
  }

 private:
  const OpCall* call_;
};

/// `ns::name.out`: fills what it is given.
class DestinationForm : public c10::OperatorKernel {
 public:
  explicit DestinationForm(const OpCall* call) : call_(call) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const size_t num_arguments = call_->parameters().size();
    const size_t count = num_arguments + call_->num_results() + 1;
    try {
      c10::ArrayRef<c10::IValue> all = torch::jit::last(*stack, count);
      OpFrame frame(*call_);
      frame.Add(all.slice(0, num_arguments));
      frame.RunInto(all.slice(num_arguments, call_->num_results()));
    } catch (const graphffi::Error& error) {
      ThrowTorchError(error);
    }
    torch::jit::drop(*stack, count);
  }

 private:
  const OpCall* call_;
};

/// Meta of the destination-passing form: nothing is allocated, nothing computed.
void DropArguments(const c10::OperatorHandle& op, Stack* stack) {
  torch::jit::drop(*stack, op.schema().arguments().size());
}

void RegisterWriteGuards(torch::Library* library, const char* name) {
  library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, RefuseRecording()));
  library->impl(name, torch::dispatch(c10::DispatchKey::ADInplaceOrView, BumpVersions()));
}

template <typename Form>
void RegisterForm(torch::Library* library, const std::string& schema, const char* name,
                  const OpCall* call) {
  library->def(torch::schema(schema.c_str()),
               {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  library->impl(name, torch::dispatch(
                          c10::DispatchKey::CompositeExplicitAutograd,
                          torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Form>(call))));
}

void Register(const OpDescription& description, const OpCall* call) {
  std::string ns = call->subject().substr(0, call->subject().find("::"));
  // Never destroyed: destroying it would unregister the operators while Python is being torn down.
  auto* library =
      new torch::Library(torch::Library::FRAGMENT, ns, std::nullopt, __FILE__, __LINE__);
  const char* name = call->subject().c_str();
  RegisterForm<AllocatingForm>(library, description.schema, name, call);
  if (call->writes_operands()) {
    RegisterWriteGuards(library, name);
  } else {
    library->impl(name, torch::dispatch(c10::DispatchKey::Autograd, RecordGradient()));
  }
  if (!description.has_vmap_rule) {
    library->impl(name, torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  }
  if (description.opt_out_schema.empty()) return;
  std::string out_name = call->subject() + ".out";
  RegisterForm<DestinationForm>(library, description.opt_out_schema, out_name.c_str(), call);
  RegisterWriteGuards(library, out_name.c_str());
  library->impl(out_name.c_str(),
                torch::dispatch(c10::DispatchKey::FuncTorchBatched, RefuseVmap()));
  library->impl(out_name.c_str(),
                torch::dispatch(c10::DispatchKey::Meta,
                                torch::CppFunction::makeFromBoxedFunction<&DropArguments>()));
}

std::string Fingerprint(const OpDescription& d) {
  return d.schema + "\n" + d.opt_out_schema + "\n" + d.kernel + "\n" + d.plan + "\n" + d.digest;
}

/// Ops that are registered and their fingerprints, by name.
struct Registry {
  struct Entry {
    std::string fingerprint;
    const OpCall* call;
  };
  std::mutex mutex;
  std::unordered_map<std::string, Entry> entries;
  static Registry& Global() {
    static auto* instance = new Registry();
    return *instance;
  }
};

}  // namespace

const OpCall* DefineOp(const OpDescription& description) {
  auto call = std::make_unique<const OpCall>(description);
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = registry.entries.find(call->subject());
  if (found != registry.entries.end()) {
    if (found->second.fingerprint == Fingerprint(description)) return found->second.call;
    throw graphffi::Error("ValueError", call->subject() +
                                            ": expected the definition that is registered with "
                                            "torch, got another one; give it another name");
  }
  if (c10::Dispatcher::singleton().findSchema({call->subject(), ""})) {
    throw graphffi::Error("ValueError", call->subject() +
                                            ": expected a name that is free, got one that another "
                                            "library registered with torch; choose another");
  }
  Register(description, call.get());
  const OpCall* kept = call.release();  // the dispatcher uses it until the process ends
  registry.entries.emplace(kept->subject(), Registry::Entry{Fingerprint(description), kept});
  return kept;
}

}  // namespace graphffi_torch
