// SPDX-License-Identifier: Apache-2.0
// Named test cases in one program: `program NAME` runs one, `program --list` lists them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

struct TestCase {
  const char* name;
  void (*run)();
};
inline std::vector<TestCase>& TestCases() {
  static std::vector<TestCase> cases;
  return cases;
}
struct TestRegistrar {
  TestRegistrar(const char* name, void (*run)()) { TestCases().push_back({name, run}); }
};

/// Where the bundled runtime means to differ from apache's.
inline bool IsBundled() { return std::string(std::getenv("GRAPHFFI_TEST_RUNTIME")) == "bundled"; }

#define TEST(name)                                          \
  static void name();                                       \
  static const TestRegistrar registrar_##name{#name, name}; \
  static void name()

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

#define CHECK_EQ(left, right)                                                           \
  do {                                                                                  \
    const auto left_ = (left);                                                          \
    const auto right_ = (right);                                                        \
    if (!(left_ == right_)) {                                                           \
      std::fprintf(stderr, "%s:%d: %s is not %s\n", __FILE__, __LINE__, #left, #right); \
      PrintValue(left_);                                                                \
      PrintValue(right_);                                                               \
      std::exit(1);                                                                     \
    }                                                                                   \
  } while (false)

inline void PrintValue(const std::string& value) { std::fprintf(stderr, "  %s\n", value.c_str()); }
inline void PrintValue(long long value) { std::fprintf(stderr, "  %lld\n", value); }
inline void PrintValue(double value) { std::fprintf(stderr, "  %g\n", value); }
inline void PrintValue(const void* value) { std::fprintf(stderr, "  %p\n", value); }
template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
void PrintValue(T value) {
  PrintValue(static_cast<long long>(value));
}

/// The Error that `run` throws, as "Kind: message"; fails if it throws none.
template <typename E>
std::string Thrown(const std::function<void()>& run) {
  try {
    run();
  } catch (const E& error) {
    return error.what();
  }
  std::fprintf(stderr, "expected an error, got none\n");
  std::exit(1);
}

int main(int argc, char** argv) {
  for (const TestCase& test : TestCases()) {
    if (argc > 1 && std::strcmp(argv[1], "--list") == 0) {
      std::puts(test.name);
    } else if (argc < 2 || std::strcmp(argv[1], test.name) == 0) {
      test.run();
    }
  }
  return 0;
}
