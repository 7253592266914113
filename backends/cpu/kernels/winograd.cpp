// Tiles, weights and gradients to and from the transformed domain, and the products there.
#include "backends/cpu/kernels/winograd.h"

#include "backends/cpu/kernels/winograd_products.h"
#include "backends/cpu/kernels/winograd_transforms.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Rows in Columns^t for a matrix `in`, of which load(i, j) gives the elements; store(i, j, value)
/// takes those of the result.
template <class Rows, class Columns, class Load, class Store>
[[gnu::always_inline]] inline void transform(const Load& load, const Store& store) {
  Raw half[Rows::kOut][Columns::kIn];
#pragma GCC unroll 6
  for (int j = 0; j < Columns::kIn; ++j) {
    Raw column[Rows::kIn], result[Rows::kOut];
#pragma GCC unroll 6
    for (int i = 0; i < Rows::kIn; ++i) column[i] = load(i, j);
    Rows::apply(column, result);
#pragma GCC unroll 6
    for (int i = 0; i < Rows::kOut; ++i) half[i][j] = result[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Rows::kOut; ++i) {
    Raw result[Columns::kOut];
    Columns::apply(half[i], result);
#pragma GCC unroll 6
    for (int j = 0; j < Columns::kOut; ++j) store(i, j, result[j]);
  }
}

/// The number of a position of a transformed tile or of weights. A dimension that is not
/// transformed varies fastest: its positions share weights.
template <class Rows, class Columns>
constexpr int position_of(int i, int j) {
  const int row = Rows::point(i), column = Columns::point(j);
  return Rows::kPlain && !Columns::kPlain ? column * Rows::kPoints + row
                                          : row * Columns::kPoints + column;
}

template <bool Partial>
[[gnu::always_inline]] inline Raw load(const float* p, int lanes) {
  return Partial ? X::load(p, lanes) : X::load(p);
}
/// How a vector is stored: the whole, some lanes, or past the caches where the instruction set can.
enum class Target { vector, lanes, stream };

template <Target Kind>
[[gnu::always_inline]] inline void store(float* p, Raw value, int lanes = kWidth) {
  if constexpr (Kind == Target::lanes) {
    X::store(p, value, lanes);
  } else if constexpr (Kind == Target::vector) {
    X::store(p, value);
  } else {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, value);
#elif defined(__AVX2__)
    _mm256_stream_ps(p, value);
#else
    X::store(p, value);
#endif
  }
}

/// Makes streamed data visible to the other threads.
[[gnu::always_inline]] inline void end_of_stream() {
#if defined(__AVX2__)
  _mm_sfence();
#endif
}

/// The pixels at which tile number `tile` begins.
struct Corner {
  std::int64_t image, y, x;

  template <class T>
  Corner(const Images<T>& images, std::int64_t tile)
      : image(tile / (images.tile_rows * images.tile_columns)),
        y(tile / images.tile_columns % images.tile_rows * kTile - images.pad_h),
        x(tile % images.tile_columns * kTile - images.pad_w) {}
};

constexpr float kZeros[kMostChannels] = {};

/// Where the pixels of a tile are; those outside of the image are in kZeros.
template <int Height, int Width>
struct Pixels {
  const float* at[Height][Width];

  void locate(const Images<const float>& images, const Part& part, std::int64_t tile) {
    const Corner corner(images, part.first_tile + tile);
    const float* image = images.data + corner.image * images.image_stride + part.first_channel;
    const float* line = image + corner.y * images.line_stride + corner.x * images.pixel_stride;
    for (int i = 0; i < Height; ++i, line += images.line_stride) {
      const bool inside = corner.y + i >= 0 && corner.y + i < images.h;
      for (int j = 0; j < Width; ++j) {
        const std::int64_t x = corner.x + j;
        at[i][j] = inside && x >= 0 && x < images.w ? line + j * images.pixel_stride : kZeros;
      }
    }
  }
};

template <class Rows, class Columns>
using PixelsOf = Pixels<Rows::kIn, Columns::kIn>;

