// SPDX-License-Identifier: Apache-2.0
// The table of types. Reading a type by its index takes no lock: entries never move and are never
// freed.
#include "type_registry.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "error.h"
#include "fork.h"

namespace graphffi::runtime {
namespace {

constexpr int32_t kChunkSize = 1024;
constexpr int32_t kMaxChunks = 4096;
constexpr int32_t kMaxTypes = kChunkSize * kMaxChunks;
constexpr int32_t kUnknownType = -2;
constexpr int32_t kNoParent = -1;

struct TypeEntry {
  TVMFFITypeInfo type = {};
  std::string key;
  std::vector<const TVMFFITypeInfo*> ancestors;
  int32_t num_slots = 1;  // Of its own and of its reserved children, in one run of indices.
  int32_t used_slots = 1;
  bool can_overflow = true;
};

using Chunk = std::atomic<TypeEntry*>[kChunkSize];

struct TypeRequest {
  std::string_view key;
  int32_t static_index = -1;
  int32_t depth = 0;
  int32_t num_child_slots = 0;
  bool can_overflow = true;
  int32_t parent = kNoParent;
};

struct BuiltinType {
  int32_t index;
  const char* key;
};

constexpr BuiltinType kBuiltinTypes[] = {
    {kTVMFFINone, "None"},
    {kTVMFFIInt, "int"},
    {kTVMFFIBool, "bool"},
    {kTVMFFIFloat, "float"},
    {kTVMFFIOpaquePtr, "void*"},
    {kTVMFFIDataType, "DataType"},
    {kTVMFFIDevice, "Device"},
    {kTVMFFIDLTensorPtr, "DLTensor*"},
    {kTVMFFIRawStr, "const char*"},
    {kTVMFFIByteArrayPtr, "TVMFFIByteArray*"},
    {kTVMFFIObjectRValueRef, "ObjectRValueRef"},
    {kTVMFFISmallStr, "ffi.SmallStr"},
    {kTVMFFISmallBytes, "ffi.SmallBytes"},
    {kTVMFFIUnchanged, "ffi.Unchanged"},
    {kTVMFFIObject, "ffi.Object"},
    {kTVMFFIStr, "ffi.String"},
    {kTVMFFIBytes, "ffi.Bytes"},
    {kTVMFFIError, "ffi.Error"},
    {kTVMFFIFunction, "ffi.Function"},
    {kTVMFFIShape, "ffi.Shape"},
    {kTVMFFITensor, "ffi.Tensor"},
    {kTVMFFIArray, "ffi.Array"},
    {kTVMFFIMap, "ffi.Map"},
    {kTVMFFIModule, "ffi.Module"},
    {kTVMFFIOpaquePyObject, "ffi.OpaquePyObject"},
    {kTVMFFIList, "ffi.List"},
    {kTVMFFIDict, "ffi.Dict"},
    {kTVMFFIVisitInterrupt, "ffi.VisitInterrupt"},
    {kTVMFFIBigInt, "ffi.BigInt"},
};

struct NamedType {
  const char* key;
  const char* parent;
};

// Types that the Python package of TVM FFI looks up when it is imported. Their indices begin at
// kTVMFFIDynObjectBegin.
constexpr NamedType kNamedTypes[] = {
    {"ffi.EnumState", "ffi.Object"},
    {"ffi.Enum", "ffi.Object"},
    {"ffi.IntEnum", "ffi.Enum"},
    {"ffi.StrEnum", "ffi.Enum"},
    {"ffi.reflection.AccessStep", "ffi.Object"},
    {"ffi.reflection.AccessPath", "ffi.Object"},
    {"ffi.StructuralVisitor", "ffi.Object"},
    {"ffi.VisitErrorContext", "ffi.Object"},
    {"ffi.StructuralMutator", "ffi.Object"},
    {"ffi.StructuralKey", "ffi.Object"},
};

// 64-bit FNV-1a.
uint64_t HashKey(std::string_view key) {
  uint64_t hash = 14695981039346656037ULL;
  for (unsigned char c : key) hash = (hash ^ c) * 1099511628211ULL;
  return hash;
}

class TypeTable {
 public:
  mutable std::shared_mutex mutex;

