// The works of `facula bench`. They use the public interface as a user's
// program does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/measure.h"

namespace facula::cli {

/// What came of a work. Times are per step, or per operation where a work has
/// no steps.
struct WorkResult {
  Measurement measurement;
  double items_per_s = 0;
  std::optional<std::int64_t> batch;
  /// Nominal operations of a step: 2 per multiply-add of convolutions and
  /// linear layers.
  std::optional<double> flops;
  /// Bytes that an ideal step reads and writes, and one more such step.
  std::optional<double> bytes;
  std::function<void()> step;
  std::optional<double> median_ns, forward_ns, backward_ns;
};

/// Training steps or forward passes of a model. `batch` 0: the usual one.
WorkResult run_model_work(const std::string& work, bool training, std::int64_t batch,
                          double seconds);
/// Steps of an optimizer over the parameters of ResNet-18.
WorkResult run_optimizer_work(const std::string& work, double seconds);
/// What calls and autograd cost: one of small_works().
WorkResult run_small_work(const std::string& work, double seconds);

const std::vector<std::string>& model_works();
const std::vector<std::string>& optimizer_works();
const std::vector<std::string>& small_works();

}  // namespace facula::cli
