#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <facula/data/data_loader.h>
#include <facula/data/transforms.h>
#include <facula/error.h>

#include "io/images/image_file.h"

#include "set_files.h"
#include "tests/io/encode_image.h"
#include "tests/io/shared_files.h"

namespace facula::data {
namespace {

namespace fs = std::filesystem;
using io::encode_jpeg;
using io::encode_png;
using io::expect_error;
using io::Pixels;
using io::TempFolder;
using io::test_pixels;

void put_bytes(const std::string& path, const io::Bytes& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  io::put(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::vector<std::string> sources_of(const ImageDataset& set) {
  std::vector<std::string> sources;
  for (std::int64_t i = 0; i < set.size(); ++i) sources.push_back(set.source(i));
  return sources;
}

TEST(ImageFolder, ClassesAndFilesInTheOrderOfTheirNames) {
  const TempFolder folder;
  const auto jpeg = encode_jpeg(test_pixels(8, 9, 3));
  const auto png = encode_png(test_pixels(5, 4, 3));
  for (const char* name : {"dogs/b.jpg", "dogs/a.dat", "cats/deep/er/2.jpg", "cats/deep.jpg"})
    put_bytes(folder / name, jpeg);
  put_bytes(folder / "cats/z.jpg", png);  // told by its first bytes
  put_bytes(folder / ".hidden/x.jpg", jpeg);
  put_bytes(folder / "dogs/._b.jpg", jpeg);
  put_bytes(folder / "beside.jpg", jpeg);

  const auto set = image_folder(folder.path());
  EXPECT_EQ(set->info().name, "folder");
  EXPECT_EQ(set->info().classes, 2);
  EXPECT_EQ(set->info().class_names, (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(set->info().mean, (std::vector<double>{0.485, 0.456, 0.406}));
  EXPECT_EQ(sources_of(*set),
            (std::vector<std::string>{folder / "cats/deep.jpg", folder / "cats/deep/er/2.jpg",
                                      folder / "cats/z.jpg", folder / "dogs/a.dat",
                                      folder / "dogs/b.jpg"}));
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < set->size(); ++i) labels.push_back(label_of(set->get(i)));
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(pixels_of(set->get(2)), test_pixels(5, 4, 3).bytes);
  EXPECT_EQ(pixels_of(set->get(4)), io::decode_all(jpeg).bytes);
  EXPECT_THROW(set->get(5), IndexError);
}

TEST(ImageFolder, ImagesAreUprightRgb) {
  const TempFolder folder;
  const Pixels grey = test_pixels(6, 10, 1);
  put_bytes(folder / "c/cmyk.jpg", encode_jpeg(test_pixels(6, 10, 4)));
  put_bytes(folder / "c/grey.png", encode_png(grey));
  put_bytes(folder / "c/turned.png", encode_png(grey, {.orientation = 6}));
  const auto set = image_folder(folder.path());
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(set->get(i)["image"].index(), 3u);
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(set->get(i).image().channels(), 3);

  io::Bytes rgb;
  for (const std::uint8_t value : grey.bytes) rgb.insert(rgb.end(), 3, value);
  EXPECT_EQ(pixels_of(set->get(1)), rgb);

  Sample turned = set->get(2);
  EXPECT_EQ(turned.image().height(), 10);
  EXPECT_EQ(turned.image().width(), 6);
  turned.image().crop({2, 1, 3, 4});
  io::Bytes expected;
  for (std::int64_t y = 2; y < 5; ++y)
    for (std::int64_t x = 1; x < 5; ++x) expected.insert(expected.end(), 3, grey.at(5 - x, y, 0));
  EXPECT_EQ(pixels_of(turned), expected);
}

TEST(ImageFolder, OnlyTheRegionShownIsDecoded) {
  const TempFolder folder;
  auto file = encode_jpeg(test_pixels(256, 64, 3), {.across = 2, .down = 2});
  const Pixels whole = io::decode_all(file);
  file.resize(file.size() / 2);
  put_bytes(folder / "c/half.jpg", file);
  const auto set = image_folder(folder.path());
  Sample sample = set->get(0);
  sample.image().crop({10, 5, 40, 30});
  EXPECT_EQ(pixels_of(sample), io::cut(whole, 10, 5, 40, 30).bytes);
  expect_error([&] { pixels_of(set->get(0)); }, {folder / "c/half.jpg", "truncated"});
}

TEST(ImageFolder, DecodesAtAFractionOfTheSizeIfAskedTo) {
  const TempFolder folder;
  const Pixels whole = test_pixels(80, 120, 3);
  const io::Bytes file = encode_jpeg(whole);
  put_bytes(folder / "c/a.jpg", file);
  put_bytes(folder / "c/b.png", encode_png(whole));
  const auto at = [&](std::int64_t side) {
    return image_folder(folder.path(), {.scaled_decoding_side = side});
  };
  EXPECT_EQ(at(0)->get(0).image().height(), 80);
  EXPECT_EQ(at(41)->get(0).image().height(), 80);
  EXPECT_EQ(at(40)->get(0).image().height(), 40);
  EXPECT_EQ(at(1)->get(0).image().width(), 15);
  EXPECT_EQ(at(1)->get(1).image().width(), 120);  // of PNG files there is no such thing

  Pixels quarter{20, 30, 3, io::Bytes(20 * 30 * 3)};
  io::decode_image(file, io::read_image_header(file, ""), {0, 0, 20, 30}, quarter.bytes.data(), "",
                   {.scale_denominator = 4});
  const auto set = at(20);
  Sample sample = set->get(0);
  EXPECT_EQ(pixels_of(sample), quarter.bytes);
  sample = set->get(0);
  sample.image().crop({3, 5, 11, 20});
  EXPECT_EQ(pixels_of(sample), io::cut(quarter, 3, 5, 11, 20).bytes);
  expect_error<ValueError>([&] { at(-1); }, {"scaled_decoding_side is -1"});
}

TEST(ImageFolder, OtherFilesAreLeftOutOrReported) {
  const TempFolder folder;
  put_bytes(folder / "c/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  put_bytes(folder / "c/b.gif", io::bytes_of("GIF89a, not really"));
  put_bytes(folder / "c/empty.jpg", {});
  fs::create_symlink("nowhere", folder / "c/broken.jpg");
  ASSERT_EQ(::mkfifo((folder / "c/pipe.jpg").c_str(), 0600), 0);
  EXPECT_EQ(image_folder(folder.path())->size(), 1);
  expect_error([&] { image_folder(folder.path(), {.skip_others = false}); },
               {folder / "c/b.gif", "no JPEG or PNG", "skip_others"});
}

TEST(ImageFolder, FoldersThatAreNone) {
  const TempFolder folder;
  expect_error([&] { image_folder(folder / "missing"); }, {folder / "missing"});
  expect_error([&] { image_folder(folder.path()); }, {folder.path(), "one per class"});
  put_bytes(folder / "full/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  fs::create_directory(folder / "void");
  expect_error([&] { image_folder(folder.path()); }, {folder / "void", "no JPEG or PNG"});
  expect_error([&] { image_folder(folder / "full/a.jpg"); }, {"full/a.jpg"});
}

/// Gives up what root may do, as far as files are concerned, until it goes out of scope.
class Unprivileged {
 public:
  Unprivileged() : root_(::geteuid() == 0) {
    constexpr uid_t kNobody = 65534;
    if (root_) failed_ = ::seteuid(kNobody) != 0;
  }
  ~Unprivileged() {
    if (root_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  bool failed() const { return failed_; }

 private:
  bool root_, failed_ = false;
};

TEST(ImageFolder, UnreadableFoldersAndFiles) {
  const TempFolder folder;
  put_bytes(folder / "c/d/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  const auto refuse = [&](const std::string& path) {
    const auto before = fs::status(path).permissions();
    fs::permissions(path, fs::perms::none);
    {
      const Unprivileged user;
      if (!user.failed()) {
        expect_error([&] { image_folder(folder.path()); }, {path, "permissions"});
      }
    }
    fs::permissions(path, before);
  };
  fs::permissions(folder.path(), fs::perms::all);
  refuse(folder / "c/d");
  refuse(folder / "c/d/a.jpg");
  refuse(folder / "c");
  EXPECT_EQ(image_folder(folder.path())->size(), 1);
}

TEST(ImageFolder, PartsAreSubfolders) {
  const TempFolder folder;
  for (const char* name : {"train/a/1.jpg", "train/a/2.jpg", "val/a/1.jpg"})
    put_bytes(folder / name, encode_jpeg(test_pixels(8, 9, 3)));
  EXPECT_EQ(open("folder:" + folder.path(), Part::train)->size(), 2);
  EXPECT_EQ(open("folder:" + folder.path(), Part::test)->size(), 1);
}

TEST(ImageFolder, PartsNumberTheirClassesAlike) {
  const TempFolder folder;
  for (const char* name : {"train/a/1.jpg", "train/b/1.jpg", "train/c/1.jpg", "train/d/1.jpg",
                           "val/c/1.jpg", "val/a/1.jpg", "val/a/2.jpg"})
    put_bytes(folder / name, encode_jpeg(test_pixels(8, 9, 3)));
  const auto train = open("folder:" + folder.path(), Part::train);
  const auto val = open("folder:" + folder.path(), Part::test);
  EXPECT_EQ(val->info().class_names, train->info().class_names);
  EXPECT_EQ(val->info().classes, 4);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < val->size(); ++i) {
    labels.push_back(label_of(val->get(i)));
  }
  EXPECT_EQ(labels, (std::vector<std::int64_t>{0, 0, 2}));
  // In an order of one's own.
  const auto own = image_folder(folder / "val", {.class_names = {"c", "b", "a"}});
  EXPECT_EQ(label_of(own->get(0)), 0);
  EXPECT_EQ(own->source(0), folder / "val/c/1.jpg");
  EXPECT_EQ(label_of(own->get(2)), 2);

  put_bytes(folder / "val/e/1.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  expect_error([&] { open("folder:" + folder.path(), Part::test); },
               {folder / "val/e", "0 times", "4 classes"});
  expect_error(
      [&] {
        image_folder(folder / "val", {.class_names = {"a", "a", "c", "e"}});
      },
      {folder / "val/a", "2 times"});
}

TEST(ImageFolder, LinksAreFollowedButNotInCircles) {
  const TempFolder folder;
  put_bytes(folder / "store/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  fs::create_directories(folder / "set/c");
  fs::create_symlink(folder / "store", folder / "set/c/linked");
  const auto set = image_folder(folder / "set");
  EXPECT_EQ(sources_of(*set), (std::vector<std::string>{folder / "set/c/linked/a.jpg"}));
  fs::create_symlink(folder / "set/c", folder / "store/back");
  expect_error([&] { image_folder(folder / "set"); }, {"linked/back", "contains it"});
}

TEST(ImageFolder, FilesThatVanishOrChange) {
  const TempFolder folder;
  put_bytes(folder / "c/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  put_bytes(folder / "c/b.jpg", encode_jpeg(test_pixels(8, 9, 3)));
  const auto set = image_folder(folder.path());
  fs::remove(folder / "c/a.jpg");
  io::put(folder / "c/b.jpg", "no longer an image");
  expect_error([&] { set->get(0); }, {folder / "c/a.jpg", "check the path"});
  expect_error([&] { set->get(1); }, {folder / "c/b.jpg", "neither a JPEG nor a PNG"});
}

TEST(ImageFolder, FilesThatVanishDuringTraining) {
  const TempFolder folder;
  for (const char* name : {"c/a.jpg", "c/b.jpg", "c/e.jpg", "gone/a.jpg"})
    put_bytes(folder / name, encode_jpeg(test_pixels(8, 9, 3)));
  const auto set = image_folder(folder.path());
  for (const int workers : {0, 2, kAuto}) {
    for (const bool skip : {false, true}) {
      put_bytes(folder / "c/b.jpg", encode_jpeg(test_pixels(8, 9, 3)));
      put_bytes(folder / "gone/a.jpg", encode_jpeg(test_pixels(8, 9, 3)));
      const DataLoader loader(set, {.batch_size = 1,
                                    .transform = transforms::ToTensor(),
                                    .num_workers = workers,
                                    .skip_errors = skip});
      std::int64_t loaded = 0;
      for (const Batch& batch : loader.epoch(0)) loaded += batch[0].size(0);
      EXPECT_EQ(loaded, 4);
      fs::remove(folder / "c/b.jpg");
      fs::remove_all(folder / "gone");
      io::put(folder / "gone", "a file where the folder was");
      Epoch epoch = loader.epoch(1);
      std::vector<std::string> errors;
      Batch batch;
      loaded = 0;
      for (bool more = true; more;) {
        try {
          more = epoch.next(batch);
          loaded += more;
        } catch (const SampleError& error) {
          errors.emplace_back(error.what());
        }
      }
      fs::remove(folder / "gone");
      EXPECT_EQ(loaded, 2);
      ASSERT_EQ(errors.size(), skip ? 0u : 2u);
      if (skip) continue;
      EXPECT_NE(errors[0].find(folder / "c/b.jpg"), std::string::npos) << errors[0];
      EXPECT_NE(errors[1].find(folder / "gone/a.jpg"), std::string::npos) << errors[1];
    }
  }
}

/// MiB that this process has had in memory at most.
double peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib / 1024;
  }
  return 0;
}

/// How many samples of an epoch fail as training reads them; each error names its file.
std::int64_t errors_of(const ImageDatasetPtr& set) {
  const auto& info = set->info();
  const DataLoader loader(
      set,
      {.transform = transforms::by_name("imagenet-train", info.mean, info.std), .num_workers = 2});
  Epoch epoch = loader.epoch(0);
  std::int64_t errors = 0;
  Batch batch;
  for (bool more = true; more;) {
    try {
      more = epoch.next(batch);
    } catch (const SampleError& error) {
      ++errors;
      EXPECT_NE(std::string(error.what()).find(set->source(error.index())), std::string::npos)
          << error.what();
    }
  }
  return errors;
}

/// Puts files into a folder, whatever they are, as photographs of one class, and loads them all.
/// Returns how many gave an image.
std::int64_t load_hostile(const std::vector<std::map<std::string, io::Bytes>>& collections) {
  const TempFolder folder;
  for (const auto& files : collections) {
    for (const auto& [name, bytes] : files) {
      std::string flat = name;
      std::ranges::replace(flat, '/', '_');
      put_bytes(folder / "c" + "/" + flat + ".jpg", bytes);
    }
  }
  const auto set = image_folder(folder.path());
  std::int64_t good = 0;
  for (std::int64_t i = 0; i < set->size(); ++i) {
    try {
      set->get(i).image().tensor();
      ++good;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(set->source(i)), std::string::npos) << error.what();
    }
  }
  const auto& info = set->info();
  const DataLoader loader(set,
                          {.batch_size = 16,
                           .transform = transforms::by_name("imagenet-train", info.mean, info.std),
                           .num_workers = 2,
                           .skip_errors = true});
  std::int64_t loaded = 0;
  for (const Batch& batch : loader.epoch(0)) loaded += batch[0].size(0);
  // A damaged end does no harm to a crop that does not reach it.
  EXPECT_GE(loaded, good);
  EXPECT_EQ(loaded + errors_of(set), set->size());
  return good;
}

TEST(ImageFolder, HostileFilesAreLoadedOrNamed) {
  using io::shared_data;
  FACULA_REQUIRE_SHARED_DATA(tests, "images/jpeg-tests.tar.xz");
  FACULA_REQUIRE_SHARED_DATA(adversarial, "adversarial/adversarial.tar.xz");
  const std::vector collections = {io::shared_files(tests, ""),
                                   io::shared_files(adversarial, "jpeg/"),
                                   io::shared_files(adversarial, "/zip-")};
  const double before = peak_mib();
  EXPECT_GE(load_hostile(collections), 100);
  EXPECT_LT(peak_mib() - before, 400) << "MiB";
}

TEST(ImageFile, OpensAsStored) {
  const TempFolder folder;
  const Pixels grey = test_pixels(6, 10, 1);
  put_bytes(folder / "grey.png", encode_png(grey));
  Image image = Image::open(folder / "grey.png");
  EXPECT_EQ(image.channels(), 1);
  EXPECT_EQ(image.pixels().to_vector<std::uint8_t>(), grey.bytes);
  expect_error([&] { Image::open(folder / "none.png"); }, {folder / "none.png"});
}

}  // namespace
}  // namespace facula::data
