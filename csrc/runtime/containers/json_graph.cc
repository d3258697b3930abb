// SPDX-License-Identifier: Apache-2.0
// ffi.ToJSONGraph and ffi.FromJSONGraph: values as a list of nodes that name each other by index,
// so that what is shared stays so. A node is {"type": key, "data": …}.
#include <tvm/ffi/big_int.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/enum.h>
#include <tvm/ffi/extra/base64.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/reflection/creator.h>
#include <tvm/ffi/reflection/registry.h>

#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/structural/structural.h"

namespace graphffi::runtime {
namespace {

namespace json = tvm::ffi::json;

constexpr char kGraphError[] = "Invalid JSON Object Graph";

/// Fields of these types hold the data itself, others the index of a node.
bool IsStoredInPlace(const TVMFFIFieldInfo* field) {
  switch (field->field_static_type_index) {
    case kTVMFFIInt:
    case kTVMFFIBool:
    case kTVMFFIFloat:
    case kTVMFFIDataType:
      return true;
    default:
      return false;
  }
}

bool IsEnum(int32_t type_index) {
  return ffi::detail::IsObjectInstance<ffi::EnumObj>(type_index) &&
         ffi::detail::FindEnumState(type_index).has_value();
}

class GraphWriter {
 public:
  json::Value Write(const Any& value, const Any& metadata) {
    int64_t root = Node(value);
    json::Object graph{{"root_index", root}, {"nodes", std::move(nodes_)}};
    if (metadata != nullptr) graph.Set("metadata", metadata);
    return graph;
  }

 private:
  int64_t Node(const Any& value) {
    auto known = indices_.find(value);
    if (known != indices_.end()) return known->second;
    StackGuard guard(&depth_);
    json::Object node{{"type", ffi::TypeIndexToTypeKey(KindOf(value))}};
    if (value != nullptr) node.Set("data", Data(value));
    auto index = static_cast<int64_t>(nodes_.size());
    nodes_.push_back(std::move(node));
    indices_.emplace(value, index);
    return index;
  }

  Any Data(const Any& value) {
    switch (KindOf(value)) {
      case kTVMFFIInt:
      case kTVMFFIBool:
      case kTVMFFIFloat:
      case kTVMFFIStr:
        return value;
      case kTVMFFIBytes:
        return ffi::Base64Encode(value.cast<ffi::Bytes>());
      case kTVMFFIDataType:
        return ffi::DLDataTypeToString(value.cast<DLDataType>());
      case kTVMFFIDevice: {
        auto device = value.cast<DLDevice>();
        return json::Array{static_cast<int64_t>(device.device_type), device.device_id};
      }
      case kTVMFFIShape: {
        auto shape = value.cast<ffi::Shape>();
        return json::Array(shape.begin(), shape.end());
      }
      case kTVMFFIBigInt: {
        std::ostringstream digits;
        digits << value.cast<ffi::BigInt>();
        return ffi::String(digits.str());
      }
      case kTVMFFIArray:
      case kTVMFFIList:
        return NodesOf(Items(value));
      case kTVMFFIMap:
      case kTVMFFIDict:
        return NodesOfEntries(Entries(value));
      default:
        break;
    }
    const auto* object = value.as<Object>();
    if (object == nullptr) {
      TVM_FFI_THROW(RuntimeError) << "Cannot serialize type `" << value.GetTypeKey() << "`";
    }
    return ObjectData(value, object);
  }

  json::Array NodesOf(Items items) {
    json::Array data;
    for (const Any& item : items) data.push_back(Node(item));
    return data;
  }
  json::Array NodesOfEntries(Entries entries) {
    json::Array data;
    for (const auto& [key, value] : entries) {
      data.push_back(Node(key));
      data.push_back(Node(value));
    }
    return data;
  }

