// SPDX-License-Identifier: Apache-2.0
#include "xla_api.h"

#include <algorithm>
#include <mutex>

#include "call/error.h"

namespace graphffi_jax::xla {

using graphffi::Error;

std::atomic<StateType*> state_types{nullptr};

namespace {

constexpr char kStateName[] = "graphffi.site";

std::mutex state_types_mutex;

StateType* FindStateType(const Api* api) {
  StateType* type = state_types.load(std::memory_order_acquire);
  while (type != nullptr && type->api != api) type = type->next;
  return type;
}

Status* RegisterStateType(const Api* api, StateType** out) {
  std::lock_guard<std::mutex> lock(state_types_mutex);
  if ((*out = FindStateType(api)) != nullptr) return nullptr;
  static TypeInfo info{};
  info.struct_size = sizeof(TypeInfo);
  info.deleter = &StateDeleter;
  auto* type = new StateType{api, {0}, state_types.load(std::memory_order_relaxed)};
  TypeRegisterArgs args{};
  // 0.1 has no type_info, and is told its size of the struct.
  args.struct_size = sizeof(TypeRegisterArgs) - (api->version.minor < 2 ? sizeof(void*) : 0);
  args.name = {kStateName, sizeof(kStateName) - 1};
  args.type_id = &type->id;
  args.type_info = &info;
  if (Status* status = api->type_register(&args)) {
    delete type;
    return status;
  }
  state_types.store(type, std::memory_order_release);
  *out = type;
  return nullptr;
}

Status* GetStateType(const Api* api, StateType** out) {
  *out = FindStateType(api);
  return *out != nullptr ? nullptr : RegisterStateType(api, out);
}

void ThrowIfFailed(const Api* api, Status* status, const char* what) {
  if (status == nullptr) return;
  throw Error("RuntimeError", std::string("graphffi: ") + what + ": " + TakeMessage(api, status));
}

}  // namespace

Status* MakeStatus(const Api* api, StatusCode code, const std::string& message) {
  const std::string text = graphffi::PrintableText(message);
  StatusCreateArgs args{};
  args.struct_size = sizeof(args);
  args.message = text.c_str();
  args.code = code;
  return api->status_create(&args);
}

std::string TakeMessage(const Api* api, Status* status) {
  StatusMessageArgs message{};
  message.struct_size = sizeof(message);
  message.status = status;
  api->status_message(&message);
  std::string text = message.message != nullptr ? message.message : "";
  StatusDestroyArgs destroy{};
  destroy.struct_size = sizeof(destroy);
  destroy.status = status;
  api->status_destroy(&destroy);
  return text;
}

Status* ReplyMetadata(const Call& call, const MetadataExtension& extension, uint32_t traits) {
  Metadata* metadata = extension.metadata;
  metadata->version.struct_size = sizeof(ApiVersion);
  metadata->version.extension = nullptr;
  metadata->version.major = kNewestMajor;
  metadata->traits = traits;
  if (call.api == nullptr) {
    metadata->version.minor = 1;
    return nullptr;
  }
  metadata->version.minor = std::min(kNewestMinor, call.api->version.minor);
  // An unknown runtime may turn the reply above down, with a message of its own; else we refuse
  // calls.
  if (!IsKnown(call.api->version) || call.api->version.minor < 2) return nullptr;
  StateType* type;
  if (Status* status = GetStateType(call.api, &type)) return status;
  metadata->state_type_id = type->id;
  return nullptr;
}

Status* SetState(const Call& call, void* state) {
  StateType* type;
  if (Status* status = GetStateType(call.api, &type)) return status;
  auto set = [&](auto args) {
    args.struct_size = sizeof(args);
    args.context = call.context;
    args.type_id = &type->id;
    args.state = state;
    return call.api->state_set(&args);
  };
  if (call.api->version.minor >= 3) {
    StateArgs03 args{};
    args.stage = kInstantiate;
    return set(args);
  }
  if (call.api->version.minor == 2) return set(StateArgs02{});
  StateSetArgs01 args{};
  args.deleter = &StateDeleter;
  return set(args);
}

Status* GetStateOfAny(const Call& call, void** out) {
  StateType* type;
  if (Status* status = GetStateType(call.api, &type)) return status;
  if (call.api->version.minor >= 3) return GetState03(call, type, out);
  StateArgs02 args{};
  args.struct_size = sizeof(args);
  args.context = call.context;
  args.type_id = &type->id;
  Status* status = call.api->state_get(&args);
  *out = args.state;
  return status;
}

void* GetStream(const Call& call) {
  StreamGetArgs args{};
  args.struct_size = sizeof(args);
  args.context = call.context;
  ThrowIfFailed(call.api, call.api->stream_get(&args), "cannot get the stream");
  return args.stream;
}

int32_t GetDeviceOrdinal(const Call& call) {
  if (call.api->struct_size < sizeof(Api)) {
    throw Error("RuntimeError", "graphffi: this jaxlib does not tell the device of a call");
  }
  DeviceOrdinalArgs args{};
  args.struct_size = sizeof(args);
  args.context = call.context;
  ThrowIfFailed(call.api, call.api->device_ordinal_get(&args), "cannot get the device");
  return args.ordinal;
}

}  // namespace graphffi_jax::xla
