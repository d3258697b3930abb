// SPDX-License-Identifier: Apache-2.0
// Functions of the process's registry, by name. Where the registry has no lock, all but FindShared
// and Share take the GIL: no lock may be held that a thread with the GIL waits for.
#pragma once

#include <tvm/ffi/any.h>
#include <tvm/ffi/c_api.h>

#include <string_view>

#include "call/object_ref.h"

namespace graphffi {

/// Nothing where there is none. \throws Error
ObjectRef FindGlobal(std::string_view name);

/// FindGlobal for a function that must exist. \throws Error(RuntimeError)
ObjectRef FindRequired(std::string_view name);

/// The pointer that a function of that name returns; NULL if there is none. With it, graphffi's
/// libraries, each of which has a copy of this code, share state. Takes no lock: static
/// initialisers of libraries run under the loader's. \throws Error
void* FindShared(std::string_view name);

/// Enters a function that returns `pointer`, unless another thread was faster. Gives what has the
/// name now. Takes no lock. \throws Error
void* Share(std::string_view name, void* pointer);

/// Enters a function, of which the registry keeps a reference. Those who keep what they found by
/// that name look it up again. \throws Error if the name is taken and `allow_override` is false.
void SetGlobal(std::string_view name, TVMFFIObjectHandle function, bool allow_override);

/// SetGlobal for a C function without a context.
void SetGlobal(std::string_view name, TVMFFISafeCallType function, bool allow_override);

/// False if there was no such function. Otherwise as SetGlobal. \throws Error
bool RemoveGlobal(std::string_view name);

/// Calls the function, which must exist. \throws Error
tvm::ffi::Any CallGlobal(std::string_view name, const TVMFFIAny* args, int32_t num_args);

}  // namespace graphffi
