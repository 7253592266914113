// Comparing gradients with central differences.
#include <facula/autograd.h>

#include <cmath>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "ops/schema/region.h"

namespace facula::autograd {
namespace {

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
/// matrix[i] holds the derivatives of all output elements with respect to one input element.
using Matrix = std::vector<std::vector<double>>;

/// Address of the `i`-th element in row-major order.
double* element(const Tensor& tensor, std::int64_t i) {
  const TensorImpl& impl = *tensor.impl();
  double* place = impl.typed<double>();
  for (int d = impl.dim - 1; d >= 0; --d) {
    place += i % impl.sizes[d] * impl.strides[d];
    i /= impl.sizes[d];
  }
  return place;
}

/// Which outputs of a function are compared.
using Choice = std::vector<Tensor> (*)(std::vector<Tensor>);

std::vector<Tensor> floating_point(std::vector<Tensor> outputs) {
  std::erase_if(outputs,
                [](const Tensor& t) { return !t.defined() || !is_floating_point(t.dtype()); });
  return outputs;
}

std::vector<Tensor> differentiable(std::vector<Tensor> outputs) {
  std::erase_if(outputs, [](const Tensor& t) { return !t.defined() || !t.requires_grad(); });
  return outputs;
}

std::vector<double> flatten(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& tensor : tensors) {
    const std::vector<double> values = tensor.to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

/// Derivatives by backward, one pass per output element; 0 of outputs that do not require grad.
Matrix analytic(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs) {
  std::int64_t rows = 0;
  for (const Tensor& input : inputs) rows += input.numel();
  Matrix matrix(static_cast<std::size_t>(rows));
  for (const Tensor& output : outputs) {
    for (std::int64_t k = 0; k < output.numel(); ++k) {
      Tensor one = zeros(output.sizes(), output.dtype());
      *element(one, k) = 1;
      std::vector<Tensor> gradients(inputs.size());
      if (output.requires_grad()) {
        gradients = grad({output}, inputs,
                         {.grad_outputs = {one}, .retain_graph = true, .allow_unused = true});
      }
      std::size_t row = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const Tensor& gradient = gradients[i];
        for (std::int64_t j = 0; j < inputs[i].numel(); ++j) {
          matrix[row++].push_back(gradient.defined() ? *element(gradient, j) : 0);
        }
      }
    }
  }
  return matrix;
}

/// An element of an input, as it was when this ends, whatever the function throws.
class Changed {
 public:
  explicit Changed(double& x) : x_(x), original_(x) {}
  ~Changed() { x_ = original_; }
  Changed(const Changed&) = delete;
  Changed& operator=(const Changed&) = delete;

  std::vector<double> by(double difference, const TensorFunction& function, Choice choice,
                         const std::vector<Tensor>& inputs) const {
    x_ = original_ + difference;
    return flatten(choice(function(inputs)));
  }

 private:
  double& x_;
  const double original_;
};

/// Derivatives by changing one input element at a time.
Matrix numeric(const TensorFunction& function, Choice choice, const std::vector<Tensor>& inputs,
               double eps) {
  Matrix matrix;
  for (const Tensor& input : inputs) {
    for (std::int64_t j = 0; j < input.numel(); ++j) {
      const Changed x(*element(input, j));
      std::vector<double> high = x.by(eps, function, choice, inputs);
      const std::vector<double> low = x.by(-eps, function, choice, inputs);
      check<ValueError>(high.size() == low.size(),
                        "gradcheck: the function gives {} elements for one input and {} for "
                        "another close to it; the size must not depend on values",
                        high.size(), low.size());
      for (std::size_t k = 0; k < high.size(); ++k) high[k] = (high[k] - low[k]) / (2 * eps);
      matrix.push_back(std::move(high));
    }
  }
  return matrix;
}

std::string compare(const Matrix& ours, const Matrix& expected, const GradcheckOptions& options) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      const double a = ours[i].at(k), b = expected[i][k];
      if (std::abs(a - b) <= options.atol + options.rtol * std::abs(b)) continue;
      return fmt::format(
          "derivative of output element {} with respect to input element {}: backward gives {}, "
          "central differences give {}",
          k, i, a, b);
    }
  }
  return "";
}

/// The gradient as a function of the inputs and of the gradients it starts from.
std::string check_second_order(const TensorFunction& function, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs,
                               const GradcheckOptions& options) {
  std::vector<Tensor> all = inputs;
  for (const Tensor& output : outputs) {
    Tensor start = empty(output.sizes(), output.dtype());
    for (std::int64_t i = 0; i < start.numel(); ++i) {
      *element(start, i) = std::cos(1 + static_cast<double>(i));
    }
    all.push_back(start.requires_grad_());
  }
  const std::size_t count = inputs.size();
  const TensorFunction gradient = [&function, count](const std::vector<Tensor>& arguments) {
    const std::vector<Tensor> points(arguments.begin(), arguments.begin() + count);
    return grad(differentiable(function(points)), points,
                {.grad_outputs = {arguments.begin() + count, arguments.end()},
                 .create_graph = true,
                 .allow_unused = true});
  };
  // A gradient without a graph is right where it is constant, as that of floor().
  const std::string difference =
      compare(analytic(floating_point(gradient(all)), all),
              numeric(gradient, floating_point, all, options.eps), options);
  return difference.empty() ? "" : "second order: " + difference;
}

}  // namespace

std::string gradcheck(const TensorFunction& function, const std::vector<Tensor>& inputs,
                      const GradcheckOptions& options) {
  check<ValueError>(function != nullptr, "gradcheck: the function is empty; pass one");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check<DTypeError>(inputs[i].defined() && inputs[i].dtype() == kFloat64,
                      "gradcheck: input {} must be float64, or differences drown in rounding; "
                      "convert it with to(kFloat64)",
                      i);
    check<AutogradError>(inputs[i].requires_grad(), "gradcheck: input {} does not require grad", i);
    check<ValueError>(meets_elements_once(inputs[i].sizes(), inputs[i].strides()),
                      "gradcheck: elements of input {} of size {} share memory, so none can be "
                      "changed alone; pass a contiguous() one",
                      i, inputs[i].sizes());
  }
  AutoGradMode recording(true);
  const std::vector<Tensor> outputs = differentiable(function(inputs));
  check<AutogradError>(!outputs.empty(), "gradcheck: no output of the function requires grad");
  for (const Tensor& output : outputs) {
    check<DTypeError>(output.dtype() == kFloat64, "gradcheck: an output is {}, expected float64",
                      name_of(output.dtype()));
  }
  std::string difference = compare(analytic(outputs, inputs),
                                   numeric(function, differentiable, inputs, options.eps), options);
  if (difference.empty() && options.second_order) {
    difference = check_second_order(function, inputs, outputs, options);
  }
  return difference;
}

}  // namespace facula::autograd
