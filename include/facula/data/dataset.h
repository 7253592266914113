// Data sets: anything with a size and samples, or a stream of samples.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <facula/data/sample.h>
#include <facula/tensor.h>

namespace facula::data {

/// A map from 0 ... size() - 1 to samples. A set of one's own:
///
///   struct Squares : data::Dataset {
///     std::int64_t size() const override { return 1000; }
///     data::Sample get(std::int64_t i) const override {
///       return {tensor(double(i)), i * i};
///     }
///   };
///   data::DataLoader loader(std::make_shared<Squares>(), {.batch_size = 32});
class FACULA_API Dataset {
 public:
  virtual ~Dataset();

  virtual std::int64_t size() const = 0;
  /// Called by several threads at once. What it throws reaches whoever asks for the batch, with
  /// index and source of the sample.
  virtual Sample get(std::int64_t index) const = 0;
  /// The same into a sample whose memory may be reused, for as long as the set is there: images may
  /// refer to its pixels. Sets whose samples cost less than an allocation override it.
  virtual void load(std::int64_t index, Sample& sample) const { sample = get(index); }
  /// The sample will be asked for soon: sets whose samples lie somewhere slow may fetch them.
  virtual void prefetch(std::int64_t index) const;
  /// Where a sample comes from, normally a path, for messages; may be empty.
  virtual std::string source(std::int64_t index) const;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// Samples in a fixed order that ends some time, such as lines of files or records of a socket. A
/// stream may consist of several shards that can be read side by side; batches are taken from
/// them in turn, whatever the number of workers.
class FACULA_API IterableDataset {
 public:
  /// Reads one shard from its beginning.
  class Stream {
   public:
    virtual ~Stream() = default;
    /// False at the end. Called by one thread at a time.
    virtual bool next(Sample& sample) = 0;
  };

