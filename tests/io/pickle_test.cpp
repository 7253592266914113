#include "io/torch/pickle.h"

#include <fmt/core.h>

#include "tests/io/test_files.h"

namespace facula::io {
namespace {

using namespace std::string_literals;

bool allow(std::string_view name) { return name == "torch.f" || name == "torch.g.h"; }

/// A pickle together with its bytes.
struct Parsed {
  explicit Parsed(const std::string& text, uint64_t max_memory = 1 << 20)
      : bytes(bytes_of(text)), budget(max_memory, "a.pkl"), pickle(bytes, "a.pkl", allow, budget) {}

  std::vector<uint8_t> bytes;
  MemoryBudget budget;
  Pickle pickle;
  const PickleValue& root() const { return pickle.root(); }
};

/// The tree as Python would print it, more or less.
std::string show(const Pickle& pickle, const PickleValue& value) {
  const auto joined = [&](const PickleValue& container) {
    std::string text;
    for (const PickleValue& item : pickle.items(container)) {
      text += (text.empty() ? "" : " ") + show(pickle, item);
    }
    return text;
  };
  switch (value.kind) {
    case PickleKind::none: return "None";
    case PickleKind::boolean: return value.integer ? "True" : "False";
    case PickleKind::integer: return std::to_string(value.integer);
    case PickleKind::number: return fmt::format("{}", value.number);
    case PickleKind::text: return "'" + std::string(value.data()) + "'";
    case PickleKind::big_integer:
    case PickleKind::bytes: return fmt::format("b{}", value.length);
    case PickleKind::list: return "[" + joined(value) + "]";
    case PickleKind::tuple: return "(" + joined(value) + ")";
    case PickleKind::set:
    case PickleKind::dict: return "{" + joined(value) + "}";
    case PickleKind::global: return pickle.global(value);
    case PickleKind::persistent: return "id" + show(pickle, pickle.arguments(value));
    case PickleKind::call:
      return pickle.callable(value) + show(pickle, pickle.arguments(value)) + "{" + joined(value) +
             "}" + show(pickle, pickle.state(value));
  }
  return "";
}

std::string show(const std::string& text) {
  const Parsed parsed(text);
  EXPECT_EQ(parsed.pickle.size(), text.size());
  return show(parsed.pickle, parsed.root());
}

void expect_refused(const std::string& text, std::initializer_list<std::string_view> parts) {
  expect_error([&] { Parsed parsed(text); }, parts);
}

TEST(Pickle, Numbers) {
  EXPECT_EQ(show("K\x05."), "5");
  EXPECT_EQ(show("J\xff\xff\xff\xff."), "-1");
  EXPECT_EQ(show("M\x01\x02."), "513");
  EXPECT_EQ(show("\x8a\x00."s), "0");
  EXPECT_EQ(show("\x8a\x01\x80."), "-128");
  EXPECT_EQ(show("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."), "9223372036854775807");
  EXPECT_EQ(show("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00."s), "b9");
  EXPECT_EQ(show("I42\n."), "42");
  EXPECT_EQ(show("I01\n."), "True");
  EXPECT_EQ(show("L-7L\n."), "-7");
  EXPECT_EQ(show("F1.5\n."), "1.5");
  EXPECT_EQ(show("Finf\n."), "inf");
  EXPECT_EQ(show("G\x3f\xf8\0\0\0\0\0\0."s), "1.5");
  EXPECT_EQ(show("(N\x88\x89t."), "(None True False)");
}

TEST(Pickle, Text) {
  EXPECT_EQ(show("X\x02\0\0\0ab."s), "'ab'");
  EXPECT_EQ(show("\x8c\x03ofs."), "'ofs'");
  EXPECT_EQ(show("S'a\\n\\x41\\\\'\n."), "'a\nA\\'");
  EXPECT_EQ(show("Va\\u00e9\\U0001F600\n."), "'aé😀'");
  EXPECT_EQ(show("C\x03\x01\x02\x03."), "b3");
  expect_refused("S'a\n.", {"a.pkl", "string"});
  expect_refused("Va\\u00\n.", {"text"});
  expect_refused("X\xff\xff\xff\x7f"s + "a.", {"truncated"});
}

TEST(Pickle, Containers) {
  EXPECT_EQ(show("](K\x01K\x02"s + "e."), "[1 2]");
  EXPECT_EQ(show("}K\x01K\x02s(K\x03K\x04u."), "{1 2 3 4}");
  EXPECT_EQ(show("(K\x01K\x02K\x03K\x04"
                 "d."),
            "{1 2 3 4}");
  EXPECT_EQ(show("K\x01K\x02K\x03\x87."), "(1 2 3)");
  EXPECT_EQ(show("\x8f(K\x01\x90."), "{1}");
  EXPECT_EQ(show("\x80\x04\x95\x05\0\0\0\0\0\0\0]\x94h\0\x86."s), "([] [])");
  expect_refused("}(K\x01u.", {"key without a value"});
  expect_refused(
      "K\x01K\x02"
      "a.",
      {"adds to an integer"});
}

TEST(Pickle, CallsAreRecordedNotMade) {
  EXPECT_EQ(show("ctorch\nf\n(K\x01tR."), "torch.f(1){}None");
  EXPECT_EQ(show("ctorch\nf\n)R(K\x01K\x02u}b."), "torch.f(){1 2}{}");
  EXPECT_EQ(show("\x8c\x07torch.g\x8c\x01h\x93)\x81."), "torch.g.h(){}None");
  EXPECT_EQ(show("(K\x01itorch\nf\n."), "torch.f(1){}None");
  EXPECT_EQ(show("(ctorch\nf\nK\x01o."), "torch.f(1){}None");
  EXPECT_EQ(show("(K\x01tQ."), "id(1)");
  const Parsed parsed("(ctorch\nf\nctorch\nf\nctorch.g\nh\nt.");
  EXPECT_EQ(parsed.pickle.globals(), (std::vector<std::string>{"torch.f", "torch.g.h"}));
}

TEST(Pickle, RefusalsNameTheGlobal) {
  expect_refused("cos\nsystem\n(S'x'\ntR.", {"a.pkl", "refuses to call \"os.system\""});
  expect_refused("(S'x'\nios\nsystem\n.", {"refuses to call \"os.system\""});
  expect_refused("\x8c\x02os\x8c\x06system\x93.", {"refuses to call \"os.system\""});
  expect_refused("c" + std::string(5000, 'x') + "\nf\n.", {"refuses to call"});
  expect_refused("\x82\x01.", {"opcode 0x82"});
  expect_refused("K\x01)R.", {"calls an integer"});
  expect_refused("ctorch\nf\nK\x01R.", {"torch.f", "an integer for arguments"});
  expect_refused("}}b.", {"sets the state of a dict"});
}

TEST(Pickle, MemoAndStack) {
  EXPECT_EQ(show("]q\x05K\x01"
                 "ah\x05\x86."),
            "([1] [1])");
  EXPECT_EQ(show("K\x01p9999999\n0g9999999\n."), "1");
  EXPECT_EQ(show("K\x01"
                 "2\x86."),
            "(1 1)");
  EXPECT_EQ(show("K\x01(K\x02"
                 "1."),
            "1");
  expect_refused("h\x01.", {"recalls value 1"});
  for (const char* text : {".", "0.", "t.", "(.", "K\x01(.", "K\x01K\x02.",
                           "(K\x01"
                           "0"
                           "0.",
                           "a.", "s.", "R.", "b.", "Q.", "(o.", "2."}) {
    expect_refused(text, {"a.pkl"});
  }
}

TEST(Pickle, MemoryIsBounded) {
  const uint64_t limit = 1 << 16;
  for (const std::string& unit : {"]"s, "("s, "K\x01"s, ")"s, "}"s, "(t"s,
                                  "K\x01"
                                  "0"s}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += unit;
    expect_error([&] { Parsed parsed(text + ".", limit); }, {"a.pkl"});
  }
  expect_error([&] { Parsed parsed("K\x01r\xff\xff\xff\xff" + std::string(1, '.'), 10); },
               {"more memory than its size justifies"});
}

/// A list in a list in a list, and a list that contains itself.
TEST(Pickle, DepthNeedsNoStack) {
  std::string deep = "]";
  for (int i = 0; i < 300'000; ++i) deep += "]";
  deep += std::string(300'000, 'a') + ".";
  const Parsed parsed(deep, uint64_t{1} << 30);
  EXPECT_EQ(parsed.pickle.items(parsed.root()).size(), 1u);
  const Parsed cyclic("]q\0h\0a."s);
  EXPECT_EQ(cyclic.pickle.items(cyclic.root())[0].index, cyclic.root().index);
}

}  // namespace
}  // namespace facula::io
