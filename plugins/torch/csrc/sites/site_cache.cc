// SPDX-License-Identifier: Apache-2.0
#include "site_cache.h"

#include <mutex>
#include <utility>

namespace graphffi_torch {

SiteCache& SiteCache::Global() {
  static auto* instance = new SiteCache();
  return *instance;
}

std::shared_ptr<const CallSite> SiteCache::Get(const Texts& texts, const graphffi::Counts& counts) {
  const Key<std::string_view> key{texts.func, texts.plan, texts.digest, counts};
  std::shared_ptr<const CallSite> site;
  {
    std::shared_lock<std::shared_mutex> lock(mutex_);
    if ((site = Find(young_, key)) != nullptr) return site;
    site = Find(old_, key);
  }
  if (site == nullptr) {
    site = std::make_shared<CallSite>(std::string(texts.func), std::string(texts.plan), counts,
                                      std::string(texts.digest));
  }
  Keep(key, site);
  return site;
}

void SiteCache::Forget() {
  Sites young, old;  // die after the lock
  std::unique_lock<std::shared_mutex> lock(mutex_);
  young.swap(young_);
  old.swap(old_);
}

std::shared_ptr<const CallSite> SiteCache::Find(const Sites& sites,
                                                const Key<std::string_view>& key) const {
  const auto found = sites.find(key);
  return found == sites.end() ? nullptr : found->second;
}

void SiteCache::Keep(const Key<std::string_view>& key,
                     const std::shared_ptr<const CallSite>& site) {
  const auto& [func, plan, digest, counts] = key;
  Sites dropped;  // after the lock is: a site may hold a function of Python's
  std::unique_lock<std::shared_mutex> lock(mutex_);
  young_.emplace(Key<std::string>{func, plan, digest, counts}, site);
  if (young_.size() <= kGeneration) return;
  dropped = std::exchange(old_, std::exchange(young_, {}));
}

}  // namespace graphffi_torch
