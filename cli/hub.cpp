// `facula hub`: models by name, and downloads.
#include <fmt/format.h>

#include <facula/hub.h>

#include "cli/commands.h"

namespace facula::cli {

int run_hub_list() {
  for (const models::ModelInfo& model : hub::list()) {
    fmt::print("{:<20} {}; {}x{}x{}, {} classes\n", model.name, model.description, model.channels,
               model.height, model.width, model.num_classes);
  }
  fmt::print("downloads are kept in {}\n", hub::cache_folder());
  return 0;
}

int run_hub_download(const HubDownloadOptions& options) {
  fmt::print("{}\n", hub::download(options.source, options.sha256, {.timeout = options.timeout}));
  return 0;
}

}  // namespace facula::cli
