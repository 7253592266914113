#include <facula/optim/lr_scheduler.h>

#include <gtest/gtest.h>

#include <cmath>

#include <facula/error.h>

#include "tests/support/expect.h"

namespace facula::optim {
namespace {

// Expected rates: PyTorch 1.13.1,
//   p = torch.nn.Parameter(torch.zeros(1)); o = torch.optim.SGD([p], lr=0.1, momentum=0.9)
//   s = torch.optim.lr_scheduler.StepLR(o, 3, 0.5)
//   for _ in range(12): print(o.param_groups[0]['lr']); o.step(); s.step()

class Schedules : public testing::Test {
 protected:
  Schedules() : optimizer({zeros({1}).requires_grad_()}, {.lr = 0.1, .momentum = 0.9}) {}

  /// Also checks that a schedule restored from its state goes on as if nothing had happened.
  template <class Schedule>
  void expect_rates(Schedule schedule, const std::vector<double>& rates) {
    StateDict saved;
    for (std::size_t t = 0; t < rates.size(); ++t) {
      EXPECT_NEAR(optimizer.lr(), rates[t], 1e-9 * rates[t]) << "at step " << t;
      EXPECT_EQ(schedule.last_epoch(), static_cast<std::int64_t>(t));
      if (t == rates.size() / 2) saved = schedule.state_dict();
      if (t + 1 < rates.size()) schedule.step();
    }
    schedule.load_state_dict(saved);
    EXPECT_NEAR(optimizer.lr(), rates[rates.size() / 2], 1e-9);
    EXPECT_EQ(schedule.get_last_lr(), std::vector<double>{optimizer.lr()});
  }