  Any ObjectData(const Any& value, const Object* object) {
    int32_t index = object->type_index();
    if (auto own = OwnFunction(ffi::type_attr::kDataToJson.name, index)) return (*own)(value);
    if (IsEnum(index)) return EnumData(value);
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(index);
    if (!ffi::HasCreator(type)) {
      TVM_FFI_THROW(TypeError) << "Type `" << ffi::TypeIndexToTypeKey(index)
                               << "` does not support ToJSONGraph (no native creator or "
                                  "__ffi_new__ type attr)";
    }
    json::Object data;
    refl::ForEachFieldInfo(type, [&](const TVMFFIFieldInfo* field) {
      Any item = refl::FieldGetter(field)(object);
      data.Set(ffi::String(field->name), IsStoredInPlace(field) ? Data(item) : Any(Node(item)));
    });
    return data;
  }

  static Any EnumData(const Any& value) {
    if (value.as<ffi::IntEnumObj>() != nullptr) return value.cast<ffi::Enum>()->_int_index;
    return value.cast<ffi::Enum>()->_str_index;
  }

  json::Array nodes_;
  std::unordered_map<Any, int64_t, ffi::AnyHash, ffi::AnyEqual> indices_;
  int depth_ = 0;
};

/// The entry of a JSON object. \throws Error(ValueError) if there is none of that type
template <typename T>
T Member(const json::Object& object, const char* name, const char* expected) {
  if (object.count(name) != 0) {
    if (auto member = object.at(name).template as<T>()) return *std::move(member);
  }
  TVM_FFI_THROW(ValueError) << kGraphError << ", expected `" << name << "` " << expected
                            << " field";
  TVM_FFI_UNREACHABLE();
}

class GraphReader {
 public:
  explicit GraphReader(const json::Value& graph) {
    auto object = graph.as<json::Object>();
    if (!object) TVM_FFI_THROW(ValueError) << kGraphError << ", expected an object";
    root_ = Member<int64_t>(*object, "root_index", "integer");
    nodes_ = Member<json::Array>(*object, "nodes", "array");
    values_.resize(nodes_.size());
  }

  Any Read() { return Node(root_); }

 private:
  Any Node(int64_t index) {
    if (index < 0 || index >= static_cast<int64_t>(nodes_.size())) {
      TVM_FFI_THROW(ValueError) << kGraphError << ": invalid node index " << index;
    }
    std::optional<Any>& known = values_[static_cast<size_t>(index)];
    if (known.has_value()) return *known;
    StackGuard guard(&depth_);  // A node may name itself.
    auto node = nodes_[index].as<json::Object>();
    if (!node) TVM_FFI_THROW(ValueError) << kGraphError << ", expected node objects";
    int32_t type_index = ffi::TypeKeyToIndex(Member<ffi::String>(*node, "type", "string"));
    if (type_index == kTVMFFINone) {
      known = Any();
    } else if (node->count("data") != 0) {
      known = Value(type_index, node->at("data"));
    } else {
      TVM_FFI_THROW(ValueError) << kGraphError << ", expected `data` field";
    }
    return *known;
  }
  Any Node(const Any& index) { return Node(index.cast<int64_t>()); }

  Any Value(int32_t type_index, const Any& data) {
    switch (type_index) {
      case kTVMFFIInt:
        return data.cast<int64_t>();
      case kTVMFFIBool:
        return data.cast<bool>();
      case kTVMFFIFloat:
        return data.cast<double>();
      case kTVMFFIStr:
        return data.cast<ffi::String>();
      case kTVMFFIBytes:
        return ffi::Base64Decode(data.cast<ffi::String>());
      case kTVMFFIDataType:
        return ffi::StringToDLDataType(data.cast<ffi::String>());
      case kTVMFFIDevice:
        return Device(data.cast<json::Array>());
      case kTVMFFIShape:
        return ffi::Shape(data.cast<ffi::Array<int64_t>>());
      case kTVMFFIBigInt:
        return BigInt(data.cast<ffi::String>());
      case kTVMFFIArray:
        return ReadItems<ffi::Array<Any>>(data.cast<json::Array>());
      case kTVMFFIList:
        return ReadItems<ffi::List<Any>>(data.cast<json::Array>());
      case kTVMFFIMap:
        return ReadEntries<ffi::Map<Any, Any>>(data.cast<json::Array>());
      case kTVMFFIDict:
        return ReadEntries<ffi::Dict<Any, Any>>(data.cast<json::Array>());
      default:
        return ObjectOf(type_index, data);
    }
  }

