// SPDX-License-Identifier: Apache-2.0
#include "site.h"

#include <algorithm>
#include <cctype>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "call/error.h"
#include "observe/watch.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Layout;
using graphffi::Plan;
using graphffi::PlanNames;

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

Plan FoldedPlan(const SiteParts& parts) {
  if (parts.takes_nothing) return Plan().Fold(parts.attributes);
  return ParseSitePlan(parts.plan, parts.attribute_names, parts.subject).Fold(parts.attributes);
}

bool PassesWorkspace(const Plan& plan) {
  return std::any_of(plan.items().begin(), plan.items().end(),
                     [](const Plan::Item& item) { return item.op == Plan::Op::kWorkspace; });
}

}  // namespace

Plan ParseSitePlan(const std::string& text, const std::vector<std::string>& attribute_names,
                   const std::string& subject) {
  PlanNames names = PlanNames::Raw(CountNames(text, 'i'), CountNames(text, 'o'), 0, 0, 0);
  names.attributes = attribute_names;
  return Plan::Parse(text, names, subject);
}

Site::Site(SiteParts parts)
    : kernel_(std::move(parts.kernel)),
      // Functions registered by name may be Python's, which need tensors that own; libraries say so
      // if they do.
      lends_(parts.pass_owning_tensor || !parts.facts.in_library || parts.facts.takes_tensors ||
             graphffi::IsDebugging()),
      gated_(!parts.facts.in_library),
      is_ordered_(parts.is_ordered),
      has_workspace_(parts.has_workspace),
      is_named_(parts.is_named),
      is_guarded_(gated_ || is_ordered_ || has_workspace_),
      mutated_(parts.mutated),
      plan_(FoldedPlan(parts)),
      subject_(std::move(parts.subject)),
      names_(std::move(parts.names)),
      key_(std::move(parts.key)) {
  passes_workspace_ = PassesWorkspace(plan_);
}

const Arity* Site::FindArity(int64_t num_operands, int64_t num_results) const {
  const Arity* arity = opt_arities_.load(std::memory_order_acquire);
  while (arity != nullptr &&
         (arity->num_operands != num_operands || arity->num_results != num_results)) {
    arity = arity->opt_next.get();
  }
  return arity;
}

const Arity& Site::OtherArityOf(int64_t num_operands, int64_t num_results) const {
  const Arity* arity = FindArity(num_operands, num_results);
  return arity != nullptr ? *arity : AddArity(num_operands, num_results);
}

const Arity& Site::AddArity(int64_t num_operands, int64_t num_results) const {
  const int64_t most = std::min(num_operands, num_results - (has_workspace_ ? 1 : 0));
  if (mutated_ > most) {
    throw graphffi::Error("ValueError", "attribute 'mutated': expected at most " +
                                            std::to_string(most) + ", got " +
                                            std::to_string(mutated_));
  }
  const auto num_inputs = static_cast<int32_t>(num_operands - mutated_);
  const auto num_outputs = static_cast<int32_t>(num_results) - (has_workspace_ ? 1 : 0);
  const auto num_returned = static_cast<int32_t>(num_outputs - mutated_);
  const bool is_passed = plan_.first_output() < num_returned;
  Layout layout = Layout::Of(plan_, num_inputs, num_outputs, 0);
  if (!layout.is_in_order()) layout = {{0, num_inputs}, {num_inputs, num_outputs}, {0, 0}, 0, {}};
  const auto num_values = num_inputs + num_outputs + static_cast<int32_t>(layout.constants.size());
  const bool is_filled = is_passed || num_returned == 0 || is_named_;
  const bool needs_frame = lends_ || !layout.is_in_order();
  std::unique_ptr<Arity> arity(new Arity{num_operands, num_results, std::move(layout), num_inputs,
                                         num_outputs, num_values, num_returned, is_passed,
                                         is_filled, needs_frame, nullptr});
  std::lock_guard<std::mutex> lock(GetTable().mutex);
  if (const Arity* found = FindArity(num_operands, num_results)) return *found;
  arity->opt_next.reset(opt_arities_.load(std::memory_order_relaxed));
  opt_arities_.store(arity.get(), std::memory_order_release);
  return *arity.release();
}

Site* Site::Get(SiteParts parts) {
  parts.key += parts.pass_owning_tensor ? "o" : "v";
  parts.key += std::to_string(parts.mutated) + (parts.has_workspace ? "w" : "") +
               (parts.is_ordered ? "o" : "");
  if (Site* site = Find(parts.key)) return site;
  // Unlocked: folding the plan may wait for the GIL, with which other threads release sites.
  std::unique_ptr<Site, Deleter> made(new Site(std::move(parts)));
  Table& table = GetTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  const auto [found, is_new] = table.sites.try_emplace(made->key_, made.get());
  if (is_new) return made.release();
  ++found->second->references_;
  return found->second;
}

Site* Site::Find(const std::string& key) {
  Table& table = GetTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  const auto found = table.sites.find(key);
  if (found == table.sites.end()) return nullptr;
  ++found->second->references_;
  return found->second;
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

void Site::NoteWorkspace(int64_t bytes, int64_t capacity) const {
  last_workspace_peak.store(bytes, std::memory_order_relaxed);
  int64_t peak = workspace_peak_.load(std::memory_order_relaxed);
  if (bytes <= peak) return;
  workspace_peak_.store(bytes, std::memory_order_relaxed);
  RecordWorkspacePeak(subject_, bytes, capacity);
}

void xla::StateDeleter(void* state) { static_cast<Site*>(state)->Release(); }

}  // namespace graphffi_jax
