// Every op's example calls, and ways to change their arguments.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <facula/autograd.h>
#include <facula/generator.h>

#include "core/tensor_impl.h"
#include "ops/dynamic.h"

namespace facula::test {

using TensorMap = std::function<Tensor(const Tensor&)>;

inline std::vector<const ops::DynamicOp*> all_ops() {
  std::vector<const ops::DynamicOp*> list;
  for (std::size_t i = 0; i < ops::kDynamicOpCount; ++i) list.push_back(&ops::kDynamicOps[i]);
  return list;
}

inline std::vector<Sample> samples_of(const ops::DynamicOp& op) {
  Samples samples;
  (op.define ? *op.define().samples : *op.define_composite().samples)(samples);
  return samples.list();
}

inline std::vector<ErrorSamples::Failure> failures_of(const ops::DynamicOp& op) {
  ErrorSamples samples;
  (op.define ? *op.define().errors : *op.define_composite().errors)(samples);
  return samples.failures();
}

/// Arguments that the op writes to; bit i for tensor argument i.
inline std::uint32_t written_by(const ops::DynamicOp& op) {
  return op.define ? op.define().aliasing->written() : 0;
}

inline bool is_random(const ops::DynamicOp& op) {
  return op.define && *op.define().random == RandomEffect::consumes_stream;
}

/// Elementwise ops and reductions: inputs of any shape, equal among each other, will do.
inline bool takes_any_shape(const ops::DynamicOp& op) {
  return op.define && (op.define().elementwise || op.define().reduction);
}

inline bool returns_view(const ops::DynamicOp& op) {
  return op.define && op.define().aliasing->is_view();
}

/// The sample with `map` applied to each tensor.
inline Sample mapped(Sample sample, const TensorMap& map) {
  for (Argument& argument : sample) {
    if (argument.kind == Argument::Kind::tensor && argument.tensor.defined()) {
      argument.tensor = map(argument.tensor);
    }
    for (Tensor& tensor : argument.tensors) tensor = map(tensor);
  }
  return sample;
}

inline std::vector<Tensor> tensors_of(const Sample& sample) {
  std::vector<Tensor> tensors;
  for (const Argument& argument : sample) {
    if (argument.kind == Argument::Kind::tensor && argument.tensor.defined()) {
      tensors.push_back(argument.tensor);
    }
    tensors.insert(tensors.end(), argument.tensors.begin(), argument.tensors.end());
  }
  return tensors;
}

/// Calls the op. Random numbers start from the same place each time; what a writing op changes are
/// copies, which are its results.
inline std::vector<Tensor> run(const ops::DynamicOp& op, const Sample& sample) {
  manual_seed(1);
  const std::uint32_t written = written_by(op);
  if (written == 0) return call(op.name, sample);
  NoGradGuard no_grad;
  const Sample own = mapped(sample, [](const Tensor& t) { return t.to(t.device(), false, true); });
  call(op.name, own);
  std::vector<Tensor> results;
  std::uint32_t argument = 0;
  for (const Argument& value : own) {
    const bool is_tensor = value.kind == Argument::Kind::tensor;
    if (!is_tensor && value.kind != Argument::Kind::tensors) continue;
    if (written >> argument++ & 1) {
      const std::vector<Tensor> tensors = tensors_of({value});
      results.insert(results.end(), tensors.begin(), tensors.end());
    }
  }
  return results;
}

inline TensorMap to_dtype(DType dtype) {
  return [dtype](const Tensor& t) { return t.is_floating_point() ? t.to(dtype) : t; };
}

/// The same elements with gaps between them and in reverse order of dimensions.
inline Tensor strided(const Tensor& t) {
  Dims strides = Dims::filled(t.dim(), 0);
  std::int64_t step = 2;
  for (int d = 0; d < t.dim(); ++d) {
    strides[d] = step;
    step *= std::max<std::int64_t>(t.sizes()[d], 1);
  }
  const Tensor memory = zeros({step + 1}, t.dtype());
  const Tensor view = alias(*memory.impl(), t.sizes(), strides, 1);
  view.copy_(t);
  return view;
}

/// The sample to enlarge of an op that takes any shape: the second, if there is one, for the first
/// is 0-dimensional.
inline Sample typical_sample(const ops::DynamicOp& op) {
  const std::vector<Sample> samples = samples_of(op);
  return samples.size() > 1 ? samples[1] : samples.at(0);
}

/// True if a gradient can flow from the results to the sample's floating tensors.
inline bool is_differentiable(const ops::DynamicOp& op, const Sample& sample) {
  if (written_by(op) || (op.define && !op.define().gradient->rule())) return false;
  const Sample leaves = mapped(sample, [](const Tensor& t) {
    return kFloatingTypes.contains(t.dtype()) ? t.detach().requires_grad_() : t;
  });
  const std::vector<Tensor> results = run(op, leaves);
  return std::any_of(results.begin(), results.end(),
                     [](const Tensor& t) { return t.requires_grad(); });
}

/// A gradient to start from, no two elements alike.
inline Tensor seed_gradient(const Tensor& like) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < like.numel(); ++i)
    values.push_back(1 + static_cast<double>(i % 13) / 8);
  return tensor(values, like.sizes(), like.dtype());
}

/// Results and gradients of all floating tensors (undefined where none arrives).
struct Outcome {
  std::vector<Tensor> results, leaves, gradients;
};

inline Outcome run_with_gradients(const ops::DynamicOp& op, const Sample& sample) {
  Outcome outcome;
  if (!is_differentiable(op, sample)) {
    outcome.results = run(op, sample);
    return outcome;
  }
  const Sample own = mapped(sample, [&](const Tensor& t) {
    if (!kFloatingTypes.contains(t.dtype())) return t;
    outcome.leaves.push_back(t.detach().requires_grad_());
    return outcome.leaves.back();
  });
  outcome.results = run(op, own);
  std::vector<Tensor> outputs, seeds;
  for (const Tensor& result : outcome.results) {
    if (!result.requires_grad()) continue;
    outputs.push_back(result);
    seeds.push_back(seed_gradient(result));
  }
  outcome.gradients =
      autograd::grad(outputs, outcome.leaves, {.grad_outputs = seeds, .allow_unused = true});
  return outcome;
}

}  // namespace facula::test
