// The program `facula`: the command line.
#include <CLI/CLI.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <facula/data.h>
#include <facula/models.h>
#include <facula/version.h>

#include "cli/commands.h"
#include "cli/suggest.h"

namespace facula::cli {
namespace {

constexpr int kMostThreads = 1024;  // the limit of set_num_threads()

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& model : models::list()) names.push_back(model.name);
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

/// Accepts one of `words`; the message says what was given and what there is.
CLI::Validator one_of(std::vector<std::string> words, const std::string& what) {
  return CLI::Validator(
      [words = std::move(words), what](const std::string& given) {
        for (const auto& word : words) {
          if (given == word) return std::string();
        }
        return "there is no " + what + " '" + given + "'; choose one of: " + joined(words);
      },
      "");
}

/// A whole number of type T; CLI11 alone lets those that do not fit wrap around, and takes those
/// that begin with 0 for octal ones.
template <class T>
CLI::Validator whole(T least, T most = std::numeric_limits<T>::max()) {
  return CLI::Validator(
      [least, most](const std::string& given) {
        T value = 0;
        const auto [end, problem] =
            std::from_chars(given.data(), given.data() + given.size(), value);
        const bool good = problem == std::errc() && end == given.data() + given.size() &&
                          given == std::to_string(value);
        return good && value >= least && value <= most
                   ? std::string()
                   : "'" + given + "' is not a whole number from " + std::to_string(least) +
                         " to " + std::to_string(most);
      },
      "");
}

/// A finite decimal number that is `good`, which `wanted` describes. CLI11 alone takes spaces,
/// hexadecimal numbers and an empty text, too, and those that are too close to 0 for 0.
template <class Good>
CLI::Validator number(const std::string& wanted, Good good) {
  return CLI::Validator(
      [wanted, good](const std::string& given) {
        double value = 0;
        const char* end = given.data() + given.size();
        const auto [stop, problem] = std::from_chars(given.data(), end, value);
        if (stop == end && problem == std::errc::result_out_of_range) {
          return "'" + given + "' is too large or too close to 0 for a float64";
        }
        const bool read = stop == end && problem == std::errc() && std::isfinite(value);
        return read && good(value) ? std::string() : "'" + given + "' is not " + wanted;
      },
      "");
}

CLI::Validator at_least(double least) {
  return number("a number of at least " + CLI::detail::to_string(least),
                [least](double value) { return value >= least; });
}

CLI::Validator share() {
  return number("a share, a number in [0, 1)",
                [](double value) { return value >= 0 && value < 1; });
}

/// Numbers with commas between them. CLI11's own delimiter passes over empty ones.
void add_numbers(CLI::App& command, const std::string& name, std::vector<double>& numbers,
                 const std::string& description) {
  const auto parts = [](const std::string& given) {
    std::vector<std::string> found{""};
    for (const char c : given) {
      if (c == ',') {
        found.emplace_back();
      } else {
        found.back() += c;
      }
    }
    return found;
  };
  command.add_option(name, description)
      ->type_name("FLOAT")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args()
      ->check([parts](const std::string& given) {
        const CLI::Validator one = number("a number", [](double) { return true; });
        for (const std::string& part : parts(given)) {
          std::string problem = one(part);
          if (!problem.empty()) return problem;
        }
        return std::string();
      })
      ->each([parts, &numbers](const std::string& given) {
        for (const std::string& part : parts(given)) {
          numbers.push_back(std::strtod(part.c_str(), nullptr));
        }
      });
}

void add_threads(CLI::App& command, int& threads) {
  command.add_option("--threads", threads, "threads to compute with; default: all usable CPUs")
      ->check(whole<int>(1, kMostThreads));
}

/// Number of threads of the data loader, or auto.
void add_workers(CLI::App& command, int& workers) {
  command
      .add_option(
          "--workers",
          "background threads of the data loader, 0 for none; default: auto, by measurement")
      ->type_name("N|auto")
      ->check([](const std::string& given) -> std::string {
        if (given == "auto") return {};
        return whole<int>(0, 1024)(given);
      })
      ->each([&workers](const std::string& given) {
        workers = given == "auto" ? data::kAuto : std::stoi(given);
      });
}

/// "off", "<n>steps", or a time: "<n>", "<n>s", "<n>m", "<n>h". False for anything else.
bool read_interval(const std::string& given, TrainOptions& options) {
  double value = 0;
  options.checkpoints = given != "off";
  if (!options.checkpoints) return true;
  // Not stod, which takes spaces and hexadecimal numbers, too.
  const auto [end, problem] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (problem != std::errc()) return false;
  const std::string unit(end, given.data() + given.size());
  const bool steps = unit == "steps";
  const double seconds = unit.empty() || unit == "s" ? 1
                         : unit == "m"               ? 60
                         : unit == "h"               ? 3600
                                                     : 0;
  const bool whole = value >= 1 && value < 1e15 && value == std::floor(value);
  if (!(value > 0 && value < 1e15) || (steps ? !whole : seconds == 0)) return false;
  options.checkpoint_steps = steps ? static_cast<std::int64_t>(value) : 0;
  options.checkpoint_seconds = value * seconds;
  return true;
}

void add_checkpoints(CLI::App& command, TrainOptions& options) {
  command
      .add_option("--checkpoint-every",
                  "time (90, 90s, 10m, 2h) or steps (500steps) between checkpoints, which are also "
                  "written after every epoch and at the end; off for none; default: 10m")
      ->type_name("INTERVAL")
      ->check([](const std::string& given) {
        TrainOptions ignored;
        return read_interval(given, ignored)
                   ? std::string()
                   : "'" + given +
                         "' is no interval; give a time such as 90s, 10m or 2h, a number "
                         "of steps such as 500steps, or off";
      })
      ->each([&options](const std::string& given) { read_interval(given, options); });
  auto* resume = command.add_flag("--resume", options.resume,
                                  "go on from the newest usable checkpoint in --out, if any");
  command
      .add_flag("--overwrite", options.overwrite, "discard the checkpoints and weights in --out")
      ->excludes(resume);
}

/// How the weights are changed.
void add_optimization(CLI::App& command, TrainOptions& options) {
  command.add_option("--lr", options.lr, "learning rate; the highest one for onecycle")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_option("--optimizer", options.optimizer, "sgd, adam or adamw")
      ->capture_default_str()
      ->check(one_of({"sgd", "adam", "adamw"}, "optimizer"));
  command
      .add_option("--momentum", options.momentum,
                  "of sgd, for all schedules but onecycle, which moves it; default: 0.9")
      ->check(share());
  command.add_option("--weight-decay", options.weight_decay)
      ->capture_default_str()
      ->check(at_least(0));
  command
      .add_option("--schedule", options.schedule,
                  "of the learning rate: none, step (a tenth after each third of the run), cosine, "
                  "onecycle or plateau (a tenth when the validation loss, without --val-split the "
                  "training loss, has not improved for more than 10 epochs)")
      ->capture_default_str()
      ->check(one_of({"none", "step", "cosine", "onecycle", "plateau"}, "schedule"));
  command
      .add_option("--warmup", options.warmup,
                  "epochs in which the learning rate rises linearly to --lr before the schedule "
                  "begins")
      ->capture_default_str()
      ->check(whole<std::int64_t>(0));
  command
      .add_option("--clip-grad-norm", options.clip_grad_norm,
                  "scale gradients down to this norm of all together; 0, the default: off")
      ->check(at_least(0));
}

void add_train(CLI::App& app, TrainOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand("train", "Train a model, then measure it on the test set");
  command.add_option("--model", options.model, "one of " + joined(model_names()))
      ->required()
      ->check(one_of(model_names(), "model"));
  command.add_option("--data", options.data, "KIND:FOLDER; kinds: " + joined(data::kinds()))
      ->required();
  command.add_option("--epochs", options.epochs, "passes over the training set")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  command.add_option("--batch", options.batch, "samples per step")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  add_optimization(command, options);
  command.add_option("--val-split", options.val_split, "share of the training set to validate on")
      ->capture_default_str()
      ->check(share());
  command
      .add_option("--seed", options.seed, "of weights, order, augmentation and validation split")
      ->capture_default_str()
      ->check(whole<std::uint64_t>(0));
  command
      .add_option("--augment", options.augment,
                  "flip, crop (by up to 4 pixels), both, or none (the default; folders and other "
                  "sets of many sizes are cropped and flipped as ImageNet's)")
      ->delimiter(',')
      ->check(one_of({"flip", "crop", "none"}, "augmentation"));
  command.add_flag("--drop-last", options.drop_last,
                   "leave out the last batch of an epoch where it is smaller");
  command
      .add_option("--label-smoothing", options.label_smoothing,
                  "in the loss of training and validation; the test's is without")
      ->capture_default_str()
      ->check(share());
  command.add_flag("--anomaly", options.anomaly,
                   "stop at the first NaN gradient and name the operation it comes from; slow");
  add_threads(command, options.threads);
  command
      .add_option("--out", options.out,
                  "folder for metrics.jsonl, checkpoints and model.safetensors")
      ->check([](const std::string& given) {
        return given.empty() ? "the name of the folder is empty" : std::string();
      });
  add_checkpoints(command, options);
  command.add_option("--subset", options.subset, "train on the first so many samples only")
      ->check(whole<std::int64_t>(1));
  add_workers(command, options.workers);
  command.add_flag("--json", options.json, "one line of JSON on stdout, progress on stderr");
  // For scripts that pass on what they are given, behind choices of their own.
  for (CLI::Option* option : command.get_options()) {
    if (option->get_items_expected_max() == 1) option->take_last();
  }
  command.callback([&] { run = [&] { return run_train(options); }; });
}

void add_eval(CLI::App& app, EvalOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand("eval", "Measure trained weights on the test set");
  command.add_option("--model", options.model)->required()->check(one_of(model_names(), "model"));
  command.add_option("--weights", options.weights, "a file of safetensors, torch.save, npz, ...")
      ->required();
  command.add_option("--key-prefix", options.key_prefix,
                     "what the names in the file begin with; others are left out");
  add_numbers(command, "--mean", options.mean, "of each channel, instead of the data set's");
  add_numbers(command, "--std", options.std, "of each channel, instead of the data set's");
  command.add_option("--data", options.data, "KIND:FOLDER; kinds: " + joined(data::kinds()))
      ->required();
  command.add_option("--batch", options.batch, "samples per step")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  add_threads(command, options.threads);
  add_workers(command, options.workers);
  command.add_flag("--json", options.json, "one line of JSON on stdout");
  command.callback([&] { run = [&] { return run_eval(options); }; });
}

void add_bench(CLI::App& app, BenchOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand("bench", "Measure the speed of a work");
  command.add_option("WORK", options.work, "one of " + joined(bench_works()))
      ->required()
      ->check(one_of(bench_works(), "work"));
  auto* train = command.add_flag_function(
      "--train", [](std::int64_t) {}, "whole training steps (the default)");
  command
      .add_flag_function(
          "--infer", [&](std::int64_t given) { options.mode = given > 0 ? "infer" : "train"; },
          "the forward pass alone")
      ->excludes(train);
  command.add_option("--dtype", options.dtype)->check(one_of({"f32"}, "dtype"));
  command.add_option("--batch", options.batch, "samples per step; default: the work's usual")
      ->check(whole<std::int64_t>(1));
  add_threads(command, options.threads);
  command.add_option("--seconds", options.seconds, "measuring time, at least 20 steps though")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_flag("--json", options.json, "one line of JSON on stdout");
  command.callback([&] { run = [&] { return run_bench(options); }; });
}

void add_info(CLI::App& app, InfoOptions& options, std::function<int()>& run) {
  auto& command =
      *app.add_subcommand("info", "Show this machine, its measured limits and versions");
  command.add_flag("--json", options.json, "one line of JSON on stdout");
  command.callback([&] { run = [&] { return run_info(options); }; });
}

void add_data(CLI::App& app, DataBenchOptions& bench, DataPackOptions& pack,
              std::function<int()>& run) {
  auto& data = *app.add_subcommand("data", "Measure and convert data sets");
  const std::string kinds = "KIND:PATH; kinds: " + joined(data::kinds());

  auto& measure = *data.add_subcommand("bench", "Measure how fast batches can be made");
  measure.add_option("DATA", bench.data, kinds)->required();
  measure.add_option("--transform", bench.transform, "one of " + joined(data::transforms::names()))
      ->check(one_of(data::transforms::names(), "transform"));
  measure.add_option("--batch", bench.batch, "samples per batch")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  measure.add_option("--epochs", bench.epochs, "passes over the set, each in a new order")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  add_workers(measure, bench.workers);
  measure.add_option("--repeat", bench.repeat, "measurements, of which the median counts")
      ->capture_default_str()
      ->check(whole<int>(1));
  auto* sweep = measure.add_flag("--sweep", bench.sweep, "all numbers of workers, as a table");
  measure.add_flag("--json", bench.json, "one line of JSON on stdout")->excludes(sweep);
  measure.callback([&] { run = [&] { return run_data_bench(bench); }; });

  auto& convert = *data.add_subcommand("pack", "Write a set, decoded, into one file (kind packed)");
  convert.add_option("DATA", pack.data, kinds)->required();
  convert.add_option("OUT", pack.out, "the file")->required();
  convert.add_option("--part", pack.part, "train or test")
      ->check(one_of({"train", "test"}, "part"));
  convert.add_option("--shorter-side", pack.shorter_side, "shrink larger images to this size")
      ->check(whole<std::int64_t>(1));
  convert.callback([&] { run = [&] { return run_data_pack(pack); }; });
}

void add_inspect(CLI::App& app, InspectOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand(
      "inspect", "Show what a file of weights holds and whether it is valid, without loading it");
  command.add_option("FILE", options.file, "safetensors, torch.save, TorchScript, npz, npy, ...")
      ->required();
  command.add_flag("--json", options.json, "one line of JSON on stdout");
  command.callback([&] { run = [&] { return run_inspect(options); }; });
}

void add_convert(CLI::App& app, ConvertOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand("convert", "Write the weights of a file in another format");
  command.add_option("IN", options.from, "a file of weights of any known format")->required();
  command
      .add_option("OUT", options.to, "its name says the format: .safetensors, .pth, .pt or .npz")
      ->required();
  command.callback([&] { run = [&] { return run_convert(options); }; });
}

void add_diff(CLI::App& app, DiffOptions& options, std::function<int()>& run) {
  auto& command = *app.add_subcommand(
      "diff", "Compare the weights of two files; status 0: equal bits, 1: different, 2: trouble");
  command.add_option("A", options.a)->required();
  command.add_option("B", options.b)->required();
  command.add_flag("--json", options.json, "one line of JSON on stdout");
  command.callback([&] { run = [&] { return run_diff(options); }; });
}

void add_hub(CLI::App& app, HubDownloadOptions& options, std::function<int()>& run) {
  auto& hub = *app.add_subcommand("hub", "Models by name, and downloads of their weights");
  auto& list = *hub.add_subcommand("list", "Show the models and the folder of downloaded files");
  list.callback([&] { run = run_hub_list; });
  auto& download = *hub.add_subcommand(
      "download", "Print the local path of a file, which is downloaded if the cache lacks it");
  download.add_option("SOURCE", options.source, "http:// or https:// address, or a path")
      ->required();
  download.add_option("--sha256", options.sha256, "what the file must have, 8 digits or more");
  download
      .add_option("--timeout", options.timeout,
                  "seconds without a connection or a byte until an attempt is given up")
      ->capture_default_str()
      ->check(whole<std::int64_t>(1));
  download.callback([&] { run = [&] { return run_hub_download(options); }; });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

/// The command that was given, such as `data bench`, as far as it is known.
const CLI::App& given_command(const CLI::App& app) {
  const auto given = app.get_subcommands();
  return given.empty() ? app : given_command(*given.front());
}

/// What is wrong with the words that the command does not know.
std::string unknown_words(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto option = std::find_if(words.begin(), words.end(),
                                   [](const std::string& word) { return word.starts_with('-'); });
  const std::vector<std::string> commands = command_names(app);
  const bool is_option = option != words.end();
  const std::string given = is_option ? *option : words.front();
  const std::string word = is_option ? given.substr(0, given.find('=')) : given;
  std::vector<std::string> known = commands;
  if (is_option) {
    known.clear();
    for (const CLI::Option* each : app.get_options()) {
      for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
    }
  }
  std::string text = "unexpected '" + word + "'";
  if (is_option) text = "unknown option " + word;
  if (!is_option && !commands.empty()) text = "unknown command '" + word + "'";
  const std::string guess = nearest(word, known);
  if (!guess.empty()) text += "; did you mean " + guess + "?";
  if (!is_option && !commands.empty()) {
    text += (guess.empty() ? "; the commands are " : " The commands are ") + joined(commands);
  }
  return text;
}

/// Files that are opened later must not take the places of standard streams that are closed, or
/// what is printed would go into them. It still goes nowhere.
void occupy_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

/// Prints an error as one line, however many its message has; they may be indented.
int report(const std::string& message, int status) {
  std::string line;
  bool begins = true;
  for (const char c : message) {
    if (c == '\n') {
      if (!begins) line += ' ';
      begins = true;
    } else if (!begins || c != ' ') {
      line += c;
      begins = false;
    }
  }
  std::fprintf(stderr, "facula: %s\n", line.c_str());
  return status;
}

/// `status`, or `failure` if the output is not complete. A full disk shows when the last of it goes
/// there.
int written(int status, int failure = 1) {
  const bool flushed = std::fflush(stdout) == 0;
  const int error = errno;
  if (flushed && !std::ferror(stdout)) return status;
  // Who reads the output may have ended at the same Ctrl-C, and the run's status tells more.
  if (status > kSignalled) {
    if (!flushed && error == EPIPE) return status;
    failure = status;
  }
  const std::string reason = flushed ? "some of it is lost" : std::strerror(error);
  return report("cannot write the output: " + reason, failure);
}

int run_program(int argc, char** argv) {
  CLI::App app("Facula: training neural networks in C++", "facula");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(0, 1);
  TrainOptions train;
  EvalOptions eval;
  BenchOptions bench;
  InfoOptions info;
  DataBenchOptions data_bench;
  DataPackOptions data_pack;
  InspectOptions inspect;
  ConvertOptions convert;
  DiffOptions diff;
  HubDownloadOptions hub_download;
  std::function<int()> run;
  add_train(app, train, run);
  add_eval(app, eval, run);
  add_bench(app, bench, run);
  add_info(app, info, run);
  add_data(app, data_bench, data_pack, run);
  add_inspect(app, inspect, run);
  add_convert(app, convert, run);
  add_diff(app, diff, run);
  add_hub(app, hub_download, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {
    return written(app.exit(request));  // --help, --version
  } catch (const CLI::ParseError& error) {
    // What is missing may be there, misspelt.
    const CLI::App& command = given_command(app);
    const bool unknown = !command.remaining().empty();
    return report((unknown ? unknown_words(command) : error.what()) + " (see facula --help)", 2);
  }
  if (!run) {
    return report("no command given; choose one of " + joined(command_names(given_command(app))),
                  2);
  }
  // Of diff, 1 is a result.
  return written(run(), app.got_subcommand("diff") ? 2 : 1);
}

}  // namespace
}  // namespace facula::cli

int main(int argc, char** argv) {
  facula::cli::occupy_closed_streams();
  try {
    return facula::cli::run_program(argc, argv);
  } catch (const facula::cli::UsageError& error) {
    return facula::cli::report(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return facula::cli::report("out of memory; choose a smaller batch or model", 1);
  } catch (const std::exception& error) {
    return facula::cli::report(error.what(), 1);
  }
}
