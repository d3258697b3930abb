// SPDX-License-Identifier: Apache-2.0
// Fields, methods and metadata that libraries register for their types. Strings are copied, values
// retained; nothing is freed, because readers hold borrowed pointers without a lock.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/core/error.h"
#include "runtime/core/fork.h"
#include "runtime/core/type_registry.h"

namespace graphffi::runtime {
namespace {

/// A copy of the text for the rest of the process.
TVMFFIByteArray Keep(const TVMFFIByteArray& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size + 1));
  if (copy == nullptr) throw std::bad_alloc();
  if (text.size != 0) std::memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  return {copy, text.size};
}

/// Grows by doubling into a new array, so that a reader of the old one still sees what it saw.
template <typename T>
class PublishedArray {
 public:
  void Append(const T& item, const T** array, int32_t* size) {
    if (*size == capacity_) {
      capacity_ = capacity_ == 0 ? 4 : capacity_ * 2;
      auto grown = std::make_unique<T[]>(capacity_);
      std::copy_n(*array, *size, grown.get());
      arrays_.push_back(std::move(grown));
    }
    arrays_.back()[*size] = item;
    __atomic_store_n(array, arrays_.back().get(), __ATOMIC_RELEASE);
    __atomic_store_n(size, *size + 1, __ATOMIC_RELEASE);
  }

 private:
  std::vector<std::unique_ptr<T[]>> arrays_;  // The last one is current.
  int32_t capacity_ = 0;
};

struct Reflection {
  PublishedArray<TVMFFIFieldInfo> fields;
  PublishedArray<TVMFFIMethodInfo> methods;
};

struct ReflectionTable {
  std::mutex mutex;
  std::map<int32_t, Reflection> types;
};

ReflectionTable& Reflections() { return TheTable<ReflectionTable>(); }

TVMFFIFieldInfo KeepField(const TVMFFIFieldInfo& field) {
  TVMFFIFieldInfo kept = field;
  kept.name = Keep(field.name);
  kept.doc = Keep(field.doc);
  kept.metadata = Keep(field.metadata);
  if (field.flags &
      (kTVMFFIFieldFlagBitMaskHasDefault | kTVMFFIFieldFlagBitMaskDefaultFromFactory)) {
    kept.default_value_or_factory = Any::FromView(field.default_value_or_factory).Release();
  } else {
    kept.default_value_or_factory = kNone;
  }
  if ((field.flags & kTVMFFIFieldFlagBitSetterIsFunctionObj) && field.setter != nullptr) {
    IncRef(static_cast<TVMFFIObject*>(field.setter));
  }
  return kept;
}

void RegisterField(int32_t type_index, const TVMFFIFieldInfo& field) {
  TVMFFITypeInfo* type = GetType(type_index);
  ReflectionTable& table = Reflections();
  std::lock_guard lock(table.mutex);
  for (int32_t i = 0; i < type->num_fields; ++i) {
    if (View(type->fields[i].name) == View(field.name)) {
      Throw("RuntimeError", "graphffi: type '", View(type->type_key), "': field '",
            View(field.name), "' is already registered");
    }
  }
  table.types[type_index].fields.Append(KeepField(field), &type->fields, &type->num_fields);
}

void RegisterMethod(int32_t type_index, const TVMFFIMethodInfo& method) {
  TVMFFITypeInfo* type = GetType(type_index);
  TVMFFIMethodInfo kept = method;
  kept.name = Keep(method.name);
  kept.doc = Keep(method.doc);
  kept.metadata = Keep(method.metadata);
  kept.method = Any::FromView(method.method).Release();
  ReflectionTable& table = Reflections();
  std::lock_guard lock(table.mutex);
  table.types[type_index].methods.Append(kept, &type->methods, &type->num_methods);
}

void RegisterMetadata(int32_t type_index, const TVMFFITypeMetadata& metadata) {
  TVMFFITypeInfo* type = GetType(type_index);
  ReflectionTable& table = Reflections();
  std::lock_guard lock(table.mutex);
  if (type->metadata != nullptr) {
    Throw("RuntimeError", "graphffi: type '", View(type->type_key),
          "': metadata is already registered");
  }
  auto* kept = new TVMFFITypeMetadata(metadata);
  kept->doc = Keep(metadata.doc);
  __atomic_store_n(&type->metadata, kept, __ATOMIC_RELEASE);
}

}  // namespace
}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFITypeRegisterField(int32_t type_index, const TVMFFIFieldInfo* info) {
  return Guard([&] { RegisterField(type_index, *info); });
}

int TVMFFITypeRegisterMethod(int32_t type_index, const TVMFFIMethodInfo* info) {
  return Guard([&] { RegisterMethod(type_index, *info); });
}

int TVMFFITypeRegisterMetadata(int32_t type_index, const TVMFFITypeMetadata* metadata) {
  return Guard([&] { RegisterMetadata(type_index, *metadata); });
}
