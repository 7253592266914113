// Losses. `reduction` is "mean", "sum" or "none"; anything else throws ValueError when the loss is
// made. The functional forms are in nn/functional.h.
#pragma once

#include <facula/nn/module.h>

namespace facula::nn {

/// A module of two tensors.
class FACULA_API Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) const = 0;
  /// Calls forward between the hooks, which see the input and the loss. Errors thrown inside name
  /// this module's path.
  Tensor operator()(const Tensor& input, const Tensor& target) const {
    return call(input, [&](const Tensor& value) { return forward(value, target); });
  }
  const std::string& reduction() const { return reduction_; }

 protected:
  Loss(std::string reduction, const Place& place);

 private:
  using Module::forward;
  std::string reduction_;
};

struct CrossEntropyLossOptions {
  Tensor weight = {};  ///< [C], a factor for each class
  std::int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;
};
/// Of logits [N, C, ...] and class indices [N, ...] int64, or class probabilities [N, C, ...].
class FACULA_API CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(CrossEntropyLossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  CrossEntropyLoss(Parent& parent, const char* name, CrossEntropyLossOptions options = {})
      : CrossEntropyLoss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;

  Buffer weight;

 private:
  std::int64_t ignore_index_;
  double label_smoothing_;
};

struct NLLLossOptions {
  Tensor weight = {};  ///< [C], a factor for each class
  std::int64_t ignore_index = -100;
  std::string reduction = "mean";
};
/// Of log-probabilities [N, C, ...] and class indices [N, ...] int64.
class FACULA_API NLLLoss : public Loss {
 public:
  explicit NLLLoss(NLLLossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  NLLLoss(Parent& parent, const char* name, NLLLossOptions options = {})
      : NLLLoss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;

  Buffer weight;

 private:
  std::int64_t ignore_index_;
};

struct LossOptions {
  std::string reduction = "mean";
};
/// (input - target)^2
class FACULA_API MSELoss : public Loss {
 public:
  explicit MSELoss(LossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  MSELoss(Parent& parent, const char* name, LossOptions options = {})
      : MSELoss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;
};
/// |input - target|
class FACULA_API L1Loss : public Loss {
 public:
  explicit L1Loss(LossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  L1Loss(Parent& parent, const char* name, LossOptions options = {})
      : L1Loss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;
};

struct SmoothL1LossOptions {
  std::string reduction = "mean";
  double beta = 1;
};
/// Of d = |input - target|: d^2 / (2 beta) below beta, d - beta / 2 beyond; L1Loss if beta is 0.
class FACULA_API SmoothL1Loss : public Loss {
 public:
  explicit SmoothL1Loss(SmoothL1LossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  SmoothL1Loss(Parent& parent, const char* name, SmoothL1LossOptions options = {})
      : SmoothL1Loss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;

 private:
  double beta_;
};

struct HuberLossOptions {
  std::string reduction = "mean";
  double delta = 1;
};
/// Of d = |input - target|: d^2 / 2 below delta, delta * (d - delta / 2) beyond.
class FACULA_API HuberLoss : public Loss {
 public:
  explicit HuberLoss(HuberLossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  HuberLoss(Parent& parent, const char* name, HuberLossOptions options = {})
      : HuberLoss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;

 private:
  double delta_;
};

struct BCEWithLogitsLossOptions {
  Tensor weight = {};      ///< broadcasts to the input: a factor for each element
  Tensor pos_weight = {};  ///< broadcasts to the input: a factor for the positive examples
  std::string reduction = "mean";
};
/// Cross entropy of sigmoid(input) and probabilities `target`, elementwise.
class FACULA_API BCEWithLogitsLoss : public Loss {
 public:
  explicit BCEWithLogitsLoss(BCEWithLogitsLossOptions options = {}, Place place = {});
  template <std::derived_from<Module> Parent>
  BCEWithLogitsLoss(Parent& parent, const char* name, BCEWithLogitsLossOptions options = {})
      : BCEWithLogitsLoss(std::move(options), Place(parent, name)) {}
  Tensor forward(const Tensor& input, const Tensor& target) const override;

  Buffer weight, pos_weight;
};

}  // namespace facula::nn
