/* SPDX-License-Identifier: Apache-2.0 */
/* The floor in a JAX program: the same work as a raw XLA FFI handler. */
#include <stddef.h>

#include "xla/ffi/api/c_api.h"

__attribute__((visibility("default"))) XLA_FFI_Error* touch(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension != NULL && extension->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata* metadata = ((XLA_FFI_Metadata_Extension*)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
  }
  const XLA_FFI_Buffer* x = (const XLA_FFI_Buffer*)frame->args.args[0];
  XLA_FFI_Buffer* out = (XLA_FFI_Buffer*)frame->rets.rets[0];
  *(float*)out->data = *(const float*)x->data;
  return NULL;
}