  static DLDevice Device(const json::Array& data) {
    if (data.size() != 2) {
      TVM_FFI_THROW(ValueError) << kGraphError
                                << ": Device data must be an array of [device_type, device_id], "
                                   "got "
                                << data.size() << " element(s)";
    }
    return {static_cast<DLDeviceType>(data[0].cast<int32_t>()), data[1].cast<int32_t>()};
  }
  static ffi::BigInt BigInt(const ffi::String& text) {
    std::istringstream digits{std::string(text)};
    ffi::BigInt value;
    digits >> std::noskipws >> value;
    if (!digits || digits.peek() != std::istringstream::traits_type::eof()) {
      TVM_FFI_THROW(ValueError) << "Invalid decimal string for ffi.BigInt";
    }
    return value;
  }

  template <typename Sequence>
  Sequence ReadItems(const json::Array& data) {
    Sequence items;
    items.reserve(static_cast<int64_t>(data.size()));
    for (const Any& index : data) items.push_back(Node(index));
    return items;
  }
  template <typename Map>
  Map ReadEntries(const json::Array& data) {
    if (data.size() % 2 != 0) {
      TVM_FFI_THROW(ValueError) << kGraphError
                                << ": Map/Dict data must contain an even number of [key, value] "
                                   "entries, got "
                                << data.size();
    }
    Map entries;
    for (size_t i = 0; i < data.size(); i += 2) {
      auto at = static_cast<int64_t>(i);
      entries.Set(Node(data[at]), Node(data[at + 1]));
    }
    return entries;
  }

  Any ObjectOf(int32_t type_index, const Any& data) {
    if (auto own = OwnFunction(ffi::type_attr::kDataFromJson.name, type_index)) {
      return (*own)(data);
    }
    if (IsEnum(type_index)) {
      if (auto index = data.as<int64_t>()) return ffi::EnumObj::_GetByIntIndex(type_index, *index);
      return ffi::EnumObj::_GetByStrIndex(type_index, data.cast<ffi::String>());
    }
    const TVMFFITypeInfo* type = TVMFFIGetTypeInfo(type_index);
    ffi::ObjectPtr<Object> object = ffi::CreateEmptyObject(type);
    auto members = data.cast<json::Object>();
    refl::ForEachFieldInfo(
        type, [&](const TVMFFIFieldInfo* field) { SetField(object.get(), field, members); });
    return ffi::ObjectRef(std::move(object));
  }

  void SetField(Object* object, const TVMFFIFieldInfo* field, const json::Object& members) {
    ffi::String name(field->name);
    void* address = reinterpret_cast<char*>(object) + field->offset;
    if (members.count(name) != 0) {
      const Any& data = members.at(name);
      Any item = IsStoredInPlace(field) ? Value(field->field_static_type_index, data) : Node(data);
      refl::FieldSetter set(field);
      set(object, item);
    } else if ((field->flags & kTVMFFIFieldFlagBitMaskHasDefault) != 0) {
      refl::SetFieldToDefault(field, address);
    } else {
      TVM_FFI_THROW(TypeError) << "Required field `" << name << "` not set in type `"
                               << object->GetTypeKey() << "`";
    }
  }

  int64_t root_ = 0;
  json::Array nodes_;
  std::vector<std::optional<Any>> values_;
  int depth_ = 0;
};

json::Value ToGraph(const Any& value, const Any& metadata) {
  return GraphWriter().Write(value, metadata);
}
Any FromGraph(const json::Value& graph) { return GraphReader(graph).Read(); }

TVM_FFI_STATIC_INIT_BLOCK() {
  refl::GlobalDef()
      .def("ffi.ToJSONGraph", ToGraph)
      .def("ffi.ToJSONGraphString",
           [](const Any& value, const Any& metadata) {
             return json::Stringify(ToGraph(value, metadata));
           })
      .def("ffi.FromJSONGraph", FromGraph)
      .def("ffi.FromJSONGraphString",
           [](const ffi::String& text) { return FromGraph(json::Parse(text)); });
}

}  // namespace
}  // namespace graphffi::runtime