  virtual ~IterableDataset();
  /// 1 to 2^20.
  virtual std::int64_t shards() const { return 1; }
  /// Not null.
  virtual std::unique_ptr<Stream> open(std::int64_t shard, std::int64_t epoch) const = 0;
};

/// Rows of tensors: sample i is (tensors[0][i], tensors[1][i], ...), views of the tensors. Throws
/// ShapeError unless the first dimensions are equal.
FACULA_API DatasetPtr tensor_dataset(std::vector<Tensor> tensors);
/// The sets one after the other.
FACULA_API DatasetPtr concat(std::vector<DatasetPtr> sets);
/// The samples `indices` of a set, in that order. Throws IndexError.
FACULA_API DatasetPtr subset(DatasetPtr set, std::vector<std::int64_t> indices);
/// Divides a set at random into the rest and a part of round(fraction * size) samples, both in the
/// set's order: a function of size, fraction and seed. Throws ValueError unless both get at least
/// one.
FACULA_API std::pair<DatasetPtr, DatasetPtr> random_split(const DatasetPtr& set, double fraction,
                                                          std::uint64_t seed);
/// The same into any number of parts of the given sizes. Throws ValueError unless each is at least
/// 0 and they add up to the size of the set.
FACULA_API std::vector<DatasetPtr> random_split(const DatasetPtr& set,
                                                const std::vector<std::int64_t>& sizes,
                                                std::uint64_t seed);
/// Keeps every sample in memory, as it is before transforms, once it has been read: files are read
/// and decoded once. Images take height * width * channels bytes.
FACULA_API DatasetPtr cached(DatasetPtr set);

/// What is known of a set of labelled images.
struct ImageSetInfo {
  std::string name;
  std::int64_t classes = 0;
  /// Empty if the classes have numbers only.
  std::vector<std::string> class_names;
  std::int64_t channels = 3;
  /// 0 if the images differ in size.
  std::int64_t height = 0, width = 0;
  /// Mean and standard deviation of each channel over the training images, of pixels scaled to
  /// [0, 1].
  std::vector<double> mean, std;
};

/// Samples are {"image": Image, "label": int64}.
class FACULA_API ImageDataset : public Dataset {
 public:
  virtual const ImageSetInfo& info() const = 0;
};

using ImageDatasetPtr = std::shared_ptr<const ImageDataset>;

/// The two parts that the published sets come in.
enum class Part : std::uint8_t { train, test };

/// MNIST's four IDX files in `folder` under their usual names, raw or compressed (.gz, .xz). Throws
/// IoError naming the file that is missing, damaged or holds labels out of range.
FACULA_API ImageDatasetPtr mnist(const std::string& folder, Part part = Part::train);
/// The same files with Fashion-MNIST's class names, mean and deviation.
FACULA_API ImageDatasetPtr fashion_mnist(const std::string& folder, Part part = Part::train);
/// CIFAR-10's binary files data_batch_1.bin ... data_batch_5.bin or test_batch.bin, raw or
/// compressed, in `folder` or in the archive cifar-10-binary.tar.gz (or .tar.xz, .tar) there.
/// Throws IoError as above.
FACULA_API ImageDatasetPtr cifar10(const std::string& folder, Part part = Part::train);
/// CIFAR-100's train.bin or test.bin, or cifar-100-binary.tar.gz; labels are the 100 fine ones.
FACULA_API ImageDatasetPtr cifar100(const std::string& folder, Part part = Part::train);
/// All of `images` (uint8 [N, C, H, W]) with `labels` (int64 [N]); mean and deviation are 0.5.
/// Throws DTypeError, ShapeError or ValueError (a label outside [0, classes)).
FACULA_API ImageDatasetPtr from_tensors(const Tensor& images, const Tensor& labels,
                                        std::int64_t classes);

struct ImageFolderOptions {
  /// What happens to files that are no JPEG or PNG: left out with a warning, or an IoError.
  bool skip_others = true;
  /// The classes in the order of their numbers, such as the class names of the training part, where
  /// not every class may have images; empty: the subfolders. A subfolder of another name is an
  /// IoError.
  std::vector<std::string> class_names = {};
  /// Decode JPEG files at 1/2, 1/4 or 1/8 of their size where that leaves the shorter side so many
  /// pixels or more: much faster for photos far larger than what the network sees, but not the
  /// pixels that shrinking gives. 0: never.
  std::int64_t scaled_decoding_side = 0;
};
/// Images in one subfolder per class: FOLDER/CLASS/**.{jpg,jpeg,png,...}. Classes are numbered in
/// the order of their names, images in the order of their paths. Files are told by their first
/// bytes, not by their names; names that start with a dot are passed over. Images are RGB (grey and
/// CMYK ones converted), upright as their EXIF orientation says. A file is read when its sample is
/// asked for, and decoded when pixels are. Mean and deviation are ImageNet's. Throws IoError for an
/// unreadable folder, a class folder without images, or no class at all, and ValueError for a
/// negative size.
FACULA_API ImageDatasetPtr image_folder(const std::string& folder,
                                        const ImageFolderOptions& options = {});

/// The i-th slices of the arrays at `paths` (.npy), memory-mapped: sample i is (first[i], ...).
/// Integers of arrays of one dimension become numbers, all else tensors of the array's dtype; bytes
/// of booleans other than 0 are true. Throws IoError for a damaged file or a dtype that Facula
/// lacks, and ShapeError unless the first dimensions are equal.
FACULA_API DatasetPtr npy_dataset(const std::vector<std::string>& paths);

struct PackOptions {
  /// Shrink images whose shorter side is longer than this, keeping their shape; 0: never.
  std::int64_t shorter_side = 0;
  /// SIGINT and SIGTERM end the work; a second signal kills the process as usual.
  bool stop_on_interrupt = false;
};
/// Writes all images of a set, decoded, into one file that packed() maps into memory. The file
/// appears when it is complete. Returns 0, or the signal that ended the work before, of which
/// nothing stays then. Throws IoError, and ValueError for more than 2^31 classes, and for means or
/// deviations that are not finite.
FACULA_API int pack(const ImageDataset& set, const std::string& path,
                    const PackOptions& options = {});
/// A file made by pack(). Throws IoError for a damaged one.
FACULA_API ImageDatasetPtr packed(const std::string& path);

/// Reads "KIND:PATH", with KIND one of kinds(). Image folders with subfolders train and val or test
/// have these parts, with the classes of train in both. A packed PATH is one file for training, or
/// a folder with train.fpk and val.fpk or test.fpk. Throws ValueError for an unknown kind, and
/// IoError where a part is missing.
FACULA_API ImageDatasetPtr open(const std::string& kind_and_path, Part part = Part::train);
/// mnist, fashion-mnist, cifar10, cifar100, folder, packed.
FACULA_API const std::vector<std::string>& kinds();

}  // namespace facula::data
