// Scratch folders, real data and message checks for the tests of src/io.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <facula/error.h>

namespace facula::io {

/// A new folder, removed with everything in it on destruction.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = ::testing::TempDir() + "facula-io-XXXXXX";
    if (!::mkdtemp(pattern.data())) throw IoError("cannot create " + pattern);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

/// Makes `folder` the process's current one while it lives.
class InFolder {
 public:
  explicit InFolder(const std::string& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~InFolder() {
    std::error_code ignored;
    std::filesystem::current_path(before_, ignored);
  }
  InFolder(const InFolder&) = delete;
  InFolder& operator=(const InFolder&) = delete;

 private:
  const std::filesystem::path before_;
};

inline void put(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::vector<uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

/// Runs `action`, which must throw E with every one of `parts` in its message.
template <class E = IoError, class Action>
void expect_error(Action&& action, std::initializer_list<std::string_view> parts) {
  try {
    action();
  } catch (const E& error) {
    for (const auto part : parts)
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "'" << part << "' is not in: " << error.what();
    return;
  }
  ADD_FAILURE() << "no exception";
}

/// A file of the shared data: under FACULA_SHARED_DATA, else beside the source tree. Empty if there
/// is none.
inline std::string shared_data(std::string_view name) {
  const char* root = std::getenv("FACULA_SHARED_DATA");
  const auto beside = std::filesystem::path(__FILE__).parent_path() / "../../../shared/data";
  const auto path = (root ? std::filesystem::path(root) : beside) / name;
  return std::filesystem::exists(path) ? path.string() : "";
}

#define FACULA_REQUIRE_SHARED_DATA(variable, name) \
  const std::string variable = shared_data(name);  \
  if (variable.empty())                            \
  GTEST_SKIP() << "needs " << (name)               \
               << ", not found in FACULA_SHARED_DATA or in ../shared/data beside the sources"

}  // namespace facula::io
