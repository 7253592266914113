#include <facula/data/dataset.h>

#include <set>

#include <facula/error.h>

#include "set_files.h"
#include "tests/io/encode_image.h"
#include "tests/io/tar_files.h"

namespace facula::data {
namespace {

using io::expect_error;
using io::put;
using io::shared_data;
using io::TempFolder;

/// A record of CIFAR: labels, then planes whose values tell channel and place.
std::string cifar_record(std::initializer_list<char> labels, int first = 0) {
  std::string record(labels);
  for (int i = 0; i < 3072; ++i) record += static_cast<char>(first + i / 1024 * 80 + i % 50);
  return record;
}

std::vector<std::uint8_t> interleaved(const std::string& record, std::size_t labels) {
  std::vector<std::uint8_t> pixels;
  for (std::size_t i = 0; i < 1024; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      pixels.push_back(static_cast<std::uint8_t>(record[labels + c * 1024 + i]));
    }
  }
  return pixels;
}

TEST(Dataset, ReadsMnist) {
  const TempFolder folder;
  put_mnist(folder, "train", 12);
  put_mnist(folder, "t10k", 3);
  const auto train = open("mnist:" + folder.path(), Part::train);
  EXPECT_EQ(train->size(), 12);
  EXPECT_EQ(train->info().name, "mnist");
  EXPECT_EQ(train->info().classes, 10);
  EXPECT_EQ(train->info().channels, 1);
  EXPECT_EQ(train->info().class_names[7], "7");
  Sample sample = train->get(11);
  EXPECT_EQ(sample.size(), 2u);
  EXPECT_EQ(sample.image().height(), 2);
  EXPECT_EQ(sample.image().width(), 3);
  EXPECT_EQ(sample.image().channels(), 1);
  EXPECT_EQ(label_of(sample), 1);
  EXPECT_EQ(pixels_of(sample), (std::vector<std::uint8_t>{66, 67, 68, 69, 70, 71}));
  const auto test = open("fashion-mnist:" + folder.path(), Part::test);
  EXPECT_EQ(test->size(), 3);
  EXPECT_EQ(test->info().class_names[9], "Ankle boot");
}

TEST(Dataset, SamplesReuseTheirMemory) {
  const TempFolder folder;
  put_mnist(folder, "train", 12);
  const auto set = mnist(folder.path());
  Sample sample;
  set->load(0, sample);
  const auto* fields = sample.fields().data();
  set->load(7, sample);
  EXPECT_EQ(sample.fields().data(), fields);
  EXPECT_EQ(label_of(sample), 7);
  EXPECT_EQ(pixels_of(sample)[0], 42);
  sample.tensor(0);  // as transforms leave it
  sample.add("more", 1.0);
  set->load(8, sample);
  EXPECT_EQ(sample.size(), 2u);
  EXPECT_EQ(pixels_of(sample)[0], 48);
  EXPECT_THROW(set->load(12, sample), IndexError);
  EXPECT_THROW(set->get(-1), IndexError);
}

TEST(Dataset, ChangedPixelsStayOutOfTheSet) {
  const auto set = counting_set(3);
  Sample sample = set->get(1);
  sample.image().pixels().fill_(0);
  EXPECT_EQ(pixels_of(sample)[0], 0);
  EXPECT_EQ(pixels_of(set->get(1))[0], 6);
}

TEST(Dataset, ReadsCifar10) {
  const TempFolder folder;
  const std::string first = cifar_record({7}), second = cifar_record({2}, 3);
  put(folder / "test_batch.bin", first + second);
  const auto test = cifar10(folder.path(), Part::test);
  EXPECT_EQ(test->size(), 2);
  EXPECT_EQ(test->info().channels, 3);
  EXPECT_EQ(test->info().class_names[7], "horse");
  EXPECT_EQ(label_of(test->get(0)), 7);
  EXPECT_EQ(label_of(test->get(1)), 2);
  EXPECT_EQ(pixels_of(test->get(0)), interleaved(first, 1));
  EXPECT_EQ(pixels_of(test->get(1)), interleaved(second, 1));

  for (char i = 1; i <= 5; ++i) {
    put(folder / ("data_batch_" + std::to_string(i) + ".bin"), cifar_record({i}));
  }
  const auto train = open("cifar10:" + folder.path());
  ASSERT_EQ(train->size(), 5);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(label_of(train->get(i)), i + 1);
}

TEST(Dataset, ReadsCifar100) {
  const TempFolder folder;
  const std::string record = cifar_record({19, 99});
  put(folder / "train.bin", record);
  const auto set = open("cifar100:" + folder.path());
  EXPECT_EQ(set->info().classes, 100);
  const auto& names = set->info().class_names;
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), 100u);
  EXPECT_TRUE(std::ranges::is_sorted(names));
  EXPECT_EQ(names[99], "worm");
  EXPECT_EQ(label_of(set->get(0)), 99);
  EXPECT_EQ(pixels_of(set->get(0)), interleaved(record, 2));
}

