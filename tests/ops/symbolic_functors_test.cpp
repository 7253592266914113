// Every op's functor on the symbolic scalar: the expression must give what the op gives, and so
// must its text, for which symbolic_text.h says when it is compiled.
#include "runtime/op_registry.h"
#include "tests/ops/every_op.h"
#include "tests/ops/symbolic_functor.h"
#include "tests/ops/symbolic_text.h"

#define FACULA_KERNEL_TU
#include "cpu/functor_headers.inc"
#undef FACULA_KERNEL_TU

namespace facula::test {
namespace {

/// Fills a field of the attributes of elementwise ops.
void set_field(void* attrs, const AttrField& field, const ops::DynamicArguments& arguments,
               std::size_t argument) {
  void* const to = static_cast<std::byte*>(attrs) + field.offset;
  switch (field.kind) {
    case AttrKind::floating: *static_cast<double*>(to) = arguments.floating(argument); return;
    case AttrKind::optional_floating:
      *static_cast<std::optional<double>*>(to) = arguments.optional_floating(argument);
      return;
    default: FAIL() << field.name << " is of a kind that no functor had before";
  }
}

/// Fills the attributes of a call.
void set_attributes(void* attrs, const ops::DynamicOp& op, const Sample& sample) {
  const AttrField* field = find_op(op.name)->attrs.fields;
  const ops::DynamicArguments arguments = ops::bind(op, sample, {});
  const std::vector<ops::Parameter> parameters = ops::parameters_of(op.signature);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].type != "Tensor") set_field(attrs, *field++, arguments, i);
  }
}

/// The tensors of a call, numbers as tensors too.
std::vector<Tensor> operands_of(const ops::DynamicOp& op, const Sample& sample) {
  const ops::DynamicArguments arguments = ops::bind(op, sample, {});
  const std::vector<ops::Parameter> parameters = ops::parameters_of(op.signature);
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].type != "Tensor") continue;
    result.push_back(arguments.is_number(i) ? tensor(arguments.scalar(i).to_double(), kFloat64)
                                            : arguments.tensor(i));
  }
  return result;
}

template <class Functor, class Attrs>
SymbolicProgram program_of_call(const ops::DynamicOp& op, const Sample& sample) {
  Attrs attrs{};
  set_attributes(&attrs, op, sample);
  return program_of<Functor>(attrs);
}

void expect_expression(const char* name, const Kinds& kinds,
                       SymbolicProgram (*make)(const ops::DynamicOp&, const Sample&)) {
  const ops::DynamicOp& op = *ops::find_dynamic_op(name);
  Texts texts(name);
  int index = 0;
  for (const Sample& sample : samples_of(op)) {
    SCOPED_TRACE(testing::Message() << name << ", sample " << index++);
    std::size_t place = 0;
    const Sample wide =
        mapped(sample, [&](const Tensor& t) { return kinds.masks[place++] ? t : t.to(kFloat64); });
    const Tensor result = run(op, wide).at(0);
    const SymbolicProgram program = make(op, wide);
    std::vector<std::vector<double>> inputs;
    for (const Tensor& t : operands_of(op, wide)) {
      inputs.push_back(expand(t, result.sizes()).to_vector<double>());
    }
    const std::vector<double> want = result.to_vector<double>();
    Points points(want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      for (const std::vector<double>& input : inputs) points[i].push_back(input[i]);
      const double got = program.evaluate(points[i]);
      ASSERT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i])))
          << "element " << i << ": " << got << ", not " << want[i] << "\n"
          << program.source();
    }
    texts.expect(program, kinds, points);
  }
}

struct ReductionKinds {
  bool mask_totals, predicate;
};

/// Two totals of a few elements each, joined.
void expect_expressions(const char* name, double identity, ReductionKinds kinds,
                        ReductionPrograms (*make)(double count)) {
  const std::vector<std::vector<double>> lists = {{0.5, -2, 3, 1.25, -0.75, 4},
                                                  {0, 0, 0, 0, 0, 0},
                                                  {0, 0, 0, 0, -1, 0},
                                                  {1, NAN, 2, 3, 4, 5},
                                                  {INFINITY, 1, 1, 1, 1, 1}};
  const auto [mask, predicate] = kinds;
  Texts texts(name);
  for (const std::vector<double>& list : lists) {
    const std::size_t half = list.size() / 2;
    const ReductionPrograms programs = make(static_cast<double>(list.size()));
    double totals[2];
    for (int part : {0, 1}) {
      totals[part] = identity;
      for (std::size_t i = part * half; i < (part + 1) * half; ++i) {
        totals[part] = programs.add.evaluate({{totals[part], list[i]}});
      }
    }
    const double got = programs.finish.evaluate({{programs.combine.evaluate(totals)}});
    const Tensor want =
        call(name, {tensor(list, {static_cast<std::int64_t>(list.size())}, kFloat64)}).at(0);
    expect_close(tensor(got, kFloat64), want.to(kFloat64), 1e-15);
    texts.expect(programs.add, {{mask, false}, mask});
    texts.expect(programs.combine, {{mask, mask}, mask});
    texts.expect(programs.finish, {{mask}, predicate});
  }
}

template <class Functor, class Attrs>
void expect_elementwise(const char* name) {
  Kinds kinds{std::vector<bool>(Attrs::tensor_arguments, false), Functor::predicate};
  std::fill_n(kinds.masks.begin(), Functor::mask_inputs, true);
  expect_expression(name, kinds, program_of_call<Functor, Attrs>);
}

template <class Functor>
void expect_reduction(const char* name) {
  using A = typename Functor::template Accumulator<double>;
  using Total = typename Functor::template Accumulator<Symbolic>;
  expect_expressions(name, static_cast<double>(Functor{}.template identity<A>()),
                     {std::is_same_v<Total, SymbolicMask>, Functor::predicate},
                     programs_of<Functor>);
}

#define FACULA_ELEMENTWISE_KERNEL(op) \
  TEST(SymbolicFunctor, op) { expect_elementwise<scalar::op##_functor, ops::op##_attrs>(#op); }
#define FACULA_REDUCTION_KERNEL(op) \
  TEST(SymbolicFunctor, op) { expect_reduction<scalar::op##_reduction>(#op); }
#include "cpu/kernel_list.inc"

}  // namespace
}  // namespace facula::test
