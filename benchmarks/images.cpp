// What the parts of the input pipeline take on one thread.
//
//   bench_images [FOLDER]      small images, resizing; with a folder of JPEG files, the regions
//   that
//                              RandomResizedCrop draws, decoded here and by a bare loop
#include <fmt/format.h>
#include <jpeglib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <facula/data.h>
#include <facula/error.h>

namespace {

using facula::data::Image;
using facula::data::Interpolation;
using facula::data::Rect;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 15;
constexpr double kMean[3] = {0.49, 0.48, 0.45}, kStd[3] = {0.25, 0.24, 0.26};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Median seconds of one of `calls` calls of `work`.
template <class Work>
double time_of(int calls, const Work& work) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) work();
    seconds.push_back(seconds_since(start) / calls);
  }
  return median(std::move(seconds));
}

std::vector<std::uint8_t> pixels(std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(height * width * 3));
  std::mt19937 random(1);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

void small_images() {
  const auto bytes = pixels(32, 32);
  std::vector<float> place(32 * 32 * 3);
  const auto convert = [&](bool flip) {
    return 1e6 * time_of(2000, [&] {
             Image image(bytes.data(), 32, 32, 3);
             if (flip) image.flip_horizontal();
             image.to_float().normalize(kMean, kStd).write(place.data());
           });
  };
  fmt::print("32x32x3 to normalised float32    {:8.2f} us\n", convert(false));
  fmt::print("- mirrored                       {:8.2f} us\n", convert(true));
}

void resizing() {
  const auto bytes = pixels(375, 500);
  std::vector<std::uint8_t> place(224 * 224 * 3);
  for (const auto& [name, how] : {std::pair{"bilinear", Interpolation::bilinear},
                                  std::pair{"bicubic ", Interpolation::bicubic}}) {
    const double seconds = time_of(
        50, [&] { Image(bytes.data(), 375, 500, 3).resize(224, 224, how).write(place.data()); });
    fmt::print("500x375x3 to 224x224, {}   {:8.3f} ms\n", name, 1e3 * seconds);
  }
}

struct Part {
  std::string path;
  Rect region;
};

/// One region of each file as torchvision's RandomResizedCrop draws it: 8 to 100 % of the area,
/// sides in a ratio of 3:4 to 4:3.
std::vector<Part> random_regions(const std::string& folder) {
  std::vector<Part> parts;
  std::mt19937 random(1);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jpg") continue;
    const Image image = Image::open(entry.path().string());
    std::uniform_real_distribution<double> share(0.08, 1), ratio(std::log(0.75), -std::log(0.75));
    Rect region{0, 0, image.height(), image.width()};
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = share(random) * static_cast<double>(image.height() * image.width());
      const double sides = std::exp(ratio(random));
      const std::int64_t width = std::lround(std::sqrt(area * sides));
      const std::int64_t height = std::lround(std::sqrt(area / sides));
      if (width > image.width() || height > image.height()) continue;
      region = {std::uniform_int_distribution<std::int64_t>(0, image.height() - height)(random),
                std::uniform_int_distribution<std::int64_t>(0, image.width() - width)(random),
                height, width};
      break;
    }
    parts.push_back({entry.path().string(), region});
  }
  return parts;
}

/// The region, and up to a block beside it, as libjpeg-turbo's own functions give it. Files of
/// photographs only: errors end the program.
void decode_barely(const Part& part, std::vector<std::uint8_t>& place) {
  std::FILE* file = std::fopen(part.path.c_str(), "rb");
  if (!file) throw facula::IoError("cannot read " + part.path);
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&jpeg);
  jpeg_stdio_src(&jpeg, file);
  jpeg_read_header(&jpeg, TRUE);
  jpeg_start_decompress(&jpeg);
  auto left = static_cast<JDIMENSION>(part.region.left);
  auto width = static_cast<JDIMENSION>(part.region.width);
  jpeg_crop_scanline(&jpeg, &left, &width);
  jpeg_skip_scanlines(&jpeg, static_cast<JDIMENSION>(part.region.top));
  place.resize(static_cast<std::size_t>(part.region.height) * jpeg.output_width *
               static_cast<std::size_t>(jpeg.output_components));
  JSAMPROW row = place.data();
  for (std::int64_t y = 0; y < part.region.height; ++y) {
    jpeg_read_scanlines(&jpeg, &row, 1);
    row += jpeg.output_width * static_cast<JDIMENSION>(jpeg.output_components);
  }
  jpeg_abort_decompress(&jpeg);
  jpeg_destroy_decompress(&jpeg);
  std::fclose(file);
}

void regions(const std::string& folder) {
  const auto parts = random_regions(folder);
  if (parts.empty()) throw facula::ValueError("there is no .jpg file under " + folder);
  std::vector<std::uint8_t> place;
  std::vector<double> ours, bare, ratios;
  for (int round = 0; round < kRounds; ++round) {
    auto start = Clock::now();
    for (const Part& part : parts) {
      Image image = Image::open(part.path);
      image.crop(part.region);
      place.resize(static_cast<std::size_t>(part.region.height * part.region.width * 3));
      image.write(place.data());
    }
    ours.push_back(seconds_since(start));
    start = Clock::now();
    for (const Part& part : parts) decode_barely(part, place);
    bare.push_back(seconds_since(start));
    ratios.push_back(bare.back() / ours.back());
  }
  const auto count = static_cast<double>(parts.size());
  fmt::print(
      "region of a photograph           {:8.3f} ms; bare loop {:.3f} ms: {:.0f} % of its speed\n",
      1e3 * median(ours) / count, 1e3 * median(bare) / count, 100 * median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    small_images();
    resizing();
    if (argc > 1) regions(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_images: {}\n", error.what());
    return 1;
  }
}
