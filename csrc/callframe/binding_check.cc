// SPDX-License-Identifier: Apache-2.0
#include "callframe/binding_check.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "callframe/error.h"

namespace graphffi {

namespace {

/// What the loader read of a library: where its imports are, and their names.
struct DynamicSection {
  explicit DynamicSection(const link_map* map) : base(map->l_addr) {
    for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols = At<ElfW(Sym)>(entry);
          break;
        case DT_STRTAB:
          names = At<char>(entry);
          break;
        case DT_RELA:
          data = At<ElfW(Rela)>(entry);
          break;
        case DT_RELASZ:
          data_bytes = entry->d_un.d_val;
          break;
        case DT_JMPREL:
          calls = At<ElfW(Rela)>(entry);
          break;
        case DT_PLTRELSZ:
          calls_bytes = entry->d_un.d_val;
          break;
        default:
          break;
      }
    }
  }

  /// The loader has made addresses of most offsets, but not on every architecture.
  template <typename T>
  const T* At(const ElfW(Dyn) * entry) const {
    const ElfW(Addr) address = entry->d_un.d_ptr;
    return reinterpret_cast<const T*>(address < base ? address + base : address);
  }

  /// Calls `visit(name, bound)` for every import that is bound to something.
  template <typename Visit>
  void ForEachImport(const ElfW(Rela) * relocations, size_t bytes, Visit&& visit) const {
    if (relocations == nullptr || symbols == nullptr || names == nullptr) return;
    for (size_t i = 0; i < bytes / sizeof(*relocations); ++i) {
      const ElfW(Sym) & symbol = symbols[ELF64_R_SYM(relocations[i].r_info)];
      if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) continue;
      uintptr_t bound = 0;
      std::memcpy(&bound, reinterpret_cast<const void*>(base + relocations[i].r_offset),
                  sizeof(bound));
      bound -= relocations[i].r_addend;
      if (bound != 0) visit(names + symbol.st_name, reinterpret_cast<const void*>(bound));
    }
  }

  ElfW(Addr) base;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * data = nullptr;
  const ElfW(Rela) * calls = nullptr;
  size_t data_bytes = 0;
  size_t calls_bytes = 0;
};

Dl_info OwnerOf(const void* address) {
  Dl_info owner{};
  dladdr(address, &owner);
  return owner;
}

Dl_info RuntimeInUse() {
  void* runtime = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD);
  void* symbol = runtime == nullptr ? nullptr : dlsym(runtime, "TVMFFIGetVersion");
  if (symbol == nullptr) throw Error("RuntimeError", "graphffi: the process has no libtvm_ffi.so");
  dlclose(runtime);  // somebody else keeps it open
  return OwnerOf(symbol);
}

}  // namespace

void CheckBinding(void* handle, const std::string& path) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  const Dl_info runtime = RuntimeInUse();
  const auto check = [&](const char* name, const void* bound) {
    if (std::strncmp(name, "TVMFFI", 6) != 0) return;
    const Dl_info owner = OwnerOf(bound);
    if (owner.dli_fbase == runtime.dli_fbase) return;
    throw Error("RuntimeError",
                "graphffi: cannot load '" + path + "': function " + name +
                    ": expected it bound to the runtime '" + runtime.dli_fname + "', got '" +
                    (owner.dli_fname == nullptr ? "nothing known" : owner.dli_fname) +
                    "'; see that no other library with TVM FFI's functions is loaded globally");
  };
  const DynamicSection dynamic(map);
  dynamic.ForEachImport(dynamic.data, dynamic.data_bytes, check);
  dynamic.ForEachImport(dynamic.calls, dynamic.calls_bytes, check);
}

}  // namespace graphffi
