#include <zlib.h>

#include <cmath>
#include <csignal>
#include <functional>

#include <facula/data/dataset.h>
#include <facula/error.h>

#include "data/labelled_image.h"
#include "data/packed_format.h"
#include "set_files.h"
#include "tests/support/memory_cap.h"

namespace facula::data {
namespace {

using io::expect_error;
using io::put;
using io::TempFolder;

/// Images of growing size, in colour and grey by turns.
class Growing : public ImageDataset {
 public:
  Growing() {
    info_ = {.name = "growing",
             .classes = 3,
             .class_names = {"a", "b", "\xc3\xa9"},
             .channels = 3,
             .mean = {0.1, 0.2, 0.3},
             .std = {0.4, 0.5, 0.6}};
  }

  const ImageSetInfo& info() const override { return info_; }
  std::int64_t size() const override { return 5; }
  Sample get(std::int64_t i) const override {
    const std::int64_t channels = i % 2 ? 1 : 3, height = i + 1, width = 2 * i + 1;
    const Tensor pixels = (arange(channels * height * width) + i).to(kUInt8);
    Sample sample;
    set_labelled_image(sample, Image(pixels.reshape({channels, height, width})), label(i));
    return sample;
  }
  std::string source(std::int64_t i) const override {
    return i == 3 ? "" : "folder/" + std::to_string(i * 1000) + ".jpg";
  }

  std::function<std::int64_t(std::int64_t)> label = [](std::int64_t i) { return i % 3; };
  ImageSetInfo info_;
};

TEST(Packed, GivesBackWhatWasPacked) {
  const TempFolder folder;
  const std::string path = folder / "set.fpk";
  const Growing set;
  pack(set, path);
  EXPECT_EQ(folder.names().size(), 1u);
  const auto read = packed(path);
  EXPECT_EQ(read->info().name, "growing");
  EXPECT_EQ(read->info().classes, 3);
  EXPECT_EQ(read->info().class_names, set.info().class_names);
  EXPECT_EQ(read->info().mean, set.info().mean);
  EXPECT_EQ(read->info().std, set.info().std);
  EXPECT_EQ(read->info().height, 0) << "the images grow";
  ASSERT_EQ(read->size(), 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    Sample expected = set.get(i), sample = read->get(i);
    EXPECT_EQ(sample.image().height(), expected.image().height());
    EXPECT_EQ(sample.image().channels(), expected.image().channels());
    EXPECT_EQ(pixels_of(sample), pixels_of(expected)) << i;
    EXPECT_EQ(label_of(sample), label_of(expected));
    EXPECT_EQ(read->source(i), set.source(i));
  }
  EXPECT_THROW(read->get(5), IndexError);
  EXPECT_THROW(read->source(-1), IndexError);
}

TEST(Packed, ManyImagesAndNone) {
  const TempFolder folder;
  pack(*counting_set(100), folder / "set.fpk");
  const auto read = packed(folder / "set.fpk");
  EXPECT_EQ(read->info().height, read->get(0).image().height());
  EXPECT_EQ(read->info().width, read->get(0).image().width());
  ASSERT_EQ(read->size(), 100);
  Sample sample;
  for (std::int64_t i = 0; i < 100; ++i) {
    read->load(i, sample);
    ASSERT_EQ(label_of(sample), i % 10);
    ASSERT_EQ(pixels_of(sample)[0], static_cast<std::uint8_t>(6 * i));
  }
  pack(*from_tensors(zeros({0, 1, 2, 2}, kUInt8), zeros({0}, kInt64), 10), folder / "set.fpk");
  EXPECT_EQ(packed(folder / "set.fpk")->size(), 0);
}

TEST(Packed, ShrinksLargeImages) {
  const TempFolder folder;
  const Tensor images = full({1, 3, 20, 41}, 7, kUInt8);
  const auto set = from_tensors(images, zeros({1}, kInt64), 1);
  const auto size = [&](std::int64_t shorter_side) {
    pack(*set, folder / "set.fpk", {.shorter_side = shorter_side});
    const auto read = packed(folder / "set.fpk");
    Sample sample = read->get(0);
    EXPECT_EQ(pixels_of(sample)[0], 7);
    return std::pair(sample.image().height(), sample.image().width());
  };
  EXPECT_EQ(size(10), std::pair(std::int64_t{10}, std::int64_t{20}));
  EXPECT_EQ(size(20), std::pair(std::int64_t{20}, std::int64_t{41}));
  EXPECT_EQ(size(0), std::pair(std::int64_t{20}, std::int64_t{41}));
  EXPECT_THROW(size(-1), ValueError);
}

/// Images of 3 MiB.
class Large : public Growing {
 public:
  std::int64_t size() const override { return 20; }
  Sample get(std::int64_t i) const override {
    Sample sample;
    set_labelled_image(sample, Image(full({3, 1024, 1024}, i, kUInt8)), 0);
    return sample;
  }
};

TEST(Packed, LargeImagesKeepWithinTheMemoryCap) {
  const TempFolder folder;
  const RestoreMemoryCap cap;
  set_host_memory_cap(cpu::memory_reserved() + (std::int64_t{24} << 20));
  pack(Large(), folder / "set.fpk");
  const auto read = packed(folder / "set.fpk");
  ASSERT_EQ(read->size(), 20);
  for (std::int64_t i = 0; i < 20; ++i) {
    Sample sample = read->get(i);
    EXPECT_EQ(pixels_of(sample)[0], i);
  }
}

TEST(Packed, AFailureLeavesNothing) {
  const TempFolder folder;
  Growing set;
  for (const std::int64_t wrong : {std::int64_t{3}, std::int64_t{-1}}) {
    set.label = [=](std::int64_t i) { return i == 4 ? wrong : 0; };
    expect_error<ValueError>([&] { pack(set, folder / "set.fpk"); }, {"sample 4 of 'growing'"});
  }
  set.info_.mean.pop_back();
  expect_error<ValueError>([&] { pack(set, folder / "set.fpk"); }, {"growing", "2 means"});
  // What packed() would refuse to read.
  set.info_.mean.push_back(std::nan(""));
  expect_error<ValueError>([&] { pack(set, folder / "set.fpk"); }, {"growing", "nan", "finite"});
  set.info_.mean[2] = 0;
  set.info_.std[1] = HUGE_VAL;
  expect_error<ValueError>([&] { pack(set, folder / "set.fpk"); }, {"inf", "finite"});
  set.info_.std[1] = 1;
  set.info_.class_names.clear();
  set.info_.classes = (std::int64_t{1} << 31) + 1;
  expect_error<ValueError>([&] { pack(set, folder / "set.fpk"); }, {"2147483649 classes"});
  EXPECT_TRUE(folder.names().empty());
  expect_error([&] { pack(*counting_set(1), folder / "absent/set.fpk"); }, {"absent"});
}

/// Many, and a signal comes while the fourth is written.
class Interrupted : public Growing {
 public:
  std::int64_t size() const override { return 40; }
  std::string source(std::int64_t i) const override {
    ++asked;
    if (i == 3) std::raise(SIGTERM);
    return Growing::source(i);
  }

