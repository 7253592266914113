// `facula convert`: from any format of weights into another.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include <facula/model_file.h>

#include "cli/commands.h"

namespace facula::cli {
namespace {

/// The first names, and how many more there are.
std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 10;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace

int run_convert(const ConvertOptions& options) {
  const ModelFileInfo info = inspect_model_file(options.from);
  const StateDict loaded = load_weights(options.from);
  StateDict tensors;
  std::vector<std::string> dropped;
  std::size_t count = 0;
  for (const auto& [name, value] : loaded.flat()) {
    const auto* tensor = value->get_if<Tensor>();
    if (tensor && tensor->defined()) {
      tensors.set(name, *tensor);
      ++count;
    } else {
      dropped.push_back(name);
    }
  }
  const bool has_metadata = info.format == "safetensors" || info.format == "Facula checkpoint";
  if (has_metadata && options.to.ends_with(".safetensors")) {
    save_safetensors(tensors, options.to, SafetensorsFile(options.from).metadata());
    dropped.clear();
  } else {
    save_weights(tensors, options.to);
    if (info.format == "safetensors") {
      for (const auto& [key, text] : info.metadata) dropped.push_back(key);
    }
  }
  fmt::print("{} ({}) -> {}: {} tensors\n", options.from, info.format, options.to, count);
  if (!dropped.empty())
    fmt::print("dropped {} values that are no tensors: {}\n", dropped.size(), first_of(dropped));
  return 0;
}

}  // namespace facula::cli
