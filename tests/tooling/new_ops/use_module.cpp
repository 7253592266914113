// What the module of CONTRIBUTING.md must make possible.
#include "block.h"

facula::Tensor use(const facula::Tensor& x) {
  Net net;
  net.first = Block(64);
  return net(x) + nn::Sequential(Block(64), Block(64))(x).sum();
}