  TypeTable() {
    for (const BuiltinType& builtin : kBuiltinTypes) {
      bool derived = builtin.index > kTVMFFIObject;
      Add({builtin.key, builtin.index, derived ? 1 : 0, 0, true,
           derived ? int32_t{kTVMFFIObject} : kNoParent});
    }
    for (const NamedType& type : kNamedTypes) {
      int32_t parent = indices_.find(type.parent)->second;
      Add({type.key, -1, Find(parent)->type.type_depth + 1, 0, true, parent});
    }
  }

  TypeEntry* Find(int32_t index) const {
    if (index < 0 || index >= kMaxTypes) return nullptr;
    const Chunk* chunk = chunks_[index / kChunkSize].load(std::memory_order_acquire);
    if (chunk == nullptr) return nullptr;
    return (*chunk)[index % kChunkSize].load(std::memory_order_acquire);
  }

  /// kUnknownType if nobody registered the key.
  int32_t FindIndex(std::string_view key) const {
    std::shared_lock lock(mutex);
    auto it = indices_.find(key);
    return it == indices_.end() ? kUnknownType : it->second;
  }

  int32_t GetOrAdd(const TypeRequest& request) {
    std::unique_lock lock(mutex);
    auto it = indices_.find(request.key);
    return it == indices_.end() ? Add(request) : it->second;
  }

  std::vector<std::string_view> Keys() const {
    std::shared_lock lock(mutex);
    std::map<int32_t, std::string_view> by_index;
    for (const auto& [key, index] : indices_) by_index.emplace(index, key);
    std::vector<std::string_view> keys;
    for (const auto& [index, key] : by_index) keys.push_back(key);
    return keys;
  }

 private:
  int32_t Add(const TypeRequest& request) {
    auto entry = std::make_unique<TypeEntry>();
    entry->key = request.key;
    if (request.num_child_slots < 0 || request.num_child_slots >= kMaxTypes) {
      Throw("TypeError", "type '", request.key, "': expected 0 to ", kMaxTypes - 1,
            " child slots, got ", request.num_child_slots);
    }
    entry->num_slots = request.num_child_slots + 1;
    entry->can_overflow = request.can_overflow;
    if (request.parent >= 0) SetAncestors(request, entry.get());
    if (static_cast<int32_t>(entry->ancestors.size()) != request.depth) {
      Throw("TypeError", "type '", request.key, "': expected depth ", entry->ancestors.size(),
            " below its parent, got ", request.depth);
    }
    TVMFFITypeInfo& type = entry->type;
    type.type_index = ClaimIndex(request, entry->num_slots);
    if (type.type_index <= request.parent) {  // which casts to the parent count on
      Throw("TypeError", "type '", request.key,
            "': expected an index above its parent's, which is ", request.parent, ", got ",
            type.type_index);
    }
    type.type_depth = request.depth;
    type.type_key = {entry->key.data(), entry->key.size()};
    type.type_ancestors = entry->ancestors.data();
    type.type_key_hash = HashKey(entry->key);
    indices_.emplace(entry->key, type.type_index);
    Publish(std::move(entry));
    return indices_.find(request.key)->second;
  }

  void SetAncestors(const TypeRequest& request, TypeEntry* entry) const {
    const TypeEntry* parent = Find(request.parent);
    if (parent == nullptr) {
      Throw("TypeError", "type '", request.key, "': expected a registered parent, got index ",
            request.parent);
    }
    entry->ancestors = parent->ancestors;
    entry->ancestors.push_back(&parent->type);
  }

