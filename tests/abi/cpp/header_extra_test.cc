// SPDX-License-Identifier: Apache-2.0
// object_arc.h, expected_check.h, string_escape.h; extra/: base64.h, dtype.h,
// visit_error_context.h.
#include <tvm/ffi/extra/base64.h>
#include <tvm/ffi/extra/dtype.h>
#include <tvm/ffi/extra/visit_error_context.h>

#include "header.h"

class NodeObj;
// Before the class holds a list of pointers to itself.
template <>
inline constexpr bool tvm::ffi::is_object_subclass_v<NodeObj> = true;

class NodeObj : public Object {
 public:
  int value = 0;
  List<Arc<NodeObj>> children;
  explicit NodeObj(int value) : value(value) {}
  TVM_FFI_DECLARE_OBJECT_INFO("test.extra.Node", NodeObj, Object);
};
class LeafObj : public NodeObj {
 public:
  using NodeObj::NodeObj;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("test.extra.Leaf", LeafObj, NodeObj);
};

TEST(arc_is_never_null) {
  static_assert(!std::is_default_constructible_v<Arc<NodeObj>>);
  static_assert(!std::is_constructible_v<Arc<NodeObj>, ObjectPtr<NodeObj>>);
  static_assert(sizeof(Optional<Arc<NodeObj>>) == sizeof(void*));
  Arc<LeafObj> leaf = make_arc<LeafObj>(3);
  Arc<NodeObj> node = leaf;
  CHECK_EQ(leaf.use_count(), 2);
  node->children.push_back(leaf);
  CHECK_EQ(Any(node).cast<Arc<LeafObj>>()->value, 3);
  CHECK_EQ(Message([] { Any(nullptr).cast<Arc<NodeObj>>(); }),
           "TypeError: Cannot convert from type `None` to `test.extra.Node`");
  Optional<Arc<NodeObj>> optional = node;
  CHECK(optional.get() == node.get());
  CHECK(std::move(optional).value() == node);
  CHECK(!optional.has_value());
  node->children.clear();
}

struct MissingObj : Object {
  TVM_FFI_DECLARE_OBJECT_INFO_LOOKUP("test.extra.Missing", 1);
};
struct KnownObj : Object {
  TVM_FFI_DECLARE_OBJECT_INFO_LOOKUP("test.extra.Node", 1);
};

TEST(lookup_declarations_register_nothing) {
  int32_t index = NodeObj::RuntimeTypeIndex();
  CHECK_EQ(KnownObj::RuntimeTypeIndex(), index);
  CHECK(Message([] { MissingObj::RuntimeTypeIndex(); }) != "no error");
}

Expected<int> Half(int value) {
  TVM_FFI_RET_CHECK(value != 0, ValueError) << "zero";
  TVM_FFI_RET_ICHECK_EQ(value % 2, 0) << "odd";
  return value / 2;
}

TEST(checks_return_errors_from_functions_of_expected) {
  CHECK_EQ(Half(4).value(), 2);
  CHECK_EQ(Message([] { Half(0).value(); }),
           "ValueError: Check failed: (value != 0) is false: zero");
  CHECK_EQ(Message([] { Half(3).value(); }),
           "InternalError: Check failed: value % 2 == 0 (1 vs. 0) : odd");
  CHECK(Half(3).error().backtrace().find("Half") != std::string::npos);
}

TEST(expected_changes_its_type) {
  Expected<Any> any = Expected<int>(3);
  CHECK_EQ(any.as_or_error<int>().value(), 3);
  CHECK_EQ(any.as_or_error<String>().error().message(),
           std::string("Cannot treat type `int` as type `str`"));
  Expected<double> wide = Expected<int>(3);
  CHECK_EQ(wide.value(), 3.0);
  Expected<Any> failed = Expected<int>(Error("ValueError", "no", ""));
  CHECK_EQ(std::move(failed).as_or_error<int>().error().message(), std::string("no"));
}

