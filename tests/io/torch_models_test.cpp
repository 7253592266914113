// Model files that others made, against a list of the tensors in them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "io/torch/torch_file.h"
#include "io/torch/torch_types.h"
#include "tests/io/shared_files.h"
#include "tests/io/test_files.h"

namespace facula::io {
namespace {

using Bytes = std::vector<uint8_t>;
using Files = std::map<std::string, Bytes>;

/// The lines of a table, cut at tabs.
std::vector<std::vector<std::string>> rows(const Bytes& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(std::string(table.begin(), table.end()));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    auto& row = rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) row.push_back(cell);
  }
  return rows;
}

double number(const std::string& text) {
  if (text == "True") return 1;
  if (text == "False") return 0;
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::stod(text);
}

/// "[1.0, nan]"
std::vector<double> numbers(const std::string& list) {
  std::vector<double> values;
  std::istringstream cells(list.substr(1, list.size() - 2));
  for (std::string cell; std::getline(cells, cell, ',');) {
    values.push_back(number(cell.substr(cell.front() == ' ')));
  }
  return values;
}

std::vector<int64_t> integers(const std::string& list) {
  const auto values = numbers(list);
  return {values.begin(), values.end()};
}

/// The table writes steps through objects as "!" and through calls as "?[0]".
std::string plain_name(const std::string& key) {
  std::string name = std::regex_replace(key, std::regex(R"(!|\?\[0\])"), "");
  name = std::regex_replace(name, std::regex(R"(\[(\d+)\])"), ".$1");
  return name.starts_with(".") ? name.substr(1) : name;
}

void expect_equal(double actual, double expected, double tolerance, const std::string& what) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(actual)) << what;
  } else if (std::isinf(expected)) {
    EXPECT_EQ(actual, expected) << what;
  } else {
    EXPECT_NEAR(actual, expected, tolerance) << what;
  }
}

/// Compares one tensor with its row: file, format, key, storage type, shape, strides, offset, sum,
/// first four elements.
void compare(TorchFileReader& reader, const std::vector<std::string>& row) {
  const std::string what = row[0] + ": " + row[2], name = plain_name(row[2]);
  const auto& tensors = reader.tensors();
  const auto found = std::ranges::find(tensors, name, &TorchTensor::name);
  ASSERT_NE(found, tensors.end()) << what;
  const TorchType& type = *torch_type_of_storage("torch." + row[3] + "Storage");
  EXPECT_EQ(found->dtype, type.dtype) << what;
  EXPECT_EQ(found->shape, integers(row[4])) << what;
  EXPECT_EQ(found->strides, integers(row[5])) << what;
  EXPECT_EQ(found->offset, std::stoull(row[6])) << what;

  const Tensor tensor = reader.tensor(static_cast<size_t>(found - tensors.begin()));
  EXPECT_EQ(tensor.dtype(), type.facula_dtype) << what;
  EXPECT_EQ(tensor.sizes().vec(), found->shape) << what;
  EXPECT_EQ(tensor.strides().vec(), found->strides) << what;
  const auto values = tensor.to(kFloat64).to_vector<double>();
  double sum = 0, size = 0;
  for (const double value : values) {
    sum += value;
    size += std::abs(value);
  }
  expect_equal(sum, number(row[7]), 1e-9 * (1 + size), what + ", sum");
  const auto first = numbers(row[8]);
  ASSERT_GE(values.size(), first.size()) << what;
  for (size_t i = 0; i < first.size(); ++i) {
    expect_equal(values[i], first[i], 0, what + ", element " + std::to_string(i));
  }
}

/// All of the archive, unpacked once.
const Files& all_files(const std::string& path) {
  static const Files files = shared_files(path, "");
  return files;
}

TEST(TorchModels, EveryFileIsReadOrRefusedAsListed) {
  FACULA_REQUIRE_SHARED_DATA(path, "models/models.tar.xz");
  const Files& files = all_files(path);
  int read = 0, refused = 0;
  for (const auto& row : rows(files.at("FORMATS.tsv"))) {
    const Bytes& file = files.at(row[0]);
    if (row[1].starts_with("not")) {
      EXPECT_FALSE(is_torch_file(file)) << row[0];
      expect_error([&] { TorchFileReader(file, row[0]); }, {row[0]});
      ++refused;
      continue;
    }
    EXPECT_TRUE(is_torch_file(file)) << row[0];
    const std::string format = row[1].starts_with("torchscript") ? "TorchScript"
                               : row[1].starts_with("legacy")    ? "legacy"
                                                                 : "zip";
    EXPECT_EQ(name_of(TorchFileReader(file, row[0]).format()), format) << row[0];
    ++read;
  }
  EXPECT_EQ(read, 72);
  EXPECT_EQ(refused, 1);
}

TEST(TorchModels, TensorsAreThoseOfTheList) {
  FACULA_REQUIRE_SHARED_DATA(path, "models/models.tar.xz");
  const Files& files = all_files(path);
  std::map<std::string, std::vector<std::vector<std::string>>> tensors_of;
  for (const auto& row : rows(files.at("EXPECTED_TENSORS.tsv"))) {
    if (row[0] != "file") tensors_of[row[0]].push_back(row);
  }
  EXPECT_EQ(tensors_of.size(), 63u);
  for (const auto& [name, expected] : tensors_of) {
    TorchFileReader reader(files.at(name), name);
    for (const auto& row : expected) compare(reader, row);
    // The list leaves out quantized tensors.
    if (name == "ios-demo/mobilenet_quantized.pt") {
      expect_error<DTypeError>([&] { reader.load(); },
                               {name, "\"classifier.1._packed_params._packed_params.0\"", "qint8"});
      continue;
    }
    EXPECT_EQ(reader.tensors().size(), expected.size()) << name;
    const StateDict state = reader.load();
    for (const TorchTensor& tensor : reader.tensors()) {
      EXPECT_EQ(state.tensor(tensor.name).sizes().vec(), tensor.shape) << name;
    }
  }
}

TEST(TorchModels, ViewsShareTheirStorage) {
  FACULA_REQUIRE_SHARED_DATA(path, "models/models.tar.xz");
  const std::string name =
      "burn-pytorch-tests/crates/burn-store/src/pytorch/tests/reader/test_data/"
      "legacy_uncloned_views.pt";
  TorchFileReader reader(all_files(path).at(name), name);
  ASSERT_EQ(reader.storages().size(), 1u);
  const StateDict state = reader.load();
  const auto* first = state.tensor("tensor1").data_ptr<float>();
  EXPECT_EQ(state.tensor("tensor2").data_ptr<float>() - first, 40);
  EXPECT_FALSE(state.tensor("tensor1").is_view());
}

}  // namespace
}  // namespace facula::io
