#include "train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/log.h"
#include "base/signals.h"

namespace facula::train {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};

std::size_t columns(std::FILE* terminal) {
  winsize size = {};
  const bool known = ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

/// Training goes on where nobody can be told of it, on a full disk or where a pipe's reader has
/// ended, as `tee` does at the Ctrl-C that is meant for the run.
void show(std::FILE* out, const std::string& text) {
  const base::WriteSignalsHeld held;
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

/// Of a line: epoch, step, metrics, items per second, time left.
using Fields = std::array<std::string, 5>;

std::string joined(const Fields& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (!field.empty()) line += (line.empty() ? "" : "  ") + field;
  }
  return line;
}

/// The line without what it has no room for. A number that is cut would be read as another one, so
/// whole fields make way, the time left and the loss last.
std::string fitting(Fields fields, Metrics metrics, std::size_t width) {
  auto& [epoch, step, shown_metrics, speed, left] = fields;
  const auto fits = [&] { return joined(fields).size() <= width; };
  if (!fits()) speed.clear();
  if (!fits()) {
    metrics.accuracy = std::nan("");
    shown_metrics = metrics.str();
  }
  if (!fits()) step.clear();
  return joined(fields).substr(0, width);
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
  const double all = static_cast<double>(epochs_) * static_cast<double>(steps_per_epoch_);
  const auto before = static_cast<double>(steps_before_);
  const std::chrono::duration<double> elapsed = now - start_;
  const Fields fields = {
      fmt::format("epoch {}/{}", epoch, epochs_), fmt::format("step {}/{}", step, steps_per_epoch_),
      running.str(), fmt::format("{:.0f} items/s", items_per_s),
      format_duration(elapsed.count() * (all - done) / (done - before)) + " left"};
  clear();
  // A second row could not be cleared.
  show(out_, terminal_ ? fitting(fields, running, columns(out_) - 1) : joined(fields) + '\n');
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
