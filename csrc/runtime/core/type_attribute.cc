// SPDX-License-Identifier: Apache-2.0
// Attributes of types, one column per attribute. Columns are read without a lock by code in other
// libraries, so a column never moves, its begin_index stays 0, and arrays that it outgrew are kept.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "error.h"
#include "fork.h"
#include "type_registry.h"

namespace graphffi::runtime {
namespace {

struct AttributeColumn {
  TVMFFITypeAttrColumn column = {nullptr, 0, 0};
  std::vector<std::unique_ptr<TVMFFIAny[]>> arrays;  // The last one is column.data.
  int32_t capacity = 0;
};

struct AttributeTable {
  std::shared_mutex mutex;
  std::map<std::string, AttributeColumn, std::less<>> columns;  // Its nodes do not move.

  // Kernels look these up once and keep what they got: the columns exist before the first value
  // does.
  AttributeTable() {
    for (const char* name : {"__any_hash__", "__any_equal__", "__ffi_enum__"}) columns[name];
  }
};

AttributeTable& Attributes() { return TheTable<AttributeTable>(); }

/// Makes room for `size` entries; the new ones are None.
void Grow(AttributeColumn* attribute, int32_t size) {
  TVMFFITypeAttrColumn* column = &attribute->column;
  if (size <= column->size) return;
  if (size > attribute->capacity) {
    int32_t capacity = attribute->capacity == 0 ? 128 : attribute->capacity;
    while (capacity < size) capacity *= 2;
    auto values = std::make_unique<TVMFFIAny[]>(capacity);
    std::fill_n(values.get(), capacity, kNone);
    std::copy_n(column->data, column->size, values.get());
    attribute->arrays.push_back(std::move(values));
    attribute->capacity = capacity;
    __atomic_store_n(&column->data, attribute->arrays.back().get(), __ATOMIC_RELEASE);
  }
  __atomic_store_n(&column->size, size, __ATOMIC_RELEASE);
}

}  // namespace

void RegisterTypeAttr(int32_t type_index, std::string_view name, const TVMFFIAny& value) {
  if (type_index != kTVMFFINone) GetType(type_index);
  Any owned = type_index == kTVMFFINone ? Any() : Any::FromView(value);
  AttributeTable& table = Attributes();
  std::unique_lock lock(table.mutex);
  AttributeColumn& attribute = table.columns[std::string(name)];
  if (type_index == kTVMFFINone) return;
  Grow(&attribute, type_index + 1);
  TVMFFIAny* entry = &attribute.arrays.back()[type_index];
  if (entry->type_index != kTVMFFINone) {
    lock.unlock();
    Throw("RuntimeError", "graphffi: type '", TypeKey(type_index), "': attribute '", name,
          "' is already registered");
  }
  // The payload first: a reader that sees the type sees the value too.
  TVMFFIAny released = owned.Release();
  entry->small_str_len = released.small_str_len;
  entry->v_uint64 = released.v_uint64;
  __atomic_store_n(&entry->type_index, released.type_index, __ATOMIC_RELEASE);
}

}  // namespace graphffi::runtime

using namespace graphffi::runtime;

int TVMFFITypeRegisterAttr(int32_t type_index, const TVMFFIByteArray* attr_name,
                           const TVMFFIAny* attr_value) {
  return Guard([&] { RegisterTypeAttr(type_index, View(*attr_name), *attr_value); });
}

const TVMFFITypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* attr_name) {
  AttributeTable& table = Attributes();
  std::shared_lock lock(table.mutex);
  auto it = table.columns.find(View(*attr_name));
  return it == table.columns.end() ? nullptr : &it->second.column;
}
