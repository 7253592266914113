// Choosing among an op's implementations by measurement.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <facula/backends.h>
#include <facula/state_dict.h>

#include "runtime/dispatch.h"

namespace facula::tuner {

/// Measures, when a problem first comes, the implementations that may replace the first in order
/// that takes it, and remembers the fastest. A problem is an op with its attributes, the sizes,
/// strides and dtypes of its operands, and the implementations that may be chosen.
///
/// Candidates are those that can refuse: an implementation that takes everything is a last resort.
/// They run in turn on the operands of the call, which the op must not change. The static choice is
/// replaced only by one whose median is at least 3 % shorter. Decisions are logged under
/// FACULA_VERBOSE=1.
///
/// While a thread measures, the static order holds for other problems that are new: those of other
/// threads, and of ops that the measured ones call.
class MeasuringSelector : public runtime::Selector {
 public:
  explicit MeasuringSelector(backends::cpu::Alternatives alternatives)
      : alternatives_(alternatives) {}

  std::size_t select(const std::vector<Implementation>& list, const KernelArgs& args) override;

  /// The decisions so far, or loaded and not yet needed: problems and names of implementations.
  std::map<std::string, std::string> choices();
  /// Decisions to take without measuring, where the implementation still exists.
  void load_choices(std::map<std::string, std::string> choices);

 private:
  std::vector<std::size_t> candidates(const std::vector<Implementation>& list,
                                      const KernelArgs& args) const;
  std::optional<std::size_t> recall(const std::string& problem, const std::string& threads,
                                    const std::vector<Implementation>& list,
                                    const std::vector<std::size_t>& candidates);

  const backends::cpu::Alternatives alternatives_;
  std::unordered_map<std::string, std::size_t> known_;
  std::map<std::string, std::string> choices_;
};

/// All decisions in force, for a run that goes on elsewhere to take the same.
StateDict tuning_record();
/// Makes the decisions of a record those of this process. Whether any measuring goes on is not part
/// of it; a warning tells if it matters for the results that the record's run did it otherwise.
void load_tuning_record(const StateDict& record);

}  // namespace facula::tuner
