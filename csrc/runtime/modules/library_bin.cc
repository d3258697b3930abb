// SPDX-License-Identifier: Apache-2.0
// Modules that are embedded into a library. All integers are little-endian and have 64 bits. The
// data are, in this order:
//
// - the number of bytes that follow;
// - the list of row starts and the list of children, each a count and its entries: module i imports
//   the modules from children[row[i]] up to, but not including, children[row[i + 1]];
// - for each module its kind and, unless that is "_lib" (the library itself), its bytes.
//
// Module 0 is the root. Nothing is trusted before it is checked.
#include <cstring>
#include <vector>

#include "library.h"
#include "runtime/core/error.h"
#include "runtime/core/function.h"
#include "runtime/core/function_registry.h"
#include "runtime/core/string_value.h"

namespace graphffi::runtime {
namespace {

constexpr std::string_view kThisLibrary = "_lib";
// Modules that import one another in a row are freed recursively.
constexpr size_t kMaxModules = 4096;

class EmbeddedReader {
 public:
  EmbeddedReader(const Library* library, const void* content) : library_(library) {
    auto* start = static_cast<const char*>(content);
    size_t available = library->SizeAt(content);
    if (available < sizeof(uint64_t)) Fail("truncated");
    rest_ = std::string_view(start, sizeof(uint64_t));
    uint64_t size = Number();
    if (size > available - sizeof(uint64_t)) Fail("truncated");
    rest_ = std::string_view(start + sizeof(uint64_t), size);
  }

  uint64_t Number() {
    uint64_t number;
    std::memcpy(&number, Take(sizeof(number)).data(), sizeof(number));
    return number;
  }

  std::string_view Text() { return Take(Number()); }

  std::vector<uint64_t> Numbers() {
    uint64_t count = Number();
    if (count > rest_.size() / sizeof(uint64_t)) Fail("truncated");
    std::vector<uint64_t> numbers(count);
    for (uint64_t& number : numbers) number = Number();
    return numbers;
  }

  [[noreturn]] void Fail(std::string_view reason) const {
    Throw("RuntimeError", "graphffi: cannot load '", library_->name(), "': the modules in ",
          kEmbeddedModules, " are malformed: ", reason);
  }

 private:
  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) Fail("truncated");
    std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  const Library* library_;
  std::string_view rest_;
};

struct ImportTree {
  std::vector<uint64_t> rows;
  std::vector<uint64_t> children;

  size_t num_modules() const { return rows.size() - 1; }
};

/// No module may import itself, directly or through others: takes away modules that import nothing
/// that is left, until none is left or all that are left import one another.
bool HasCycle(const ImportTree& tree) {
  std::vector<uint64_t> num_imports(tree.num_modules());
  std::vector<std::vector<uint64_t>> importers(tree.num_modules());
  std::vector<uint64_t> free;
  for (uint64_t i = 0; i < tree.num_modules(); ++i) {
    num_imports[i] = tree.rows[i + 1] - tree.rows[i];
    if (num_imports[i] == 0) free.push_back(i);
    for (uint64_t row = tree.rows[i]; row < tree.rows[i + 1]; ++row) {
      importers[tree.children[row]].push_back(i);
    }
  }
  size_t num_free = 0;
  for (; num_free < free.size(); ++num_free) {
    for (uint64_t importer : importers[free[num_free]]) {
      if (--num_imports[importer] == 0) free.push_back(importer);
    }
  }
  return num_free < tree.num_modules();
}

ImportTree ReadTree(EmbeddedReader* reader) {
  ImportTree tree = {reader->Numbers(), reader->Numbers()};
  if (tree.rows.size() < 2) reader->Fail("expected at least one module");
  if (tree.num_modules() > kMaxModules) reader->Fail("expected at most 4096 modules");
  for (size_t i = 1; i < tree.rows.size(); ++i) {
    if (tree.rows[i] < tree.rows[i - 1]) reader->Fail("row starts decrease");
  }
  if (tree.rows.back() > tree.children.size()) reader->Fail("a row ends behind the children");
  for (uint64_t child : tree.children) {
    if (child >= tree.num_modules()) reader->Fail("a child is no module");
  }
  if (HasCycle(tree)) reader->Fail("modules import one another in a circle");
  return tree;
}

ModulePtr ReadModule(EmbeddedReader* reader, const Library* library,
                     const ModulePtr& library_module) {
  std::string_view kind = reader->Text();
  if (kind == kThisLibrary) return library_module;
  Any bytes = MakeBytes(reader->Text());
  std::string loader_name = Concat("ffi.Module.load_from_bytes.", kind);
  ObjectPtr<> loader = FindGlobalFunction(loader_name);
  if (!loader) {
    Throw("RuntimeError", "graphffi: cannot load '", library->name(), "': no global function ",
          loader_name, " loads the modules embedded in it");
  }
  Any module = CallFunction(loader.get(), {bytes.view()});
  if (module.type_index() != kTVMFFIModule) {
    Throw("TypeError", "graphffi: ", loader_name, ": expected a module as result");
  }
  return ModulePtr(ObjectPtr<>::Share(module.view().v_obj));
}

}  // namespace

ModulePtr ReadEmbeddedModules(const Library* library, const ModulePtr& library_module,
                              const void* content) {
  EmbeddedReader reader(library, content);
  ImportTree tree = ReadTree(&reader);
  std::vector<ModulePtr> modules;
  size_t num_itself = 0;
  for (size_t i = 0; i < tree.num_modules(); ++i) {
    modules.push_back(ReadModule(&reader, library, library_module));
    num_itself += modules.back().get() == library_module.get() ? 1 : 0;
    if (num_itself > 1) reader.Fail("the library itself is there twice");
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    for (uint64_t row = tree.rows[i]; row < tree.rows[i + 1]; ++row) {
      const ModulePtr& child = modules[tree.children[row]];
      modules[i]->ImportModule(tvm::ffi::Module{child.handle()});
    }
  }
  return modules.front();
}

}  // namespace graphffi::runtime
