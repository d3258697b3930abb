// SPDX-License-Identifier: Apache-2.0
// Functions of libtorch that the code of flex attention calls: for threads, memory and products.
#include <ATen/Parallel.h>
#include <ATen/cpu/Utils.h>
#include <ATen/native/CPUBlas.h>
#include <c10/core/Allocator.h>
#include <graphffi_standalone/shim_tensor.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "compiled/product.h"

namespace {

thread_local int thread_num = 0;
thread_local bool is_in_parallel = false;

class Heap final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == nullptr) graphffi_standalone::Fail("MemoryError", "graphffi: out of memory");
    return {memory, memory, &std::free, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

/// The elements of a matrix as sums, row by row.
template <typename T>
std::vector<float> Wide(const T* from, int64_t rows, int64_t columns, int64_t stride) {
  std::vector<float> wide;
  wide.reserve(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      wide.push_back(static_cast<float>(from[row * stride + i]));
    }
  }
  return wide;
}

}  // namespace

namespace c10 {

// Never called: the class's table of functions is where it is defined.
bool Allocator::is_simple_data_ptr(const DataPtr&) const { return true; }

bool ParallelGuard::is_enabled() { return is_in_parallel; }
ParallelGuard::ParallelGuard(bool state) : previous_state_(is_in_parallel) {
  is_in_parallel = state;
}
ParallelGuard::~ParallelGuard() { is_in_parallel = previous_state_; }

}  // namespace c10

namespace at {

void init_num_threads() {}
int get_num_threads() { return omp_get_max_threads(); }
int get_thread_num() { return thread_num; }
bool in_parallel_region() { return is_in_parallel || omp_in_parallel() != 0; }
void internal::set_thread_num(int id) { thread_num = id; }

Allocator* getCPUAllocator() {
  static Heap heap;
  return &heap;
}

// Torch 2.15 asks; tiles of AMX are only for what is packed, which nothing is here.
bool cpu::init_amx() { return false; }

namespace native::cpublas {

bool could_pack(ScalarType) { return false; }
void brgemm_release(bool) {}

void brgemm(int64_t rows, int64_t columns, int64_t depth, int64_t a_stride, int64_t b_stride,
            int64_t out_stride, bool adds, const float* a, const float* b, float* out, bool) {
  const Matrix<const float> added{out, out_stride, 1};
  const float beta = adds ? 1.0F : 0.0F;
  RunBatch<float>({{rows,
                    columns,
                    depth,
                    {a, a_stride, 1},
                    {b, b_stride, 1},
                    {out, out_stride, 1},
                    added,
                    1,
                    beta}});
}

void brgemm(int64_t rows, int64_t columns, int64_t depth, int64_t a_stride, int64_t b_stride,
            int64_t out_stride, bool adds, const c10::BFloat16* a, const c10::BFloat16* b,
            float* out, bool) {
  const std::vector<float> wide_a = Wide(a, rows, depth, a_stride);
  const std::vector<float> wide_b = Wide(b, depth, columns, b_stride);
  brgemm(rows, columns, depth, depth, columns, out_stride, adds, wide_a.data(), wide_b.data(), out,
         false);
}

}  // namespace native::cpublas
}  // namespace at
