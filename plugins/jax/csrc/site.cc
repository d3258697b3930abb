// SPDX-License-Identifier: Apache-2.0
#include "site.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "callframe/error.h"
#include "callframe/returned.h"
#include "xla_api.h"

namespace graphffi {
namespace {

// Leaked: executables may die after static destructors have run.
struct Table {
  std::mutex mutex;
  std::unordered_map<std::string, Site*> sites;
};
Table& GetTable() {
  static Table* table = new Table;
  return *table;
}

/// The names that `text` picks from one bank: how many operands there are is known at execution
/// only, where the call frame checks the indices.
int32_t CountNames(std::string_view text, char prefix) {
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  constexpr int32_t kLimit = 1 << 16;
  int32_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != prefix || (i > 0 && is_word(text[i - 1]))) continue;
    int32_t index = 0;
    size_t end = i + 1;
    for (; end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])); ++end) {
      index = std::min(kLimit, index * 10 + (text[end] - '0'));
    }
    bool name = end > i + 1 && (end == text.size() || !is_word(text[end]));
    if (name && index < kLimit) count = std::max(count, index + 1);
  }
  return count;
}

Plan ParsePlan(const CallAttributes& attributes) {
  return Plan::Parse(
      attributes.plan,
      PlanNames::Raw(CountNames(attributes.plan, 'i'), CountNames(attributes.plan, 'o'),
                     static_cast<int32_t>(attributes.ints.size()),
                     static_cast<int32_t>(attributes.floats.size()),
                     static_cast<int32_t>(attributes.strs.size())),
      attributes.subject);
}

TVMFFIAny Int(int64_t value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

TVMFFIAny Float(double value) {
  TVMFFIAny any{};
  any.type_index = kTVMFFIFloat;
  any.v_float64 = value;
  return any;
}

TVMFFIAny String(const std::string& value) {
  TVMFFIAny any{};
  TVMFFIByteArray bytes = {value.data(), value.size()};
  if (int rc = TVMFFIStringFromByteArray(&bytes, &any)) throw Error::TakeRaised(rc);
  return any;
}

void Destroy(std::vector<TVMFFIAny>* values) {
  for (TVMFFIAny& value : *values) {
    if (value.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(value.v_obj);
  }
  values->clear();
}

}  // namespace

Site::Site(CallAttributes attributes, TVMFFIObjectHandle function, const KernelFacts& facts,
           std::string key)
    : kernel_(Kernel::FromFunction(function)),
      mutated_(attributes.mutated),
      // Functions registered by name may be Python's, which need tensors that own; libraries say so
      // if they do.
      lends_(attributes.pass_owning_tensor || !facts.in_library || facts.takes_tensors),
      gated_(!facts.in_library),
      plan_(ParsePlan(attributes)),
      first_output_(FirstOutput(plan_)),
      subject_(std::move(attributes.subject)),
      function_(function),
      key_(std::move(key)) {
  values_.reserve(attributes.ints.size() + attributes.floats.size() + attributes.strs.size());
  try {
    for (int64_t value : attributes.ints) values_.push_back(Int(value));
    for (double value : attributes.floats) values_.push_back(Float(value));
    for (const std::string& value : attributes.strs) values_.push_back(String(value));
  } catch (...) {
    Destroy(&values_);
    throw;
  }
}

Site::~Site() {
  Destroy(&values_);
  TVMFFIObjectDecRef(function_);
}

Site* Site::Get(CallAttributes attributes) {
  // Resolved each time: a name may be registered anew.
  KernelFacts facts;
  TVMFFIObjectHandle function = ResolveKernel(attributes.func, {}, &facts);
  std::string key = attributes.Key() + "@" + std::to_string(reinterpret_cast<uintptr_t>(function));
  Table& table = GetTable();
  try {
    std::unique_lock<std::mutex> lock(table.mutex);
    auto found = table.sites.find(key);
    if (found == table.sites.end()) {
      Site* site = new Site(std::move(attributes), function, facts, key);
      table.sites.emplace(std::move(key), site);
      return site;
    }
    ++found->second->references_;
    lock.unlock();
    TVMFFIObjectDecRef(function);
    return found->second;
  } catch (...) {
    TVMFFIObjectDecRef(function);
    throw;
  }
}

void Site::Release() {
  {
    Table& table = GetTable();
    std::lock_guard<std::mutex> lock(table.mutex);
    if (--references_ > 0) return;
    table.sites.erase(key_);
  }
  delete this;  // outside of the lock: the function may be Python's, whose end takes the GIL
}

void xla::StateDeleter(void* state) { static_cast<Site*>(state)->Release(); }

}  // namespace graphffi
