// SPDX-License-Identifier: Apache-2.0
// A small stand-in for libFuzzer, where the compiler is not clang:
//   program [-runs=N] [-seed=S] [-max_len=L] FOLDER...   mutates what is in the folders
//   program FILE...                                       runs each file once
// An input that reaches new code joins the corpus in memory. What fails is written to crash-input.
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

// How often each edge of the program ran for the current input, and the magnitudes seen so far.
constexpr size_t kNumEdges = 1 << 16;
std::array<uint8_t, kNumEdges> edges;
std::array<uint8_t, kNumEdges> seen;
size_t previous_block = 0;

const Input* current_input = nullptr;

void SaveCurrentInput() {
  if (current_input == nullptr) return;
  std::ofstream file("crash-input", std::ios::binary);
  file.write(reinterpret_cast<const char*>(current_input->data()),
             static_cast<std::streamsize>(current_input->size()));
  std::fprintf(stderr, "the input is in crash-input, %zu bytes\n", current_input->size());
}

/// True if the input did what none before did.
bool Run(const Input& input) {
  edges.fill(0);
  previous_block = 0;
  current_input = &input;
  // A copy of its exact size, so that reading behind it is noticed.
  const Input copy(input);
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  current_input = nullptr;
  bool is_new = false;
  for (size_t i = 0; i < kNumEdges; ++i) {
    if (edges[i] == 0) continue;
    const auto magnitude = static_cast<uint8_t>(1u << (31 - __builtin_clz(edges[i])));
    is_new |= (seen[i] & magnitude) == 0;
    seen[i] |= magnitude;
  }
  return is_new;
}

class Mutator {
 public:
  Mutator(unsigned seed, size_t max_size) : random_(seed), max_size_(max_size) {}

  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  Input Mutate(const std::vector<Input>& corpus) {
    // Newer inputs are deeper in the code.
    const size_t newest = Below(corpus.size());
    Input input = corpus[std::max(newest, Below(corpus.size()))];
    const size_t steps = 1 + Below(4);
    for (size_t i = 0; i < steps; ++i) MutateOnce(&input, corpus[Below(corpus.size())]);
    if (input.size() > max_size_) input.resize(max_size_);
    return input;
  }

 private:
  void MutateOnce(Input* input, const Input& other) {
    const size_t place = Below(input->size() + 1);
    const size_t length = std::min(Below(9), input->size() - place);
    const auto at = input->begin() + static_cast<std::ptrdiff_t>(place);
    const auto end = at + static_cast<std::ptrdiff_t>(length);
    switch (Below(8)) {
      case 0:
        if (at != input->end()) *at ^= static_cast<uint8_t>(1u << Below(8));
        break;
      case 1:
        if (at != input->end()) *at = static_cast<uint8_t>(random_());
        break;
      case 2:
        input->insert(at, static_cast<uint8_t>(random_()));
        break;
      case 3:
        input->erase(at, end);
        break;
      case 4: {
        const Input part(at, end);
        input->insert(at, part.begin(), part.end());
        break;
      }
      case 5: {  // a number of 64 bits, near one where things change
        static constexpr uint64_t kNumbers[] = {
            0, 1, 2, 8, 255, 65535, 1ull << 31, 1ull << 32, 1ull << 61, 1ull << 63, ~0ull};
        const uint64_t number = kNumbers[Below(std::size(kNumbers))] + Below(3) - 1;
        const size_t aligned = place / 8 * 8;
        if (aligned + sizeof(number) <= input->size()) {
          std::memcpy(input->data() + aligned, &number, sizeof(number));
        }
        break;
      }
      case 6: {  // a piece of another input
        const size_t from = Below(other.size() + 1);
        const size_t size = Below(std::min<size_t>(32, other.size() - from) + 1);
        const auto piece = other.begin() + static_cast<std::ptrdiff_t>(from);
        input->insert(at, piece, piece + static_cast<std::ptrdiff_t>(size));
        break;
      }
      case 7:
        input->resize(place);
        break;
    }
  }

  std::mt19937 random_;
  size_t max_size_;
};

Input ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

/// The inputs of files, and of all files in folders, in the order of their names.
std::vector<Input> ReadInputs(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Input> inputs;
  for (const auto& file : files) inputs.push_back(ReadFile(file));
  return inputs;
}

struct Options {
  size_t runs = 0;
  size_t seed = 1;
  size_t max_len = 4096;
  std::vector<std::string> paths;

  Options(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      if (!Take(argv[i], "-runs=", &runs) && !Take(argv[i], "-seed=", &seed) &&
          !Take(argv[i], "-max_len=", &max_len)) {
        paths.emplace_back(argv[i]);
      }
    }
  }

 private:
  static bool Take(const char* argument, const char* prefix, size_t* value) {
    const size_t size = std::strlen(prefix);
    if (std::strncmp(argument, prefix, size) != 0) return false;
    *value = std::strtoull(argument + size, nullptr, 10);
    return true;
  }
};

}  // namespace

/// What the compiler calls at the begin of each basic block of instrumented code.
extern "C" void __sanitizer_cov_trace_pc() {
  const auto block = reinterpret_cast<size_t>(__builtin_return_address(0));
  const size_t mixed = (block >> 2) * 0x9e3779b97f4a7c15u >> 48;
  uint8_t& count = edges[(mixed ^ previous_block) % kNumEdges];
  if (count != UINT8_MAX) ++count;
  previous_block = mixed >> 1;
}

int main(int argc, char** argv) {
  const Options options(argc, argv);
  __sanitizer_set_death_callback(SaveCurrentInput);
  std::vector<Input> corpus = ReadInputs(options.paths);
  corpus.emplace_back();
  for (const Input& input : corpus) Run(input);
  const size_t begin = corpus.size();
  Mutator mutator(static_cast<unsigned>(options.seed), options.max_len);
  for (size_t i = 0; i < options.runs; ++i) {
    Input input = mutator.Mutate(corpus);
    if (Run(input)) corpus.push_back(std::move(input));
  }
  const size_t reached = kNumEdges - static_cast<size_t>(std::count(seen.begin(), seen.end(), 0));
  std::printf("%zu runs from %zu inputs: %zu new inputs, %zu edges\n", options.runs, begin,
              corpus.size() - begin, reached);
  return 0;
}
