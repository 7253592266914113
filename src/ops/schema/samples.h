// Example calls of an op, from which its tests are generated.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <facula/call.h>

namespace facula {

/// One example call: arguments in signature order.
using Sample = std::vector<Argument>;

/// Collects example calls that must work. The tensors are float32 with values that depend only on
/// the order of the calls below.
class Samples {
 public:
  void add(Sample sample);
  void add(std::initializer_list<Argument> sample);

  /// Values spread over [low, high], in random order.
  Tensor uniform(IntList sizes, double low, double high);
  Tensor normal(IntList sizes) { return uniform(sizes, -2, 2); }
  /// int64 values in [low, high).
  Tensor integers(IntList sizes, std::int64_t low, std::int64_t high);
  /// Random bool values.
  Tensor mask(IntList sizes);

  /// One input with values in [low, high]: shapes [], [5], [3, 4, 2].
  void unary(double low = -3, double high = 3);
  /// Two inputs, equal and broadcast shapes; the second one's values in [low, high].
  void binary(double low = -3, double high = 3);
  /// Three inputs, equal and broadcast shapes; the second one's values in [low, high].
  void ternary(double low = -3, double high = 3);

  const std::vector<Sample>& list() const { return samples_; }

 private:
  std::vector<Sample> samples_;
  std::uint64_t state_ = 1;
};

/// Collects example calls that must fail, with a part of the message they must give.
class ErrorSamples : public Samples {
 public:
  struct Failure {
    Sample sample;
    std::string message;
  };

  void fails(std::initializer_list<Argument> sample, const char* message);
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  std::vector<Failure> failures_;
};

using SampleRule = void (*)(Samples&);
using ErrorRule = void (*)(ErrorSamples&);

}  // namespace facula
