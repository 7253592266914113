#include "cli/works.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>

#include <facula/autograd.h>
#include <facula/generator.h>
#include <facula/models.h>
#include <facula/nn/loss.h>
#include <facula/optim.h>

namespace facula::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatches = 8;  // that rotate
constexpr double kLearningRate = 1e-3;
constexpr double kMomentum = 0.9;

struct ModelWork {
  const char* work;
  const char* model;
  std::vector<std::int64_t> sample;  // size of one input
  std::int64_t batch;
  const char* optimizer;
};

const std::vector<ModelWork>& model_table() {
  static const std::vector<ModelWork> table = {
      {"resnet18-cifar", "resnet18-cifar", {3, 32, 32}, 128, "sgd"},
      {"vgg11-cifar", "vgg11-cifar", {3, 32, 32}, 128, "sgd"},
      {"mobilenetv2-cifar", "mobilenetv2-cifar", {3, 32, 32}, 128, "sgd"},
      {"resnet18-224", "resnet18", {3, 224, 224}, 32, "sgd"},
      {"net", "net", {3, 32, 32}, 32, "sgd"},
      {"mnist-cnn", "mnist-cnn", {1, 28, 28}, 64, "sgd"},
      {"mlp-sgd", "mlp", {784}, 128, "sgd"},
      {"mlp-adam", "mlp", {784}, 128, "adam"},
  };
  return table;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& kind,
                                                 const std::vector<Tensor>& parameters) {
  if (kind == "adam") {
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.lr = kLearningRate});
  }
  if (kind == "adamw") {
    return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = kLearningRate});
  }
  return std::make_unique<optim::SGD>(
      parameters, optim::SGDOptions{.lr = kLearningRate, .momentum = kMomentum});
}

/// Nominal operations of the forward pass, layer by layer, found by watching
/// one.
std::vector<double> forward_flops(nn::Module& model, const Tensor& input) {
  std::vector<double> flops;
  std::vector<std::pair<nn::Module*, std::int64_t>> hooks;
  for (const auto& [name, module] : model.named_modules()) {
    const Tensor* weight = nullptr;
    if (const auto* conv = dynamic_cast<nn::Conv2d*>(module)) weight = &conv->weight;
    if (const auto* linear = dynamic_cast<nn::Linear*>(module)) weight = &linear->weight;
    if (weight == nullptr) continue;
    const auto per_output =
        2.0 * static_cast<double>(weight->numel()) / static_cast<double>(weight->size(0));
    const auto count = [&flops, per_output](const nn::Module&, const Tensor&,
                                            const Tensor& output) {
      flops.push_back(per_output * static_cast<double>(output.numel()));
      return Tensor();
    };
    hooks.emplace_back(module, module->register_forward_hook(count));
  }
  const NoGradGuard no_grad;
  model.eval();
  model(input);
  for (const auto& [module, hook] : hooks) module->remove_hook(hook);
  return flops;
}

/// A training step adds the gradients of weights and inputs; the first layer's
/// input needs none.
double step_flops(const std::vector<double>& forward, bool training) {
  double sum = 0;
  for (const double layer : forward) sum += layer;
  return training ? 3 * sum - forward.front() : sum;
}

std::vector<std::int64_t> with_batch(std::int64_t batch, const std::vector<std::int64_t>& sample) {
  std::vector<std::int64_t> sizes{batch};
  sizes.insert(sizes.end(), sample.begin(), sample.end());
  return sizes;
}

Tensor random_input(const std::vector<std::int64_t>& sizes) {
  const Tensor input = randn(sizes);
  return sizes.size() == 4 ? input.to(kChannelsLast) : input;
}

double nanoseconds(Clock::duration time, std::int64_t operations) {
  return std::chrono::duration<double, std::nano>(time).count() / static_cast<double>(operations);
}

/// Makes a measurement of `operations` at a time one of a single operation.
void divide(Measurement& measurement, double operations) {
  measurement.median_ms /= operations;
  measurement.min_ms /= operations;
  measurement.max_ms /= operations;
  measurement.minor_faults_per_step /= operations;
}

/// Times of `count` equal parts of what `forward` records, and of going back through them with the
/// end of their history.
WorkResult measure_recording(double seconds, std::int64_t count, const std::vector<Tensor>& leaves,
                             const std::function<Tensor()>& forward) {
  std::vector<double> there = room_for_times(), back = room_for_times();
  WorkResult result;
  result.batch = 1;
  result.measurement = measure({.seconds = seconds, .warmup_steps = 100}, [&](std::int64_t) {
    const auto start = Clock::now();
    Tensor loss = forward();
    const auto middle = Clock::now();
    loss.backward();
    loss = Tensor();
    const auto end = Clock::now();
    for (const Tensor& leaf : leaves) leaf.set_grad(Tensor());
    there.push_back(nanoseconds(middle - start, count));
    back.push_back(nanoseconds(end - middle, count));
    return std::nan("");
  });
  const auto parts = static_cast<double>(count);
  result.forward_ns = median(std::move(there));
  result.backward_ns = median(std::move(back));
  result.median_ns = result.measurement.median_ms * 1e6 / parts;
  result.items_per_s = 1e3 * parts / result.measurement.median_ms;
  return result;
}