/// One vector of channels. That of the next tile is on its way meanwhile: the pieces of memory that
/// a tile touches are too short for the hardware to foresee. To the second-level cache, since
/// pixels are often a large power of two apart: those of two tiles have more lines than the first
/// level has ways.
template <class Rows, class Columns, bool Partial>
[[gnu::always_inline]] inline void transform_vector(const PixelsOf<Rows, Columns>& pixels,
                                                    const PixelsOf<Rows, Columns>& next,
                                                    std::int64_t c, int lanes, float* values,
                                                    std::int64_t position_stride) {
  transform<Rows, Columns>(
      [&](int i, int j) FACULA_INLINED {
        __builtin_prefetch(next.at[i][j] + c, 0, 2);
        return load<Partial>(pixels.at[i][j] + c, lanes);
      },
      [&](int i, int j, Raw value) FACULA_INLINED {
        X::store(values + position_of<Rows, Columns>(i, j) * position_stride + c, value);
      });
}

/// The pixels that the tiles depend on to their transforms.
template <class Rows, class Columns>
void transform_images(const Images<const float>& from, const Part& part, const Transformed& to) {
  PixelsOf<Rows, Columns> pixels[2];
  pixels[0].locate(from, part, 0);
  for (std::int64_t t = 0; t < part.tiles; ++t) {
    const auto& own = pixels[t % 2];
    auto& next = pixels[(t + 1) % 2];
    next.locate(from, part, t + 1 < part.tiles ? t + 1 : t);
    float* values = to.data + t * to.tile_stride;
    std::int64_t c = 0;
    for (; c + kWidth <= part.channels; c += kWidth) {
      transform_vector<Rows, Columns, false>(own, next, c, kWidth, values, to.position_stride);
    }
    if (c < part.channels) {
      transform_vector<Rows, Columns, true>(own, next, c, static_cast<int>(part.channels - c),
                                            values, to.position_stride);
    }
  }
}

/// A tile of the output: its sums of products, and the part that lies in the image.
struct OutputTile {
  const float* sums;
  std::int64_t position_stride;
  float* images;
  std::int64_t offset;  ///< of the first pixel in the images
  std::int64_t line_stride, pixel_stride;
  std::int64_t rows, columns;

  OutputTile(const Transformed& from, const Part& part, const Images<float>& to, std::int64_t tile)
      : sums(from.data + tile * from.tile_stride),
        position_stride(from.position_stride),
        images(to.data),
        line_stride(to.line_stride),
        pixel_stride(to.pixel_stride) {
    const Corner corner(to, part.first_tile + tile);
    offset = corner.image * to.image_stride + corner.y * line_stride + corner.x * pixel_stride +
             part.first_channel;
    rows = to.h - corner.y;
    columns = to.w - corner.x;
  }
};

/// How pixels are made and stored.
template <Target Where, bool Add, Epilogue::Kind Kind>
struct OutputMode {
  static constexpr Target kTarget = Where;
  static constexpr bool kAdd = Add;  ///< to what is there
  static constexpr Epilogue::Kind kKind = Kind;
  using OfLanes = OutputMode<Target::lanes, Add, Kind>;
};

/// The epilogue of one vector of channels.
template <class Mode>
struct PixelEpilogue {
  static constexpr bool kPartial = Mode::kTarget == Target::lanes;

  const float *residual, *rectified;
  bool relu;
  int lanes;
  Raw bias, scale, shift, cap;

  [[gnu::always_inline]] PixelEpilogue(const Epilogue& e, std::int64_t channel, int lanes)
      : residual(e.residual), rectified(e.rectified), relu(e.relu), lanes(lanes) {
    bias = e.bias ? load<kPartial>(e.bias + channel, lanes) : X::zero();
    if constexpr (Mode::kKind == Epilogue::Kind::affine) {
      scale = load<kPartial>(e.scale + channel, lanes);
      shift = load<kPartial>(e.shift + channel, lanes);
      cap = X::all(e.cap);
    }
  }

  /// `place` is where the pixel goes, `offset` where that is in the images.
  [[gnu::always_inline]] Raw operator()(Raw value, const float* place, std::int64_t offset) const {
    value = value + (Mode::kAdd ? load<kPartial>(place, lanes) : bias);
    // Rounded twice, like the ops that this replaces.
    if constexpr (Mode::kKind == Epilogue::Kind::affine) value = value * scale + shift;
    if constexpr (Mode::kKind != Epilogue::Kind::bias) {
      if (residual) value = value + load<kPartial>(residual + offset, lanes);
    }
    if constexpr (Mode::kKind == Epilogue::Kind::affine) {
      if (relu) {
        value = value <= X::zero() ? X::zero() : value;
        value = value >= cap ? cap : value;
      }
    }
    if constexpr (Mode::kKind == Epilogue::Kind::gradient) {
      if (rectified) {
        value = load<kPartial>(rectified + offset, lanes) <= X::zero() ? X::zero() : value;
      }
    }
    return value;
  }
};

