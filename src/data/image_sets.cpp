// MNIST, Fashion-MNIST and CIFAR from the files that they are published as.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include <facula/data/dataset.h>

#include "base/check.h"
#include "data/class_names.h"
#include "data/image_memory.h"
#include "io/archives/compression.h"
#include "io/archives/tar.h"
#include "io/arrays/cifar.h"
#include "io/arrays/idx.h"

namespace facula::data {
namespace {

namespace fs = std::filesystem;

/// No published file comes near it when decompressed.
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

/// The files of one kind of data set, by their uncompressed names.
struct Files {
  const char* kind;
  std::vector<std::string> train, test;
  /// The archive that holds all of them and the folder inside it; empty if there is none.
  std::string archive = {}, archive_folder = {};

  const std::vector<std::string>& of(Part part) const { return part == Part::train ? train : test; }
};

const Files& mnist_files() {
  static const Files& files = *new Files{"MNIST",
                                         {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                         {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}};
  return files;
}

const Files& fashion_mnist_files() {
  static const Files& files = *new Files{"Fashion-MNIST", mnist_files().train, mnist_files().test};
  return files;
}

const Files& cifar10_files() {
  static const Files& files =
      *new Files{"CIFAR-10",
                 {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                  "data_batch_5.bin"},
                 {"test_batch.bin"},
                 "cifar-10-binary.tar",
                 "cifar-10-batches-bin"};
  return files;
}

const Files& cifar100_files() {
  static const Files& files = *new Files{
      "CIFAR-100", {"train.bin"}, {"test.bin"}, "cifar-100-binary.tar", "cifar-100-binary"};
  return files;
}

/// `name` in `folder`, raw or compressed.
std::optional<std::string> find_file(const std::string& folder, const std::string& name) {
  for (const char* suffix : {"", ".gz", ".xz"}) {
    const fs::path path = fs::path(folder) / (name + suffix);
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return std::nullopt;
}

[[noreturn]] void fail_missing(const std::string& folder, const std::string& name,
                               const Files& files) {
  std::error_code ignored;
  const std::string archive =
      files.archive.empty() ? "" : fmt::format(", or the archive {}.gz", files.archive);
  fail<IoError>(
      "{}: '{}' {}; expected there are {} and {}, each raw or with .gz or .xz{}; check the path",
      files.kind, folder, fs::is_directory(folder, ignored) ? "lacks " + name : "is not a folder",
      fmt::join(files.train, ", "), fmt::join(files.test, ", "), archive);
}

/// The paths of a part's files. Throws IoError naming the first that is missing.
std::vector<std::string> find_files(const std::string& folder, Part part, const Files& files) {
  std::vector<std::string> paths;
  for (const auto& name : files.of(part)) {
    auto path = find_file(folder, name);
    if (!path) fail_missing(folder, name, files);
    paths.push_back(std::move(*path));
  }
  return paths;
}

ImageDatasetPtr make_set(ImageSetInfo info, Tensor images, std::vector<std::int64_t> labels) {
  info.classes = static_cast<std::int64_t>(info.class_names.size());
  info.channels = images.size(1);
  return std::make_shared<ImageMemory>(std::move(info), std::move(images), std::move(labels));
}

// --- MNIST ---------------------------------------------------------------------------------------

/// Both kinds of MNIST.
ImageDatasetPtr read_mnist(ImageSetInfo info, const std::string& folder, Part part,
                           const Files& files) {
  const auto paths = find_files(folder, part, files);
  const io::IdxArray images = io::read_idx(paths[0]), labels = io::read_idx(paths[1]);
  check<IoError>(images.dims.size() == 3,
                 "{}: IDX dimensions [{}], expected images as [count, height, width]; check that "
                 "the file has its right name",
                 paths[0], fmt::join(images.dims, ", "));
  check<IoError>(!images.bytes.empty(),
                 "{}: IDX dimensions [{}] hold no images; get the file again", paths[0],
                 fmt::join(images.dims, ", "));
  check<IoError>(labels.dims.size() == 1,
                 "{}: IDX dimensions [{}], expected labels as [count]; check that the file has its "
                 "right name",
                 paths[1], fmt::join(labels.dims, ", "));
  check<IoError>(images.dims[0] == labels.dims[0],
                 "{} holds {} images, but {} holds {} labels; the files do not belong together, "
                 "get them again",
                 paths[0], images.dims[0], paths[1], labels.dims[0]);
  const std::size_t classes = info.class_names.size();
  const auto wrong =
      std::ranges::find_if(labels.bytes, [&](auto label) { return label >= classes; });
  check<IoError>(
      wrong == labels.bytes.end(),
      "{}: label {} of sample {} is out of range, expected 0 to {}; the file is damaged, "
      "get it again",
      paths[1], wrong == labels.bytes.end() ? 0 : int{*wrong}, wrong - labels.bytes.begin(),
      classes - 1);
  const Tensor pixels =
      empty({images.dims[0], 1, images.dims[1], images.dims[2]}, kUInt8, kChannelsLast);
  std::memcpy(pixels.raw_data(), images.bytes.data(), images.bytes.size());
  return make_set(std::move(info), pixels, {labels.bytes.begin(), labels.bytes.end()});
}

// --- CIFAR ---------------------------------------------------------------------------------------

constexpr std::int64_t kSide = 32, kPixels = kSide * kSide, kChannels = 3;

using FileBytes = std::vector<std::uint8_t>;

/// Finds a part's files in a tar archive, whose bytes they refer to.
std::vector<std::span<const std::uint8_t>> find_members(const FileBytes& archive,
                                                        const std::string& path, Part part,
                                                        const Files& files) {
  std::map<std::string, std::span<const std::uint8_t>, std::less<>> members;
  io::TarReader reader(archive, path);
  while (auto member = reader.next()) members[std::move(member->name)] = member->bytes;
  std::vector<std::span<const std::uint8_t>> found;
  for (const auto& name : files.of(part)) {
    const std::string wanted = files.archive_folder + "/" + name;
    auto member = members.find(wanted);
    if (member == members.end()) member = members.find("./" + wanted);
    check<IoError>(member != members.end(), "{}: the archive lacks {}; get {} again", path, wanted,
                   files.kind);
    found.push_back(member->second);
  }
  return found;
}

/// The records of every file of a part, from single files or else the archive.
std::vector<io::CifarRecords> read_records(const std::string& folder, Part part, const Files& files,
                                           io::CifarKind kind) {
  std::vector<io::CifarRecords> records;
  const bool has_file = std::ranges::any_of(
      files.of(part), [&](const auto& name) { return find_file(folder, name).has_value(); });
  const auto archive = has_file ? std::nullopt : find_file(folder, files.archive);
  if (!archive) {
    for (const auto& path : find_files(folder, part, files)) {
      records.push_back(io::read_cifar(path, kind, kMaxBytes));
    }
    return records;
  }
  const auto bytes = io::decompress_file(*archive, kMaxBytes);
  const auto members = find_members(bytes, *archive, part, files);
  for (std::size_t i = 0; i < members.size(); ++i) {
    records.push_back(io::parse_cifar(members[i], kind, *archive + ":" + files.of(part)[i]));
  }
  return records;
}

/// Puts the colour planes of each image into channels_last order.
void interleave(const FileBytes& planes, std::uint8_t* destination) {
  const std::uint8_t* source = planes.data();
  for (std::size_t done = 0; done < planes.size(); done += kPixels * kChannels) {
    for (std::int64_t i = 0; i < kPixels; ++i) {
      for (std::int64_t c = 0; c < kChannels; ++c) {
        destination[i * kChannels + c] = source[c * kPixels + i];
      }
    }
    source += kPixels * kChannels;
    destination += kPixels * kChannels;
  }
}

ImageDatasetPtr read_cifar(ImageSetInfo info, const std::string& folder, Part part,
                           const Files& files, io::CifarKind kind) {
  auto records = read_records(folder, part, files, kind);
  std::vector<std::int64_t> labels;
  for (const auto& file : records) {
    labels.insert(labels.end(), file.labels.begin(), file.labels.end());
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  const Tensor images = empty({count, kChannels, kSide, kSide}, kUInt8, kChannelsLast);
  auto* destination = images.data_ptr<std::uint8_t>();
  for (auto& file : records) {
    interleave(file.images, destination);
    destination += file.images.size();
    file = {};  // not both copies of everything at once
  }
  return make_set(std::move(info), images, std::move(labels));
}

}  // namespace

// Mean and deviation of the training images, as published with the data sets and their tutorials.
ImageDatasetPtr mnist(const std::string& folder, Part part) {
  return read_mnist(
      {.name = "mnist", .class_names = mnist_class_names(), .mean = {0.1307}, .std = {0.3081}},
      folder, part, mnist_files());
}

ImageDatasetPtr fashion_mnist(const std::string& folder, Part part) {
  return read_mnist({.name = "fashion-mnist",
                     .class_names = fashion_mnist_class_names(),
                     .mean = {0.2860},
                     .std = {0.3530}},
                    folder, part, fashion_mnist_files());
}

ImageDatasetPtr cifar10(const std::string& folder, Part part) {
  return read_cifar({.name = "cifar10",
                     .class_names = cifar10_class_names(),
                     .mean = {0.4914, 0.4822, 0.4465},
                     .std = {0.2470, 0.2435, 0.2616}},
                    folder, part, cifar10_files(), io::CifarKind::kCifar10);
}

ImageDatasetPtr cifar100(const std::string& folder, Part part) {
  return read_cifar({.name = "cifar100",
                     .class_names = cifar100_class_names(),
                     .mean = {0.5071, 0.4867, 0.4408},
                     .std = {0.2675, 0.2565, 0.2761}},
                    folder, part, cifar100_files(), io::CifarKind::kCifar100);
}

}  // namespace facula::data
