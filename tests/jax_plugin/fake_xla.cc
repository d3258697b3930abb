// SPDX-License-Identifier: Apache-2.0
// An XLA of any API version, for handlers: each struct that it gets must have that version's size
// and layout.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "xla_ffi.h"

namespace x = graphffi_jax::xla;

struct x::Status {
  int code;
  std::string message;
};

struct x::Context {
  void* state = nullptr;
  void (*deleter)(void*) = nullptr;
};

namespace {

constexpr int64_t kTypeId = 42;
constexpr int32_t kOrdinal = 3;
void* const kStream = reinterpret_cast<void*>(0x5000);

int minor_version;
void (*type_deleter)(void*);
std::string* log;
int live_statuses;
int live_blocks;

x::Status* NewStatus(int code, const std::string& message) {
  ++live_statuses;
  return new x::Status{code, message};
}
x::Status* StatusCreate(x::StatusCreateArgs* args) { return NewStatus(args->code, args->message); }
void StatusMessage(x::StatusMessageArgs* args) {
  args->message = args->status->message.c_str();
  if (minor_version >= 4) args->code = static_cast<x::StatusCode>(args->status->code);
}
void StatusDestroy(x::StatusDestroyArgs* args) {
  --live_statuses;
  delete args->status;
}

x::Status* Expect(const char* what, size_t expected, size_t got) {
  if (expected == got) return nullptr;
  return NewStatus(3, std::string(what) + ": expected " + std::to_string(expected) +
                          " bytes, got " + std::to_string(got));
}

x::Status* TypeRegister(x::TypeRegisterArgs* args) {
  size_t size = minor_version == 1 ? sizeof(x::TypeRegisterArgs) - 8 : sizeof(x::TypeRegisterArgs);
  if (auto* status = Expect("type_register", size, args->struct_size)) return status;
  args->type_id->value = kTypeId;
  if (minor_version > 1) type_deleter = args->type_info->deleter;
  return nullptr;
}

template <typename Args>
x::Status* Check(const char* what, const Args& args) {
  if (auto* status = Expect(what, sizeof(Args), args.struct_size)) return status;
  return args.type_id->value == kTypeId ? nullptr : NewStatus(3, "wrong type id");
}

x::Status* StateSet(void* raw) {
  auto set = [](auto& args, void (*deleter)(void*)) {
    if (auto* status = Check("state_set", args)) return status;
    args.context->state = args.state;
    args.context->deleter = deleter;
    return static_cast<x::Status*>(nullptr);
  };
  if (minor_version == 1) {
    auto& args = *static_cast<x::StateSetArgs01*>(raw);
    return set(args, args.deleter);
  }
  if (minor_version == 2) return set(*static_cast<x::StateArgs02*>(raw), type_deleter);
  auto& args = *static_cast<x::StateArgs03*>(raw);
  if (args.stage != x::kInstantiate) return NewStatus(3, "wrong stage");
  return set(args, type_deleter);
}

x::Status* StateGet(void* raw) {
  auto get = [](auto& args) {
    if (auto* status = Check("state_get", args)) return status;
    args.state = args.context->state;
    return static_cast<x::Status*>(nullptr);
  };
  if (minor_version < 3) return get(*static_cast<x::StateArgs02*>(raw));
  auto& args = *static_cast<x::StateArgs03*>(raw);
  if (args.stage != x::kInstantiate) return NewStatus(3, "wrong stage");
  return get(args);
}

x::Status* StreamGet(x::StreamGetArgs* args) {
  args->stream = kStream;
  return nullptr;
}
x::Status* DeviceOrdinalGet(x::DeviceOrdinalArgs* args) {
  args->ordinal = kOrdinal;
  return nullptr;
}
x::Status* MemoryAllocate(x::MemoryAllocateArgs* args) {
  if (args->alignment > 16) return NewStatus(3, "alignment");
  if (args->size > 1 << 20) return NewStatus(8, "out of scratch memory");
  args->data = std::malloc(args->size);
  ++live_blocks;
  return nullptr;
}
x::Status* MemoryFree(x::MemoryFreeArgs* args) {
  std::free(args->data);
  --live_blocks;
  return nullptr;
}

/// One set of functions per version: the plugin keeps a type id for each Api that it has seen.
x::Api* ApiOf(int major, int minor) {
  static std::vector<x::Api*> apis;
  for (x::Api* api : apis) {
    if (api->version.major == major && api->version.minor == minor) return api;
  }
  auto* api = new x::Api{};
  api->struct_size = sizeof(x::Api);
  api->version.struct_size = sizeof(x::ApiVersion);
  api->version.major = major;
  api->version.minor = minor;
  api->status_create = StatusCreate;
  api->status_message = StatusMessage;
  api->status_destroy = StatusDestroy;
  api->type_register = TypeRegister;
  api->state_set = StateSet;
  api->state_get = StateGet;
  api->stream_get = StreamGet;
  api->device_ordinal_get = DeviceOrdinalGet;
  api->memory_allocate = MemoryAllocate;
  api->memory_free = MemoryFree;
  apis.push_back(api);
  return api;
}

bool Report(const char* what, x::Status* status) {
  *log += std::string(what) + ": ";
  if (status == nullptr) {
    *log += "ok\n";
    return true;
  }
  *log += "error " + std::to_string(status->code) + ": " + status->message + "\n";
  x::StatusDestroyArgs args{};
  args.status = status;
  StatusDestroy(&args);
  return false;
}

}  // namespace