  mutable int asked = 0;
};

TEST(Packed, ASignalEndsTheWorkAndLeavesNothing) {
  const TempFolder folder;
  put(folder / "set.fpk", "before");
  const auto former = std::signal(SIGTERM, [](int) {});
  const Interrupted heeding, heedless;
  EXPECT_EQ(pack(heeding, folder / "set.fpk", {.stop_on_interrupt = true}), SIGTERM);
  EXPECT_LT(heeding.asked, 40);
  EXPECT_EQ(folder.names().size(), 1u);
  EXPECT_EQ(io::get(folder / "set.fpk"), "before");
  EXPECT_EQ(pack(heedless, folder / "set.fpk"), 0);
  EXPECT_EQ(packed(folder / "set.fpk")->size(), 40);
  std::signal(SIGTERM, former);
}

TEST(Packed, TruncatedAtEveryByte) {
  const TempFolder folder;
  const std::string path = folder / "set.fpk";
  pack(Growing(), path);
  const std::string whole = io::get(path);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto bytes = io::bytes_of(whole.substr(0, size));
    expect_error([&] { parse_packed(bytes, "cut.fpk"); }, {"cut.fpk"});
  }
  put(path, whole.substr(0, whole.size() - 1));
  expect_error([&] { packed(path); }, {path, "make it again"});
  expect_error([&] { parse_packed(io::bytes_of(whole + '\0'), "f"); }, {"truncated or damaged"});
  expect_error([&] { packed(folder / "absent.fpk"); }, {"absent.fpk"});
}

TEST(Packed, EveryDamagedByteOfHeaderAndIndexIsFound) {
  const TempFolder folder;
  const std::string path = folder / "set.fpk";
  pack(Growing(), path);
  const auto good = io::bytes_of(io::get(path));
  // The last image ends before the index; whatever follows counts.
  const PackedRecord last = parse_packed(good, path).records.back();
  const std::size_t index = last.offset + (last.bytes() + 63) / 64 * 64;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (i >= 12 && i < index) continue;
    for (const std::uint8_t flip : {0x01, 0x80, 0xff}) {
      auto bad = good;
      bad[i] ^= flip;
      EXPECT_THROW(parse_packed(bad, "bad.fpk"), IoError) << i;
    }
  }
}