  int32_t ClaimIndex(const TypeRequest& request, int32_t num_slots) {
    if (request.static_index >= 0) {
      if (request.static_index >= kTVMFFIDynObjectBegin) {
        Throw("TypeError", "type '", request.key, "': expected a static index below ",
              int32_t{kTVMFFIDynObjectBegin}, ", got ", request.static_index);
      }
      if (const TypeEntry* owner = Find(request.static_index)) {
        Throw("TypeError", "type '", request.key, "': index ", request.static_index,
              " belongs to '", owner->key, "'");
      }
      return request.static_index;
    }
    TypeEntry* parent = Find(request.parent);
    if (parent != nullptr && parent->used_slots + num_slots <= parent->num_slots) {
      int32_t index = parent->type.type_index + parent->used_slots;
      parent->used_slots += num_slots;
      return index;
    }
    if (parent != nullptr && !parent->can_overflow) {
      Throw("TypeError", "type '", request.key, "': no slot left in its parent '", parent->key,
            "'");
    }
    int32_t index = next_dynamic_;
    if (num_slots > kMaxTypes - index) Throw("RuntimeError", "too many types");
    next_dynamic_ += num_slots;
    return index;
  }

  void Publish(std::unique_ptr<TypeEntry> entry) {
    int32_t index = entry->type.type_index;
    std::atomic<Chunk*>& slot = chunks_[index / kChunkSize];
    Chunk* chunk = slot.load(std::memory_order_relaxed);
    if (chunk == nullptr) {
      chunk = reinterpret_cast<Chunk*>(new std::atomic<TypeEntry*>[kChunkSize]());
      slot.store(chunk, std::memory_order_release);
    }
    (*chunk)[index % kChunkSize].store(entry.release(), std::memory_order_release);
  }

  std::map<std::string, int32_t, std::less<>> indices_;
  int32_t next_dynamic_ = kTVMFFIDynObjectBegin;
  std::atomic<Chunk*> chunks_[kMaxChunks] = {};
};

// Leaked on purpose: libraries use it from their destructors, after ours would have run.
TypeTable& Types() { return TheTable<TypeTable>(); }

}  // namespace

TVMFFITypeInfo* FindType(int32_t type_index) {
  TypeEntry* entry = Types().Find(type_index);
  return entry == nullptr ? nullptr : &entry->type;
}

TVMFFITypeInfo* GetType(int32_t type_index) {
  TVMFFITypeInfo* type = FindType(type_index);
  if (type == nullptr) {
    Throw("RuntimeError", "graphffi: type index ", type_index, ": no such type");
  }
  return type;
}

bool IsInstance(int32_t type_index, int32_t expected) {
  if (type_index == expected) return true;
  if (type_index < kTVMFFIStaticObjectBegin) return false;
  if (expected == kTVMFFIObject) return true;
  const TVMFFITypeInfo* type = FindType(type_index);
  const TVMFFITypeInfo* base = FindType(expected);
  if (type == nullptr || base == nullptr || type->type_depth <= base->type_depth) return false;
  return type->type_ancestors[base->type_depth] == base;
}

std::string_view TypeKey(int32_t type_index) {
  const TVMFFITypeInfo* type = FindType(type_index);
  return type == nullptr ? std::string_view("unknown") : View(type->type_key);
}

std::vector<std::string_view> ListTypeKeys() { return Types().Keys(); }

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFITypeKeyToIndex(const TVMFFIByteArray* type_key, int32_t* out_tindex) {
  return Guard([&] {
    int32_t index = Types().FindIndex(View(*type_key));
    if (index == kUnknownType) {
      Throw("InternalError", "graphffi: type '", View(*type_key), "': no such type");
    }
    *out_tindex = index;
  });
}

int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* type_key, int32_t static_type_index,
                                  int32_t type_depth, int32_t num_child_slots,
                                  int32_t child_slots_can_overflow, int32_t parent_type_index) {
  try {
    int32_t known = Types().FindIndex(View(*type_key));
    if (known != kUnknownType || parent_type_index == kUnknownType) return known;
    return Types().GetOrAdd({View(*type_key), static_type_index, type_depth, num_child_slots,
                             child_slots_can_overflow != 0, parent_type_index});
  } catch (const std::exception& error) {
    ExitWithMessage(error.what());
  }
}

const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index) {
  const TVMFFITypeInfo* type = FindType(type_index);
  if (type == nullptr) {
    ExitWithMessage(Concat("type index ", type_index, ": no such type"));
  }
  return type;
}
