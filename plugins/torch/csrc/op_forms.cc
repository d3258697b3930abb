// SPDX-License-Identifier: Apache-2.0
#include "op_forms.h"

#include <ATen/DLConvertor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>

#include <mutex>
#include <utility>

#include "gradients.h"
#include "kernel_call.h"

namespace graphffi_torch {
namespace {

using torch::jit::Stack;
using Arguments = c10::ArrayRef<c10::IValue>;

// For compilers' caches only; the last of the schema.
constexpr std::string_view kDigestArgument = "graphffi_digest";

at::Tensor Allocate(const ResultSpec& spec) {
  return at::empty(spec.shape, at::TensorOptions().dtype(spec.dtype).device(spec.device));
}

/// `float32[2, 3] on cpu`
std::string Describe(at::ScalarType dtype, at::IntArrayRef shape, c10::Device device) {
  DLDataType type = at::getDLDataType(at::empty({0}, at::TensorOptions(dtype).device(at::kMeta)));
  TVMFFIAny text{};
  std::string name = c10::toString(dtype);
  if (TVMFFIDataTypeToString(&type, &text) == 0) {
    TVMFFIByteArray small{text.v_bytes, text.small_str_len};
    bool is_object = text.type_index >= kTVMFFIStaticObjectBegin;
    TVMFFIByteArray bytes = is_object ? *TVMFFIBytesGetByteArrayPtr(text.v_obj) : small;
    name.assign(bytes.data, bytes.size);
    if (is_object) TVMFFIObjectDecRef(text.v_obj);
  }
  std::string sizes;
  for (int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return name + "[" + sizes + "] on " + device.str();
}

/// What all forms of an op share; immutable.
class OpCall {
 public:
  explicit OpCall(const OpDescription& description)
      : schema_(torch::jit::parseSchema(description.schema)),
        kernel_(description.kernel),
        rule_(description.rule),
        num_results_(description.results.size()) {
    graphffi::PlanNames names;
    names.outputs = description.results;
    for (const c10::Argument& argument : schema_.arguments()) {
      if (argument.name() == kDigestArgument) continue;
      parameters_.push_back(ParameterOf(argument, description));
      Names(parameters_.back().bank, &names).push_back(argument.name());
    }
    plan_ = graphffi::Plan::Parse(description.plan, names, subject());
    input_names_ = std::move(names.inputs);
    output_names_ = std::move(names.outputs);
  }

  const std::string& subject() const { return schema_.name(); }
  const c10::FunctionSchema& schema() const { return schema_; }
  /// Of the schema without the digest.
  size_t num_parameters() const { return parameters_.size(); }
  size_t num_results() const { return num_results_; }
  bool writes_operands() const { return output_names_.size() > num_results_; }

  std::vector<ResultSpec> Infer(Arguments arguments) const {
    std::vector<ResultSpec> specs = rule_->Infer(arguments);
    if (specs.size() != num_results_) {
      throw graphffi::Error("TypeError", subject() + ": shape rule: expected " +
                                             std::to_string(num_results_) + " results, got " +
                                             std::to_string(specs.size()));
    }
    return specs;
  }

  /// `results`: IValues that hold the tensors to fill.
  void Run(Arguments arguments, Arguments results) const {
    TensorBank inputs(subject(), 'i', &input_names_), outputs(subject(), 'o', &output_names_);
    AttributeBank attributes;
    outputs.AddEach(results);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const Parameter& parameter = parameters_[i];
      if (parameter.bank == Bank::kAttributes) {
        parameter.is_list && !(parameter.is_optional && arguments[i].isNone())
            ? attributes.AddList(ListOf(arguments[i]), parameter.conversion)
            : attributes.Add(arguments[i], parameter.conversion);
      } else {
        TensorBank& bank = parameter.bank == Bank::kInputs ? inputs : outputs;
        parameter.is_list ? bank.AddList(ListOf(arguments[i])) : bank.Add(arguments[i]);
      }
    }
    KernelCall{kernel_, subject(), plan_, inputs, outputs, attributes.bank()}.Run();
  }

  /// \throws graphffi::Error that names every output which is not as the rule says.
  void CheckOutputs(const std::vector<ResultSpec>& specs, Arguments outputs) const {
    std::string problems;
    bool wrong_dtype = false;
    for (size_t i = 0; i < specs.size(); ++i) {
      const at::Tensor& tensor = outputs[i].toTensor();
      const ResultSpec& spec = specs[i];
      bool same_device = tensor.device().type() == spec.device.type() &&
                         (!spec.device.has_index() || tensor.device() == spec.device);
      bool same_dtype = tensor.scalar_type() == spec.dtype;
      if (same_device && same_dtype && tensor.sizes() == at::IntArrayRef(spec.shape)) continue;
      wrong_dtype = wrong_dtype || !same_dtype;
      problems += (problems.empty() ? " output '" : "; output '") + output_names_[i] +
                  "': expected " + Describe(spec.dtype, spec.shape, spec.device) + ", got " +
                  Describe(tensor.scalar_type(), tensor.sizes(), tensor.device());
    }
    if (problems.empty()) return;
    throw graphffi::Error(wrong_dtype ? "TypeError" : "ValueError", subject() + ":" + problems);
  }

 private:
  enum class Bank { kInputs, kOutputs, kAttributes };
  struct Parameter {
    Bank bank;
    bool is_list, is_optional;
    graphffi::Plan::Conversion conversion;
  };

  static Parameter ParameterOf(const c10::Argument& argument, const OpDescription& description) {
    c10::TypePtr type = argument.type();
    auto optional = type->cast<c10::OptionalType>();
    if (optional) type = optional->getElementType();
    auto list = type->cast<c10::ListType>();
    if (list) type = list->getElementType();
    Parameter parameter{Bank::kAttributes, list != nullptr, optional != nullptr,
                        graphffi::Plan::Conversion::kNone};
    if (type->isSubtypeOf(*c10::TensorType::get())) {
      const c10::AliasInfo* alias = argument.alias_info();
      parameter.bank = alias && alias->isWrite() ? Bank::kOutputs : Bank::kInputs;
    }
    auto conversion = description.conversions.find(argument.name());
    if (conversion != description.conversions.end()) parameter.conversion = conversion->second;
    return parameter;
  }

  static std::vector<std::string>& Names(Bank bank, graphffi::PlanNames* names) {
    if (bank == Bank::kAttributes) return names->attributes;
    return bank == Bank::kInputs ? names->inputs : names->outputs;
  }

  c10::FunctionSchema schema_;
  graphffi::KernelSlot kernel_;
  std::shared_ptr<ResultRule> rule_;
  size_t num_results_;
  std::vector<Parameter> parameters_;
  graphffi::Plan plan_;
  std::vector<std::string> input_names_, output_names_;
};

/// `ns::name`: allocates the results.
class AllocatingForm : public c10::OperatorKernel {
 public:
  explicit AllocatingForm(std::shared_ptr<const OpCall> call) : call_(std::move(call)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const size_t count = call_->num_parameters() + 1;
    Stack results;
    try {
      Arguments arguments = torch::jit::last(*stack, count).slice(0, call_->num_parameters());
      for (const ResultSpec& spec : call_->Infer(arguments)) results.emplace_back(Allocate(spec));
      call_->Run(arguments, results);
    } catch (const graphffi::Error& error) {
      ThrowTorchError(error);
    }
    torch::jit::drop(*stack, count);
    for (c10::IValue& result : results) stack->push_back(std::move(result));
  }

