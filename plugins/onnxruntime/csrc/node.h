// SPDX-License-Identifier: Apache-2.0
// Nodes of a model: what their calls need that is known once a session is made.
#pragma once

#include <tvm/ffi/any.h>

#include <memory>
#include <string>
#include <vector>

#include "attributes.h"
#include "call/placed_call.h"
#include "call/signature.h"
#include "kernels/kernel_slot.h"
#include "node_text.h"
#include "op.h"
#include "ort/allocator.h"
#include "shapes/shape_program.h"

namespace graphffi_onnxruntime {

/// A way that the op's rules took: which calls it is for, and the kernel that these run.
struct NodeWay {
  graphffi::ShapeProgram program;
  graphffi::Signature signature;
  std::unique_ptr<graphffi::KernelSlot> kernel;
  graphffi::PlacedCall call;
};

/// A call as nodes of equal texts and attributes share it: models repeat their layers, whose calls
/// find it in the processor's cache then. Immutable, used on any threads.
class NodeCall {
 public:
  /// That of a node. \throws Error for a node that is not as its op, or whose kernels are not
  /// there.
  static std::shared_ptr<const NodeCall> Get(const Op& op, const ort::Api* api,
                                             const ort::KernelInfo* info);
  NodeCall(const NodeCall&) = delete;
  NodeCall& operator=(const NodeCall&) = delete;

  const ort::Api* api() const { return api_; }
  const std::string& subject() const { return text_.subject(); }

  /// Refuses tensors of other types than the text's while a session is made. \throws Error
  void CheckTensors(const ort::KernelInfo* info) const;
  /// Calls the kernel with the tensors of a context. \throws Error
  void Compute(ort::KernelContext* context,
               const std::shared_ptr<SessionAllocator>& allocator) const;

 private:
  struct Room;

  NodeCall(const Op& op, const ort::Api* api, NodeText text, Attributes attributes);
  void AddWay(const NodeText::Way& way, const Op& op);
  void LoadInputs(const ort::KernelContext* context, Room* room) const;
  [[noreturn, gnu::cold]] void FailNoInput(const NodeText::Input& input) const;
  graphffi::CallValues Place(const NodeWay& way, const Room& room) const;
  const NodeWay& ChooseWay(const Room& room, graphffi::ResultShapes* results) const;
  [[noreturn, gnu::cold]] void FailToChoose(const Room& room) const;
  void MakeOutputs(ort::KernelContext* context, const graphffi::ResultShapes& results, void* stream,
                   Room* room) const;
  int32_t DeviceOf(const ort::KernelContext* context) const;
  void Run(ort::KernelContext* context, const std::shared_ptr<SessionAllocator>& allocator,
           Room* room) const;

  const ort::Api* api_;
  NodeText text_;
  Attributes attributes_;
  std::vector<std::unique_ptr<NodeWay>> ways_;
  int32_t num_tensors_ = 0, num_dims_ = 0, num_values_ = 0;
};

/// A node of a session.
struct Node {
  /// \throws Error as NodeCall::Get and CheckTensors do
  Node(const Op& op, const ort::Api* api, const ort::KernelInfo* info);

  void Compute(ort::KernelContext* context) const { call->Compute(context, allocator); }

  const std::shared_ptr<const NodeCall> call;
  const std::shared_ptr<SessionAllocator> allocator;
};

}  // namespace graphffi_onnxruntime
