// What the parts of the input pipeline take on one thread.
//
//   bench_images [FOLDER]      small images, resizing; with a folder of JPEG files, the regions
//                              that RandomResizedCrop draws: decoded by a bare loop and here, and
//                              made into what training takes
#include <fmt/format.h>
#include <jpeglib.h>
#include <time.h>

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

/// CPU seconds of this thread: other programs disturb them less than the time of day.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What training takes of a photograph: 224x224 pixels of the region, every other one mirrored,
/// normalised, in its place in a batch.
void make_input(const Part& part, std::size_t index, std::vector<float>& batch) {
  constexpr std::size_t kBatch = 32, kSide = 224, kElements = kSide * kSide * 3;
  batch.resize(kBatch * kElements);
  Image image = Image::open(part.path);
  image.crop(part.region).resize(kSide, kSide);
  if (index % 2 == 1) image.flip_horizontal();
  image.to_float().normalize(kMean, kStd).write(batch.data() + index % kBatch * kElements);
}

void decode(const Part& part, std::vector<std::uint8_t>& place) {
  Image image = Image::open(part.path);
  image.crop(part.region);
  place.resize(static_cast<std::size_t>(part.region.height * part.region.width * 3));
  image.write(place.data());
}

void regions(const std::string& folder) {
  const auto parts = random_regions(folder);
  if (parts.empty()) throw facula::ValueError("there is no .jpg file under " + folder);
  std::vector<std::uint8_t> place;
  std::vector<float> batch;
  std::vector<double> bare, decoded, made, decoded_ratios, made_ratios;
  const auto time = [&](const auto& work) {
    const double start = cpu_seconds();
    for (std::size_t i = 0; i < parts.size(); ++i) work(parts[i], i);
    return (cpu_seconds() - start) / static_cast<double>(parts.size());
  };
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(time([&](const Part& part, std::size_t) { decode_barely(part, place); }));
    decoded.push_back(time([&](const Part& part, std::size_t) { decode(part, place); }));
    made.push_back(time([&](const Part& part, std::size_t i) { make_input(part, i, batch); }));
    decoded_ratios.push_back(bare.back() / decoded.back());
    made_ratios.push_back(bare.back() / made.back());
  }
  fmt::print("region of a photograph, bare loop {:8.3f} ms\n", 1e3 * median(bare));
  fmt::print("- decoded                        {:8.3f} ms: {:.0f} % of the bare loop's speed\n",
             1e3 * median(decoded), 100 * median(decoded_ratios));
  fmt::print("- 224x224, mirrored, normalised  {:8.3f} ms: {:.0f} %\n", 1e3 * median(made),
             100 * median(made_ratios));
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