 private:
  std::shared_ptr<const OpCall> call_;
};

/// `ns::name.out`: fills what it is given.
class DestinationForm : public c10::OperatorKernel {
 public:
  explicit DestinationForm(std::shared_ptr<const OpCall> call) : call_(std::move(call)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    const size_t count = call_->num_parameters() + call_->num_results() + 1;
    try {
      Arguments all = torch::jit::last(*stack, count);
      Arguments arguments = all.slice(0, call_->num_parameters());
      Arguments outputs = all.slice(call_->num_parameters(), call_->num_results());
      call_->CheckOutputs(call_->Infer(arguments), outputs);
      call_->Run(arguments, outputs);
    } catch (const graphffi::Error& error) {
      ThrowTorchError(error);
    }
    torch::jit::drop(*stack, count);
  }

 private:
  std::shared_ptr<const OpCall> call_;
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
                  const std::shared_ptr<const OpCall>& call) {
  library->def(torch::schema(schema.c_str()),
               {at::Tag::pt2_compliant_tag, at::Tag::needs_exact_strides});
  library->impl(name, torch::dispatch(
                          c10::DispatchKey::CompositeExplicitAutograd,
                          torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Form>(call))));
}

void Register(const OpDescription& description, const std::shared_ptr<const OpCall>& call) {
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

/// Fingerprints of the ops that are registered, by name.
struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::string> fingerprints;
  static Registry& Global() {
    static auto* instance = new Registry();
    return *instance;
  }
};

}  // namespace

bool DefineOp(const OpDescription& description) {
  auto call = std::make_shared<const OpCall>(description);
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto found = registry.fingerprints.find(call->subject());
  if (found != registry.fingerprints.end()) {
    if (found->second == Fingerprint(description)) return false;
    throw graphffi::Error("ValueError", call->subject() +
                                            ": expected the definition that is registered with "
                                            "torch, got another one; give it another name");
  }
  if (c10::Dispatcher::singleton().findSchema({call->subject(), ""})) {
    throw graphffi::Error("ValueError", call->subject() +
                                            ": expected a name that is free, got one that another "
                                            "library registered with torch; choose another");
  }
  Register(description, call);
  registry.fingerprints.emplace(call->subject(), Fingerprint(description));
  return true;
}

}  // namespace graphffi_torch
