// SPDX-License-Identifier: Apache-2.0
// Texts of ops at compile time: the values that a schema and a plan pass, and the text to export.
#pragma once

#include <cstddef>
#include <string_view>

namespace graphffi::op_detail {

/// Kinds of values, as bits.
constexpr unsigned kTensor = 1, kInt = 2, kFloat = 4, kBool = 8, kText = 16, kDType = 32,
                   kDevice = 64, kList = 128, kNone = 256, kAnyKind = 511;

enum class Problem { kNone_, kField, kSchema, kPlan, kTooMany };

/// The values that a kernel gets in a call of an op.
struct Call {
  static constexpr int kMost = 64;
  unsigned kinds[kMost] = {};
  int num_values = 0;
  bool is_open = false;  ///< Whether there are more: `*inputs` stands for any number.
  bool returns = false;  ///< Whether the results are what the function returns.
  Problem problem = Problem::kNone_;

  constexpr void Add(unsigned value) {
    if (num_values == kMost) {
      problem = Problem::kTooMany;
    } else {
      kinds[num_values++] = value;
    }
  }
};

struct Name {
  std::string_view text;
  unsigned kinds = 0;
};

/// The parameters and results of a schema.
struct Names {
  Name items[Call::kMost] = {};
  int count = 0;
  int num_parameters = 0;
  Problem problem = Problem::kNone_;

  constexpr void Add(Name name) {
    if (count == Call::kMost) {
      problem = Problem::kTooMany;
    } else {
      items[count++] = name;
    }
  }
};

constexpr bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\t'; }
constexpr bool IsDigit(char c) { return c >= '0' && c <= '9'; }
constexpr bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || IsDigit(c);
}

