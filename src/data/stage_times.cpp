#include "data/stage_times.h"

#include <facula/data/data_loader.h>

namespace facula::data {

StageTimes& stage_times() {
  static StageTimes times;
  return times;
}

void measure_stages(bool on) {
  StageTimes& times = stage_times();
  if (on) {
    for (auto& stage : times.nanoseconds) stage = 0;
  }
  times.enabled = on;
}

StageSeconds stage_seconds() {
  const auto seconds = [](Stage stage) {
    return 1e-9 * static_cast<double>(stage_times().nanoseconds[static_cast<int>(stage)].load());
  };
  return {seconds(Stage::read), seconds(Stage::transform), seconds(Stage::decode),
          seconds(Stage::write)};
}

}  // namespace facula::data
