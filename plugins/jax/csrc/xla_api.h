// SPDX-License-Identifier: Apache-2.0
// The handlers' requests to XLA, in the layout of the API version at hand.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "xla_ffi.h"

namespace graphffi_jax::xla {

/// The newest API whose layouts are known here. A runtime that claims less gets less.
constexpr int32_t kNewestMajor = 0, kNewestMinor = 5;

/// Whether structs may be exchanged with such a runtime: minor versions have changed layouts, too.
inline bool IsKnown(const ApiVersion& version) {
  return version.major == kNewestMajor && version.minor <= kNewestMinor;
}

/// A new error for XLA, which takes it over. `message` may hold any bytes.
Status* MakeStatus(const Api* api, StatusCode code, const std::string& message);

/// The text of an error of XLA's, which is destroyed.
std::string TakeMessage(const Api* api, Status* status);

/// Answers "who are you": the version that both sides know, the traits, the type of the state.
Status* ReplyMetadata(const Call& call, const MetadataExtension& extension, uint32_t traits);

/// Attaches `state` to the call site. XLA then owns it and calls `StateDeleter` on it; on failure
/// the caller does. Returns an error of XLA's, or NULL.
Status* SetState(const Call& call, void* state);

/// The type id of our state in the registry of one copy of XLA (each backend plugin has its own).
struct StateType {
  const Api* api;
  TypeId id;
  StateType* next;
};
/// The types that are registered. Never freed: XLA keeps pointers into the entries for the rest of
/// the process.
extern std::atomic<StateType*> state_types;

/// GetState where the type is not the one that was registered last, or the API is older than 0.3.
Status* GetStateOfAny(const Call& call, void** out);

/// GetState since API 0.3.
inline Status* GetState03(const Call& call, StateType* type, void** out) {
  StateArgs03 args{};
  args.struct_size = sizeof(args);
  args.context = call.context;
  args.stage = kInstantiate;
  args.type_id = &type->id;
  Status* status = call.api->state_get(&args);
  *out = args.state;
  return status;
}

/// *out is what SetState was given; borrowed.
inline Status* GetState(const Call& call, void** out) {
  StateType* type = state_types.load(std::memory_order_acquire);
  const bool is_usual = type != nullptr && type->api == call.api && call.api->version.minor >= 3;
  return is_usual ? GetState03(call, type, out) : GetStateOfAny(call, out);
}

/// Defined by the code whose state it is.
void StateDeleter(void* state);

/// \throws Error(RuntimeError) with XLA's text.
void* GetStream(const Call& call);
int32_t GetDeviceOrdinal(const Call& call);

}  // namespace graphffi_jax::xla
