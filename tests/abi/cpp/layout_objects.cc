// SPDX-License-Identifier: Apache-2.0
// The sizes of the C++ types that stand for objects and values of the ABI.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/tvm_ffi.h>

#include "layout.h"

using namespace tvm::ffi;

SIZE(Object, 24);
SIZE(detail::StringObj, 40);
SIZE(detail::BytesObj, 40);
SIZE(ErrorObj, 96);
SIZE(FunctionObj, 40);
SIZE(ShapeObj, 40);
SIZE(TensorObj, 72);
SIZE(ArrayObj, 56);
SIZE(ListObj, 56);
SIZE(ModuleObj, 48);
// A small map is rewritten in place as a table: it always has a table's size.
SIZE(MapObj, 80);
SIZE(DictObj, 80);

SIZE(Any, 16);
SIZE(AnyView, 16);
SIZE(ObjectRef, 8);
SIZE(String, 16);
SIZE(Bytes, 16);
SIZE(Function, 8);
SIZE(Tensor, 8);
SIZE(TensorView, 48);
SIZE(Shape, 8);
SIZE(ShapeView, 16);
SIZE(Array<Any>, 8);
SIZE(Module, 8);
// Modules return these through their vtable.
SIZE(Optional<Function>, 8);
SIZE(Optional<String>, 16);
