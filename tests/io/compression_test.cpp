#include "io/archives/compression.h"

#include <lzma.h>
#include <zlib.h>

#include "test_files.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kNoLimit = SIZE_MAX;

Bytes gzip(const Bytes& data) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, data.size()) + 32);
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Bytes xz(const Bytes& data, uint32_t window = 1 << 20) {
  lzma_options_lzma options;
  lzma_lzma_preset(&options, 6);
  options.dict_size = window;
  lzma_filter filters[] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  Bytes out(lzma_stream_buffer_bound(data.size()));
  size_t size = 0;
  EXPECT_EQ(lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, nullptr, data.data(), data.size(),
                                      out.data(), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

Bytes noise(size_t size) {
  Bytes bytes(size);
  uint32_t state = 1;
  for (auto& byte : bytes)
    byte = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Format {
  const char* name;
  Bytes (*compress)(const Bytes&);
};

class Compression : public ::testing::TestWithParam<Format> {
 protected:
  static Bytes compress(const Bytes& data) { return GetParam().compress(data); }
};

INSTANTIATE_TEST_SUITE_P(Formats, Compression,
                         ::testing::Values(Format{"gzip", gzip},
                                           Format{"xz", [](const Bytes& d) { return xz(d); }}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Compression, RoundTripsAtTheExactLimit) {
  for (const auto& data : {Bytes{}, bytes_of("a"), noise(100'000), Bytes(3'000'000, 7)}) {
    const Bytes compressed = compress(data);
    const Bytes exact = decompress(compressed, data.size(), "f");
    EXPECT_EQ(exact, data);
    EXPECT_LE(exact.capacity(), data.size()) << "allocated more than the limit";
    EXPECT_EQ(decompress(compressed, kNoLimit, "f"), data);
    if (!data.empty()) {
      expect_error([&] { decompress(compressed, data.size() - 1, "bomb"); },
                   {"bomb", "more than the limit of " + std::to_string(data.size() - 1)});
    }
  }
}

TEST_P(Compression, JoinsSeveralMembers) {
  const Bytes a = noise(1000), b = Bytes(5000, 1);
  EXPECT_EQ(decompress(compress(a) + compress({}) + compress(b), 6000, "f"), a + b);
  EXPECT_THROW(decompress(compress(a) + compress(b), 5999, "f"), IoError);
}

TEST_P(Compression, IgnoresZeroPadding) {
  EXPECT_EQ(decompress(compress({1, 2}) + Bytes(512, 0), 2, "f"), (Bytes{1, 2}));
}

TEST_P(Compression, RefusesOtherDataAfterTheEnd) {
  EXPECT_THROW(decompress(compress({1, 2}) + bytes_of("junk"), 100, "f"), IoError);
}

TEST_P(Compression, ReportsTruncationAtEveryByte) {
  const Bytes compressed = compress(noise(300));
  for (size_t size = 6; size < compressed.size(); ++size) {
    const Bytes part(compressed.begin(), compressed.begin() + static_cast<ptrdiff_t>(size));
    expect_error([&] { decompress(part, 1000, "cut"); }, {"cut", "truncated"});
  }
}

TEST_P(Compression, EveryCorruptByteIsNoticedOrHarmless) {
  const Bytes data = noise(300);
  const Bytes compressed = compress(data);
  size_t noticed = 0;
  for (size_t i = 6; i < compressed.size(); ++i) {
    Bytes damaged = compressed;
    damaged[i] ^= 0x55;
    try {
      EXPECT_EQ(decompress(damaged, 1000, "f"), data);
    } catch (const IoError&) {
      ++noticed;
    }
  }
  // Only the few bytes of a gzip header (time, system) may change unnoticed.
  EXPECT_GE(noticed, compressed.size() - 6 - 6);
}

TEST_P(Compression, ABombStopsAtTheLimit) {
  const Bytes member = compress(Bytes(1 << 20, 0));
  Bytes bomb;
  for (int i = 0; i < 1000; ++i) bomb = std::move(bomb) + member;
  expect_error([&] { decompress(bomb, 1 << 22, "bomb"); }, {"more than the limit of 4194304"});
  EXPECT_EQ(decompress_start(bomb, 1 << 22, "bomb"), Bytes(1 << 22, 0));
}

TEST_P(Compression, AStartIsAllOfShorterData) {
  const Bytes data = noise(1000);
  EXPECT_EQ(decompress_start(compress(data), 1001, "f"), data);
  EXPECT_EQ(decompress_start(compress(data), 1000, "f"), data);
  EXPECT_EQ(decompress_start(compress(data), 3, "f"), Bytes(data.begin(), data.begin() + 3));
}

TEST(Xz, RefusesAnExcessiveWindow) {
  expect_error([] { decompress(xz(noise(10), 256 << 20), 100, "wide"); },
               {"wide", "limit is 128 MiB", "xz -9"});
  EXPECT_EQ(decompress(xz(noise(10), 64 << 20), 100, "preset 9"), noise(10));
}

TEST(Decompress, PassesPlainDataThrough) {
  EXPECT_EQ(decompress(bytes_of("plain"), 5, "f"), bytes_of("plain"));
  EXPECT_TRUE(decompress({}, 0, "f").empty());
  expect_error([] { decompress(bytes_of("plain"), 4, "f"); }, {"f", "5 bytes", "limit is 4"});
  EXPECT_EQ(decompress_start(bytes_of("plain"), 4, "f"), bytes_of("plai"));
}

TEST(DecompressFile, RecognisesTheContentNotTheName) {
  TempFolder folder;
  const Bytes data = noise(100'000);
  for (const Bytes& content : {data, gzip(data), xz(data)}) {
    put(folder / "a", std::string(content.begin(), content.end()));
    EXPECT_EQ(decompress_file(folder / "a", data.size()), data);
    expect_error([&] { decompress_file(folder / "a", data.size() - 1); }, {folder / "a", "limit"});
  }
  EXPECT_EQ(decompress_file(folder / "a", kNoLimit), data);
  expect_error([&] { decompress_file(folder / "missing.gz", 10); }, {"missing.gz", "No such file"});
}

}  // namespace
}  // namespace facula::io
