#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/log.h"

namespace facula::train {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};

std::size_t columns(std::FILE* terminal) {
  winsize size = {};
  const bool known = ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

/// Training goes on where nobody can be told of it, on a full disk for instance.
void show(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds > 0)) seconds = 0;  // NaN too
  const auto whole = static_cast<std::int64_t>(std::llround(std::min(seconds, 1e9)));
  const std::int64_t hours = whole / 3600, minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  if (minutes > 0) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{} s", whole);
}

ProgressDisplay::ProgressDisplay(Progress where, std::int64_t epochs, std::int64_t steps_per_epoch)
    : epochs_(epochs),
      steps_per_epoch_(steps_per_epoch),
      start_(Clock::now()),
      last_shown_(start_) {
  if (where == Progress::none) return;
  out_ = where == Progress::standard_output ? stdout : stderr;
  terminal_ = ::isatty(::fileno(out_)) != 0;
}

void ProgressDisplay::step(std::int64_t epoch, std::int64_t step, const Metrics& running,
                           double items_per_s) {
  if (!out_) return;
  const auto now = Clock::now();
  if (now - last_shown_ < (terminal_ ? Clock::duration(kTerminalInterval) : kPlainInterval)) return;
  last_shown_ = now;
  const auto done = static_cast<double>((epoch - 1) * steps_per_epoch_ + step);
  const auto all = static_cast<double>(epochs_ * steps_per_epoch_);
  const auto before = static_cast<double>(steps_before_);
  const std::chrono::duration<double> elapsed = now - start_;
  std::string line = fmt::format("epoch {}/{}  step {}/{}  {}  {:.0f} items/s  {} left", epoch,
                                 epochs_, step, steps_per_epoch_, running.str(), items_per_s,
                                 format_duration(elapsed.count() * (all - done) / (done - before)));
  clear();
  if (terminal_) {
    line.resize(std::min(line.size(), columns(out_) - 1));  // a second row could not be cleared
  } else {
    line += '\n';
  }
  show(out_, line);
  line_shown_ = terminal_;
}

void ProgressDisplay::epoch(const EpochReport& report) {
  std::string text = fmt::format("epoch {}/{}  {}", report.epoch, epochs_, report.training.str());
  if (report.validation) text += "  validation " + report.validation->str();
  message(text + fmt::format("  lr {:.3g}  {}  {:.0f} items/s", report.lr,
                             format_duration(report.seconds), report.items_per_s));
}

void ProgressDisplay::message(const std::string& text) {
  if (!out_) return;
  clear();
  show(out_, text + '\n');
}

void ProgressDisplay::warning(const std::string& text) {
  clear();
  log_warning("{}", text);
}

void ProgressDisplay::clear() {
  if (!line_shown_) return;
  line_shown_ = false;
  show(out_, "\r\x1b[K");
}

}  // namespace facula::train
