#include "ops/schema/random.h"

#include <utility>

#include "base/check.h"
#include "base/divide_up.h"
#include "core/tensor_impl.h"

namespace facula {
namespace {

thread_local RandomLogScope* current_scope = nullptr;

}  // namespace

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().manual_seed(seed); }

Tensor reserve_random(Generator* generator, std::int64_t numel, DType dtype) {
  Generator& source = generator ? *generator : default_generator();
  const std::int64_t per_block = size_of(dtype) == 8 ? 2 : 4;
  Tensor state = new_tensor({2}, kInt64, kCPU);
  auto* words = state.impl()->typed<std::int64_t>();
  const auto count = static_cast<std::uint64_t>(base::divide_up(numel, per_block));
  const RandomLog::Entry reserved = RandomLogScope::reserve(current_scope, source, count);
  words[0] = static_cast<std::int64_t>(reserved.seed);
  words[1] = static_cast<std::int64_t>(reserved.offset);
  return state;
}

RandomLogScope::RandomLogScope(RandomLog& log, Mode mode)
    : log_(log), mode_(mode), outer_(std::exchange(current_scope, this)) {}

RandomLogScope::~RandomLogScope() { current_scope = outer_; }

RandomLog::Entry RandomLogScope::reserve(RandomLogScope* scope, Generator& source,
                                         std::uint64_t count) {
  if (!scope) return {source.seed(), source.reserve(count), count};
  std::vector<RandomLog::Entry>& entries = scope->log_.entries;
  if (scope->mode_ == Mode::record) {
    return entries.emplace_back(reserve(scope->outer_, source, count));
  }
  const bool logged = scope->next_ < entries.size();
  if (!logged && !scope->log_.complete) return {0, 0, count};
  check<AutogradError>(logged && entries[scope->next_].count == count,
                       "checkpoint: the segment draws other random numbers the second time; a "
                       "segment must compute the same whenever it runs");
  return entries[scope->next_++];
}

void check_random_state(const Tensor& state, const char* op) {
  check<ValueError>(
      state.defined() && state.dtype() == kInt64 && state.dim() == 1 && state.numel() == 2,
      "{}: the random state must be an int64 tensor {{seed, offset}}", op);
}

}  // namespace facula