/// The file of Growing with one change to its index, whose checksum is right.
void expect_refused(const std::function<void(PackedIndex&)>& change, std::string_view message) {
  const TempFolder folder;
  pack(Growing(), folder / "set.fpk");
  const std::string whole = io::get(folder / "set.fpk");
  PackedIndex index = parse_packed(io::bytes_of(whole), "f");
  const PackedRecord last = index.records.back();
  const std::size_t begin = last.offset + (last.bytes() + 63) / 64 * 64;
  change(index);
  const auto bytes = io::bytes_of(whole.substr(0, begin) + format_packed_index(index, begin));
  expect_error([&] { parse_packed(bytes, "evil.fpk"); }, {"evil.fpk", message});
}

TEST(Packed, IndicesMadeOnPurposeAreRefused) {
  const auto record = [](auto change) {
    return [change](PackedIndex& index) { change(index.records[2]); };
  };
  expect_refused(record([](auto& r) { r.offset = 0; }), "wrong offset");
  expect_refused(record([](auto& r) { r.offset += 1; }), "wrong offset");
  expect_refused(record([](auto& r) { r.offset = 1 << 20; }), "wrong offset");
  expect_refused(record([](auto& r) { r.offset = ~std::uint64_t{63}; }), "wrong offset");
  expect_refused(record([](auto& r) { r.height = 1000; }), "beyond the pixels");
  expect_refused(record([](auto& r) { r.height = r.width = ~0u; }), "beyond the pixels");
  expect_refused(record([](auto& r) { r.width = 0; }), "without pixels");
  expect_refused(record([](auto& r) { r.height = 0; }), "without pixels");
  expect_refused(record([](auto& r) { r.channels = 2; }), "channels");
  expect_refused(record([](auto& r) { r.channels = 0; }), "channels");
  expect_refused(record([](auto& r) { r.label = 3; }), "label");
  expect_refused(record([](auto& r) { r.label = -1; }), "label");
  expect_refused(record([](auto& r) { ++r.source_bytes; }), "names of files");
  expect_refused([](auto& index) { index.sources += "x"; }, "names of files");
  expect_refused([](auto& index) { index.info.class_names.pop_back(); }, "class names");
  expect_refused([](auto& index) { index.info.classes = std::int64_t{1} << 40; }, "classes");
  expect_refused([](auto& index) { index.info.channels = 4; }, "channels");
  expect_refused([](auto& index) { index.info.mean[1] = std::nan(""); }, "finite");
  expect_refused([](auto& index) { index.info.std[1] = HUGE_VAL; }, "finite");
}

TEST(Packed, MoreRecordsThanTheFileHoldsAllocateNothing) {
  PackedIndex index{.info = counting_set(1)->info(), .records = {}, .sources = {}};
  std::string file(64, '\0');
  file.replace(0, 8, PackedFormat::kMagic);
  file[8] = 1;
  file += format_packed_index(index, 64);
  EXPECT_TRUE(parse_packed(io::bytes_of(file), "f").records.empty());
  // The count is the last number of an index without images; the checksum follows it.
  const std::size_t trailer = file.size() - PackedFormat::kTrailerBytes;
  file.replace(trailer - 8, 8, std::string(8, '\x7f'));
  const auto bytes = io::bytes_of(file);
  const auto sum = ::crc32_z(0, bytes.data() + 64, trailer - 64);
  for (int i = 0; i < 4; ++i) {
    file[trailer + 16 + static_cast<std::size_t>(i)] = static_cast<char>(sum >> 8 * i & 0xff);
  }
  expect_error([&] { parse_packed(io::bytes_of(file), "f"); }, {"more images than records"});
}

TEST(Packed, OpenFindsTheParts) {
  const TempFolder folder;
  pack(*counting_set(4), folder / "train.fpk");
  EXPECT_EQ(open("packed:" + (folder / "train.fpk"))->size(), 4);
  expect_error([&] { open("packed:" + (folder / "train.fpk"), Part::test); },
               {"train.fpk", "one file", "val.fpk or test.fpk"});
  EXPECT_EQ(open("packed:" + folder.path())->size(), 4);
  expect_error([&] { open("packed:" + folder.path(), Part::test); },
               {folder.path(), "lacks val.fpk or test.fpk", "facula data pack"});
  pack(*counting_set(3), folder / "test.fpk");
  EXPECT_EQ(open("packed:" + folder.path(), Part::test)->size(), 3);
  pack(*counting_set(2), folder / "val.fpk");
  EXPECT_EQ(open("packed:" + folder.path(), Part::test)->size(), 2);
}

}  // namespace
}  // namespace facula::data
