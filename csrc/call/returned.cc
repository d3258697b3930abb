// SPDX-License-Identifier: Apache-2.0
#include "call/returned.h"

#include <tvm/ffi/device.h>
#include <tvm/ffi/dtype.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "call/describe_tensor.h"
#include "call/value.h"

namespace graphffi {

namespace {

bool IsSamePlace(const DLTensor& a, const DLTensor& b) {
  return a.device == b.device && a.ndim == b.ndim && std::equal(a.shape, a.shape + a.ndim, b.shape);
}

const DLTensor& ResultAt(const Results& results, int32_t i) {
  const Bank& outputs = results.tensors.outputs;
  const DLTensor* tensor = TensorOf(outputs.values[outputs.slot(i).begin]);
  if (tensor == nullptr) {
    throw Error("InternalError", "graphffi: result " + std::to_string(i) + " is no tensor");
  }
  return *tensor;
}

void StoreOne(const Results& results, int32_t i, const TVMFFIAny& returned) {
  const std::string subject = "result " + std::to_string(i) + ": expected ";
  const DLTensor& to = ResultAt(results, i);
  const DLTensor* from = TensorOf(returned);
  if (from == nullptr) {
    throw Error("TypeError", subject + DescribeTensor(to) +
                                 ", got no tensor; the plan does not pass the result, so that the "
                                 "kernel has to return it");
  }
  if (from->dtype != to.dtype || !IsSamePlace(*from, to)) {
    const char* kind = from->dtype == to.dtype ? "ValueError" : "TypeError";
    throw Error(kind, subject + DescribeTensor(to) + ", got " + DescribeTensor(*from));
  }
  if (!IsCompact(*from)) {
    throw Error("ValueError", subject + "a row-major contiguous tensor, got other strides");
  }
  if (DataOf(*from) != DataOf(to)) results.copy(results.copy_context, *from, to);
}

void Store(const Results& results, const TVMFFIAny* returned, int32_t count) {
  if (results.count != count) {
    throw Error("TypeError", "results: expected " + std::to_string(results.count) +
                                 " returned tensors, got " + std::to_string(count));
  }
  for (int32_t i = 0; i < count; ++i) StoreOne(results, i, returned[i]);
}

/// Whether an output, or an element of a list of outputs, has the memory of `tensor`.
bool IsAmong(const Bank& outputs, const DLTensor& tensor) {
  const TVMFFIAny* end = outputs.values + outputs.num_values();
  return std::any_of(outputs.values, end, [&](const TVMFFIAny& value) {
    const DLTensor* output = TensorOf(value);
    return output != nullptr && DataOf(*output) == DataOf(tensor);
  });
}

/// A kernel may give back the very results that it was given, as Python functions like to do.
void CheckGivenBack(const Results& results, const TVMFFIAny* returned, int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    const DLTensor* tensor = TensorOf(returned[i]);
    if (tensor == nullptr || IsAmong(results.tensors.outputs, *tensor)) continue;
    throw Error("TypeError",
                "result: expected None, got returned tensors; the plan passes the results, which "
                "the kernel has to fill: leave them out of the plan to have what it returns");
  }
}

void TakeReturned(const Results& results, const TVMFFIAny& returned) {
  if (results.returns_none) {
    throw Error("TypeError",
                "result: expected None of a function that a graph calls without an "
                "op, got " +
                    TypeKeyOf(returned.type_index) + "; define an op, or call it outside");
  }
  const auto take = results.is_passed ? &CheckGivenBack : &Store;
  if (returned.type_index != kTVMFFIArray) return take(results, &returned, 1);
  const Elements elements(returned);
  take(results, elements.values, static_cast<int32_t>(elements.size));
}

}  // namespace

void CopyOnCpu(void*, const DLTensor& from, const DLTensor& to) {
  if (to.device.device_type != kDLCPU) {
    throw Error("NotImplementedError",
                "result: expected a kernel that writes into its results on " +
                    DeviceToName(to.device) +
                    ", got returned tensors; pass the results in the plan");
  }
  const size_t num_bytes = BytesOf(to);
  if (num_bytes != 0) std::memcpy(DataOf(to), DataOf(from), num_bytes);
}

void FinishCall(int rc, const Results& results, TVMFFIAny* returned, PlacedFrame* frame) {
  rc = NameRefusal(rc, results.tensors.subject);
  const bool must_store = !results.is_passed && results.count != 0;
  if (rc == 0 && (must_store || returned->type_index != kTVMFFINone)) {
    // Before lent tensors are settled: it may be one of them that is returned.
    try {
      TakeReturned(results, *returned);
    } catch (const Error& error) {
      const std::string subject = results.tensors.subject;
      rc = SetRaised(error.kind(), (subject.empty() ? "" : subject + ": ") + error.message());
    }
    ReleaseValue(returned);
  }
  CheckRc(frame->Settle(rc, returned));
}

void FinishCall(int rc, const Results& results, TVMFFIAny* returned) {
  Loans none(kWithoutRetaining);
  PlacedFrame frame(&none, nullptr, 0);
  FinishCall(rc, results, returned, &frame);
}

}  // namespace graphffi
