#include <facula/data/dataset.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include <fmt/ranges.h>

#include "base/check.h"
#include "data/image_folder.h"

namespace facula::data {
namespace {

namespace fs = std::filesystem;

/// The first of `names` in `folder`; empty if there is none.
std::string first_present(const std::string& folder, std::initializer_list<const char*> names) {
  std::error_code ignored;
  for (const char* name : names) {
    const fs::path path = fs::path(folder) / name;
    if (fs::exists(path, ignored)) return path.string();
  }
  return "";
}

ImageDatasetPtr open_folder(const std::string& path, Part part) {
  if (part == Part::train) {
    const std::string train = first_present(path, {"train"});
    if (!train.empty()) return image_folder(train);
    // Or parts would pass for classes, and images for testing would be trained with.
    const std::string other = first_present(path, {"val", "test"});
    check<IoError>(other.empty(),
                   "folder: '{}' has a subfolder {} but no train; put the images for training "
                   "there, as train/CLASS/IMAGE",
                   path, fs::path(other).filename().string());
    return image_folder(path);
  }
  const std::string test = first_present(path, {"val", "test"});
  check<IoError>(!test.empty(),
                 "folder: '{}' has no subfolder val or test; put the images for testing there, as "
                 "val/CLASS/IMAGE",
                 path);
  // A class that has no images there must not shift the numbers of those after it.
  const std::string train = first_present(path, {"train"});
  if (train.empty()) return image_folder(test);
  return image_folder(test, {.class_names = class_folders(train)});
}

ImageDatasetPtr open_packed(const std::string& path, Part part) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    check<IoError>(part == Part::train,
                   "packed: '{}' is one file, so it has no part for testing; give a folder with "
                   "train.fpk and val.fpk or test.fpk",
                   path);
    return packed(path);
  }
  const bool train = part == Part::train;
  const std::string file =
      train ? first_present(path, {"train.fpk"}) : first_present(path, {"val.fpk", "test.fpk"});
  check<IoError>(!file.empty(),
                 "packed: the folder '{}' lacks {}; make it with `facula data pack` or "
                 "pack()",
                 path, train ? "train.fpk" : "val.fpk or test.fpk");
  return packed(file);
}

}  // namespace

Dataset::~Dataset() = default;

void Dataset::prefetch(std::int64_t) const {}

std::string Dataset::source(std::int64_t) const { return ""; }

IterableDataset::~IterableDataset() = default;

const std::vector<std::string>& kinds() {
  static const auto& names = *new std::vector<std::string>{"mnist",    "fashion-mnist", "cifar10",
                                                           "cifar100", "folder",        "packed"};
  return names;
}

ImageDatasetPtr open(const std::string& kind_and_path, Part part) {
  const auto colon = kind_and_path.find(':');
  const std::string kind = kind_and_path.substr(0, colon);
  check<ValueError>(colon != std::string::npos && std::ranges::count(kinds(), kind) == 1,
                    "data: '{}' is not KIND:PATH with a known kind; known are {}", kind_and_path,
                    fmt::join(kinds(), ", "));
  const std::string path = kind_and_path.substr(colon + 1);
  if (kind == "mnist") return mnist(path, part);
  if (kind == "fashion-mnist") return fashion_mnist(path, part);
  if (kind == "cifar10") return cifar10(path, part);
  if (kind == "cifar100") return cifar100(path, part);
  if (kind == "folder") return open_folder(path, part);
  return open_packed(path, part);
}

}  // namespace facula::data