template <class Rows, class Columns, class Mode>
[[gnu::always_inline]] inline void output_vector(const OutputTile& tile, const Epilogue& epilogue,
                                                 std::int64_t first_channel, std::int64_t c,
                                                 int lanes) {
  const PixelEpilogue<Mode> finish(epilogue, first_channel + c, lanes);
  transform<Rows, Columns>(
      [&](int i, int j) FACULA_INLINED {
        return X::load(tile.sums + position_of<Rows, Columns>(i, j) * tile.position_stride + c);
      },
      [&](int i, int j, Raw value) FACULA_INLINED {
        if (i >= tile.rows || j >= tile.columns) return;
        const std::int64_t offset = tile.offset + i * tile.line_stride + j * tile.pixel_stride + c;
        float* place = tile.images + offset;
        store<Mode::kTarget>(place, finish(value, place, offset), lanes);
      });
}

template <class Rows, class Columns, class Mode>
void output_tiles(const Transformed& from, const Epilogue& epilogue, const Part& part,
                  const Images<float>& to) {
  for (std::int64_t t = 0; t < part.tiles; ++t) {
    const OutputTile tile(from, part, to, t);
    std::int64_t c = 0;
    for (; c + kWidth <= part.channels; c += kWidth) {
      output_vector<Rows, Columns, Mode>(tile, epilogue, part.first_channel, c, kWidth);
    }
    if (c < part.channels) {
      output_vector<Rows, Columns, typename Mode::OfLanes>(tile, epilogue, part.first_channel, c,
                                                           static_cast<int>(part.channels - c));
    }
  }
}

template <class Rows, class Columns, Epilogue::Kind Kind>
void output_in_mode(const Transformed& from, const Epilogue& epilogue, const Part& part,
                    const Images<float>& to, StoreMode mode) {
  switch (mode) {
    case StoreMode::usual:
      return output_tiles<Rows, Columns, OutputMode<Target::vector, false, Kind>>(from, epilogue,
                                                                                  part, to);
    case StoreMode::add:
      // Three taps are all there are: nothing else adds to their pixels, nor to those of gradients.
      if constexpr (Rows::kPoints < ThreeTaps::Output::kPoints &&
                    Kind != Epilogue::Kind::gradient) {
        output_tiles<Rows, Columns, OutputMode<Target::vector, true, Kind>>(from, epilogue, part,
                                                                            to);
      }
      return;
    case StoreMode::stream:
      output_tiles<Rows, Columns, OutputMode<Target::stream, false, Kind>>(from, epilogue, part,
                                                                           to);
      end_of_stream();
  }
}

template <class Rows, class Columns>
void output(const Transformed& from, const Epilogue& epilogue, const Part& part,
            const Images<float>& to, StoreMode mode) {
  using Kind = Epilogue::Kind;
  switch (epilogue.kind) {
    case Kind::bias:
      return output_in_mode<Rows, Columns, Kind::bias>(from, epilogue, part, to, mode);
    case Kind::affine:
      return output_in_mode<Rows, Columns, Kind::affine>(from, epilogue, part, to, mode);
    case Kind::gradient:
      return output_in_mode<Rows, Columns, Kind::gradient>(from, epilogue, part, to, mode);
  }
}

// --- Weights -------------------------------------------------------------------------------------

template <class Rows, class Columns, Target Kind, bool Partial>
[[gnu::always_inline]] inline void weight_vector(const Weights& w, std::int64_t c, std::int64_t k,
                                                 int lanes) {
  const float* taps = w.taps + c * w.row_stride + k;
  float* to = w.data + c * kPanel + k;
  transform<Rows, Columns>(
      [&](int i, int j) FACULA_INLINED {
        return load<Partial>(taps + i * w.tap_line_stride + j * w.tap_stride, lanes);
      },
      [&](int i, int j, Raw value) FACULA_INLINED {
        store<Kind>(to + position_of<Rows, Columns>(i, j) * w.matrix_stride, value);
      });
}