extern "C" {

struct Options {
  int32_t major, minor;
  x::Handler* instantiate;
  x::Handler* execute;
  const char* func;
  const char* plan;
  int32_t execute_stage;  // what the call frame of the execution says
  int32_t frame_size;     // 0: the right one
  int32_t token;          // the operand is a token
};

/// Registers, instantiates and executes func(float32[4]) -> float32[4]. Returns what happened;
/// borrowed.
__attribute__((visibility("default"))) const char* fake_xla_run(const Options* options) {
  static std::string text;
  text.clear();
  log = &text;
  minor_version = options->minor;
  live_statuses = live_blocks = 0;
  x::Api* api = ApiOf(options->major, options->minor);

  x::Metadata metadata{};
  metadata.struct_size = sizeof(x::Metadata);
  metadata.state_type_id.value = -1;
  x::MetadataExtension extension{};
  extension.struct_size = sizeof(extension);
  extension.type = x::kMetadataExtension;
  extension.metadata = &metadata;
  x::Call call{};
  call.struct_size = sizeof(call);
  call.extension = &extension;
  call.api = options->minor == 1 ? nullptr : api;
  if (!Report("metadata", options->execute(&call))) return text.c_str();
  text += "version " + std::to_string(metadata.version.major) + "." +
          std::to_string(metadata.version.minor) + " traits " + std::to_string(metadata.traits) +
          " type " + std::to_string(metadata.state_type_id.value) + "\n";

  x::Context context;
  const std::string call_text = std::string("tvm_ffi.call 2\nkernel ") + options->func +
                                (*options->plan ? std::string("\nplan ") + options->plan : "");
  x::ByteSpan name = {"call", 4}, value = {call_text.data(), call_text.size()};
  x::ByteSpan* names[] = {&name};
  void* values[] = {&value};
  x::AttributeTag tags[] = {x::kString};
  call.extension = nullptr;
  call.api = api;
  call.context = &context;
  call.stage = x::kInstantiate;
  call.attributes.size = 1;
  call.attributes.tags = tags;
  call.attributes.names = names;
  call.attributes.values = values;
  if (!Report("instantiate", options->instantiate(&call))) return text.c_str();

  float in[4] = {1, 2, 3, 4}, out[4] = {};
  int64_t dims[] = {4};
  x::Buffer x_in{}, x_out{};
  x_in.struct_size = x_out.struct_size = sizeof(x::Buffer);
  x_in.dtype = options->token ? x::kToken : x::kF32;
  x_out.dtype = x::kF32;
  x_in.data = in;
  x_out.data = out;
  x_in.rank = x_out.rank = 1;
  x_in.dims = x_out.dims = dims;
  x::BufferTag buffer_tags[] = {x::kBuffer};
  void* args[] = {&x_in};
  void* rets[] = {&x_out};
  call.args.size = call.rets.size = 1;
  call.args.tags = call.rets.tags = buffer_tags;
  call.args.buffers = args;
  call.rets.buffers = rets;
  call.stage = static_cast<x::Stage>(options->execute_stage);
  if (options->frame_size) call.struct_size = options->frame_size;
  if (Report("execute", options->execute(&call))) {
    char line[64];
    std::snprintf(line, sizeof(line), "out %g %g %g %g\n", out[0], out[1], out[2], out[3]);
    text += line;
  }
  if (context.deleter != nullptr) context.deleter(context.state);
  text += context.deleter != nullptr ? "state deleted\n" : "state leaked\n";
  text += "left " + std::to_string(live_statuses) + " errors, " + std::to_string(live_blocks) +
          " blocks\n";
  return text.c_str();
}

}  // extern "C"