  SGD optimizer;
};

TEST_F(Schedules, StepLR) {
  expect_rates(StepLR(optimizer, {.step_size = 3, .gamma = 0.5}),
               {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125});
}

TEST_F(Schedules, MultiStepLR) {
  expect_rates(MultiStepLR(optimizer, {.milestones = {5, 2, 5}, .gamma = 0.5}),
               {0.1, 0.1, 0.05, 0.05, 0.05, 0.0125, 0.0125, 0.0125});
}

TEST_F(Schedules, ExponentialLR) {
  expect_rates(ExponentialLR(optimizer, {.gamma = 0.9}),
               {0.1, 0.09, 0.081, 0.0729, 0.06561, 0.059049, 0.0531441, 0.04782969});
}

TEST_F(Schedules, CosineAnnealingLR) {
  expect_rates(CosineAnnealingLR(optimizer, {.T_max = 8, .eta_min = 0.01}),
               {0.1, 0.09657457896, 0.08681980515, 0.07222075446, 0.055, 0.03777924554,
                0.02318019485, 0.01342542104, 0.01, 0.01342542104, 0.02318019485, 0.03777924554});
}

TEST_F(Schedules, LinearLR) {
  expect_rates(LinearLR(optimizer, {.start_factor = 0.25, .total_iters = 4}),
               {0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.1, 0.1});
}

TEST_F(Schedules, LambdaLR) {
  expect_rates(LambdaLR(optimizer, [](std::int64_t t) { return 1.0 / (1.0 + double(t)); }),
               {0.1, 0.05, 0.1 / 3, 0.025, 0.02, 0.1 / 6});
}

TEST_F(Schedules, OneCycleLR) {
  expect_rates(OneCycleLR(optimizer, {.max_lr = {1}, .total_steps = 12}),
               {0.04, 0.3497896542, 0.8792851591, 0.9944154355, 0.9330129698, 0.8117456539,
                0.6473789977, 0.4626371027, 0.2830609982, 0.1334775302, 0.03456698743, 4e-06});
}

TEST_F(Schedules, OneCycleLRHasMomentaThatTheOptimizerTakes) {
  const Tensor w = ones({1}).requires_grad_();
  Adam adam({w}, {.beta1 = 0.8});
  EXPECT_ERROR(ValueError, "1.2",
               OneCycleLR(adam, {.max_lr = {1}, .total_steps = 9, .max_momentum = 1.2}));
  EXPECT_EQ(adam.momentum(), 0.8);
  SGD nesterov({w}, {.lr = 1, .momentum = 0.9, .nesterov = true});
  EXPECT_ERROR(ValueError, "nesterov",
               OneCycleLR(nesterov, {.max_lr = {1}, .total_steps = 9, .base_momentum = 0}));
  EXPECT_EQ(nesterov.momentum(), 0.9);
}

TEST_F(Schedules, OneCycleLRInThreePhases) {
  expect_rates(OneCycleLR(optimizer, {.max_lr = {1},
                                      .epochs = 3,
                                      .steps_per_epoch = 4,
                                      .pct_start = 0.25,
                                      .anneal_strategy = "linear",
                                      .div_factor = 10,
                                      .final_div_factor = 100,
                                      .three_phase = true}),
               {0.1, 0.55, 1, 0.55, 0.1, 0.601 / 7, 0.502 / 7, 0.05757142857, 0.04342857143,
                0.02928571429, 0.01514285714, 0.001});
}

/// A loop that steps after every batch also steps after the last one: PyTorch's rate there is
/// beyond the schedule, negative if linear; here it stays.
TEST_F(Schedules, OneCycleLRMayBeSteppedTotalStepsTimes) {
  OneCycleLROptions options{.max_lr = {1}, .total_steps = 8, .anneal_strategy = "linear"};
  expect_rates(OneCycleLR(optimizer, options),
               {0.04, 0.7257142857, 0.8928575714, 0.7142868571, 0.5357161429, 0.3571454286,
                0.1785747143, 4e-06, 4e-06});
  options.anneal_strategy = "cos";
  expect_rates(OneCycleLR(optimizer, options),
               {0.04, 0.8192751049, 0.9719417774, 0.8117456539, 0.5559840141, 0.2830609982,
                0.07664159383, 4e-06, 4e-06});
  options.three_phase = true;
  options.pct_start = 0.4;
  expect_rates(OneCycleLR(optimizer, options),
               {0.04, 0.4516888776, 0.9805566273, 0.7193992062, 0.1161983042, 0.03497071794,
                0.01291061147, 4e-06, 4e-06});
  options.anneal_strategy = "linear";
  expect_rates(OneCycleLR(optimizer, options),
               {0.04, 0.4763636364, 0.9127272727, 0.6509090909, 0.2145454545, 0.03077015385,
                0.01538707692, 4e-06, 4e-06});
  options.pct_start = 0.575;  // the second phase ends after the last step
  OneCycleLR schedule(optimizer, options);
  for (int t = 0; t < 8; ++t) schedule.step();
  EXPECT_NEAR(optimizer.lr(), 4e-06, 1e-15);
  EXPECT_EQ(optimizer.momentum(), 0.95);
  EXPECT_THROW(schedule.step(), ValueError);
}

TEST_F(Schedules, OneCycleLRMovesTheMomentumTheOtherWay) {
  const double expected[] = {0.95,         0.9177302444, 0.8625744626, 0.8505584587,
                             0.8566987298, 0.8688255099, 0.8852622413, 0.9037365047,
                             0.921694187,  0.9366525936, 0.9465436874, 0.95};
  OneCycleLR schedule(optimizer, {.max_lr = {1}, .total_steps = 12});
  for (double momentum : expected) {
    EXPECT_NEAR(optimizer.momentum(), momentum, 1e-9);
    schedule.step();
  }
  EXPECT_THROW(schedule.step(), ValueError);
  Adam adam({zeros({1}).requires_grad_()});
  OneCycleLR cycle(adam, {.max_lr = {1}, .total_steps = 12});
  EXPECT_EQ(adam.options().beta1, 0.95);
}

TEST_F(Schedules, SequentialLR) {
  expect_rates(SequentialLR(optimizer, {.milestones = {3}},
                            LinearLR(optimizer, {.start_factor = 0.2, .total_iters = 3}),
                            CosineAnnealingLR(optimizer, {.T_max = 9})),
               {0.02, 0.04666666667, 0.07333333333, 0.1, 0.09698463104, 0.08830222216, 0.075,
                0.05868240888, 0.04131759112, 0.025, 0.01169777784, 0.003015368961});
}

TEST_F(Schedules, ReduceLROnPlateau) {
  const double metrics[] = {1, 0.9, 0.95, 0.9, 0.91, 0.92, 0.93, 0.5, 0.6, 0.6, 0.6, 0.6};
  const double rates[] = {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.03, 0.03, 0.03, 0.03, 0.03};
  const ReduceLROnPlateauOptions options{
      .factor = 0.5, .patience = 1, .cooldown = 1, .min_lr = 0.03};
  ReduceLROnPlateau schedule(optimizer, options);
  for (int t = 0; t < 12; ++t) {
    schedule.step(metrics[t]);
    EXPECT_NEAR(optimizer.lr(), rates[t], 1e-12) << "at step " << t;
    ReduceLROnPlateau restored(optimizer, options);
    restored.load_state_dict(schedule.state_dict());
    schedule = restored;
  }
  EXPECT_EQ(schedule.last_epoch(), 12);
}

TEST_F(Schedules, PlateauTreatsNaNAsNoImprovement) {
  ReduceLROnPlateau schedule(optimizer, {.mode = "max", .patience = 0});
  schedule.step(1);
  EXPECT_EQ(optimizer.lr(), 0.1);
  schedule.step(NAN);
  EXPECT_NEAR(optimizer.lr(), 0.01, 1e-12);
}

// Expected rates: PyTorch 1.13.1, both schedules stepped one after the other.
TEST_F(Schedules, TwoActTogether) {
  const double expected[] = {0.025,   0.039375, 0.050625,  0.05923125,
                             0.06561, 0.059049, 0.0531441, 0.04782969};
  LinearLR warm_up(optimizer, {.start_factor = 0.25, .total_iters = 4});
  ExponentialLR decay(optimizer, {.gamma = 0.9});
  for (const double rate : expected) {
    EXPECT_NEAR(optimizer.lr(), rate, 1e-10);
    warm_up.step();
    decay.step();
  }
}

TEST_F(Schedules, ACosineIsScaledFromItsLeastRate) {
  const double expected[] = {0.1,    0.08681980515, 0.0275, 0.01512563133, 0.01,   0.02318019485,
                             0.0275, 0.03987436867, 0.045,  0.03987436867, 0.0275, 0.01512563133};
  CosineAnnealingLR cosine(optimizer, {.T_max = 4, .eta_min = 0.01});
  MultiStepLR steps(optimizer, {.milestones = {2, 6}, .gamma = 0.5});
  for (const double rate : expected) {
    EXPECT_NEAR(optimizer.lr(), rate, 1e-10);
    cosine.step();
    steps.step();
  }
  optimizer.set_lr(0, 0.001);  // below the least rate: scaled as a whole, so it never gets negative
  for (int t = 0; t < 20; ++t) {
    cosine.step();
    EXPECT_GE(optimizer.lr(), 0);
  }
}

TEST_F(Schedules, GoOnFromARateThatWasSet) {
  StepLR schedule(optimizer, {.step_size = 3, .gamma = 0.5});
  schedule.step();
  optimizer.set_lr(0, 0.02);
  const double expected[] = {0.02, 0.01, 0.01, 0.01, 0.005};
  for (const double rate : expected) {
    schedule.step();
    EXPECT_NEAR(optimizer.lr(), rate, 1e-15);
  }
  LambdaLR from_zero(optimizer, [](std::int64_t t) { return 0.25 * double(t); });
  EXPECT_EQ(optimizer.lr(), 0);
  from_zero.step();
  EXPECT_NEAR(optimizer.lr(), 0.025, 1e-15);
  OneCycleLR cycle(optimizer, {.max_lr = {1}, .total_steps = 12});  // has a rate of its own
  EXPECT_NEAR(optimizer.lr(), 0.04, 1e-15);
}

TEST_F(Schedules, APlateauCountsBesideASchedule) {
  StepLR schedule(optimizer, {.step_size = 1000});
  ReduceLROnPlateau plateau(optimizer, {.mode = "max", .factor = 0.5, .patience = 0});
  plateau.step(1);
  for (const double rate : {0.05, 0.025, 0.0125}) {
    schedule.step();
    plateau.step(0);
    EXPECT_EQ(optimizer.lr(), rate);
  }
  SequentialLR sequence(optimizer, {.milestones = {2}},
                        LinearLR(optimizer, {.start_factor = 0.5, .total_iters = 2}),
                        ExponentialLR(optimizer, {.gamma = 0.9}));
  EXPECT_EQ(optimizer.lr(), 0.05);
  plateau.step(0);
  for (const double rate : {0.0375, 0.05, 0.045}) {
    sequence.step();
    EXPECT_NEAR(optimizer.lr(), rate, 1e-15);
  }
}

TEST_F(Schedules, SequencesAreRestoredFromOtherRates) {
  const auto make = [](Optimizer& owner) {
    return SequentialLR(owner, {.milestones = {3}},
                        LinearLR(owner, {.start_factor = 0.1, .total_iters = 3}),
                        CosineAnnealingLR(owner, {.T_max = 20, .eta_min = 0.01}));
  };
  const Tensor q = ones({1}).requires_grad_();
  SGD other({q}, {.lr = 0.2});
  SequentialLR schedule = make(optimizer), restored = make(other);
  schedule.step();
  other.load_state_dict(optimizer.state_dict());
  restored.load_state_dict(schedule.state_dict());
  for (int t = 2; t < 12; ++t) {
    schedule.step();
    restored.step();
    EXPECT_DOUBLE_EQ(other.lr(), optimizer.lr()) << t;
  }
}

TEST_F(Schedules, AreExactAlone) {
  CosineAnnealingLR schedule(optimizer, {.T_max = 50, .eta_min = 0.003});
  for (int t = 1; t <= 200; ++t) {
    schedule.step();
    EXPECT_EQ(optimizer.lr(), 0.003 + (0.1 - 0.003) * (1 + std::cos(M_PI * t / 50)) / 2) << t;
  }
}

TEST_F(Schedules, AreRestoredWithTheRatesAsTheyWere) {
  StepLR step(optimizer, {.step_size = 3, .gamma = 0.3});
  LinearLR linear(optimizer, {.total_iters = 9});
  const auto advance = [](LRScheduler& first, LRScheduler& second) {
    first.step();
    second.step();
  };
  for (int t = 0; t < 4; ++t) advance(step, linear);
  for (const bool optimizer_first : {true, false}) {
    SGD resumed({zeros({1}).requires_grad_()}, {.lr = 0.7});
    StepLR resumed_step(resumed, {.step_size = 3, .gamma = 0.3});
    LinearLR resumed_linear(resumed, {.total_iters = 9});
    if (optimizer_first) resumed.load_state_dict(optimizer.state_dict());
    resumed_linear.load_state_dict(linear.state_dict());
    resumed_step.load_state_dict(step.state_dict());
    if (!optimizer_first) resumed.load_state_dict(optimizer.state_dict());
    EXPECT_EQ(resumed.lr(), optimizer.lr());
    SGD uninterrupted({zeros({1}).requires_grad_()}, {.lr = 0.1});
    StepLR its_step(uninterrupted, {.step_size = 3, .gamma = 0.3});
    LinearLR its_linear(uninterrupted, {.total_iters = 9});
    for (int t = 0; t < 4; ++t) advance(its_step, its_linear);
    for (int t = 0; t < 8; ++t) {
      advance(resumed_step, resumed_linear);
      advance(its_step, its_linear);
      EXPECT_EQ(resumed.lr(), uninterrupted.lr()) << "optimizer first: " << optimizer_first;
    }
  }
}

TEST_F(Schedules, AStateWithoutRatesHasTheFormulas) {
  StateDict old;
  old.set("last_epoch", std::int64_t{7});
  old.set("base_lrs.0", 0.4);
  StepLR schedule(optimizer, {.step_size = 3, .gamma = 0.5});
  schedule.load_state_dict(old);
  EXPECT_EQ(optimizer.lr(), 0.1);
  schedule.set(9);
  EXPECT_EQ(optimizer.lr(), 0.05);
  old.set("last_epoch", std::int64_t{-1});
  EXPECT_THROW(schedule.load_state_dict(old), ValueError);
}

TEST_F(Schedules, PyTorchsStatesHaveTheirRatesElsewhere) {
  StateDict state;  // what else they hold does not matter
  state.set("last_epoch", std::int64_t{4});
  state.set("base_lrs.0", 0.4);
  state.set("_last_lr.0", 0.03);  // after another schedule's steps
  StepLR schedule(optimizer, {.step_size = 3, .gamma = 0.5});
  schedule.load_state_dict(state);
  EXPECT_EQ(optimizer.lr(), 0.03);
  EXPECT_EQ(schedule.last_epoch(), 4);
}

TEST_F(Schedules, LoadErrorsChangeNothing) {
  OneCycleLR schedule(optimizer, {.max_lr = {1}, .total_steps = 5});
  schedule.set(2);
  const double rate = optimizer.lr(), momentum = optimizer.momentum();
  const StateDict good = schedule.state_dict();
  StateDict late = good, negative = good;
  late.set("last_epoch", std::int64_t{9});
  late.set("last_lr.0", 0.7);
  late.set("base_lrs.0", 7.0);
  negative.set("last_epoch", std::int64_t{3});
  negative.set("last_lr.0", -1.0);
  negative.set("base_lrs.0", 7.0);
  for (const StateDict& bad : {late, negative}) {
    EXPECT_THROW(schedule.load_state_dict(bad), ValueError);
    EXPECT_EQ(schedule.last_epoch(), 2);
    EXPECT_EQ(optimizer.lr(), rate);
    EXPECT_EQ(optimizer.momentum(), momentum);
    EXPECT_EQ(schedule.state_dict().number("base_lrs.0"), good.number("base_lrs.0"));
  }
  StepLR step(optimizer, {.step_size = 1, .gamma = 0.5});
  StateDict bad = step.state_dict();
  bad.set("base_lrs.0", 64.0);
  bad.set("last_lr.0", -1.0);
  EXPECT_THROW(step.load_state_dict(bad), ValueError);
  EXPECT_EQ(step.state_dict().number("base_lrs.0"), good.number("base_lrs.0"));
}

TEST(ScheduleGroups, KeepTheirOwnRates) {
  SGD optimizer(
      {{{zeros({1}).requires_grad_()}, {.lr = 0.1}}, {{zeros({1}).requires_grad_()}, {.lr = 0.2}}});
  StepLR schedule(optimizer, {.step_size = 1, .gamma = 0.5});
  schedule.step();
  EXPECT_EQ(schedule.get_last_lr(), (std::vector<double>{0.05, 0.1}));
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = {1, 2, 3}, .total_steps = 5}), ValueError);
  optimizer.add_param_group({zeros({1}).requires_grad_()}, {.lr = 1});
  EXPECT_THROW(schedule.step(), ValueError);
}

