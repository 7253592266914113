// Tests of every op, made from its definition.
#include "runtime/mode.h"
#include "tests/ops/every_op.h"
#include "tests/ops/large_examples.h"
#include "tests/support/problems.h"

namespace facula::test {
namespace {

class EveryOp : public OpTest {};

Tensor clone_of(const Tensor& t) { return t.clone(); }

bool same_values(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

/// The call's results, or the message of the Error it threw.
struct Attempt {
  std::vector<Tensor> results;
  std::string error;
};

Attempt attempt(const ops::DynamicOp& op, const Sample& sample) {
  try {
    return {run(op, sample), ""};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

/// The name that callers write: "max" of "max.all(Tensor self) -> Tensor".
std::string_view function_of(const ops::DynamicOp& op) {
  const std::string_view signature = op.signature;
  return signature.substr(0, signature.find_first_of(".("));
}

/// Callers look for the function that they called; a backward pass calls that of its op.
void expect_named(const ops::DynamicOp& op, std::string_view error) {
  const std::string_view name = function_of(op);
  EXPECT_NE(error.find(name.substr(0, name.find("_backward"))), std::string_view::npos)
      << op.name << ": " << error;
}

TEST_P(EveryOp, HasSamples) {
  EXPECT_FALSE(samples_of(op()).empty());
  EXPECT_FALSE(failures_of(op()).empty());
}

TEST_P(EveryOp, DocumentsItsShapes) {
  const std::string_view doc = op().define ? *op().define().doc : *op().define_composite().doc;
  EXPECT_TRUE(doc.find(" -> ") != std::string_view::npos)
      << "end the doc of " << op().name
      << " with shapes, as in \"self: [*] floating -> [*].\": " << doc;
}

TEST_P(EveryOp, AgreesWithTheDoubleReference) {
  if (is_random(op())) GTEST_SKIP() << "the random stream of each dtype is its own";
  for_each_sample([&](const Sample& sample) {
    const std::vector<Tensor> single = run(op(), sample);
    const Sample wide = mapped(sample, to_dtype(kFloat64));
    const std::vector<Tensor> exact = run(op(), wide);
    std::vector<Tensor> reference;
    {
      runtime::ModeGuard mode(runtime::kReference);
      reference = run(op(), wide);
    }
    expect_close(exact, reference, 1e-11);
    if (!returns_view(op())) expect_close(single, reference, 2e-5);
  });
}

TEST_P(EveryOp, AcceptsOrRefusesEachDtypeAlikeInTheReference) {
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    SCOPED_TRACE(name_of(dtype));
    for_each_sample([&](const Sample& sample) {
      const Sample converted = mapped(sample, to_dtype(dtype));
      const Attempt ours = attempt(op(), converted);
      if (!ours.error.empty()) expect_named(op(), ours.error);
      runtime::ModeGuard mode(runtime::kReference);
      const Attempt reference = attempt(op(), converted);
      EXPECT_EQ(ours.error, reference.error);
      ASSERT_EQ(ours.results.size(), reference.results.size());
      for (std::size_t i = 0; i < ours.results.size(); ++i) {
        EXPECT_EQ(ours.results[i].dtype(), reference.results[i].dtype());
        const bool rounds = ours.results[i].is_floating_point();
        expect_close(ours.results[i], reference.results[i], rounds ? 2e-5 : 0);
      }
    });
  }
}

TEST_P(EveryOp, TakesTensorsOfAnyLayout) {
  const std::pair<const char*, TensorMap> layouts[] = {
      {"strided", strided},
      {"channels_last", [](const Tensor& t) { return t.dim() == 4 ? t.to(kChannelsLast) : t; }}};
  for (const auto& entry : layouts) {
    const TensorMap& layout = entry.second;  // lambdas cannot capture bindings with Clang 14
    SCOPED_TRACE(entry.first);
    for_each_sample([&](const Sample& sample) {
      const Outcome expected = run_with_gradients(op(), sample);
      try {
        const Outcome outcome = run_with_gradients(op(), mapped(sample, layout));
        expect_close(outcome.results, expected.results, 1e-5);
        expect_close(outcome.gradients, expected.gradients, 1e-5);
      } catch (const ShapeError& error) {
        // Composites made of views do not say so, but their error does.
        EXPECT_TRUE(std::string_view(error.what()).find("is no view of") != std::string_view::npos)
            << "only views may depend on the layout: " << error.what();
      }
    });
  }
}

/// In place: the bits of the op, wherever the elements lie, and its gradients.
TEST_P(EveryOp, WritesInPlaceWhatItReturns) {
  if (!op().call_in_place) GTEST_SKIP() << "no in-place variant";
  // The kernels are those of the op, which the sanitizers watch in large calls elsewhere.
  for (const Sample& sample : kSanitized ? samples_of(op()) : examples_of(op())) {
    if (sample[0].kind != Argument::Kind::tensor) continue;
    const Outcome expected = run_with_gradients(op(), sample);
    const Tensor& first = sample[0].tensor;
    const bool fits = expected.results[0].sizes() == first.sizes() &&
                      expected.results[0].dtype() == first.dtype();
    if (!fits) continue;  // broadcast, promoted
    const std::vector<double> values = expected.results[0].to_vector<double>();
    for (const TensorMap& layout : {TensorMap(&clone_of), TensorMap(strided)}) {
      Sample own = sample;
      const Tensor written = own[0].tensor = layout(first);
      const std::uint32_t version = written.version();
      const Tensor result = call(op().name + std::string("_"), own)[0];
      EXPECT_TRUE(result.is_same(written));
      EXPECT_GT(written.version(), version);
      EXPECT_TRUE(same_values(written.to_vector<double>(), values)) << op().name;
    }
    if (expected.gradients.empty()) continue;
    Sample own = mapped(sample, [](const Tensor& t) { return t.detach().requires_grad_(); });
    const std::vector<Tensor> leaves = tensors_of(own);
    own[0].tensor = own[0].tensor * 1;
    const Tensor result = call(op().name + std::string("_"), own)[0];
    expect_close(autograd::grad({result}, leaves,
                                {.grad_outputs = {seed_gradient(result)}, .allow_unused = true}),
                 expected.gradients, 1e-6);
  }
}

/// The sample with one tensor argument of another dtype or size than the op expects beside the
/// rest.
std::vector<Sample> unfitting(const Sample& sample) {
  std::vector<Sample> list;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    if (sample[i].kind != Argument::Kind::tensor || !sample[i].tensor.defined()) continue;
    const Tensor t = sample[i].tensor;
    std::vector<Tensor> others = {Tensor(), t.unsqueeze(0), full({}, 1, t.dtype())};
    for (const DType dtype : {kFloat64, kFloat32, kFloat16, kInt64, kBool}) {
      if (dtype != t.dtype()) others.push_back(t.to(dtype));
    }
    for (int d = 0; d < t.dim(); ++d) {
      others.push_back(t.slice(d, 0, 0));
      others.push_back(t.slice(d, 0, t.size(d) - 1));
      others.push_back(cat({t, t}, d));
    }
    for (const Tensor& other : others) {
      list.push_back(sample);
      list.back()[i].tensor = other;
    }
  }
  return list;
}

TEST_P(EveryOp, SurvivesArgumentsThatDoNotFitTogether) {
  const NoGradGuard no_grad;
  for_each_sample([&](const Sample& sample) {
    for (const Sample& changed : unfitting(sample)) {
      try {
        for (const Tensor& result : run(op(), changed)) {
          if (result.defined()) result.contiguous();
        }
      } catch (const Error& error) {
        // Refusing is fine; reading past the end is not.
        expect_named(op(), error.what());
      }
    }
  });
}

TEST_P(EveryOp, SurvivesEmptyInputs) {
  for_each_sample([&](const Sample& sample) {
    for (int d = 0; d < kMaxDims; ++d) {
      bool changed = false;
      const Sample smaller = mapped(sample, [&](const Tensor& t) {
        if (t.dim() <= d) return t;
        changed = true;
        Dims sizes = t.sizes();
        sizes[d] = 0;
        return empty(sizes, t.dtype());
      });
      if (!changed) break;
      try {
        run_with_gradients(op(), smaller);
      } catch (const Error& error) {
        // Refusing is fine; crashing is not.
        expect_named(op(), error.what());
      }
    }
  });
}

TEST_P(EveryOp, GivesEqualShapesOnTheNullDevice) {
  for_each_sample([&](const Sample& sample) {
    const std::vector<Tensor> expected = run(op(), sample);
    const Sample without_values = mapped(sample, [](const Tensor& t) { return t.to(kNull); });
    std::vector<Tensor> results;
    try {
      results = run(op(), without_values);
    } catch (const DeviceError& error) {
      // Where the shape depends on values, that is what it must say.
      EXPECT_NE(std::string_view(error.what()).find("on the null device is unknown"),
                std::string_view::npos)
          << error.what();
      return;
    }
    ASSERT_EQ(results.size(), expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(results[i].device().is_null());
      EXPECT_EQ(results[i].sizes().vec(), expected[i].sizes().vec());
      EXPECT_EQ(results[i].strides().vec(), expected[i].strides().vec());
      EXPECT_EQ(results[i].dtype(), expected[i].dtype());
    }
  });
}

TEST_P(EveryOp, CountsBeyondTwoToThe31st) {
  if (!takes_any_shape(op())) return;
  constexpr std::int64_t kSide = 70'000;
  const Sample huge = mapped(typical_sample(op()), [&](const Tensor& t) {
    return empty({kSide, kSide}, {t.dtype(), kNull});
  });
  const Tensor result = run(op(), huge).at(0);
  if (op().define().elementwise) {
    EXPECT_EQ(result.numel(), kSide * kSide);
  }
}

/// The samples with the outermost dimension of the first tensor, which is the batch for most ops,
/// 2^31 times as large wherever it stands in a tensor.
TEST_P(EveryOp, CountsBatchesBeyondTwoToThe31st) {
  constexpr std::int64_t kFactor = std::int64_t{1} << 31;
  for_each_sample([&](const Sample& sample) {
    std::int64_t batch = -1;
    const Sample huge = mapped(sample, [&](const Tensor& t) {
      Dims sizes = t.sizes();
      if (batch < 0 && t.dim() > 0) batch = sizes[0];
      if (t.dim() > 0 && sizes[0] == batch) sizes[0] *= kFactor;
      return empty(sizes, {t.dtype(), kNull});
    });
    try {
      for (const Tensor& result : run(op(), huge)) {
        double count = 1;
        for (std::int64_t size : result.sizes()) count *= static_cast<double>(size);
        EXPECT_EQ(static_cast<double>(result.numel()), count) << result.sizes().str();
      }
    } catch (const Error& error) {
      // Other arguments tell the old size, or the result depends on values.
      expect_named(op(), error.what());
    }
  });
}

TEST_P(EveryOp, NamesItselfWhereAnInputIsUndefined) {
  const std::string start = std::string(function_of(op())) + ": ";
  const std::vector<ops::Parameter> parameters = ops::parameters_of(op().signature);
  for_each_sample([&](const Sample& sample) {
    for (std::size_t i = 0; i < sample.size(); ++i) {
      if (sample[i].kind != Argument::Kind::tensor || !sample[i].tensor.defined()) continue;
      Sample lacking = sample;
      lacking[i].tensor = Tensor();
      const std::string error = attempt(op(), lacking).error;
      const bool optional = parameters.at(i).type == "Tensor?" && error.empty();
      EXPECT_TRUE(optional || error.starts_with(start)) << parameters[i].name << ": " << error;
    }
  });
}

TEST_P(EveryOp, NamesItselfWhereDevicesDiffer) {
  const std::string start = std::string(function_of(op())) + ": ";
  for_each_sample([&](const Sample& sample) {
    const std::vector<Tensor> tensors = tensors_of(sample);
    const bool numbers = std::ranges::any_of(tensors, [](const Tensor& t) { return t.dim() == 0; });
    if (numbers) return;  // which go along with any device
    const std::string_view name = op().name;
    if (name == "expand_as" || name == "view_as" || name == "reshape_as") return;  // only shapes
    for (std::size_t i = 0; tensors.size() > 1 && i < tensors.size(); ++i) {
      std::size_t place = 0;
      const Sample mixed =
          mapped(sample, [&](const Tensor& t) { return place++ == i ? t.to(kNull) : t; });
      const std::string error = attempt(op(), mixed).error;
      EXPECT_TRUE(error.starts_with(start)) << "tensor " << i << ": " << error;
      EXPECT_NE(error.find("one device with to()"), std::string::npos) << error;
    }
  });
}

TEST_P(EveryOp, ExplainsWhatItRefuses) {
  int index = 0;
  for (const ErrorSamples::Failure& failure : failures_of(op())) {
    SCOPED_TRACE(testing::Message() << op().name << ", error sample " << index++);
    EXPECT_ERROR(Error, failure.message, run(op(), failure.sample));
  }
}

FACULA_FOR_EVERY_OP(EveryOp);

}  // namespace
}  // namespace facula::test
