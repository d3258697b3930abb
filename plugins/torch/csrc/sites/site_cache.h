// SPDX-License-Identifier: Apache-2.0
// The call sites that eager calls of the primitive used last.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "call_site.h"

namespace graphffi_torch {

/// Holds the sites of the latest calls, 2 * kGeneration at most. Thread-safe.
class GRAPHFFI_TORCH_API SiteCache {
 public:
  static constexpr size_t kGeneration = 256;

  /// The texts that, with the counts, make a site. Borrowed.
  struct Texts {
    std::string_view func, plan, digest;
  };

  static SiteCache& Global();

  /// \throws graphffi::Error as CallSite does.
  std::shared_ptr<const CallSite> Get(const Texts& texts, const graphffi::Counts& counts);
  /// Drops all sites; calls that are under way keep theirs.
  void Forget();

 private:
  template <typename Text>
  using Key = std::tuple<Text, Text, Text, graphffi::Counts>;
  struct Less {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return a < b;
    }
  };
  using Sites = std::map<Key<std::string>, std::shared_ptr<const CallSite>, Less>;

  std::shared_ptr<const CallSite> Find(const Sites& sites, const Key<std::string_view>& key) const;
  void Keep(const Key<std::string_view>& key, const std::shared_ptr<const CallSite>& site);

  std::shared_mutex mutex_;
  Sites young_, old_;  // once the first is full, it takes the place of the second
};

}  // namespace graphffi_torch
