// SPDX-License-Identifier: Apache-2.0
// extra/json.h, and the runtime's part of it.
#include <tvm/ffi/container/dict.h>
#include <tvm/ffi/container/list.h>
#include <tvm/ffi/extra/json.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "header.h"

bool OnBundledRuntime() { return std::string(std::getenv("GRAPHFFI_TEST_RUNTIME")) == "bundled"; }

std::string Again(const char* text) { return json::Stringify(json::Parse(text)); }

std::string ErrorOf(const String& text) {
  String error;
  CHECK(json::Parse(text, &error) == nullptr);
  return error;
}

TEST(json_values_go_there_and_back) {
  for (const char* text : {"null", "true", "false", "0", "-124", "9223372036854775807", "2.5",
                           "5.0", "-7.89e-15", "NaN", "Infinity", "-Infinity", "\"\"", "[]", "{}",
                           "[1,[2,{\"a\":null}],\"x\"]", "{\"z\":1,\"a\":{\"b\":[true]}}"}) {
    CHECK_EQ(Again(text), std::string(text));
  }
  CHECK_EQ(Again(" {\n\"a\" :\t[ 1 , 2.50 ] }\r\n"), std::string("{\"a\":[1,2.5]}"));
  CHECK_EQ(json::Parse("1e3").cast<double>(), 1000.0);
  CHECK_EQ(json::Parse("{\"b\":1,\"a\":2}").cast<json::Object>().at("a").cast<int>(), 2);
}

TEST(json_strings_hold_every_character) {
  CHECK_EQ(std::string(json::Parse("\"\\u00e9\\u20AC\\ud83d\\ude04\\/\\\\\"").cast<String>()),
           std::string("\u00e9\u20ac\U0001F604/\\"));
  CHECK_EQ(json::Parse("\"\\u0000\"").cast<String>().size(), size_t{1});
  CHECK_EQ(std::string(json::Stringify(String("\"\\\n\t\x01/\u00e9"))),
           std::string("\"\\\"\\\\\\n\\t\\u0001\\/\u00e9\""));
}

TEST(json_is_indented_when_asked_for) {
  json::Object object{{"a", json::Array{1, 2}}, {"b", json::Object{{"c", 3}}}};
  CHECK_EQ(std::string(json::Stringify(object, 2)),
           std::string("{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {\n    \"c\": 3\n  }\n}"));
  CHECK_EQ(std::string(json::Stringify(object, 0)), std::string("{\"a\":[1,2],\"b\":{\"c\":3}}"));
  CHECK_EQ(std::string(json::Stringify(json::Array{1, 2}, -1)), std::string("[\n1,\n2\n]"));
}

TEST(json_errors_say_where) {
  CHECK_EQ(ErrorOf(""), std::string("Expecting value: line 1 column 1 (char 0)"));
  CHECK_EQ(ErrorOf("\n nul"), std::string("Expecting value: line 2 column 2 (char 2)"));
  CHECK_EQ(ErrorOf("123e"), std::string("Expecting value: line 1 column 1 (char 0)"));
  CHECK_EQ(ErrorOf("[1,]"), std::string("Expecting value: line 1 column 4 (char 3)"));
  CHECK_EQ(ErrorOf("[1 2]"), std::string("Expecting ',' delimiter: line 1 column 4 (char 3)"));
  CHECK_EQ(ErrorOf("{\"a\" 1}"), std::string("Expecting ':' delimiter: line 1 column 6 (char 5)"));
  CHECK_EQ(ErrorOf("{1:2}"),
           std::string("Expecting property name enclosed in double quotes: line 1 column 2 (char "
                       "1)"));
  CHECK_EQ(ErrorOf("\"abc"), std::string("Unterminated string starting at: line 1 column 1 (char "
                                         "0)"));
  CHECK_EQ(ErrorOf("\"a\x01\""), std::string("Invalid control character at: line 1 column 3 (char "
                                             "2)"));
  CHECK_EQ(ErrorOf("\"\\x\""), std::string("Invalid \\escape: line 1 column 3 (char 2)"));
  CHECK_EQ(ErrorOf("\"\\u12\""), std::string("Invalid \\uXXXX escape: line 1 column 3 (char 2)"));
  CHECK_EQ(ErrorOf("\"\\ud800\""),
           std::string("Invalid surrogate pair of \\uXXXX escapes: line 1 column 3 (char 2)"));
  CHECK_EQ(ErrorOf("true false"), std::string("Extra data: line 1 column 6 (char 5)"));
  CHECK_EQ(Message([] { json::Parse("]"); }),
           "ValueError: Expecting value: line 1 column 1 (char 0)");
  String error = "old";
  CHECK_EQ(json::Parse("1", &error).cast<int>(), 1);
  CHECK(error.empty());
}

TEST(json_refuses_what_it_has_no_text_for) {
  CHECK(Message([] { json::Stringify(Shape{1}); }) != "no error");
  CHECK(Message([] { json::Stringify(json::Object{{1, 2}}); }) != "no error");
  if (!OnBundledRuntime()) return;
  CHECK(ErrorOf(std::string(1000000, '[')).substr(0, 16) == "Nesting too deep");
  List<Any> cycle;
  cycle.push_back(cycle);
  CHECK_EQ(Message([&] { json::Stringify(cycle); }),
           "ValueError: JSON: nesting too deep or a cycle");
  cycle.clear();
  CHECK_EQ(json::Parse("123456789012345678901234567890").cast<double>(),
           123456789012345678901234567890.0);
  CHECK(std::isinf(json::Parse("1e999").cast<double>()));
}