template <class Rows, class Columns, Target Kind>
void transform_weights(const Weights& w) {
  for (std::int64_t c = 0; c < w.channels; ++c) {
    std::int64_t k = 0;
    for (; k + kWidth <= w.outputs; k += kWidth) {
      weight_vector<Rows, Columns, Kind, false>(w, c, k, kWidth);
    }
    if (k < w.outputs) {
      weight_vector<Rows, Columns, Kind, true>(w, c, k, static_cast<int>(w.outputs - k));
    }
  }
}

template <class Rows, class Columns>
void weights(const Weights& w, bool stream) {
  if (!stream) return transform_weights<Rows, Columns, Target::vector>(w);
  transform_weights<Rows, Columns, Target::stream>(w);
  end_of_stream();
}

template <class Rows, class Columns, Target Kind>
[[gnu::always_inline]] inline void gradient_vector(const WeightGradient& g, std::int64_t row,
                                                   std::int64_t column, int lanes) {
  const float* sums = g.data + row * g.row_stride + column;
  float* taps = g.taps + row * g.tap_row_stride + column;
  transform<Rows, Columns>(
      [&](int i, int j) FACULA_INLINED {
        return X::load(sums + position_of<Rows, Columns>(i, j) * g.matrix_stride);
      },
      [&](int i, int j, Raw value) FACULA_INLINED {
        store<Kind>(taps + i * g.tap_line_stride + j * g.tap_stride, value, lanes);
      });
}

template <class Rows, class Columns>
void weight_gradient(const WeightGradient& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    std::int64_t column = 0;
    for (; column + kWidth <= g.columns; column += kWidth) {
      gradient_vector<Rows, Columns, Target::vector>(g, row, column, kWidth);
    }
    if (column < g.columns) {
      gradient_vector<Rows, Columns, Target::lanes>(g, row, column,
                                                    static_cast<int>(g.columns - column));
    }
  }
}

/// A bit for each matrix that tiles have positions for.
template <class Rows, class Columns>
constexpr std::uint64_t used_matrices(int sharing) {
  std::uint64_t used = 0;
  for (int i = 0; i < Rows::kOut; ++i) {
    for (int j = 0; j < Columns::kOut; ++j) {
      used |= std::uint64_t{1} << position_of<Rows, Columns>(i, j) / sharing;
    }
  }
  return used;
}

template <class Rows, class Columns>
constexpr int kPositions = Rows::kPoints* Columns::kPoints;

/// The transforms for filters with the taps of Rows and Columns.
template <class Rows, class Columns>
constexpr Filter kFilter = {
    Rows::Weight::kIn,
    Columns::Weight::kIn,
    kPositions<typename Rows::Input, typename Columns::Input>,
    kPositions<typename Rows::Weight, typename Columns::Weight>,
    used_matrices<typename Rows::Input, typename Columns::Input>(
        kPositions<typename Rows::Input, typename Columns::Input> /
        kPositions<typename Rows::Weight, typename Columns::Weight>),
    transform_images<typename Rows::Input, typename Columns::Input>,
    transform_images<typename Rows::Gradient, typename Columns::Gradient>,
    weights<typename Rows::Weight, typename Columns::Weight>,
    output<typename Rows::Output, typename Columns::Output>,
    weight_gradient<typename Rows::WeightGradient, typename Columns::WeightGradient>,
};

/// Also for the rare corners of 3x2 and 2x3 pixels.
constexpr Filter kThreePixels = kFilter<ThreeTapsThreePixels, ThreeTapsThreePixels>;

}  // namespace

extern const winograd::Kernels winograd_kernels = {
    kWidth,
    kPanel,
    products,
    {{kFilter<ThreeTaps, ThreeTaps>, kFilter<ThreeTaps, ThreeTapsThreePixels>,
      kFilter<ThreeTaps, ThreeTapsTwoPixels>},
     {kFilter<ThreeTapsThreePixels, ThreeTaps>, kThreePixels, kThreePixels},
     {kFilter<ThreeTapsTwoPixels, ThreeTaps>, kThreePixels,
      kFilter<ThreeTapsTwoPixels, ThreeTapsTwoPixels>}},
    {{kFilter<TwoTaps, TwoTaps>, kFilter<TwoTaps, OneTap>},
     {kFilter<OneTap, TwoTaps>, kFilter<OneTap, OneTap>}},
};

}  // namespace facula::cpu::FACULA_ISA
