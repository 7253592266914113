// A problem that the kernel of CONTRIBUTING.md takes, and one that it refuses.
#include <facula/ops.h>

int main() {
  const facula::Tensor x = facula::arange(100, facula::kFloat32).reshape({4, 25});
  const facula::Tensor y = facula::flip(x, {1});
  const facula::Tensor z = facula::flip(x, {0, 1});
  return facula::equal(y.flip({0}), z) && y.select(1, 0).select(0, 3).item() == 99 ? 0 : 1;
}