TEST(Dataset, ReadsCifarArchives) {
  const std::string record = cifar_record({19, 42});
  for (const std::string prefix : {"", "./"}) {
    const TempFolder folder;
    put(folder / "cifar-100-binary.tar",
        io::tar_member(prefix + "cifar-100-binary/", "", '5') +
            io::tar_member(prefix + "cifar-100-binary/fine_label_names.txt", "apple\n") +
            io::tar_member(prefix + "cifar-100-binary/test.bin", record) + io::tar_end());
    const auto set = cifar100(folder.path(), Part::test);
    EXPECT_EQ(set->size(), 1);
    EXPECT_EQ(label_of(set->get(0)), 42);
    expect_error([&] { cifar100(folder.path()); },
                 {"cifar-100-binary.tar", "lacks cifar-100-binary/train.bin"});
    put(folder / "train.bin", record + record);  // single files come first
    EXPECT_EQ(cifar100(folder.path())->size(), 2);
  }
  const TempFolder folder;
  std::string archive;
  for (char i = 1; i <= 5; ++i) {
    archive += io::tar_member("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin",
                              cifar_record({i}));
  }
  const std::string path = folder / "cifar-10-binary.tar";
  put(path, archive + io::tar_end());
  for (const std::string command : {"gzip -k ", "xz -k "}) {
    if (std::system((command + path).c_str()) != 0) GTEST_SKIP() << "needs gzip and xz";
  }
  std::filesystem::remove(path);
  for (const std::string suffix : {".gz", ".xz"}) {
    const TempFolder alone;
    std::filesystem::copy(path + suffix, alone.path());
    const auto set = cifar10(alone.path());
    ASSERT_EQ(set->size(), 5);
    EXPECT_EQ(label_of(set->get(4)), 5);
    const std::string whole = io::get(path + suffix);
    put(alone / ("cifar-10-binary.tar" + suffix), whole.substr(0, whole.size() - 9));
    expect_error([&] { cifar10(alone.path()); }, {"cifar-10-binary.tar" + suffix});
  }
}

TEST(Dataset, MissingFilesAreNamed) {
  const TempFolder folder;
  expect_error([&] { mnist(folder.path()); },
               {folder.path(), "lacks train-images-idx3-ubyte", "t10k-labels-idx1-ubyte", ".gz"});
  expect_error([&] { mnist(folder / "absent"); }, {"absent", "is not a folder"});
  expect_error([&] { fashion_mnist(folder / "absent"); }, {"Fashion-MNIST", "is not a folder"});
  put_mnist(folder, "train", 2);
  expect_error([&] { mnist(folder.path(), Part::test); }, {"lacks t10k-images-idx3-ubyte"});
  expect_error([&] { cifar10(folder.path()); },
               {"CIFAR-10", "lacks data_batch_1.bin", "cifar-10-binary.tar.gz"});
  expect_error([&] { cifar100(folder.path(), Part::test); },
               {"CIFAR-100", "lacks test.bin", "cifar-100-binary.tar.gz"});
  put(folder / "data_batch_1.bin", cifar_record({1}));
  expect_error([&] { cifar10(folder.path()); }, {"lacks data_batch_2.bin"});
}

TEST(Dataset, DamagedFilesAreNamed) {
  const TempFolder folder;
  put_mnist(folder, "train", 4);
  const std::string images = folder / "train-images-idx3-ubyte";
  const std::string labels = folder / "train-labels-idx1-ubyte";
  const std::string good = io::get(images);

  put(images, good.substr(0, good.size() - 1));
  expect_error([&] { mnist(folder.path()); }, {images, "truncated"});
  put(images, "\x1f\x8bgarbage");
  expect_error([&] { mnist(folder.path()); }, {images});
  put(images, idx({24}, std::string(24, 'x')));
  expect_error([&] { mnist(folder.path()); }, {images, "expected images"});
  put(images, idx({0, 28, 28}, ""));
  expect_error([&] { mnist(folder.path()); }, {images, "[0, 28, 28] hold no images"});
  put(images, good);

  put(labels, idx({3}, "\x01\x02\x03"));
  expect_error([&] { mnist(folder.path()); }, {images, "4 images", labels, "3 labels"});
  put(labels, idx({4}, "\x01\x02\x0a\x03"));
  expect_error([&] { mnist(folder.path()); }, {labels, "label 10 of sample 2", "0 to 9"});
  put(labels, good);
  expect_error([&] { mnist(folder.path()); }, {labels, "expected labels"});

  put(folder / "test_batch.bin", std::string(3073, '\x0b'));
  expect_error([&] { cifar10(folder.path(), Part::test); }, {"test_batch.bin", "label"});
  put(folder / "test.bin", cifar_record({20, 0}));
  expect_error([&] { cifar100(folder.path(), Part::test); }, {"test.bin", "coarse label 20"});
  put(folder / "train.bin", cifar_record({0, 0}).substr(1));
  expect_error([&] { cifar100(folder.path()); }, {"train.bin", "CIFAR-100 records"});
}

