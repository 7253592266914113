// Gradients of what reads parts of a tensor are added to the sum of the others' where that lies, so
// that n readers of n parts go through the tensor once. Nothing else of it may be visible.
#include <facula/autograd.h>

#include <functional>
#include <random>

#include <facula/generator.h>
#include <facula/memory.h>
#include <facula/ops.h>

#include "tests/support/expect.h"

namespace facula::autograd {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Parts, OfManyReadersGoThroughTheTensorOnce) {
  struct Reader {
    const char* name;
    std::function<Tensor(const Tensor& x, int i)> read;
  };
  const Tensor places = tensor({3, 1, 3}, {3}, kInt64);
  const Reader readers[] = {
      {"select", [](const Tensor& x, int i) { return x[i]; }},
      {"slice", [](const Tensor& x, int i) { return x.slice(0, i, i + 9, 4); }},
      {"diagonal", [](const Tensor& x, int i) { return x.diagonal(i); }},
      {"index_select", [&](const Tensor& x, int) { return x.index_select(0, places); }},
      {"gather", [&](const Tensor& x, int) { return x.gather(0, places.unsqueeze(0)); }},
      {"as_strided_copy",
       [](const Tensor& x, int i) {
         return as_strided_copy(x, {3, 2}, {41, 7}, i);
       }},
  };
  for (const Reader& reader : readers) {
    const Tensor x = randn({512, 600}).requires_grad_();
    Tensor loss = zeros({});
    for (int i = 0; i < 5; ++i) loss = loss + reader.read(x, i).sin().sum();
    const std::int64_t before = cpu::memory_allocated();
    cpu::reset_peak_memory_stats();
    loss.backward();
    // A reader's own gradient would be a second tensor as large as x.
    EXPECT_LT(cpu::max_memory_allocated() - before, x.nbytes() * 3 / 2) << reader.name;
  }
}

/// Reads a random part of `y`, or all of it.
Tensor random_part(const Tensor& y, std::mt19937& random) {
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % n); };
  const int dim = static_cast<int>(below(y.dim()));
  const std::int64_t size = y.size(dim), first = below(size);
  switch (below(y.numel() < 24 ? 9 : 11)) {
    case 0: return y.select(dim, first);
    case 1: return y.slice(dim, first, size, 1 + below(3));
    case 2: return y.narrow(dim, first, size - first).select(dim, 0);
    case 3: return y.diagonal(below(2), 0, 1);
    case 4: return y.index_select(dim, randint(0, size, {1 + below(5)}));
    case 5: return y.gather(dim, randint(0, size, y.sizes()));
    case 6: return y.permute({1, 0, 3, 2});
    // Their gradients are broadcast: one number for many elements.
    case 7: return y.mean(dim);
    case 8: return y.sum().reshape({1});
    case 9: return as_strided_copy(y, {3, 4}, {5, 1}, below(3));
    default: return y.reshape({-1}).narrow(0, below(7), 9);
  }
}

TEST(Parts, GiveTheGradientsOfRecordedBackward) {
  std::mt19937 random(1);
  manual_seed(1);
  for (int round = 0; round < 300; ++round) {
    const Tensor x = randn({2, 3, 4, 3}, {kFloat64}).requires_grad_();
    const MemoryFormat format = round % 2 ? kChannelsLast : kContiguous;
    const Tensor y = round % 3 ? (x * 1).contiguous(format) : x;
    Tensor loss = zeros({}, {kFloat64});
    for (int reader = 0; reader < 2 + round % 5; ++reader) {
      const Tensor part = random_part(y, random);
      loss = loss + (part.square() * rand(part.sizes(), {kFloat64})).sum();
      if (random() % 4 != 0 || part.numel() == 0) continue;
      loss = loss + random_part(part.reshape({-1, 1, 1, 1}), random).sin().sum();
    }
    for (int reader = 0; reader < round % 4; ++reader) {
      const Tensor part = random_part(y, random);
      loss = round % 3 ? loss + part.sum() : part.sum() + loss;  // broadcast likewise
    }
    // Where gradients are recorded, or looked at one by one, each is a tensor of its own.
    const Tensor expected =
        grad({loss}, {x}, {.retain_graph = true, .create_graph = true})[0].detach();
    EXPECT_LT((grad({loss}, {x}, {.retain_graph = true})[0] - expected).abs().amax().item(), 1e-12)
        << round;
    {
      const AnomalyMode anomaly;
      loss.backward({}, true);
    }
    loss.backward();
    EXPECT_LT((x.grad() - expected * 2).abs().amax().item(), 1e-12) << round;
  }
}

TEST(Parts, LeaveAloneWhatOthersKnow) {
  const Tensor x = leaf({1, 2}), w = leaf({3, 4});

  // What the caller passes.
  const Tensor y = x * 1, ours = ones({2});
  backward({y, y[0]}, {ours, ones({})});
  expect_values(ours, {1, 1});
  expect_values(x.grad(), {2, 1});

  // One tensor that flows into two.
  const Tensor a = x * 1, b = w * 1;
  const Tensors both = grad({(a + b).sum() + a[0] * 10 + b[1] * 20}, {x, w});
  expect_values(both[0], {11, 1});
  expect_values(both[1], {1, 21});

  // One number for all elements.
  const Tensor v = leaf({1, 2, 3, 4});
  (v[0] + v.mean()).backward();
  expect_values(v.grad(), {1.25, 0.25, 0.25, 0.25});
  const Tensor m = v.reshape({2, 2}), rows = (m.sum(0) * tensor({1.0, 10})).sum();
  expect_values(grad({m[0].square().sum() + rows}, {v})[0], {3, 14, 1, 10});

  // What a hook keeps.
  Tensor seen;
  const Tensor z = x + 0, sum = z + w;
  register_hook(sum, [&](const Tensor& gradient) { return seen = gradient, Tensor(); });
  (z[0] + sum.sum() + z[1] * 5).backward();
  expect_values(seen, {1, 1});
  expect_values(x.grad(), {4, 7});

  // What a function keeps.
  const Tensor kept = ones({2}), c = x * 1;
  const auto same = [&](FunctionContext&) { return Tensors{c * 1}; };
  const auto back = [&](FunctionContext&, const Tensors&) { return Tensors{kept}; };
  const Tensor result = apply_function("keeps", {c}, same, back)[0];
  expect_values(grad({c[0] + result.sum() + c[1]}, {x})[0], {2, 2});
  expect_values(kept, {1, 1});
}

}  // namespace
}  // namespace facula::autograd
