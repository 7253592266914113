// Limits of the system.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <memory>
#include <string>

#include <facula/data.h>
#include <facula/error.h>

#include "tests/process/in_a_child.h"
#include "train/checkpoint_writer.h"

#if defined(FACULA_FORKS_WITH_THREADS)
namespace facula {
namespace {

/// False if the limit cannot be set. It does not bind the administrator.
bool allow_no_more_threads() {
  const rlimit none{1, 1};
  return (::geteuid() != 0 || ::setuid(65534) == 0) && ::setrlimit(RLIMIT_NPROC, &none) == 0;
}

TEST(Limits, LoadersWithoutThreadsSaySoAndLetGoOfTheData) {
  EXPECT_TRUE(in_a_child([] {
    if (!allow_no_more_threads()) return false;
    data::DatasetPtr set = data::from_tensors(zeros({8, 1, 2, 2}, {kUInt8}), arange(8), 8);
    const std::weak_ptr<const data::Dataset> held = set;
    bool refused = false;
    try {
      data::DataLoader(set, {.batch_size = 2, .num_workers = 2}).epoch(0);
    } catch (const Error& error) {
      const std::string message = error.what();
      refused = message.find("DataLoader: ") == 0 && message.find("ulimit -u") != std::string::npos;
    }
    set.reset();
    return refused && held.expired();
  }));
}

TEST(Limits, CheckpointsWithoutAThreadSaySo) {
  EXPECT_TRUE(in_a_child([] {
    train::CheckpointFolder folder(testing::TempDir() + "checkpoints", 1, false);
    if (!allow_no_more_threads()) return false;
    try {
      train::CheckpointWriter(folder, false);  // needs none
      train::CheckpointWriter writer(folder, true);
    } catch (const Error& error) {
      const std::string message = error.what();
      return message.find("checkpoints: ") == 0 && message.find("ulimit -u") != std::string::npos;
    }
    return false;
  }));
}

}  // namespace
}  // namespace facula
#endif
