#include "data/color.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace facula::data {
namespace {

/// `from` at factor 0, `to` at factor 1, and beyond.
std::uint8_t blend(int from, int to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::min(std::max(value, 0.f), 255.f));
}

/// Blends with one colour for all pixels.
void blend_all(const Pixels& pixels, int from, double factor) {
  std::array<std::uint8_t, 256> table;
  for (int i = 0; i < 256; ++i) {
    table[static_cast<std::size_t>(i)] = blend(from, i, static_cast<float>(factor));
  }
  for (std::int64_t i = 0; i < pixels.count * pixels.channels; ++i) {
    pixels.data[i] = table[pixels.data[i]];
  }
}

int mean_luma(const Pixels& pixels) {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < pixels.count; ++i) {
    const std::uint8_t* p = pixels.data + i * pixels.channels;
    sum += pixels.channels == 3 ? luma(p[0], p[1], p[2]) : p[0];
  }
  return static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels.count) + 0.5);
}

/// The hue in 255ths of a turn, rounded towards 0. Precisions are those of Pillow, because a step
/// of the hue shows: it is worth up to six levels of a channel.
int hue_of(int red, int green, int blue, int most, float spread) {
  const auto below = [&](int channel) { return static_cast<float>(most - channel) / spread; };
  float sixths;
  if (red == most) {
    sixths = below(blue) - below(green);
  } else if (green == most) {
    sixths = static_cast<float>(2.0 + below(red) - below(blue));
  } else {
    sixths = static_cast<float>(4.0 + below(green) - below(red));
  }
  const double turns = sixths / 6.0 + 1.0;
  const auto hue = static_cast<float>(turns >= 1 ? turns - 1 : turns);
  return static_cast<int>(hue * 255.0);
}

/// What a hue says about the channels: which sixth of the colour wheel it lies in and where there.
struct HuePosition {
  int sector;
  float fraction;
};

HuePosition position_of(int hue) {
  const double sixths = hue * 6.0 / 255.0;
  const double whole = std::floor(sixths);
  return {static_cast<int>(whole) % 6, static_cast<float>(sixths - whole)};
}

std::uint8_t scale(int value, double factor) {
  return static_cast<std::uint8_t>(value * factor + 0.5);
}

}  // namespace

void adjust_brightness(const Pixels& pixels, double factor) { blend_all(pixels, 0, factor); }

void adjust_contrast(const Pixels& pixels, double factor) {
  if (pixels.count > 0) blend_all(pixels, mean_luma(pixels), factor);
}

void adjust_saturation(const Pixels& pixels, double factor) {
  if (pixels.channels != 3) return;
  // Greys first, one for each channel, so that the rest is a loop over bytes.
  constexpr std::int64_t kBlock = 128;
  std::array<std::uint8_t, 3 * kBlock> greys;
  for (std::int64_t done = 0; done < pixels.count; done += kBlock) {
    std::uint8_t* p = pixels.data + 3 * done;
    const std::int64_t count = std::min(kBlock, pixels.count - done);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint8_t grey = luma(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
      std::fill_n(greys.begin() + 3 * i, 3, grey);
    }
    for (std::int64_t i = 0; i < 3 * count; ++i) {
      p[i] = blend(greys[static_cast<std::size_t>(i)], p[i], static_cast<float>(factor));
    }
  }
}

void adjust_hue(const Pixels& pixels, double shift) {
  if (pixels.channels != 3) return;
  // Hues are counted modulo 256, though a turn has 255 steps; torchvision does the same.
  const int steps = static_cast<int>(shift * 255);
  std::array<HuePosition, 256> positions;
  for (int hue = 0; hue < 256; ++hue) {
    positions[static_cast<std::size_t>(hue)] = position_of((hue + steps) & 255);
  }
  for (std::int64_t i = 0; i < pixels.count; ++i) {
    std::uint8_t* p = pixels.data + 3 * i;
    const int most = std::max({p[0], p[1], p[2]}), least = std::min({p[0], p[1], p[2]});
    if (most == least) continue;
    const auto spread = static_cast<float>(most - least);
    const int hue = hue_of(p[0], p[1], p[2], most, spread);
    const int saturation = static_cast<int>(spread / static_cast<float>(most) * 255.0);
    const auto [sector, fraction] = positions[static_cast<std::size_t>(hue)];
    const auto share = static_cast<float>(saturation / 255.0);
    const auto v = static_cast<std::uint8_t>(most);
    const std::uint8_t low = scale(most, 1.0 - share);
    const std::uint8_t falling = scale(most, 1.0 - share * fraction);
    const std::uint8_t rising = scale(most, 1.0 - share * (1.0 - fraction));
    switch (sector) {
      case 0: p[0] = v, p[1] = rising, p[2] = low; break;
      case 1: p[0] = falling, p[1] = v, p[2] = low; break;
      case 2: p[0] = low, p[1] = v, p[2] = rising; break;
      case 3: p[0] = low, p[1] = falling, p[2] = v; break;
      case 4: p[0] = rising, p[1] = low, p[2] = v; break;
      default: p[0] = v, p[1] = low, p[2] = falling; break;
    }
  }
}

}  // namespace facula::data