TEST_F(Schedules, OptionsOutOfRangeAreRefusedAtOnce) {
  for (const double bad : {-0.1, double(NAN), double(INFINITY)}) {
    SCOPED_TRACE(bad);
    EXPECT_THROW(StepLR(optimizer, {.step_size = 3, .gamma = bad}), ValueError);
    EXPECT_THROW(MultiStepLR(optimizer, {.milestones = {3}, .gamma = bad}), ValueError);
    EXPECT_THROW(ExponentialLR(optimizer, {.gamma = bad}), ValueError);
    EXPECT_THROW(CosineAnnealingLR(optimizer, {.T_max = 3, .eta_min = bad}), ValueError);
    OneCycleLROptions cycle{.max_lr = {bad}, .total_steps = 5};
    EXPECT_THROW(OneCycleLR(optimizer, cycle), ValueError);
    cycle = {.max_lr = {1}, .total_steps = 5, .div_factor = bad};
    EXPECT_THROW(OneCycleLR(optimizer, cycle), ValueError);
    cycle = {.max_lr = {1}, .total_steps = 5, .base_momentum = bad};
    EXPECT_THROW(OneCycleLR(optimizer, cycle), ValueError);
    EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = bad}), ValueError);
    EXPECT_THROW(ReduceLROnPlateau(optimizer, {.min_lr = bad}), ValueError);
    EXPECT_THROW(ReduceLROnPlateau(optimizer, {.eps = bad}), ValueError);
  }
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = 0}), ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.patience = -1}), ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.threshold = NAN}), ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.cooldown = -1}), ValueError);
  EXPECT_THROW(MultiStepLR(optimizer, {.milestones = {3, -1}}), ValueError);
  EXPECT_THROW(
      SequentialLR(optimizer, {.milestones = {-3}}, LinearLR(optimizer), LinearLR(optimizer)),
      ValueError);
}

