// Every op's functor on the symbolic scalar: the expression must give what the op gives.
#include "runtime/op_registry.h"
#include "tests/ops/every_op.h"
#include "tests/ops/symbolic_functor.h"

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

/// The attributes of a call and its tensors, numbers as tensors too.
template <class Attrs>
std::pair<Attrs, std::vector<Tensor>> split(const ops::DynamicOp& op, const Sample& sample) {
  const AttrField* field = find_op(op.name)->attrs.fields;
  const ops::DynamicArguments arguments = ops::bind(op, sample, {});
  const std::vector<ops::Parameter> parameters = ops::parameters_of(op.signature);
  std::pair<Attrs, std::vector<Tensor>> result{};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].type != "Tensor") {
      set_field(&result.first, *field++, arguments, i);
    } else if (arguments.is_number(i)) {
      result.second.push_back(tensor(arguments.scalar(i).to_double(), kFloat64));
    } else {
      result.second.push_back(arguments.tensor(i));
    }
  }
  return result;
}

template <class Functor, class Attrs>
void expect_expression(const char* name) {
  const ops::DynamicOp& op = *ops::find_dynamic_op(name);
  int index = 0;
  for (const Sample& sample : samples_of(op)) {
    SCOPED_TRACE(testing::Message() << name << ", sample " << index++);
    int place = 0;
    const Sample wide = mapped(sample, [&](const Tensor& t) {
      return place++ < Functor::mask_inputs ? t : t.to(kFloat64);
    });
    const Tensor result = run(op, wide).at(0);
    const auto [attrs, tensors] = split<Attrs>(op, wide);
    const SymbolicProgram program = program_of<Functor>(attrs);
    std::vector<std::vector<double>> inputs;
    for (const Tensor& t : tensors) {
      inputs.push_back(expand(t, result.sizes()).template to_vector<double>());
    }
    const std::vector<double> want = result.template to_vector<double>();
    std::vector<double> x(inputs.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      for (std::size_t k = 0; k < x.size(); ++k) x[k] = inputs[k][i];
      const double got = program.evaluate(x);
      ASSERT_TRUE(got == want[i] || (std::isnan(got) && std::isnan(want[i])))
          << "element " << i << ": " << got << ", not " << want[i] << "\n"
          << program.source();
    }
  }
}

/// Two totals of a few elements each, joined.
template <class Functor>
void expect_expressions_of_reduction(const char* name) {
  using A = typename Functor::template Accumulator<double>;
  const std::vector<std::vector<double>> lists = {{0.5, -2, 3, 1.25, -0.75, 4},
                                                  {0, 0, 0, 0, 0, 0},
                                                  {0, 0, 0, 0, -1, 0},
                                                  {1, NAN, 2, 3, 4, 5},
                                                  {INFINITY, 1, 1, 1, 1, 1}};
  for (const std::vector<double>& list : lists) {
    const std::size_t half = list.size() / 2;
    const ReductionPrograms programs = programs_of<Functor>(static_cast<double>(list.size()));
    double totals[2];
    for (int part : {0, 1}) {
      totals[part] = static_cast<double>(Functor{}.template identity<A>());
      for (std::size_t i = part * half; i < (part + 1) * half; ++i) {
        totals[part] = programs.add.evaluate({{totals[part], list[i]}});
      }
    }
    const double got = programs.finish.evaluate({{programs.combine.evaluate(totals)}});
    const Tensor want =
        call(name, {tensor(list, {static_cast<std::int64_t>(list.size())}, kFloat64)}).at(0);
    expect_close(tensor(got, kFloat64), want.to(kFloat64), 1e-15);
  }
}

#define FACULA_ELEMENTWISE_KERNEL(op) \
  TEST(SymbolicFunctor, op) { expect_expression<scalar::op##_functor, ops::op##_attrs>(#op); }
#define FACULA_REDUCTION_KERNEL(op) \
  TEST(SymbolicFunctor, op) { expect_expressions_of_reduction<scalar::op##_reduction>(#op); }
#include "cpu/kernel_list.inc"

}  // namespace
}  // namespace facula::test
