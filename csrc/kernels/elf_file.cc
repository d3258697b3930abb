// SPDX-License-Identifier: Apache-2.0
#include "kernels/elf_file.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace graphffi {

namespace {

bool IsOurElf(const ElfW(Ehdr) & header) {
  const int own_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == own_class && header.e_phentsize == sizeof(ElfW(Phdr));
}

std::string NameOfMachine(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    default:
      return "machine " + std::to_string(machine) + " of ELF";
  }
}

#if defined(__x86_64__)
constexpr unsigned kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kMachine = EM_AARCH64;
#else
constexpr unsigned kMachine = EM_NONE;  // any
#endif

}  // namespace

std::string DescribeDefect(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
  ElfW(Ehdr) header;
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header)) || !IsOurElf(header)) return "";
  if (kMachine != EM_NONE && header.e_machine != kMachine) {
    return "expected a library for " + NameOfMachine(kMachine) + ", got one for " +
           NameOfMachine(header.e_machine);
  }
  uint64_t needed = header.e_phoff + uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
  file.seekg(static_cast<std::streamoff>(header.e_phoff));
  for (int i = 0; i < header.e_phnum && needed <= size; ++i) {
    ElfW(Phdr) segment;
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof(segment))) break;
    if (segment.p_type == PT_LOAD) {
      needed = std::max<uint64_t>(needed, segment.p_offset + segment.p_filesz);
    }
  }
  if (needed <= size) return "";
  return "expected a library of at least " + std::to_string(needed) + " bytes, got " +
         std::to_string(size) + ": it is truncated";
}

}  // namespace graphffi
