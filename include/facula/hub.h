// Models with trained weights. Weights come from a file, or from a download that is kept: files lie
// in a folder of the user under the SHA-256 of their content, which is checked before every use.
// Nothing that is downloaded is ever executed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <facula/models.h>
#include <facula/nn/containers.h>

namespace facula::hub {

struct DownloadOptions {
  /// Never use the network; the environment variable FACULA_OFFLINE=1 does the same.
  bool offline = false;
  /// Seconds without a connection, or without a byte, until an attempt is given up.
  std::int64_t timeout = 30;
};

/// The folder of downloaded files: $FACULA_HOME/hub, else $XDG_CACHE_HOME/facula/hub, else
/// ~/.cache/facula/hub. A file may be put there by hand, as files/SHA256, and is found by its whole
/// SHA-256.
FACULA_API std::string cache_folder();

/// The local path of `source`: itself if it is a path (file://... too), else that of the downloaded
/// http:// or https:// file, which is loaded only if the cache lacks it. Any number of processes
/// may ask for one file at the same time, and a download that was interrupted goes on where it
/// stopped if a checksum is known, which tells whether the parts belong together, and the file
/// system has locks.
///
/// `sha256` is what the file must have: 64 hexadecimal digits, or the first 8 and more. Without it,
/// those count that end PyTorch's file names (resnet18-f37072fd.pth) unless all are decimal, as in
/// model-20240115.pth; without them, those of the first download, which are then remembered for
/// the address.
///
/// Throws ValueError for another kind of address or a malformed sha256, and IoError for a file that
/// cannot be had, whose checksum is another, or that is not in the cache when offline. Downloading
/// needs libcurl 4 (Debian: libcurl4), which is loaded when first used.
FACULA_API std::string download(const std::string& source, const std::string& sha256 = "",
                                const DownloadOptions& options = {});

struct LoadOptions {
  /// A path or an address, as download() takes it, of any format that load_weights reads. Empty:
  /// random weights.
  std::string weights = {};
  std::string sha256 = {};
  /// What the names of the weights begin with: "state_dict.module." in some training checkpoints.
  std::string key_prefix = {};
  /// 0: as in the model's ModelInfo.
  std::int64_t num_classes = 0;
  /// Whether names must match those of the model exactly; without, some must.
  bool strict = true;
  DownloadOptions download = {};
};

/// A model of models::list(), in evaluation mode:
///   nn::AnyModule model = hub::load("resnet18", {.weights = "resnet18-f37072fd.pth"});
/// Throws ValueError for an unknown model, or weights that are not of this model.
FACULA_API nn::AnyModule load(const std::string& model, const LoadOptions& options = {});

/// The models that load() knows.
FACULA_API const std::vector<models::ModelInfo>& list();

}  // namespace facula::hub
