#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <numeric>
#include <string_view>

#include <fmt/ranges.h>

#include <facula/data.h>

#include "base/check.h"
#include "data/random_choice.h"
#include "io/cifar.h"
#include "io/idx.h"

namespace facula::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kClasses = 10;

/// The files of one kind of data set, by their uncompressed names.
struct Files {
  const char* kind;
  std::vector<std::string> train, test;
};

const Files& mnist_files() {
  static const Files files{"MNIST",
                           {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                           {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
  return files;
}

const Files& cifar_files() {
  static const Files files{"CIFAR-10",
                           {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                            "data_batch_4.bin", "data_batch_5.bin"},
                           {"test_batch.bin"}};
  return files;
}

/// The path of `name` in `folder`, raw or compressed.
std::string find_file(const std::string& folder, const std::string& name, const Files& files) {
  std::error_code ignored;
  for (const char* suffix : {"", ".gz", ".xz"}) {
    const fs::path path = fs::path(folder) / (name + suffix);
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  fail<IoError>(
      "{}: '{}' {}; expected there are {} and {}, each raw or with .gz or .xz; check the path",
      files.kind, folder, fs::is_directory(folder, ignored) ? "lacks " + name : "is not a folder",
      fmt::join(files.train, ", "), fmt::join(files.test, ", "));
}

std::vector<std::string> find_files(const std::string& folder, Part part, const Files& files) {
  std::vector<std::string> paths;
  for (const auto& name : part == Part::train ? files.train : files.test) {
    paths.push_back(find_file(folder, name, files));
  }
  return paths;
}

Tensor new_images(std::int64_t count, std::int64_t channels, std::int64_t height,
                  std::int64_t width) {
  return empty({count, channels, height, width}, kUInt8, kChannelsLast);
}

Tensor labels_from(const std::vector<std::uint8_t>& bytes) {
  Tensor labels = empty({static_cast<std::int64_t>(bytes.size())}, kInt64);
  std::copy(bytes.begin(), bytes.end(), labels.data_ptr<std::int64_t>());
  return labels;
}

ImageDataset make_set(std::string name, Tensor images, Tensor labels, std::vector<double> mean,
                      std::vector<double> std) {
  ImageDataset set{.name = std::move(name),
                   .images = std::move(images),
                   .labels = std::move(labels),
                   .classes = kClasses,
                   .mean = std::move(mean),
                   .std = std::move(std),
                   .samples = {}};
  set.samples.resize(static_cast<std::size_t>(set.labels.numel()));
  std::iota(set.samples.begin(), set.samples.end(), std::int64_t{0});
  return set;
}

/// Both kinds of MNIST; `mean` and `std` are those of the training images.
ImageDataset read_mnist(const std::string& name, const std::string& folder, Part part, double mean,
                        double std) {
  const auto paths = find_files(folder, part, mnist_files());
  const io::IdxArray images = io::read_idx(paths[0]), labels = io::read_idx(paths[1]);
  check<IoError>(images.dims.size() == 3 && !images.bytes.empty(),
                 "{}: IDX dimensions [{}], expected images as [count, height, width]; check that "
                 "the file has its right name",
                 paths[0], fmt::join(images.dims, ", "));
  check<IoError>(labels.dims.size() == 1,
                 "{}: IDX dimensions [{}], expected labels as [count]; check that the file has its "
                 "right name",
                 paths[1], fmt::join(labels.dims, ", "));
  check<IoError>(images.dims[0] == labels.dims[0],
                 "{} holds {} images, but {} holds {} labels; the files do not belong together, "
                 "get them again",
                 paths[0], images.dims[0], paths[1], labels.dims[0]);
  const auto wrong = std::find_if(labels.bytes.begin(), labels.bytes.end(),
                                  [](std::uint8_t label) { return label >= kClasses; });
  check<IoError>(
      wrong == labels.bytes.end(),
      "{}: label {} of sample {} is out of range, expected 0 to {}; the file is damaged, "
      "get it again",
      paths[1], wrong == labels.bytes.end() ? 0 : int{*wrong}, wrong - labels.bytes.begin(),
      kClasses - 1);
  const Tensor pixels = new_images(images.dims[0], 1, images.dims[1], images.dims[2]);
  std::memcpy(pixels.raw_data(), images.bytes.data(), images.bytes.size());
  return make_set(name, pixels, labels_from(labels.bytes), {mean}, {std});
}

/// Puts the colour planes of each image into channels_last order.
void interleave(const std::vector<std::uint8_t>& planes, std::uint8_t* destination) {
  constexpr std::size_t kPixels = 32 * 32, kChannels = 3;
  for (std::size_t start = 0; start < planes.size(); start += kPixels * kChannels) {
    for (std::size_t i = 0; i < kPixels; ++i) {
      for (std::size_t c = 0; c < kChannels; ++c) {
        destination[start + i * kChannels + c] = planes[start + c * kPixels + i];
      }
    }
  }
}

}  // namespace

// Mean and deviation of the training images, as published with the data sets and their tutorials.
ImageDataset mnist(const std::string& folder, Part part) {
  return read_mnist("mnist", folder, part, 0.1307, 0.3081);
}

ImageDataset fashion_mnist(const std::string& folder, Part part) {
  return read_mnist("fashion-mnist", folder, part, 0.2860, 0.3530);
}

ImageDataset cifar10(const std::string& folder, Part part) {
  std::vector<std::uint8_t> planes, labels;
  for (const auto& path : find_files(folder, part, cifar_files())) {
    const io::CifarRecords records = io::read_cifar(path, io::CifarKind::kCifar10);
    planes.insert(planes.end(), records.images.begin(), records.images.end());
    labels.insert(labels.end(), records.labels.begin(), records.labels.end());
  }
  const Tensor images = new_images(static_cast<std::int64_t>(labels.size()), 3, 32, 32);
  interleave(planes, images.data_ptr<std::uint8_t>());
  return make_set("cifar10", images, labels_from(labels), {0.4914, 0.4822, 0.4465},
                  {0.2470, 0.2435, 0.2616});
}

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> names{"mnist", "fashion-mnist", "cifar10"};
  return names;
}

ImageDataset load(const std::string& kind_and_folder, Part part) {
  const auto colon = kind_and_folder.find(':');
  const std::string kind = kind_and_folder.substr(0, colon);
  check<ValueError>(
      colon != std::string::npos && std::count(kinds().begin(), kinds().end(), kind) == 1,
      "data: '{}' is not KIND:FOLDER with a known kind; known are {}", kind_and_folder,
      fmt::join(kinds(), ", "));
  const std::string folder = kind_and_folder.substr(colon + 1);
  if (kind == "mnist") return mnist(folder, part);
  if (kind == "fashion-mnist") return fashion_mnist(folder, part);
  return cifar10(folder, part);
}

ImageDataset from_tensors(const Tensor& images, const Tensor& labels, std::int64_t classes) {
  check<DTypeError>(images.dtype() == kUInt8 && labels.dtype() == kInt64,
                    "from_tensors: images are {} and labels {}, expected uint8 and int64; convert "
                    "them with to()",
                    name_of(images.dtype()), name_of(labels.dtype()));
  check<ShapeError>(images.dim() == 4 && labels.dim() == 1 && images.size(0) == labels.size(0),
                    "from_tensors: images of size {} and labels of size {}, expected [N, C, H, W] "
                    "and [N]",
                    images.sizes().str(), labels.sizes().str());
  const auto values = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    check<ValueError>(values[i] >= 0 && values[i] < classes,
                      "from_tensors: label {} of sample {} is out of range, expected 0 to {}",
                      values[i], i, classes - 1);
  }
  const auto channels = static_cast<std::size_t>(images.size(1));
  ImageDataset set = make_set("tensors", images.contiguous(kChannelsLast), labels.contiguous(),
                              std::vector(channels, 0.5), std::vector(channels, 0.5));
  set.classes = classes;
  return set;
}

std::pair<ImageDataset, ImageDataset> random_split(const ImageDataset& set, double fraction,
                                                   std::uint64_t seed) {
  // Compared this way round, NaN is refused as well.
  check<ValueError>(fraction >= 0 && fraction <= 1,
                    "random_split: fraction is {}, expected a value between 0 and 1", fraction);
  const auto held_out =
      static_cast<std::int64_t>(std::llround(fraction * static_cast<double>(set.size())));
  check<ValueError>(held_out >= 1 && held_out < set.size(),
                    "random_split: fraction {} of {} samples makes parts of {} and {}, each needs "
                    "at least one; choose another fraction",
                    fraction, set.size(), set.size() - held_out, held_out);
  const auto order = permutation(set.size(), seed, Purpose::split, 0);
  std::vector<bool> is_held_out(order.size());
  for (std::int64_t i = 0; i < held_out; ++i) {
    is_held_out[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])] = true;
  }
  std::pair<ImageDataset, ImageDataset> parts{set, set};
  parts.first.samples.clear();
  parts.second.samples.clear();
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    (is_held_out[i] ? parts.second : parts.first).samples.push_back(set.samples[i]);
  }
  return parts;
}

}  // namespace facula::data
