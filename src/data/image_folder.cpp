// Folders of images, one subfolder per class.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <facula/data/dataset.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "data/image_file_source.h"
#include "data/image_folder.h"
#include "data/labelled_image.h"
#include "data/loading.h"
#include "io/file.h"
#include "io/images/image_file.h"

namespace facula::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

/// True if the regular file at `path` starts like an image. Throws IoError if it cannot be read.
bool is_image(const std::string& path) {
  const io::FileDescriptor file = io::open_for_reading(path);
  std::array<std::uint8_t, io::kFormatBytes> bytes;
  ssize_t count;
  do {
    count = ::read(file.get(), bytes.data(), bytes.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) io::fail_system("read", path, errno);
  return io::image_format(std::span(bytes).first(static_cast<std::size_t>(count))).has_value();
}

/// Collects the names of all files below a folder.
class Scan {
 public:
  struct File {
    std::string name;
    /// Not so are pipes, devices and broken links.
    bool regular;
  };

  /// The names of the subfolders of `root`, sorted.
  static std::vector<std::string> subfolders(const std::string& root) {
    std::vector<std::string> names;
    each_entry(root, [&](const std::string& name, fs::file_type type) {
      if (type == fs::file_type::directory) names.push_back(name);
    });
    std::ranges::sort(names);
    return names;
  }

  /// The paths, relative to `root`, of the files in `folder` and below, sorted.
  static std::vector<File> files(const std::string& root, const std::string& folder) {
    Scan scan(root);
    scan.visit(folder);
    std::ranges::sort(scan.files_, {}, &File::name);
    return std::move(scan.files_);
  }

 private:
  explicit Scan(const std::string& root) : root_(root) {}

  /// Calls `action` with name and type of everything in `folder` that is not hidden. Links stand
  /// for what they point to.
  template <class Action>
  static void each_entry(const std::string& folder, const Action& action) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      std::string name = entry->path().filename().string();
      std::error_code broken_link;
      if (!is_hidden(name)) action(name, entry->status(broken_link).type());
    }
    if (error) io::fail_system("list the folder", folder, error.value());
  }

  void visit(const std::string& folder) {
    const std::string path = root_ + '/' + folder;
    struct stat status;
    if (::stat(path.c_str(), &status) != 0) io::fail_system("examine", path, errno);
    const Identity self{status.st_dev, status.st_ino};
    check<IoError>(std::ranges::find(above_, self) == above_.end(),
                   "image_folder: '{}' is a link to a folder that contains it; remove the link",
                   path);
    above_.push_back(self);
    each_entry(path, [&](const std::string& name, fs::file_type type) {
      std::string inner = folder + '/' + name;
      if (type == fs::file_type::directory) {
        visit(inner);
      } else {
        files_.push_back({std::move(inner), type == fs::file_type::regular});
      }
    });
    above_.pop_back();
  }

  using Identity = std::pair<dev_t, ino_t>;

  const std::string& root_;
  std::vector<Identity> above_;
  std::vector<File> files_;
};

class ImageFolder final : public Loading<ImageDataset> {
 public:
  ImageFolder(std::string folder, const ImageFolderOptions& options)
      : folder_(std::move(folder)), scaled_decoding_side_(options.scaled_decoding_side) {
    check<ValueError>(scaled_decoding_side_ >= 0,
                      "image_folder: scaled_decoding_side is {}, expected 0 or more pixels",
                      scaled_decoding_side_);
    info_.name = "folder";
    info_.mean = {0.485, 0.456, 0.406};
    info_.std = {0.229, 0.224, 0.225};
    const std::vector<std::string> subfolders = Scan::subfolders(folder_);
    check<IoError>(!subfolders.empty(),
                   "image_folder: '{}' has no subfolders; expected one per class, with its images "
                   "inside",
                   folder_);
    info_.class_names = options.class_names.empty() ? subfolders : options.class_names;
    info_.classes = static_cast<std::int64_t>(info_.class_names.size());
    for (const std::string& name : subfolders) {
      const auto count = std::ranges::count(info_.class_names, name);
      check<IoError>(
          count == 1,
          "image_folder: '{}' stands {} times among the {} classes wanted, such as '{}', "
          "expected once; remove it, or add the class to all parts of the set",
          path_of(name), count, info_.classes, info_.class_names.front());
    }
    for (const std::string& name : info_.class_names) {
      first_of_class_.push_back(size());
      if (std::ranges::binary_search(subfolders, name)) add_class(name, options);
    }
    if (others_ > 0) {
      log_warning("image_folder: left out {} files in '{}' that are no JPEG or PNG, such as '{}'",
                  others_, folder_, example_);
    }
  }

  const ImageSetInfo& info() const override { return info_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(images_.size()); }
  std::string source(std::int64_t index) const override {
    check_index(index, size(), "image_folder");
    return path_of(images_[static_cast<std::size_t>(index)]);
  }

  void load(std::int64_t index, Sample& sample) const override {
    const std::string path = source(index);
    const auto next = std::ranges::upper_bound(first_of_class_, index);
    const std::int64_t label = next - first_of_class_.begin() - 1;
    set_labelled_image(sample, Image(open_image_file(path, FileColors::rgb, scaled_decoding_side_)),
                       label);
  }

 private:
  void add_class(const std::string& name, const ImageFolderOptions& options) {
    auto files = Scan::files(folder_, name);
    const std::vector<bool> wanted = are_images(files);
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (wanted[i]) {
        images_.push_back(std::move(files[i].name));
        continue;
      }
      check<IoError>(options.skip_others,
                     "image_folder: '{}' is no JPEG or PNG file; remove it, or allow others to be "
                     "left out (skip_others)",
                     path_of(files[i].name));
      if (others_++ == 0) example_ = path_of(files[i].name);
    }
    check<IoError>(size() > first_of_class_.back(),
                   "image_folder: the class folder '{}' contains no JPEG or PNG file; put images "
                   "there or remove it",
                   path_of(name));
  }

  /// Looks into every file, several at a time: on network drives most of the time is waiting.
  std::vector<bool> are_images(const std::vector<Scan::File>& files) const {
    constexpr std::size_t kSlice = 32;
    std::vector<std::uint8_t> results(files.size());
    const std::size_t slices = (files.size() + kSlice - 1) / kSlice;
    base::parallel_for(static_cast<std::int64_t>(slices), [&](std::int64_t slice) {
      const std::size_t begin = static_cast<std::size_t>(slice) * kSlice;
      for (std::size_t i = begin; i < std::min(begin + kSlice, files.size()); ++i) {
        // Pipes are never opened: that may wait for ever.
        results[i] = files[i].regular && is_image(path_of(files[i].name));
      }
    });
    return {results.begin(), results.end()};
  }

  std::string path_of(const std::string& name) const { return folder_ + '/' + name; }

  std::string folder_;
  std::int64_t scaled_decoding_side_;
  ImageSetInfo info_;
  /// Paths relative to the folder, class after class.
  std::vector<std::string> images_;
  std::vector<std::int64_t> first_of_class_;
  std::int64_t others_ = 0;
  std::string example_;
};

}  // namespace

std::vector<std::string> class_folders(const std::string& folder) {
  return Scan::subfolders(folder);
}

ImageDatasetPtr image_folder(const std::string& folder, const ImageFolderOptions& options) {
  return std::make_shared<ImageFolder>(folder, options);
}

}  // namespace facula::data
