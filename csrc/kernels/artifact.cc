// SPDX-License-Identifier: Apache-2.0
#include "kernels/artifact.h"

#include <dlfcn.h>

namespace graphffi {

std::string TextOfCode(const char* code) {
  std::string text = code;
  for (size_t at = 0; (at = text.find("\xC0\x80", at)) != std::string::npos; ++at) {
    text.replace(at, 2, 1, '\0');
  }
  return text;
}

std::string FolderOf(const void* address) {
  Dl_info found;
  if (dladdr(address, &found) == 0 || found.dli_fname == nullptr) return "";
  const std::string path = found.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

}  // namespace graphffi