TEST_F(Schedules, OptionErrors) {
  EXPECT_THROW(StepLR(optimizer, {}), ValueError);
  EXPECT_THROW(ExponentialLR(optimizer, {}), ValueError);
  EXPECT_THROW(CosineAnnealingLR(optimizer, {}), ValueError);
  EXPECT_THROW(LinearLR(optimizer, {.start_factor = 0}), ValueError);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = {1}}), ValueError);
  EXPECT_THROW(OneCycleLR(optimizer, {.max_lr = {1}, .total_steps = 5, .anneal_strategy = "sin"}),
               ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.factor = 1}), ValueError);
  EXPECT_THROW(ReduceLROnPlateau(optimizer, {.mode = "middle"}), ValueError);
  EXPECT_THROW(SequentialLR(optimizer, {.milestones = {3}}, LinearLR(optimizer)), ValueError);
  EXPECT_THROW(LambdaLR(optimizer, nullptr), ValueError);
  SGD other({zeros({1}).requires_grad_()});
  EXPECT_THROW(SequentialLR(optimizer, {.milestones = {3}}, LinearLR(optimizer), LinearLR(other)),
               ValueError);
}

TEST_F(Schedules, SaysWhatToSetAndRefusesWhatCannotBeCounted) {
  EXPECT_ERROR(ValueError, "no default: set it", ExponentialLR(optimizer, {}));
  const std::int64_t many = std::int64_t{1} << 32;
  EXPECT_ERROR(ValueError, "more than 2^63 steps",
               OneCycleLR(optimizer, {.max_lr = {1}, .epochs = many, .steps_per_epoch = many}));
  ReduceLROnPlateau plateau(optimizer);
  StateDict state = plateau.state_dict();
  state.set("num_bad_epochs", std::int64_t{-100});
  EXPECT_ERROR(ValueError, "none may be negative", plateau.load_state_dict(state));
}

}  // namespace
}  // namespace facula::optim
