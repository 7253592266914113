// Times single calls of ops, given as in calls.txt: compare_calls does so beside PyTorch.
//
//   bench_calls PROBLEM...     microseconds per call, the median of several batches of calls
//   bench_calls -              problems from standard input, one a line; a line of answer to each
//
// "softmax(f32[4096,1000], 1)" calls an op by its name in ops_index.md; "grad softmax(...)"
// includes the gradients of all floating inputs. Tensors are normally distributed (f32, f64),
// between 1/2 and 2 (p32, p64), true or false (bool), or integers from 0 to 9 (u8, i32, i64), below
// n with "% n". ".cl" is channels_last, ".tr" has its last two dimensions exchanged.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <facula/autograd.h>
#include <facula/call.h>
#include <facula/generator.h>
#include <facula/ops.h>

namespace {

using namespace facula;

constexpr int kBatches = 7;
constexpr double kBatchSeconds = 0.02;

Tensor integers(const Dims& sizes, std::int64_t bound, DType dtype) {
  return randint(0, bound, sizes).to(dtype);
}

Tensor make_tensor(std::string_view kind, const Dims& sizes, std::int64_t bound) {
  if (kind == "f32") return randn(sizes);
  if (kind == "f64") return randn(sizes, kFloat64);
  if (kind == "p32") return rand(sizes) * 1.5 + 0.5;
  if (kind == "p64") return rand(sizes, kFloat64) * 1.5 + 0.5;
  if (kind == "u8") return integers(sizes, bound, kUInt8);
  if (kind == "i32") return integers(sizes, bound, kInt32);
  if (kind == "i64") return integers(sizes, bound, kInt64);
  if (kind == "bool") return randn(sizes) > 0;
  throw std::invalid_argument(fmt::format("no kind of tensor is called '{}'", kind));
}

struct Problem {
  bool with_gradients = false;
  std::string op;
  std::vector<Argument> arguments;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  Problem parse() {
    Problem problem;
    problem.op = word();
    if (problem.op == "grad") {
      problem.with_gradients = true;
      problem.op = word();
    }
    expect('(');
    while (!take(')')) {
      problem.arguments.push_back(argument());
      if (!take(',') && rest_.substr(0, 1) != ")") fail("expected , or )");
    }
    if (!rest_.empty()) fail("expected nothing more");
    return problem;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw std::invalid_argument(fmt::format("{}: {} before '{}'", text_, what, rest_));
  }
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    skip_spaces();
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("expected {}", c));
  }
  std::string word() {
    skip_spaces();
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzFNT_0123456789";
    const std::size_t end = std::min(rest_.find_first_not_of(kLetters), rest_.size());
    std::string result(rest_.substr(0, end));
    rest_.remove_prefix(end);
    skip_spaces();
    return result;
  }
  template <class T>
  T number() {
    T value{};
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail("expected a number");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }
  Argument numeric() {
    const std::string_view digits = rest_.substr(0, rest_.find_first_not_of("-0123456789"));
    const bool fraction = rest_.substr(digits.size(), 1) == ".";
    return fraction ? Argument(number<double>()) : Argument(number<std::int64_t>());
  }
  Argument list() {
    std::vector<std::int64_t> entries;
    std::vector<Tensor> tensors;
    while (!take(']')) {
      const Argument entry = argument();
      if (entry.kind == Argument::Kind::tensor) {
        tensors.push_back(entry.tensor);
      } else {
        entries.push_back(entry.integer);
      }
      take(',');
    }
    return tensors.empty() ? Argument(std::move(entries)) : Argument(std::move(tensors));
  }
  Argument tensor(const std::string& kind) {
    const Dims sizes(list().integers);
    const std::int64_t bound = take('%') ? number<std::int64_t>() : 10;
    Tensor result = make_tensor(kind, sizes, bound);
    while (take('.')) {
      const std::string change = word();
      if (change != "cl" && change != "tr") fail("expected cl or tr");
      result = change == "tr" ? result.transpose(-2, -1) : result.contiguous(kChannelsLast);
    }
    return result;
  }
  Argument argument() {
    if (take('[')) return list();
    if (take('\'')) {
      std::string text = word();
      expect('\'');
      return text;
    }
    if (!rest_.empty() && std::string_view("-0123456789").find(rest_[0]) != std::string::npos) {
      return numeric();
    }
    const std::string name = word();
    if (take('[')) return tensor(name);
    static const std::map<std::string, Argument> kNames = {
        {"True", true},        {"False", false},       {"None", {}},      {"float16", kFloat16},
        {"float32", kFloat32}, {"float64", kFloat64},  {"int32", kInt32}, {"int64", kInt64},
        {"uint8", kUInt8},     {"bfloat16", kBFloat16}};
    const auto found = kNames.find(name);
    if (found == kNames.end()) fail(fmt::format("'{}' is unknown", name));
    return found->second;
  }

  std::string_view text_, rest_;
};

/// Functions that are no ops: they make tensors or write to them.
std::vector<Tensor> run(const std::string& name, const std::vector<Argument>& a) {
  if (name == "zeros") return {zeros(a.at(0).integers)};
  if (name == "randn") return {randn(a.at(0).integers)};
  if (name == "randint") return {randint(a.at(0).integer, a.at(1).integer, a.at(2).integers)};
  if (name == "arange") return {arange(a.at(0).integer)};
  if (name == "fill_") return {a.at(0).tensor.fill_(a.at(1).integer)};
  return call(name, a);
}

std::function<void()> runner(Problem& problem) {
  if (!problem.with_gradients) {
    return [&] {
      const NoGradGuard no_grad;
      run(problem.op, problem.arguments);
    };
  }
  std::vector<Tensor> leaves;
  const auto add_leaf = [&](const Tensor& tensor) {
    if (tensor.defined() && tensor.is_floating_point()) leaves.push_back(tensor.requires_grad_());
  };
  for (Argument& argument : problem.arguments) {
    add_leaf(argument.tensor);
    for (const Tensor& tensor : argument.tensors) add_leaf(tensor);
  }
  const Tensor seed = ones_like(run(problem.op, problem.arguments)[0]).detach();
  return [&problem, leaves, seed] {
    const std::vector<Tensor> results = run(problem.op, problem.arguments);
    autograd::grad({results[0]}, leaves, {.grad_outputs = {seed}});
  };
}

double seconds_of(const std::function<void()>& call, std::int64_t count) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < count; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double microseconds(const std::string& text) {
  Problem problem = Parser(text).parse();
  const std::function<void()> call = runner(problem);
  call();
  const double once = seconds_of(call, 1);
  const auto count = static_cast<std::int64_t>(std::clamp(kBatchSeconds / once, 1.0, 1e5));
  std::vector<double> times;
  for (int i = 0; i < kBatches; ++i) {
    times.push_back(seconds_of(call, count) / static_cast<double>(count));
  }
  std::nth_element(times.begin(), times.begin() + kBatches / 2, times.end());
  return 1e6 * times[kBatches / 2];
}

int answer(const std::string& text) try {
  std::cout << fmt::format("{:.4g}", microseconds(text)) << std::endl;
  return 0;
} catch (const std::exception& error) {
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cout << "error: " << message << std::endl;
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_calls PROBLEM... | -\n";
    return 2;
  }
  manual_seed(1);
  int status = 0;
  if (std::string_view(argv[1]) == "-") {
    for (std::string line; std::getline(std::cin, line);) status |= answer(line);
    return status;
  }
  for (int i = 1; i < argc; ++i) {
    std::cout << argv[i] << ": " << std::flush;
    status |= answer(argv[i]);
  }
  return status;
}
