// The smallest training program: a tensor, a module, backward, an optimizer's step.
#include <cstdio>

#include <facula/nn.h>
#include <facula/optim.h>

using namespace facula;

int main() {
  manual_seed(1);
  nn::Linear model({.in = 3, .out = 1});
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});

  const Tensor x = randn({64, 3});
  const Tensor y = x.matmul(tensor({2, -1, 0.5}, {3, 1})) + 4;  // what the model shall find
  for (int step = 0; step <= 100; ++step) {
    const Tensor loss = nn::functional::mse_loss(model(x), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 20 == 0) std::printf("step %3d  loss %.6f\n", step, loss.item());
  }
  std::printf("weight %s\nbias %s\n", model.weight.str().c_str(), model.bias.str().c_str());
}
