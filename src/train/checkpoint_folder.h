// The checkpoints of a run: checkpoint-<step>.safetensors in one folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <facula/state_dict.h>

namespace facula::train {

/// How good the model of a checkpoint is; what the run keeps the best of.
struct Score {
  std::string of;    // what was measured; only equal ones can be compared
  double value = 0;  // more is better

  bool better_than(const std::optional<Score>& other) const {
    return !other || other->of != of || value > other->value;
  }
};

/// Not to be used by two threads at once.
class CheckpointFolder {
 public:
  struct File {
    std::int64_t step;
    std::string path;
  };

  CheckpointFolder(std::string path, std::int64_t keep_last, bool keep_best);

  const std::string& path() const { return path_; }
  /// All files with the name of a checkpoint, the newest first.
  std::vector<File> files() const;
  /// Removes all checkpoints.
  void remove_all();

  /// The one of `step` is what the run goes on from; older ones count as good, too.
  void resumed_from(std::int64_t step, std::optional<std::int64_t> best,
                    std::optional<Score> score);
  /// Writes a checkpoint and, once it is durable, removes those that it makes superfluous. Throws
  /// IoError, having removed nothing.
  void write(std::int64_t step, const StateDict& state, const std::optional<Score>& score);

  /// The last durable one of this run.
  std::optional<std::int64_t> last() const;
  const std::optional<std::int64_t>& best() const { return best_; }
  const std::optional<Score>& best_score() const { return best_score_; }

 private:
  std::string path_of(std::int64_t step) const;
  void prune();

  std::string path_;
  std::int64_t keep_last_;
  bool keep_best_;
  std::vector<std::int64_t> good_;  // ascending
  std::optional<std::int64_t> best_;
  std::optional<Score> best_score_;
};

}  // namespace facula::train
