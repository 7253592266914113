// What the new ops' files alone must make possible.
#include <facula/autograd.h>

using facula::Tensor;

Tensor use(const Tensor& x) {
  const Tensor y = facula::softshrink(x).softshrink(0.25);
  y.softshrink_(0.125);
  const Tensor z = facula::nansum(y, {1}, true) + y.nansum();
  return facula::tanhshrink(z).tanhshrink();
}
