// What problems can be about: for each op, its sizes, how random ones are drawn, and its operands.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <facula/ops.h>

namespace facula::kernels {

class Problem;

using Sizes = std::map<std::string, std::int64_t>;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool one_in(int n) { return integer(1, n) == 1; }

 private:
  std::mt19937 engine_;
};

/// A size that problems of a kind have.
struct Size {
  static constexpr std::int64_t kNeeded = -1, kAsHeight = -2;

  const char* key;
  std::int64_t otherwise = kNeeded;  ///< where it is absent
  std::int64_t most = 0;  ///< an option: random problems have it from 0 to this; a switch for 1
  bool of_both = false;   ///< stands for key + "h" and key + "w"
};

/// Random elements of an operand.
using Draw = Tensor (*)(IntList sizes);
Tensor normal(IntList sizes);
/// Between 0.5 and 2.5: sums of these lose no digits.
Tensor positive(IntList sizes);

struct Operand {
  Operand(Tensor tensor, Draw draw = normal) : tensor(std::move(tensor)), draw(draw) {}

  Tensor tensor;  ///< undefined where the op's argument is absent
  Draw draw;      ///< null if the tensor has its elements
};

struct Operands {
  std::vector<Operand> tensors;
  std::shared_ptr<const void> attributes;
};

template <class Attributes>
std::shared_ptr<const void> attributes(Attributes values) {
  return std::make_shared<const Attributes>(std::move(values));
}

/// The largest errors that rounding explains, relative to the largest value expected: 10,000 random
/// problems of an op came to 0.6 of them at most (docs/benchmarks.md). Long sums go by parts, so
/// that few roundings add up. Batch norm adds up 2,000 numbers in a row, and its relu may leave
/// only small ones; of the seven digits of products Winograd's transforms cost about two.
inline constexpr double kOfFewRoundings = 2e-6, kOfBatchNorm = 1e-5, kOfProducts = 2e-5,
                        kOfNone = 0;

struct Kind {
  const char* op;
  std::vector<Size> sizes;           ///< in the order in which problems are written
  bool images;                       ///< in channels_last unless /nchw follows
  Sizes (*draw)(Random& random);     ///< all but the options
  Operands (*make)(const Problem&);  ///< throws Error for sizes that do not go together
  double (*flops)(const Problem&);   ///< multiplications and additions; null where memory decides
  double most_error = kOfFewRoundings;  ///< of float32
};

/// Images of sizes [n, channels, h, w] in the layout of the problem, uninitialised.
Tensor images(const Problem& problem, IntList sizes);
Tensor per_channel(std::int64_t channels);

std::vector<Kind> convolutions();
std::vector<Kind> products();
std::vector<Kind> batch_norms();
std::vector<Kind> pools();
std::vector<Kind> rows();

/// All of them.
const std::vector<Kind>& kinds();
/// Null if there is none of this op.
const Kind* find_kind(const std::string& op);

}  // namespace facula::kernels
