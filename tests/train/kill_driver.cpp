// A small training run for kill_test.py: NAME=VALUE arguments, ended by SIGKILL in the middle of
// writing if asked to.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "faulty_calls.h"
#include "small_run.h"

namespace {

using namespace facula;
using namespace facula::train;

class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      const auto equals = argument.find('=');
      values_[argument.substr(0, equals)] =
          equals == argument.npos ? "" : argument.substr(equals + 1);
    }
  }
  std::string text(const std::string& name) const { return values_.at(name); }
  int number(const std::string& name, int otherwise) const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : std::stoi(found->second);
  }

 private:
  std::map<std::string, std::string> values_;
};

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

void run(const Arguments& arguments) {
  // Calls that take their time, so that a signal at a random moment meets them.
  const int kill_at = arguments.number("kill_at", 0), slow = arguments.number("slow_ms", 0);
  const FaultyCalls calls(
      [&](int number, const char*) {
        if (slow > 0) sleep_ms(slow);
        if (number != (kill_at + 1) / 2) return Fault::none;
        return kill_at % 2 ? Fault::end_before : Fault::end_after;
      },
      0, [] { ::kill(::getpid(), SIGKILL); });
  SmallRun small({.optimizer = arguments.text("optimizer"),
                  .schedule = arguments.text("schedule"),
                  .threads = arguments.number("threads", 1),
                  .workers = arguments.number("workers", 0),
                  .epochs = arguments.number("epochs", 4)});
  TrainerOptions trainer{.run_folder = arguments.text("folder"), .start = Start::resume};
  trainer.checkpoints.every_steps = arguments.number("every_steps", 3);
  const int pace = arguments.number("pace_ms", 0);
  trainer.on_step = [&](const StepReport&) { sleep_ms(pace); };
  const Result result = small.fit(trainer);
  std::printf("resumed_from %lld steps %lld calls %d\n",
              static_cast<long long>(result.resumed_from), static_cast<long long>(result.steps),
              calls.calls());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(Arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kill_driver: %s\n", error.what());
    return 1;
  }
}
