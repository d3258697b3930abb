// SPDX-License-Identifier: Apache-2.0
// aten.convolution of one to three dimensions, also grouped and transposed, as products of
// matrices.
//
// The input is copied once into a buffer with its padding, taken apart by the phases of the stride,
// so that for each weight the inputs of consecutive outputs lie one behind the other: rows of a
// product's right factor, which are read where they are. Rows of outputs are as long as the
// buffer's; what is calculated behind an output's end is dropped.
#include <array>
#include <vector>

#include "compiled/operators/operator.h"
#include "compiled/product.h"

namespace {

using Sizes = std::array<int64_t, 3>;

struct Geometry {
  int64_t batch, groups, in_channels, out_channels;  // channels of one group
  Sizes in, out, kernel, stride, dilation, padding;
  Sizes between;  // zeros and one: how far elements of the input are apart
  bool is_transposed;

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return in_channels * taps(); }
};

int64_t Count(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/// Sizes of one to three dimensions as of three.
Sizes AsThree(ffi::ShapeView sizes, int64_t otherwise) {
  Sizes three{otherwise, otherwise, otherwise};
  for (size_t i = 0; i < sizes.size() && i < 3; ++i) {
    three[3 - sizes.size() + i] = sizes[i];
  }
  return three;
}

/// The places in the buffer of the elements that an output and a tap need.
struct Phases {
  Sizes length;     // of rows: positions of one phase
  int64_t channel;  // elements of a channel: of all phases

  explicit Phases(const Geometry& g) : channel(1) {
    for (size_t d = 0; d < 3; ++d) {
      const int64_t needed = (g.out[d] - 1) * g.stride[d] + g.dilation[d] * (g.kernel[d] - 1) + 1;
      length[d] = (needed + g.stride[d] - 1) / g.stride[d];
      channel *= length[d] * g.stride[d];
    }
  }
  int64_t Begin(const Geometry& g, const Sizes& phase) const {
    return ((phase[0] * g.stride[1] + phase[1]) * g.stride[2] + phase[2]) * Count(length);
  }
  int64_t At(int64_t i, int64_t j, int64_t k) const { return (i * length[1] + j) * length[2] + k; }
};

/// Offsets in the buffer of a group's rows of the product.
std::vector<int64_t> RowOffsets(const Geometry& g, const Phases& phases) {
  std::vector<int64_t> offsets;
  for (int64_t channel = 0; channel < g.in_channels; ++channel) {
    for (int64_t i = 0; i < g.kernel[0]; ++i) {
      for (int64_t j = 0; j < g.kernel[1]; ++j) {
        for (int64_t k = 0; k < g.kernel[2]; ++k) {
          const Sizes at{i * g.dilation[0], j * g.dilation[1], k * g.dilation[2]};
          Sizes phase, place;
          for (size_t d = 0; d < 3; ++d) {
            phase[d] = at[d] % g.stride[d];
            place[d] = at[d] / g.stride[d];
          }
          offsets.push_back(channel * phases.channel + phases.Begin(g, phase) +
                            phases.At(place[0], place[1], place[2]));
        }
      }
    }
  }
  return offsets;
}

/// A place of the input for one of the buffer's; -1 in the padding.
int64_t Source(const Geometry& g, size_t d, int64_t phase, int64_t place) {
  const int64_t at = place * g.stride[d] + phase - g.padding[d];
  return at < 0 || at % g.between[d] != 0 || at / g.between[d] >= g.in[d] ? -1 : at / g.between[d];
}

/// Fills a row of one phase.
template <typename T>
void FillRow(const Geometry& g, int64_t phase, int64_t length, const T* from, SumOf<T>* to) {
  if (g.between[2] != 1) {
    for (int64_t k = 0; k < length; ++k) {
      const int64_t z = Source(g, 2, phase, k);
      if (z >= 0) to[k] = Widen(from[z]);
    }
    return;
  }
  const int64_t stride = g.stride[2], before = g.padding[2] - phase;
  const int64_t begin = before <= 0 ? 0 : (before + stride - 1) / stride;
  const int64_t end = std::min(length, (g.in[2] + before + stride - 1) / stride);
  for (int64_t k = begin; k < end; ++k) to[k] = Widen(from[k * stride - before]);
}

/// Fills one channel of the buffer.
template <typename T>
void FillChannel(const Geometry& g, const Phases& phases, const T* from, SumOf<T>* to) {
  std::fill(to, to + phases.channel, SumOf<T>{0});
  for (int64_t a = 0; a < g.stride[0]; ++a) {
    for (int64_t i = 0; i < phases.length[0]; ++i) {
      const int64_t x = Source(g, 0, a, i);
      for (int64_t b = 0; x >= 0 && b < g.stride[1]; ++b) {
        for (int64_t j = 0; j < phases.length[1]; ++j) {
          const int64_t y = Source(g, 1, b, j);
          for (int64_t c = 0; y >= 0 && c < g.stride[2]; ++c) {
            const T* row = from + (x * g.in[1] + y) * g.in[2];
            FillRow(g, c, phases.length[2], row,
                    to + phases.Begin(g, {a, b, c}) + phases.At(i, j, 0));
          }
        }
      }
    }
  }
}

/// Columns of a tile that are consecutive outputs.
struct Segment {
  int64_t begin, count, output;
};

template <typename T>
class Convolution {
 public:
  Convolution(const Geometry& geometry, ffi::TensorView input, ffi::TensorView weight,
              const T* opt_bias, T* out)
      : g_(geometry),
        phases_(geometry),
        offsets_(RowOffsets(geometry, phases_)),
        input_(static_cast<const T*>(input.data_ptr())),
        opt_bias_(opt_bias),
        out_(out),
        columns_(phases_.At(g_.out[0] - 1, g_.out[1] - 1, g_.out[2] - 1) + 1),
        // Tiles read whole vectors, also behind the last output.
        buffer_(static_cast<size_t>(g_.groups * g_.in_channels * phases_.channel + kColumns)) {
    ReadWeights(static_cast<const T*>(weight.data_ptr()));
    for (int64_t column = 0; column < columns_; column += kColumns) {
      panels_.push_back(SegmentsOf(column));
    }
  }

  void Run() {
    const int64_t panels = static_cast<int64_t>(panels_.size());
    const int64_t blocks = (panels + kBlock - 1) / kBlock;
    const int64_t tiles = (g_.out_channels + kTileRows - 1) / kTileRows;
    const bool is_parallel = columns_ * g_.groups * g_.out_channels * g_.depth() > kParallelWork;
    const int64_t threads = is_parallel ? omp_get_max_threads() : 1;
    const int64_t shares = std::clamp<int64_t>(2 * threads / (g_.groups * blocks), 1, tiles);
#pragma omp parallel if (is_parallel)
    for (int64_t image = 0; image < g_.batch; ++image) {
#pragma omp for
      for (int64_t channel = 0; channel < g_.groups * g_.in_channels; ++channel) {
        FillChannel(g_, phases_,
                    input_ + (image * g_.groups * g_.in_channels + channel) * Count(g_.in),
                    buffer_.data() + channel * phases_.channel);
      }
#pragma omp for schedule(dynamic)
      for (int64_t task = 0; task < g_.groups * blocks * shares; ++task) {
        const int64_t share = task % shares, block = task / shares % blocks;
        const int64_t group = task / shares / blocks;
        for (int64_t tile = tiles * share / shares; tile < tiles * (share + 1) / shares; ++tile) {
          for (int64_t p = block * kBlock; p < std::min((block + 1) * kBlock, panels); ++p) {
            AnyTile(std::make_integer_sequence<int, kTileRows>(), image, group, tile * kTileRows,
                    p);
          }
        }
      }
    }
  }

 private:
  using Sum = SumOf<T>;
  using Vector = typename VectorOf<Sum>::Type;
  static constexpr int kWidth = VectorOf<Sum>::kWidth, kColumns = 2 * kWidth;
  static constexpr int64_t kBlock = 16;  // panels that share the weights of a tile in the cache

  /// As rows of a product: of a transposed convolution turned round.
  void ReadWeights(const T* from) {
    if constexpr (std::is_same_v<T, Sum>) {
      if (!g_.is_transposed) {
        weights_ = from;
        return;
      }
    }
    const int64_t taps = g_.taps();
    for (int64_t row = 0; row < g_.groups * g_.out_channels; ++row) {
      for (int64_t i = 0; i < g_.depth(); ++i) {
        int64_t at = row * g_.depth() + i;
        if (g_.is_transposed) {
          const int64_t group = row / g_.out_channels, channel = i / taps;
          at = ((group * g_.in_channels + channel) * g_.out_channels + row % g_.out_channels) *
                   taps +
               taps - 1 - i % taps;
        }
        own_weights_.push_back(Widen(from[at]));
      }
    }
    weights_ = own_weights_.data();
  }

  std::vector<Segment> SegmentsOf(int64_t column) const {
    std::vector<Segment> segments;
    for (int64_t c = 0; c < kColumns && column + c < columns_; ++c) {
      const int64_t at = column + c, k = at % phases_.length[2], rest = at / phases_.length[2];
      const int64_t j = rest % phases_.length[1], i = rest / phases_.length[1];
      if (k >= g_.out[2] || j >= g_.out[1]) continue;
      const int64_t output = (i * g_.out[1] + j) * g_.out[2] + k;
      const bool follows = !segments.empty() &&
                           segments.back().output + segments.back().count == output &&
                           segments.back().begin + segments.back().count == c;
      if (follows) {
        ++segments.back().count;
      } else {
        segments.push_back({c, 1, output});
      }
    }
    return segments;
  }

  template <int kRows>
  void Tile(int64_t image, int64_t group, int64_t row, int64_t panel) const {
    const int64_t first = group * g_.out_channels + row;
    TileSums<Sum, kRows> sums;
    sums.ForEach([&](int r, Vector& left, Vector& right) {
      left = right = Vector{} + (opt_bias_ == nullptr ? Sum{0} : Widen(opt_bias_[first + r]));
    });
    const Sum* base = buffer_.data() + group * g_.in_channels * phases_.channel + panel * kColumns;
    AddProducts<kRows>(
        weights_ + first * g_.depth(), g_.depth(),
        [&](int64_t k) { return base + offsets_[static_cast<size_t>(k)]; }, &sums);
    sums.ForEach([&](int r, const Vector& left, const Vector& right) {
      const Vector row[] = {left, right};
      Keep(reinterpret_cast<const Sum*>(row), panel,
           out_ + (image * g_.groups * g_.out_channels + first + r) * Count(g_.out));
    });
  }

  void Keep(const Sum* from, int64_t panel, T* to) const {
    for (const Segment& segment : panels_[static_cast<size_t>(panel)]) {
      if constexpr (std::is_same_v<T, Sum>) {
        std::memcpy(to + segment.output, from + segment.begin,
                    static_cast<size_t>(segment.count) * sizeof(T));
      } else {
        for (int64_t i = 0; i < segment.count; ++i) {
          Narrow(from[segment.begin + i], to + segment.output + i);
        }
      }
    }
  }

  template <int... kRows>
  void AnyTile(std::integer_sequence<int, kRows...>, int64_t image, int64_t group, int64_t row,
               int64_t panel) const {
    using Function = void (Convolution::*)(int64_t, int64_t, int64_t, int64_t) const;
    static constexpr Function kTiles[] = {&Convolution::Tile<kRows + 1>...};
    const int64_t count = std::min<int64_t>(kTileRows, g_.out_channels - row);
    (this->*kTiles[count - 1])(image, group, row, panel);
  }

  const Geometry g_;
  const Phases phases_;
  const std::vector<int64_t> offsets_;
  const T* const input_;
  const T* const opt_bias_;
  T* const out_;
  const int64_t columns_;
  std::vector<Sum> buffer_, own_weights_;
  const Sum* weights_ = nullptr;
  std::vector<std::vector<Segment>> panels_;
};

/// Turns a transposed convolution into one of an input with zeros between its elements.
void Transpose(Geometry* g) {
  for (size_t d = 0; d < 3; ++d) {
    g->between[d] = g->stride[d];
    g->stride[d] = 1;
    g->padding[d] = g->dilation[d] * (g->kernel[d] - 1) - g->padding[d];
  }
}

Geometry GeometryOf(ffi::TensorView input, ffi::TensorView weight, ffi::ShapeView stride,
                    ffi::ShapeView padding, ffi::ShapeView dilation, bool is_transposed,
                    ffi::ShapeView added, int64_t groups) {
  const int64_t ndim = input.ndim() - 2;
  if (ndim < 1 || ndim > 3) {
    TVM_FFI_THROW(NotImplementedError)
        << "aten.convolution: input: expected 3 to 5 dimensions, got " << input.ndim();
  }
  const auto spatial = [ndim](ffi::TensorView tensor) {
    return AsThree({tensor.shape().data() + 2, static_cast<size_t>(ndim)}, 1);
  };
  const int64_t in = input.size(1) / groups;
  const int64_t out = is_transposed ? weight.size(1) : weight.size(0) / groups;
  Geometry g{input.size(0),
             groups,
             in,
             out,
             spatial(input),
             {},
             spatial(weight),
             AsThree(stride, 1),
             AsThree(dilation, 1),
             AsThree(padding, 0),
             {1, 1, 1},
             is_transposed};
  const Sizes more = AsThree(added, 0);
  for (size_t d = 0; d < 3; ++d) {
    const int64_t extent = g.dilation[d] * (g.kernel[d] - 1);
    g.out[d] = is_transposed ? (g.in[d] - 1) * g.stride[d] - 2 * g.padding[d] + extent + more[d] + 1
                             : (g.in[d] + 2 * g.padding[d] - extent - 1) / g.stride[d] + 1;
  }
  if (is_transposed) Transpose(&g);
  return g;
}

ffi::Tensor Convolve(ffi::TensorView input, ffi::TensorView weight,
                     ffi::Optional<ffi::Tensor> opt_bias, ffi::Shape stride, ffi::Shape padding,
                     ffi::Shape dilation, bool is_transposed, ffi::Shape output_padding,
                     int64_t groups) {
  const Geometry g =
      GeometryOf(input, weight, stride, padding, dilation, is_transposed, output_padding, groups);
  std::vector<int64_t> shape{g.batch, g.groups * g.out_channels};
  for (int64_t d = 5 - input.ndim(); d < 3; ++d) shape.push_back(g.out[static_cast<size_t>(d)]);
  ffi::Tensor result = NewTensor(shape, input.dtype());
  if (result.numel() == 0) return result;
  WithType("aten.convolution", input.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_floating_point_v<SumOf<T>>) {
      const void* bias = opt_bias.has_value() ? (*opt_bias).data_ptr() : nullptr;
      Convolution<T>(g, input, weight, static_cast<const T*>(bias),
                     static_cast<T*>(result.data_ptr()))
          .Run();
    } else {
      TVM_FFI_THROW(NotImplementedError)
          << "aten.convolution: expected floating-point numbers, got "
          << ffi::DLDataTypeToString(input.dtype()) << "; cast the operands";
    }
  });
  return result;
}

}  // namespace

GRAPHFFI_OPERATOR(convolution, Convolve)
