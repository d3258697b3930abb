// SPDX-License-Identifier: Apache-2.0
// A node of a model: what a call needs that is known once its session is made.
#pragma once

#include <tvm/ffi/any.h>

#include <memory>
#include <string>
#include <vector>

#include "allocator.h"
#include "attributes.h"
#include "call/placed_call.h"
#include "call/signature.h"
#include "kernels/kernel_slot.h"
#include "node_text.h"
#include "op.h"
#include "shapes/shape_program.h"

namespace graphffi_onnxruntime {

/// A way that the op's rules took: which calls it is for, and the kernel that these run.
struct NodeWay {
  graphffi::ShapeProgram program;
  graphffi::Signature signature;
  std::unique_ptr<graphffi::KernelSlot> kernel;
  graphffi::PlacedCall call;
};

/// Immutable; ONNX Runtime calls it on any threads.
class Node {
 public:
  /// \throws Error for a node that is not as its op, or whose kernels are not there.
  Node(const Op& op, const ort::Api* api, const ort::KernelInfo* info);
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const ort::Api* api() const { return runtime_.api; }
  const std::string& subject() const { return text_.subject(); }

  /// Calls the kernel with the tensors of a context. \throws Error
  void Compute(ort::KernelContext* context) const;

 private:
  struct Room;

  void AddWay(const NodeText::Way& way, const Op& op);
  void CheckTensors(const ort::KernelInfo* info, const NodeWay& way) const;
  void LoadInputs(const ort::KernelContext* context, Room* room) const;
  size_t ReadShape(const ort::Value* value, size_t expected, int* type, int64_t* dims) const;
  [[noreturn, gnu::cold]] static void FailNoInput(const NodeText& text,
                                                  const NodeText::Input& input);
  graphffi::CallValues Place(const NodeWay& way, const Room& room) const;
  const NodeWay& ChooseWay(const Room& room, graphffi::ResultShapes* results) const;
  [[noreturn, gnu::cold]] void FailToChoose(const Room& room) const;
  void MakeOutputs(ort::KernelContext* context, const graphffi::ResultShapes& results, void* stream,
                   Room* room) const;
  int32_t DeviceOf(const ort::KernelContext* context) const;
  void Run(ort::KernelContext* context, Room* room) const;

  Runtime runtime_;
  NodeText text_;
  Attributes attributes_;
  std::vector<std::unique_ptr<NodeWay>> ways_;
  std::shared_ptr<SessionAllocator> allocator_;
  int32_t num_tensors_ = 0, num_dims_ = 0, num_values_ = 0;
};

}  // namespace graphffi_onnxruntime
