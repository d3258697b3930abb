// SPDX-License-Identifier: Apache-2.0
#include "containers.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>

#include <utility>

namespace graphffi::runtime {
namespace {

namespace ffi = tvm::ffi;
using ffi::detail::AnyUnsafe;

ffi::Any ToHeaders(Any value) { return AnyUnsafe::MoveTVMFFIAnyToAny(value.Release()); }

template <typename T>
ObjectPtr<> FromHeaders(ffi::ObjectPtr<T> object) {
  return ObjectPtr<>::Steal(
      ffi::detail::ObjectUnsafe::MoveObjectPtrToTVMFFIObjectPtr(std::move(object)));
}

/// An object as a class of the headers; borrowed.
template <typename T>
T* As(TVMFFIObject* object) {
  return static_cast<T*>(reinterpret_cast<ffi::Object*>(object));
}

}  // namespace

ObjectPtr<> MakeArray(std::vector<Any> items) {
  auto array = ffi::ArrayObj::Empty(items.size());
  for (Any& item : items) array->Append(ToHeaders(std::move(item)));
  return FromHeaders(std::move(array));
}

std::vector<Any> ItemsOf(TVMFFIObject* opt_array) {
  std::vector<Any> items;
  if (opt_array == nullptr) return items;
  for (const ffi::Any& item : *As<ffi::ArrayObj>(opt_array)) {
    items.push_back(Any::FromView(*AnyUnsafe::TVMFFIAnyPtrFromAny(item)));
  }
  return items;
}

const TVMFFIAny* FindInMap(TVMFFIObject* opt_map, const TVMFFIAny& key) {
  if (opt_map == nullptr) return nullptr;
  const auto& map = *As<ffi::MapObj>(opt_map);
  const auto found = map.find(ToHeaders(Any::FromView(key)));
  return found == map.end() ? nullptr : AnyUnsafe::TVMFFIAnyPtrFromAny(found->second);
}

ObjectPtr<> MapWith(TVMFFIObject* opt_map, Any key, Any value) {
  auto map = opt_map == nullptr ? ffi::MapBaseObj::Empty<ffi::MapObj>()
                                : ffi::MapBaseObj::CopyFrom<ffi::MapObj>(As<ffi::MapObj>(opt_map));
  map->InsertOrAssign(ToHeaders(std::move(key)), ToHeaders(std::move(value)));
  return FromHeaders(std::move(map));
}

}  // namespace graphffi::runtime