TEST(Dataset, UnknownKindListsTheKnown) {
  for (const char* text : {"imagenet:/x", "mnist", "", ":/x"}) {
    expect_error<ValueError>([&] { open(text); },
                             {"KIND:PATH", "mnist, fashion-mnist, cifar10, cifar100, folder"});
  }
  EXPECT_EQ(kinds().size(), 6u);
}

TEST(Dataset, OpensFoldersByPart) {
  const TempFolder folder;
  const auto put_image = [&](const std::string& name) {
    const std::filesystem::path path = folder / name;
    std::filesystem::create_directories(path.parent_path());
    const auto png = io::encode_png(io::test_pixels(4, 5, 3));
    put(path.string(), std::string(png.begin(), png.end()));
  };
  const std::string path = "folder:" + folder.path();
  put_image("cats/0.png");
  EXPECT_EQ(open(path)->size(), 1);  // all of it
  expect_error([&] { open(path, Part::test); }, {folder.path(), "no subfolder val or test"});
  for (const std::string part : {"val", "test"}) {
    const std::string other = folder / ("only-" + part);
    put_image("only-" + part + "/" + part + "/cats/0.png");
    expect_error([&] { open("folder:" + other); }, {other, "subfolder " + part, "no train"});
    EXPECT_EQ(open("folder:" + other, Part::test)->size(), 1);
    std::filesystem::remove_all(other);
  }
  put_image("train/cats/0.png");
  put_image("train/cats/1.png");
  put_image("train/dogs/2.png");
  EXPECT_EQ(open(path)->size(), 3);
  put_image("test/cats/0.png");
  put_image("test/cats/1.png");
  put_image("test/dogs/2.png");
  EXPECT_EQ(open(path, Part::test)->size(), 3);
  put_image("val/cats/0.png");
  EXPECT_EQ(open(path, Part::test)->size(), 1);
}

TEST(Dataset, FromTensorsChecksItsArguments) {
  const Tensor images = zeros({2, 1, 4, 4}, kUInt8);
  const auto labels = [](double second) { return tensor({1, second}, {-1}, kInt64); };
  EXPECT_EQ(from_tensors(images, labels(2), 3)->size(), 2);
  expect_error<ValueError>([&] { from_tensors(images, labels(3), 3); }, {"label 3 of sample 1"});
  expect_error<ValueError>([&] { from_tensors(images, labels(-1), 3); }, {"label -1"});
  expect_error<DTypeError>([&] { from_tensors(zeros({2, 1, 4, 4}), labels(0), 3); }, {"float32"});
  expect_error<ShapeError>(
      [&] {
        from_tensors(zeros({3, 1, 4, 4}, kUInt8), labels(0), 3);
      },
      {"[3, 1, 4, 4]", "[2]"});
  expect_error<ShapeError>(
      [&] {
        from_tensors(zeros({2, 2, 4, 4}, kUInt8), labels(0), 3);
      },
      {"[2, 2, 4, 4]", "C 1 or 3"});
}

TEST(Dataset, FromTensorsTakesAnyLayout) {
  const Tensor images = arange(24).reshape({2, 3, 2, 2}).to(kUInt8);
  const auto set = from_tensors(images, zeros({2}, kInt64), 1);
  EXPECT_EQ(pixels_of(set->get(1)),
            (std::vector<std::uint8_t>{12, 16, 20, 13, 17, 21, 14, 18, 22, 15, 19, 23}));
  EXPECT_EQ(set->info().mean, std::vector(3, 0.5));
}

TEST(Dataset, RealSets) {
  FACULA_REQUIRE_SHARED_DATA(labels, "mnist/t10k-labels-idx1-ubyte.gz");
  FACULA_REQUIRE_SHARED_DATA(batch, "cifar10/test_batch.bin.xz");
  const auto folder_of = [](const std::string& path) {
    return std::filesystem::path(path).parent_path().string();
  };
  const auto digits = mnist(folder_of(labels), Part::test);
  EXPECT_EQ(digits->size(), 10000);
  EXPECT_EQ(label_of(digits->get(0)), 7);
  const auto things = cifar10(folder_of(batch), Part::test);
  EXPECT_EQ(things->size(), 10000);
  EXPECT_EQ(label_of(things->get(0)), 3);
}

TEST(Dataset, SamplesOutliveTheSet) {
  const Tensor images = arange(2 * 3 * 4 * 5).remainder(251).to(kUInt8).reshape({2, 3, 4, 5});
  Sample sample = subset(from_tensors(images, zeros({2}, kInt64), 1), {1})->get(0);
  EXPECT_TRUE(sample.tensor(0).eq(images[1]).all().item<bool>());
}

}  // namespace
}  // namespace facula::data
