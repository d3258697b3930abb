// SPDX-License-Identifier: Apache-2.0
#include "call/placed_call.h"

#include "call/value.h"
#include "check.h"
#include "env/env_scope.h"
#include "record.h"

using graphffi::CallPlace;
using graphffi::Counts;
using graphffi::EnvScope;
using graphffi::Kernel;
using graphffi::PlacedCall;
using graphffi::PlaceOf;
using graphffi::Signature;
using graphffi::TensorNames;
using graphffi::ToAny;

namespace {

TEST(a_call_is_where_its_first_tensor_on_a_gpu_is) {
  DLTensor on_cpu{}, on_gpu{};
  on_cpu.device = {kDLCPU, 0};
  on_gpu.device = {kDLCUDA, 1};
  const TVMFFIAny inputs[] = {TVMFFIAny{}, ToAny(&on_cpu)};
  const TVMFFIAny outputs[] = {ToAny(&on_cpu), ToAny(&on_gpu)};
  int stream = 0;
  const EnvScope env({kDLCUDA, 1}, &stream, nullptr);
  const CallPlace place = PlaceOf({{inputs, nullptr, 2}, {outputs, nullptr, 2}});
  CHECK(place.device.device_type == kDLCUDA && place.device.device_id == 1);
  CHECK(place.stream == &stream);
  const CallPlace other = PlaceOf({{inputs, nullptr, 2}, {}});
  CHECK(other.device.device_type == kDLCPU && other.stream == nullptr);
}

TEST(attributes_that_a_call_gives_reach_the_kernel_by_any_plan) {
  for (const char* plan : {"o0, n0, i0, 7", "o0, n0, i0, 7, stream"}) {
    const Signature signature =
        Signature::Parse(plan, TensorNames::Parse("lib::f", ""), Counts{1, 1, 1});
    const PlacedCall call = PlacedCall::Of(signature, 1, 1, 1, /*lends=*/false);
    std::vector<TVMFFIAny> values(static_cast<size_t>(call.num_values));
    DLTensor x{}, y{};
    values.at(static_cast<size_t>(call.layout.inputs.begin)) = ToAny(&x);
    values.at(static_cast<size_t>(call.layout.outputs.begin)) = ToAny(&y);
    values.at(static_cast<size_t>(call.layout.attributes.begin)) = ToAny(5);
    call.Call(signature, Kernel{Record, nullptr}, "", {}, values.data());
    CHECK(seen[0].v_ptr == &y && seen[1].v_int64 == 5);
    CHECK(seen[2].v_ptr == &x && seen[3].v_int64 == 7);
    CHECK(call.needs_frame == (seen.size() == 5));
  }
}

}  // namespace
