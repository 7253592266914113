// The layers. Each is made on its own, `nn::Linear fc({.in = 4, .out = 2})`, or as a member of a
// module, `nn::Linear fc{*this, "fc", {.in = 4, .out = 2}}`. Names, defaults and initialisation are
// PyTorch's; impossible options throw ValueError when the layer is made.
#pragma once

#include <optional>

#include <facula/nn/module.h>

namespace facula::nn {

/// A height and a width; one number stands for both.
struct Size2d {
  std::int64_t values[2];

  constexpr Size2d(std::int64_t both) : values{both, both} {}
  constexpr Size2d(std::int64_t height, std::int64_t width) : values{height, width} {}
  constexpr std::int64_t height() const { return values[0]; }
  constexpr std::int64_t width() const { return values[1]; }
  constexpr operator IntList() const { return {values, 2}; }
};

// --- Layers with parameters ----------------------------------------------------------------------

struct LinearOptions {
  std::int64_t in = 0, out = 0;
  bool bias = true;
};
/// [*, in] -> [*, out]: input * weight^T + bias.
class FACULA_API Linear : public Module {
 public:
  explicit Linear(LinearOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  Linear(Parent& parent, const char* name, LinearOptions options)
      : Linear(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;
  /// Draws new initial values: uniform within +-1/sqrt(in).
  void reset_parameters();

  LinearOptions options;
  Parameter weight;  ///< [out, in]
  Parameter bias;    ///< [out], or undefined
};

struct Conv2dOptions {
  std::int64_t in = 0, out = 0;
  Size2d kernel = 0;
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
};
/// [N, in, H, W] -> [N, out, H', W'] with H' = (H + 2 padding - dilation (kernel - 1) - 1) / stride
/// + 1.
class FACULA_API Conv2d : public Module {
 public:
  explicit Conv2d(Conv2dOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  Conv2d(Parent& parent, const char* name, Conv2dOptions options)
      : Conv2d(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;
  /// Draws new initial values: uniform within +-1/sqrt(in / groups * kernel area).
  void reset_parameters();

  Conv2dOptions options;
  Parameter weight;  ///< [out, in / groups, kernel height, kernel width]
  Parameter bias;    ///< [out], or undefined
};

struct BatchNormOptions {
  std::int64_t features = 0;
  double eps = 1e-5;
  /// Weight of the newest batch in the running statistics; none: the average over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  /// Without running statistics, eval() normalises by the batch as well.
  bool track_running_stats = true;
};
/// (x - mean) / sqrt(var + eps) * weight + bias per channel, with the batch's statistics in
/// training mode and the running ones in eval mode (Ioffe & Szegedy, 2015).
class FACULA_API BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& input) const override;
  void reset_running_stats();

  BatchNormOptions options;
  Parameter weight, bias;            ///< [features], undefined unless affine
  Buffer running_mean, running_var;  ///< [features]; the variance is the unbiased one
  Buffer num_batches_tracked;        ///< int64, 0-d

 protected:
  BatchNorm(const BatchNormOptions& options, const Place& place);
  virtual void check_input(const Tensor& input) const = 0;
};
/// For [N, features] and [N, features, L].
class FACULA_API BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(BatchNormOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  BatchNorm1d(Parent& parent, const char* name, BatchNormOptions options)
      : BatchNorm1d(options, Place(parent, name)) {}

 protected:
  void check_input(const Tensor& input) const override;
};
/// For [N, features, H, W].
class FACULA_API BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(BatchNormOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  BatchNorm2d(Parent& parent, const char* name, BatchNormOptions options)
      : BatchNorm2d(options, Place(parent, name)) {}

 protected:
  void check_input(const Tensor& input) const override;
};

// --- Pooling -------------------------------------------------------------------------------------

struct MaxPool2dOptions {
  Size2d kernel = 0;
  std::optional<Size2d> stride = std::nullopt;  ///< the kernel's size unless given
  Size2d padding = 0;
  Size2d dilation = 1;
  bool ceil_mode = false;
};
/// Maxima of windows of [N, C, H, W], H to floor((H + 2 padding - dilation (kernel - 1)
/// - 1) / stride) + 1, with ceil_mode to the ceiling where the last window begins inside; so W.
class FACULA_API MaxPool2d : public Module {
 public:
  explicit MaxPool2d(MaxPool2dOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  MaxPool2d(Parent& parent, const char* name, MaxPool2dOptions options)
      : MaxPool2d(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  MaxPool2dOptions options;
};

struct AvgPool2dOptions {
  Size2d kernel = 0;
  std::optional<Size2d> stride = std::nullopt;  ///< the kernel's size unless given
  Size2d padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
};
/// Averages of windows, sizes as MaxPool2d's with dilation 1. Pixels of the padding count as zeros,
/// or, without count_include_pad, not at all.
class FACULA_API AvgPool2d : public Module {
 public:
  explicit AvgPool2d(AvgPool2dOptions options, Place place = {});
  template <std::derived_from<Module> Parent>
  AvgPool2d(Parent& parent, const char* name, AvgPool2dOptions options)
      : AvgPool2d(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  AvgPool2dOptions options;
};

struct AdaptiveAvgPool2dOptions {
  Size2d output = 1;
};
/// Averages over windows that make the output [N, C, output height, output width].
class FACULA_API AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(AdaptiveAvgPool2dOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  AdaptiveAvgPool2d(Parent& parent, const char* name, AdaptiveAvgPool2dOptions options = {})
      : AdaptiveAvgPool2d(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  AdaptiveAvgPool2dOptions options;
};

// --- Activations ---------------------------------------------------------------------------------

/// `inplace` is accepted for the sake of PyTorch's models and changes nothing: the memory of dead
/// temporaries is reused by itself.
struct ActivationOptions {
  bool inplace = false;
};
/// max(x, 0)
class FACULA_API ReLU : public Module {
 public:
  explicit ReLU(ActivationOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  ReLU(Parent& parent, const char* name, ActivationOptions options = {})
      : ReLU(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;
  Tensor consume(Tensor input) const override;

  ActivationOptions options;
};

/// min(max(x, 0), 6)
class FACULA_API ReLU6 : public Module {
 public:
  explicit ReLU6(ActivationOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  ReLU6(Parent& parent, const char* name, ActivationOptions options = {})
      : ReLU6(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;
  Tensor consume(Tensor input) const override;

  ActivationOptions options;
};

struct LeakyReLUOptions {
  double negative_slope = 0.01;
  bool inplace = false;  ///< as for ReLU
};
/// x above 0, negative_slope * x below
class FACULA_API LeakyReLU : public Module {
 public:
  explicit LeakyReLU(LeakyReLUOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  LeakyReLU(Parent& parent, const char* name, LeakyReLUOptions options = {})
      : LeakyReLU(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  LeakyReLUOptions options;
};

struct ELUOptions {
  double alpha = 1;
  bool inplace = false;  ///< as for ReLU
};
/// x above 0, alpha * (exp(x) - 1) below
class FACULA_API ELU : public Module {
 public:
  explicit ELU(ELUOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  ELU(Parent& parent, const char* name, ELUOptions options = {})
      : ELU(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  ELUOptions options;
};

struct GELUOptions {
  std::string approximate = "none";  ///< or "tanh"
};
/// x times the normal distribution function of x
class FACULA_API GELU : public Module {
 public:
  explicit GELU(GELUOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  GELU(Parent& parent, const char* name, GELUOptions options = {})
      : GELU(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;
  Tensor consume(Tensor input) const override;

  GELUOptions options;
};

/// x * sigmoid(x)
class FACULA_API SiLU : public Module {
 public:
  explicit SiLU(ActivationOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  SiLU(Parent& parent, const char* name, ActivationOptions options = {})
      : SiLU(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  ActivationOptions options;
};
/// x * tanh(log(1 + exp(x)))
class FACULA_API Mish : public Module {
 public:
  explicit Mish(ActivationOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Mish(Parent& parent, const char* name, ActivationOptions options = {})
      : Mish(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  ActivationOptions options;
};
/// x * min(max(x + 3, 0), 6) / 6
class FACULA_API Hardswish : public Module {
 public:
  explicit Hardswish(ActivationOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Hardswish(Parent& parent, const char* name, ActivationOptions options = {})
      : Hardswish(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  ActivationOptions options;
};

struct HardtanhOptions {
  double min_val = -1, max_val = 1;
  bool inplace = false;  ///< as for ReLU
};
/// min(max(x, min_val), max_val)
class FACULA_API Hardtanh : public Module {
 public:
  explicit Hardtanh(HardtanhOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Hardtanh(Parent& parent, const char* name, HardtanhOptions options = {})
      : Hardtanh(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  HardtanhOptions options;
};

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;
};
/// log(1 + exp(beta * x)) / beta; x itself where beta * x exceeds the threshold
class FACULA_API Softplus : public Module {
 public:
  explicit Softplus(SoftplusOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Softplus(Parent& parent, const char* name, SoftplusOptions options = {})
      : Softplus(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  SoftplusOptions options;
};

/// 1 / (1 + exp(-x))
class FACULA_API Sigmoid : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& input) const override;
};
/// tanh(x)
class FACULA_API Tanh : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& input) const override;
};

struct SoftmaxOptions {
  std::int64_t dim = -1;
};
/// exp(x) divided by its sum over `dim`
class FACULA_API Softmax : public Module {
 public:
  explicit Softmax(SoftmaxOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Softmax(Parent& parent, const char* name, SoftmaxOptions options = {})
      : Softmax(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  SoftmaxOptions options;
};
/// The logarithm of Softmax
class FACULA_API LogSoftmax : public Module {
 public:
  explicit LogSoftmax(SoftmaxOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  LogSoftmax(Parent& parent, const char* name, SoftmaxOptions options = {})
      : LogSoftmax(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  SoftmaxOptions options;
};

// --- Others --------------------------------------------------------------------------------------

struct DropoutOptions {
  double p = 0.5;        ///< probability of an element becoming 0
  bool inplace = false;  ///< as for ReLU
};
/// In training mode, zeroes elements at random and scales the others by 1 / (1 - p).
class FACULA_API Dropout : public Module {
 public:
  explicit Dropout(DropoutOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Dropout(Parent& parent, const char* name, DropoutOptions options = {})
      : Dropout(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  DropoutOptions options;
};

struct FlattenOptions {
  std::int64_t start_dim = 1, end_dim = -1;
};
/// Makes one dimension of the dimensions start_dim to end_dim.
class FACULA_API Flatten : public Module {
 public:
  explicit Flatten(FlattenOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  Flatten(Parent& parent, const char* name, FlattenOptions options = {})
      : Flatten(options, Place(parent, name)) {}
  Tensor forward(const Tensor& input) const override;

  FlattenOptions options;
};

/// Returns its input.
class FACULA_API Identity : public Module {
 public:
  using Module::Module;
  Tensor forward(const Tensor& input) const override { return input; }
};

}  // namespace facula::nn
