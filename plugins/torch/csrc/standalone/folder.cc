// SPDX-License-Identifier: Apache-2.0
#include "folder.h"

#include <dlfcn.h>

namespace graphffi_standalone {

std::string FolderOf(const void* address) {
  Dl_info found;
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) return "";
  const std::string path = found.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace graphffi_standalone
