// What the program can do. main.cpp fills the options from the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <facula/data/dataset.h>

namespace facula::cli {

/// A command line that makes no sense: exit status 2. Everything else that
/// fails gives 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct TrainOptions {
  std::string model, data;
  std::int64_t epochs = 5;
  std::int64_t batch = 64;
  double lr = 0.01;
  std::string optimizer = "sgd";
  std::optional<double> momentum;  // of sgd; 0.9 unless given
  double weight_decay = 0;
  std::string schedule = "none";
  std::int64_t warmup = 0;    // epochs
  double clip_grad_norm = 0;  // 0: off
  double val_split = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> augment;
  bool drop_last = false;
  double label_smoothing = 0;
  bool anomaly = false;
  int threads = 0;          // 0: the library's choice
  std::string out;          // empty: a new folder under runs/
  std::int64_t subset = 0;  // 0: all samples
  int workers = -1;         // of the data loader; -1: it decides
  bool checkpoints = true;  // at the end of epochs and of the run, and between
  double checkpoint_seconds = 600;
  std::int64_t checkpoint_steps = 0;  // 0: by the time
  bool resume = false, overwrite = false;
  bool json = false;
};

struct EvalOptions {
  std::string model, weights, data;
  /// What the weights' names begin with, and the numbers that images were normalized with; the data
  /// set's own if empty.
  std::string key_prefix;
  std::vector<double> mean, std;
  std::int64_t batch = 256;
  int threads = 0;
  int workers = -1;
  bool json = false;
};

struct DataBenchOptions {
  std::string data;
  std::string transform = "none";
  std::int64_t batch = 64, epochs = 4;
  int workers = -1;
  int repeat = 3;
  bool sweep = false, json = false;
};

struct DataPackOptions {
  std::string data, out, part = "train";
  std::int64_t shorter_side = 0;
};

struct BenchOptions {
  std::string work;
  std::string mode = "train";
  std::string dtype = "f32";
  std::int64_t batch = 0;  // 0: the work's usual one
  int threads = 0;
  double seconds = 5;
  bool json = false;
};

struct InfoOptions {
  bool json = false;
};

struct InspectOptions {
  std::string file;
  bool json = false;
};

struct ConvertOptions {
  std::string from, to;
};

struct DiffOptions {
  std::string a, b;
  bool json = false;
};

struct HubDownloadOptions {
  std::string source, sha256;
  std::int64_t timeout = 30;
};

/// The exit status after a signal is this and its number, as shells report it.
constexpr int kSignalled = 128;

// Each returns the program's exit status. With `json`, standard output gets
// exactly one line and standard error the rest.
int run_train(const TrainOptions& options);
int run_eval(const EvalOptions& options);
int run_bench(const BenchOptions& options);
int run_info(const InfoOptions& options);
int run_data_bench(const DataBenchOptions& options);
int run_data_pack(const DataPackOptions& options);
int run_inspect(const InspectOptions& options);
int run_convert(const ConvertOptions& options);
/// As diff(1): 0 if the weights are equal, 1 if they differ, 2 for trouble.
int run_diff(const DiffOptions& options);
int run_hub_list();
int run_hub_download(const HubDownloadOptions& options);

/// Opens KIND:PATH; an unknown kind is a UsageError.
data::ImageDatasetPtr open_data(const std::string& kind_and_path, data::Part part);

/// What `facula bench` measures.
std::vector<std::string> bench_works();

}  // namespace facula::cli
