/* SPDX-License-Identifier: Apache-2.0 */
/* The floor in a JAX program on a GPU: the launch in a raw XLA FFI handler. */
#include <stddef.h>

#include "xla/ffi/api/c_api.h"

void launch_touch(const float* from, float* to, void* stream);

static XLA_FFI_Error* Touch(XLA_FFI_CallFrame* frame, XLA_FFI_Handler_Traits traits) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = traits;
    return NULL;
  }
  XLA_FFI_Stream_Get_Args stream = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, NULL, frame->ctx, NULL};
  XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&stream);
  if (error != NULL) return error;
  const XLA_FFI_Buffer* x = (const XLA_FFI_Buffer*)frame->args.args[0];
  XLA_FFI_Buffer* out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  launch_touch((const float*)x->data, (float*)out->data, stream.stream);
  return NULL;
}

__attribute__((visibility("default"))) XLA_FFI_Error* touch(XLA_FFI_CallFrame* frame) {
  return Touch(frame, 0);
}

__attribute__((visibility("default"))) XLA_FFI_Error* touch_recorded(XLA_FFI_CallFrame* frame) {
  return Touch(frame, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
}
