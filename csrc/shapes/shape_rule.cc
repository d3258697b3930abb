// SPDX-License-Identifier: Apache-2.0
#include "shapes/shape_rule.h"

#include <string_view>
#include <utility>

#include "call/error.h"

namespace graphffi {

ShapeRule::~ShapeRule() {
  Node* node = first_.load();
  while (node != nullptr) delete std::exchange(node, node->next.load());
}

void ShapeRule::Infer(const CallValues& values, ResultShapes* results) {
  for (const Node* node = first_.load(std::memory_order_acquire); node != nullptr;
       node = node->next.load(std::memory_order_acquire)) {
    if (node->program.Run(values, results)) return;
  }
  const std::string answer = Ask(values, num_programs_.load() < kMaxPrograms);
  static constexpr std::string_view kSeparator = "program\n";
  const size_t separator = answer.find(kSeparator);
  const std::string_view of_call = std::string_view(answer).substr(0, separator);
  const CallValues none;
  if (!ShapeProgram::Parse(of_call, none).Run(none, results)) {
    throw Error("InternalError", "graphffi: a shape rule gave results that no call has");
  }
  if (separator == std::string::npos) return;
  Keep(ShapeProgram::Parse(std::string_view(answer).substr(separator + kSeparator.size()), values));
}

void ShapeRule::Keep(ShapeProgram program) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (num_programs_ >= kMaxPrograms) return;
  std::atomic<Node*>* place = &first_;
  while (Node* node = place->load()) place = &node->next;
  place->store(new Node{std::move(program), nullptr}, std::memory_order_release);
  ++num_programs_;
}

}  // namespace graphffi