/// One addition of two numbers at a time.
WorkResult run_eager_add(double seconds) {
  constexpr std::int64_t kCalls = 10'000;  // between two looks at the clock; 1e6 calls at least
  const Tensor a = rand({1}) + 0.5, b = rand({1}) + 0.5;
  WorkResult result;
  result.batch = 1;
  result.measurement =
      measure({.seconds = seconds, .warmup_steps = 20, .least_steps = 100}, [&](std::int64_t) {
        for (std::int64_t call = 0; call < kCalls; ++call) a + b;
        return std::nan("");
      });
  divide(result.measurement, kCalls);
  result.median_ns = result.measurement.median_ms * 1e6;
  result.items_per_s = 1e3 / result.measurement.median_ms;
  return result;
}

/// Recording 1000 small operations, and going back through them.
WorkResult run_autograd_chain(double seconds) {
  constexpr std::int64_t kOps = 1000;
  const Tensor x = (rand({1}) + 0.5).detach().requires_grad_(), w = rand({1}) + 0.5;
  return measure_recording(seconds, kOps, {x}, [&] {
    Tensor z = x;
    for (std::int64_t i = 0; i < kOps / 2; ++i) z = tanh(z * w);
    return z;
  });
}

/// A recurrence that reads the rows of one tensor and writes those of another.
WorkResult run_autograd_rows(double seconds) {
  constexpr std::int64_t kRows = 1000, kColumns = 256;
  const Tensor w = rand({kColumns}).requires_grad_(), x = randn({kRows, kColumns}).requires_grad_();
  return measure_recording(seconds, kRows, {w, x}, [&] {
    const Tensor states = zeros({kRows, kColumns});
    Tensor state = w;
    for (std::int64_t i = 0; i < kRows; ++i) {
      state = tanh(state * w + x[i]);
      states[i] = state;
    }
    return sum(states);
  });
}

struct SmallWork {
  const char* work;
  WorkResult (*run)(double seconds);
};
const SmallWork kSmallWorks[] = {{"eager-add", run_eager_add},
                                 {"autograd-chain", run_autograd_chain},
                                 {"autograd-rows", run_autograd_rows}};

template <class Works>
std::vector<std::string> names_of(const Works& works) {
  std::vector<std::string> names;
  for (const auto& work : works) names.emplace_back(work.work);
  return names;
}

}  // namespace

const std::vector<std::string>& model_works() {
  static const std::vector<std::string> names = names_of(model_table());
  return names;
}

const std::vector<std::string>& optimizer_works() {
  static const std::vector<std::string> names{"sgd-step", "adam-step", "adamw-step"};
  return names;
}

const std::vector<std::string>& small_works() {
  static const std::vector<std::string> names = names_of(kSmallWorks);
  return names;
}

WorkResult run_model_work(const std::string& work, bool training, std::int64_t batch,
                          double seconds) {
  const ModelWork* spec = nullptr;
  for (const ModelWork& candidate : model_table()) {
    if (candidate.work == work) spec = &candidate;
  }
  if (batch == 0) batch = spec->batch;
  manual_seed(0);
  nn::AnyModule model = models::create(spec->model);
  const std::int64_t classes = models::info(spec->model).num_classes;
  const auto flops = forward_flops(*model, random_input(with_batch(1, spec->sample)));
  std::vector<Tensor> inputs, targets;
  for (std::int64_t i = 0; i < kBatches; ++i) {
    inputs.push_back(random_input(with_batch(batch, spec->sample)));
    targets.push_back(randint(0, classes, {batch}));
  }

  WorkResult result;
  if (training) {
    model->train();
    const nn::CrossEntropyLoss criterion;
    const auto optimizer = make_optimizer(spec->optimizer, model->parameters());
    result.measurement = measure({.seconds = seconds}, [&](std::int64_t i) {
      const auto slot = static_cast<std::size_t>(i % kBatches);
      optimizer->zero_grad();
      const Tensor loss = criterion(model(inputs[slot]), targets[slot]);
      loss.backward();
      optimizer->step();
      return loss.item<double>();
    });
  } else {
    const InferenceMode inference;
    result.measurement = measure({.seconds = seconds}, [&](std::int64_t i) {
      model(inputs[static_cast<std::size_t>(i % kBatches)]);
      return std::nan("");
    });
  }
  result.batch = batch;
  result.flops = step_flops(flops, training) * static_cast<double>(batch);
  result.items_per_s = 1e3 * static_cast<double>(batch) / result.measurement.median_ms;
  return result;
}

WorkResult run_optimizer_work(const std::string& work, double seconds) {
  manual_seed(0);
  const nn::AnyModule model = models::create("resnet18-cifar");
  const std::vector<Tensor> parameters = model->parameters();
  for (const Tensor& parameter : parameters) parameter.set_grad(randn(parameter.sizes()) * 1e-3);
  const std::string kind = work.substr(0, work.find('-'));
  const std::shared_ptr<optim::Optimizer> optimizer = make_optimizer(kind, parameters);

  WorkResult result;
  result.step = [optimizer] { optimizer->step(); };
  result.measurement = measure({.seconds = seconds}, [&](std::int64_t) {
    optimizer->step();
    return std::nan("");
  });
  result.items_per_s = 1e3 / result.measurement.median_ms;
  // SGD reads weight, gradient and momentum and writes weight and momentum;
  // Adam has two moments.
  const double floats = kind == "sgd" ? 5 : 7;
  result.bytes = 4 * floats * static_cast<double>(model->parameter_count());
  return result;
}

WorkResult run_small_work(const std::string& work, double seconds) {
  return std::ranges::find(kSmallWorks, work, &SmallWork::work)->run(seconds);
}

}  // namespace facula::cli
