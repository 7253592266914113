// The smallest training program: a tensor, a module, backward and one optimizer step.
#include <cstdio>

#include <facula/nn.h>
#include <facula/optim.h>

int main() {
  facula::manual_seed(1);
  facula::nn::Linear model({.in = 4, .out = 1});
  facula::optim::SGD optimizer(model.parameters(), {.lr = 0.1});

  const facula::Tensor x = facula::randn({8, 4});
  const facula::Tensor before = (model(x) * model(x)).mean();
  before.backward();
  optimizer.step();
  const facula::Tensor after = (model(x) * model(x)).mean();

  std::printf("loss %.6f -> %.6f\n", before.item(), after.item());
  return after.item() < before.item() ? 0 : 1;
}
