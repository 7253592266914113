// For torch_parity_test.py: says what is in the files that FACULA_TORCH_FILES lists, and writes
// each again by save_torch as FILE.again. FACULA_TORCH_FILES.out gets a line for each tensor: path,
// name, dtype, shape and elements, each behind a tab; for a file that is refused, path and message.
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <facula/torch_file.h>

#include "tests/io/test_files.h"

namespace facula::io {
namespace {

StateDict only_tensors(const StateDict& state) {
  StateDict tensors;
  for (const auto& [name, value] : state.flat()) {
    if (value->get_if<Tensor>()) tensors.set(name, *value);
  }
  return tensors;
}

TEST(TorchDump, Write) {
  const char* list = std::getenv("FACULA_TORCH_FILES");
  if (!list) GTEST_SKIP() << "FACULA_TORCH_FILES, a list of files, is not set";
  std::ifstream paths(list);
  std::ofstream output(std::string(list) + ".out");
  for (std::string path; std::getline(paths, path);) {
    try {
      const StateDict tensors = only_tensors(load_torch(path));
      for (const auto& [name, value] : tensors.flat()) {
        const Tensor& tensor = *value->get_if<Tensor>();
        output << fmt::format("{}\t{}\t{}\t{}\t{}\n", path, name, name_of(tensor.dtype()),
                              tensor.sizes().str(),
                              fmt::join(tensor.to(kFloat64).to_vector<double>(), " "));
      }
      save_torch(tensors, path + ".again");
    } catch (const Error& error) {
      output << path << '\t' << error.what() << '\n';
    }
  }
}

}  // namespace
}  // namespace facula::io
