// SPDX-License-Identifier: Apache-2.0
// Rules of ops by name.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

namespace graphffi_torch {

/// Rules are never destroyed: calls and autograd's nodes hold them, also those that were replaced.
template <typename Rule>
class RuleTable {
 public:
  static RuleTable& Global() {
    static auto* instance = new RuleTable();
    return *instance;
  }

  /// NULL takes the rule away.
  void Set(const std::string& op, std::unique_ptr<Rule> opt_rule) {
    std::unique_lock<std::shared_mutex> lock(mutex_);
    by_op_[op] = opt_rule.release();
  }

  /// NULL if there is none.
  const Rule* Find(const std::string& op) {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    auto found = by_op_.find(op);
    return found == by_op_.end() ? nullptr : found->second;
  }

 private:
  std::shared_mutex mutex_;
  std::unordered_map<std::string, const Rule*> by_op_;
};

}  // namespace graphffi_torch