TEST(python_literals_are_ascii) {
  CHECK_EQ(std::string(EscapedStringPy("a\"\\\n\t\r")), std::string("\"a\\\"\\\\\\n\\t\\r\""));
  CHECK_EQ(std::string(EscapedStringPy("\x01\x7f")), std::string("\"\\x01\\x7f\""));
  CHECK_EQ(std::string(EscapedStringPy("\u00e9\u20ac\U0001F600")),
           std::string("\"\\u00e9\\u20ac\\U0001f600\""));
  CHECK_EQ(std::string(EscapedStringPy("\xff\xe2\x82")), std::string("\"\\xff\\xe2\\x82\""));
  CHECK_EQ(std::string(EscapedStringPy("\x1b[1;31mx\x1b[x")),
           std::string("\"\\x1b[1;31mx\\x1b[x\""));
}

TEST(base64_goes_there_and_back) {
  const char* texts[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="};
  for (size_t size = 0; size < 5; ++size) {
    Bytes bytes(std::string_view("foob").substr(0, size));
    CHECK_EQ(std::string(Base64Encode(bytes)), std::string(texts[size]));
    CHECK(Base64Decode(String(texts[size])) == bytes);
  }
  CHECK(Base64Decode(Base64Encode(Bytes("\0\xff\x80", 3))) == Bytes("\0\xff\x80", 3));
  for (const char* wrong : {"Zg=", "Zg", "Z===", "Zg=a", "Z*==", "Zm9v\xff"}) {
    CHECK_EQ(Message([&] { Base64Decode(String(wrong)); }).substr(0, 11), "ValueError:");
  }
}

TEST(element_types_have_dtypes) {
  CHECK((dtype_trait<float>::value == DLDataType{kDLFloat, 32, 1}));
  CHECK((dtype_trait<long long>::value == DLDataType{kDLInt, 64, 1}));
  CHECK((dtype_trait<unsigned char>::value == DLDataType{kDLUInt, 8, 1}));
  CHECK((dtype_trait<bool>::value == DLDataType{kDLBool, 8, 1}));
  CHECK((dtype_trait<__nv_bfloat16>::value == DLDataType{kDLBfloat, 16, 1}));
  CHECK((dtype_trait<__nv_fp4x2_e2m1>::value == DLDataType{kDLFloat4_e2m1fn, 4, 2}));
}

void Visit(const Arc<NodeObj>& node) {
  TVM_FFI_VISIT_BEGIN();
  ObjectRef self{ObjectPtr<Object>(node)};
  if (node->value < 0) TVM_FFI_VISIT_THROW(ValueError, self) << "negative";
  for (const Arc<NodeObj>& child : node->children) Visit(child);
  TVM_FFI_VISIT_END(ObjectRef(ObjectPtr<Object>(node)));
}

TEST(errors_remember_the_nodes_that_they_passed) {
  Arc<NodeObj> root = make_arc<NodeObj>(1);
  Arc<NodeObj> child = make_arc<NodeObj>(-1);
  root->children.push_back(child);
  try {
    Visit(root);
    CHECK(false);
  } catch (const Error& error) {
    CHECK_EQ(error.message(), std::string("negative"));
    auto context = VisitErrorContext::TryGetFromError(error);
    List<ObjectRef> nodes = context.value()->reverse_visit_pattern;
    CHECK(nodes[0].get() == child.get());
    CHECK(nodes.back().get() == root.get());
  }
  CHECK(!VisitErrorContext::TryGetFromError(Error("ValueError", "plain", "")).has_value());
}

TEST(context_symbols_are_told) {
  static int symbol = 0;
  TVM_FFI_CHECK_SAFE_CALL(TVMFFIEnvModRegisterContextSymbol("test.context_symbol", &symbol));
  int seen = 0;
  Module::VisitContextSymbols(TypedFunction<void(String, void*)>([&](String name, void* address) {
    if (name == "test.context_symbol" && address == &symbol) ++seen;
  }));
  CHECK_EQ(seen, 1);
}
