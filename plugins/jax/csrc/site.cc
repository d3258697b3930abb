// SPDX-License-Identifier: Apache-2.0
#include "site.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "call/error.h"
#include "observe/watch.h"
#include "workspace.h"
#include "xla_api.h"

namespace graphffi_jax {

using graphffi::Plan;

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

bool PassesWorkspace(const Plan& plan) {
  return std::any_of(plan.items().begin(), plan.items().end(),
                     [](const Plan::Item& item) { return item.op == Plan::Op::kWorkspace; });
}

}  // namespace

Site::Site(const SiteParts& parts)
    : SiteParts(parts),
      // Functions registered by name may be Python's, which need tensors that own; libraries say so
      // if they do.
      lends_(pass_owning_tensor || gated() || facts.takes_tensors || graphffi::IsDebugging()),
      is_guarded_(gated() || is_ordered || has_workspace) {
  signature = signature.Fold({attributes, {}});
  passes_workspace_ = PassesWorkspace(signature.plan());
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
  if (const Arity* known = FindArity(num_operands, num_results)) return *known;
  const int64_t most = std::min(num_operands, num_results - (has_workspace ? 1 : 0));
  if (mutated > most) {
    throw graphffi::Error("ValueError", "updated: expected at most " + std::to_string(most) +
                                            ", got " + std::to_string(mutated));
  }
  const auto num_inputs = static_cast<int32_t>(num_operands - mutated);
  const auto num_outputs = static_cast<int32_t>(num_results) - (has_workspace ? 1 : 0);
  const auto num_returned = static_cast<int32_t>(num_outputs - mutated);
  std::unique_ptr<Arity> arity(
      new Arity(num_operands, num_results,
                graphffi::PlacedCall::Of(signature, num_inputs, num_outputs, num_returned, lends_,
                                         is_named)));
  std::lock_guard<std::mutex> lock(GetTable().mutex);
  if (const Arity* found = FindArity(num_operands, num_results)) return *found;
  arity->opt_next.reset(opt_arities_.load(std::memory_order_relaxed));
  opt_arities_.store(arity.get(), std::memory_order_release);
  return *arity.release();
}

Site* Site::Get(const SiteParts& parts) {
  if (Site* site = Find(parts.key)) return site;
  // Unlocked: folding the plan may wait for the GIL, with which other threads release sites.
  std::unique_ptr<Site> made(new Site(parts));
  Table& table = GetTable();
  std::lock_guard<std::mutex> lock(table.mutex);
  const auto [found, is_new] = table.sites.try_emplace(made->key, made.get());
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
    table.sites.erase(key);
  }
  delete this;  // outside of the lock: the function may be Python's, whose end takes the GIL
}

void Site::NoteWorkspace(int64_t bytes, int64_t capacity) const {
  last_workspace_peak.store(bytes, std::memory_order_relaxed);
  int64_t peak = workspace_peak_.load(std::memory_order_relaxed);
  if (bytes <= peak) return;
  workspace_peak_.store(bytes, std::memory_order_relaxed);
  RecordWorkspacePeak(subject(), bytes, capacity);
}

void xla::StateDeleter(void* state) { static_cast<Site*>(state)->Release(); }

}  // namespace graphffi_jax