constexpr std::string_view Strip(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes what stands before the first comma outside of brackets and quotes.
constexpr std::string_view TakeItem(std::string_view* rest) {
  int depth = 0;
  char quote = 0;
  size_t i = 0;
  for (; i < rest->size(); ++i) {
    char c = (*rest)[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
  }
  i = i < rest->size() ? i : rest->size();
  std::string_view item = rest->substr(0, i);
  *rest = rest->substr(i < rest->size() ? i + 1 : i);
  return Strip(item);
}

constexpr std::string_view TakeWord(std::string_view* rest) {
  size_t i = 0;
  while (i < rest->size() && IsWord((*rest)[i])) ++i;
  std::string_view word = rest->substr(0, i);
  *rest = rest->substr(i);
  return word;
}

constexpr bool TakeText(std::string_view* rest, std::string_view text) {
  if (rest->substr(0, text.size()) != text) return false;
  *rest = rest->substr(text.size());
  return true;
}

/// The kind of a type of schemas; 0 for none.
constexpr unsigned KindOf(std::string_view type) {
  if (type == "Tensor") return kTensor;
  if (type == "int" || type == "SymInt") return kInt;
  if (type == "float") return kFloat;
  if (type == "bool") return kBool;
  if (type == "str") return kText;
  if (type == "dtype") return kDType;
  return type == "Device" ? kDevice : 0;
}

/// `Tensor(a!) cache`, `int[]? dims=None`; without a name if it does not parse.
constexpr Name ReadParameter(std::string_view text) {
  unsigned kinds = KindOf(TakeWord(&text));
  if (kinds == kTensor && TakeText(&text, "(")) {
    if (TakeWord(&text).empty() || !TakeText(&text, "!)")) return {};
  }
  if (TakeText(&text, "[]")) kinds = kinds == 0 ? 0 : kList;
  if (TakeText(&text, "?")) kinds = kinds == 0 ? 0 : kinds | kNone;
  if (kinds == 0 || text.empty() || !IsSpace(text.front())) return {};
  text = Strip(text);
  std::string_view name = TakeWord(&text);
  text = Strip(text);
  return text.empty() || text.front() == '=' ? Name{name, kinds} : Name{};
}

constexpr std::string_view kDefaultNames[] = {"out0",  "out1",  "out2",  "out3", "out4",  "out5",
                                              "out6",  "out7",  "out8",  "out9", "out10", "out11",
                                              "out12", "out13", "out14", "out15"};

constexpr void ReadResults(std::string_view text, Names* names) {
  if (!text.empty() && text.front() == '(' && text.back() == ')') {
    text = text.substr(1, text.size() - 2);
  }
  int count = 0;
  for (std::string_view rest = Strip(text); !rest.empty();) {
    TakeItem(&rest);
    ++count;
  }
  std::string_view rest = Strip(text);
  for (int i = 0; i < count; ++i) {
    std::string_view item = TakeItem(&rest);
    if (TakeWord(&item) != "Tensor" || count > 16) names->problem = Problem::kSchema;
    item = Strip(item);
    std::string_view name = TakeWord(&item);
    if (!item.empty()) names->problem = Problem::kSchema;
    names->Add({!name.empty() ? name : count == 1 ? "out" : kDefaultNames[i & 15], kTensor});
  }
}

constexpr Names ReadSchema(std::string_view text) {
  Names names;
  text = Strip(text);
  size_t arrow = text.rfind("->");
  std::string_view left = arrow == text.npos ? text : Strip(text.substr(0, arrow));
  if (arrow == text.npos || left.empty() || left.front() != '(' || left.back() != ')') {
    names.problem = Problem::kSchema;
    return names;
  }
  for (std::string_view rest = left.substr(1, left.size() - 2); !rest.empty();) {
    std::string_view item = TakeItem(&rest);
    if (item.empty() || item == "*") continue;
    Name name = ReadParameter(item);
    if (name.text.empty()) names.problem = Problem::kSchema;
    names.Add(name);
  }
  names.num_parameters = names.count;
  ReadResults(Strip(text.substr(arrow + 2)), &names);
  return names;
}

/// Whether a value of a plan is an int that is computed, `x.numel // 2`.
constexpr bool IsComputed(std::string_view item) {
  char first = item.front();
  if (first == '"' || first == '\'') return false;
  if (item.substr(0, 4) == "min(" || item.substr(0, 4) == "max(") return true;
  char second = item.size() > 1 ? item[1] : '0';
  if (first == '-' && item != "-inf" && !IsDigit(second) && second != '.') return true;
  bool is_number = IsDigit(first) || first == '-' || first == '.';
  int depth = 0;
  for (size_t i = 1; i < item.size(); ++i) {
    char c = item[i - 1];
    depth += (c == '(') - (c == ')');
    if (depth != 0) continue;
    bool is_exponent = is_number && (c == 'e' || c == 'E');
    c = item[i];
    if (c == '*' || c == '/' || c == '%' || c == '[') return true;
    if ((c == '+' || c == '-') && !is_exponent) return true;
    if (c == '.' && !is_number) return true;
  }
  return false;
}

/// The kinds of one value of a plan; 0 for a name that nothing has.
constexpr unsigned KindsOfItem(std::string_view item, const Names& names) {
  char first = item.front();
  if (IsComputed(item)) return kInt;
  if (first == '(') return kList;
  if (first == '"' || first == '\'') return kText;
  if (IsDigit(first) || first == '-' || first == '.') {
    return item.find_first_of(".e") == item.npos ? kInt : kFloat;
  }
  std::string_view rest = item;
  std::string_view word = TakeWord(&rest);
  if (!Strip(rest).empty()) {  // strided(x)
    return Strip(rest).front() == '(' ? kTensor : 0;
  }
  for (int i = 0; i < names.count; ++i) {
    if (names.items[i].text == word) return names.items[i].kinds;
  }
  if (word == "None") return kNone;
  if (word == "true" || word == "false") return kBool;
  return word == "workspace" ? kTensor : word == "stream" ? kAnyKind + 1 : 0;
}

constexpr bool NamesResult(std::string_view text, const Names& names) {
  for (int i = names.num_parameters; i < names.count; ++i) {
    std::string_view name = names.items[i].text;
    for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      size_t end = at + name.size();
      bool starts = at == 0 || !IsWord(text[at - 1]);
      if (starts && (end == text.size() || !IsWord(text[end]))) return true;
    }
  }
  return text.find("*outputs") != text.npos;
}

constexpr Call ReadPlan(std::string_view plan, const Names& names) {
  Call call;
  call.problem = names.problem;
  if (Strip(plan).empty()) {
    for (int i = 0; i < names.count; ++i) call.Add(names.items[i].kinds);
    return call;
  }
  for (std::string_view rest = plan; !rest.empty();) {
    std::string_view item = TakeItem(&rest);
    if (item.empty()) continue;
    if (item.front() == '*') {
      call.is_open = true;
      continue;
    }
    unsigned kinds = KindsOfItem(item, names);
    if (kinds == 0) call.problem = Problem::kPlan;
    call.Add(kinds > kAnyKind ? 0 : kinds);  // a stream is an opaque pointer: for Takes to ignore
  }
  call.returns = names.count > names.num_parameters && !NamesResult(plan, names);
  return call;
}

constexpr std::string_view kFields =
    " shape check dims dtypes plan strided workspace vmap gradient recompute allow_cuda_graph "
    "has_side_effect pass_owning_tensor doc ";

/// The name of a field such as `plan: x, out`; empty for none.
constexpr std::string_view FieldOf(std::string_view text) {
  std::string_view name = TakeWord(&text);
  const size_t at = kFields.find(name);
  const bool is_known = !name.empty() && at != kFields.npos && text.substr(0, 1) == ":" &&
                        kFields[at - 1] == ' ' && kFields[at + name.size()] == ' ';
  return is_known ? name : std::string_view();
}

template <size_t kCount>
constexpr Call ReadFields(std::string_view schema, const std::string_view (&fields)[kCount]) {
  std::string_view plan;
  bool is_known = true;
  for (size_t i = 1; i < kCount; ++i) {
    std::string_view field = FieldOf(fields[i]);
    if (field == "plan") plan = fields[i].substr(5);
    is_known = is_known && !field.empty() && (field != "doc" || i + 1 == kCount);
  }
  Call call = ReadPlan(plan, ReadSchema(schema));
  if (!is_known) call.problem = Problem::kField;
  return call;
}

/// Reads the schema, then the fields. The first of them is the schema once more: no array is empty.
template <size_t... kSizes>
constexpr Call ReadCall(const char (&... texts)[kSizes]) {
  const std::string_view fields[] = {std::string_view(texts, kSizes - 1)...};
  return ReadFields(fields[0], fields);
}

/// An array of characters that ends with a null.
template <size_t kSize>
struct Characters {
  char data[kSize];
};

constexpr std::string_view kSchemaField = "schema: ", kOwningField = "pass_owning_tensor: true\n";

/// The text to export: a field a line, the documentation last.
template <size_t... kSizes>
constexpr auto Join(bool owns, const char (&... texts)[kSizes]) {
  constexpr size_t kMost = kSchemaField.size() + kOwningField.size() + (kSizes + ...) + 1;
  Characters<kMost> joined{};
  size_t size = 0;
  for (char c : kSchemaField) joined.data[size++] = c;
  size_t index = 0;
  for (std::string_view text : {std::string_view(texts, kSizes - 1)...}) {
    bool is_doc = FieldOf(text) == "doc";
    if (owns && index++ == 1) {
      for (char c : kOwningField) joined.data[size++] = c;
      owns = false;
    }
    for (char c : text) joined.data[size++] = c == '\n' && !is_doc ? ' ' : c;
    joined.data[size++] = '\n';
  }
  for (size_t i = 0; owns && i < kOwningField.size(); ++i) joined.data[size++] = kOwningField[i];
  return joined;
}

}  // namespace graphffi::op_detail
