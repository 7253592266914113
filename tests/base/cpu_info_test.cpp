#include "base/cpu_info.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <facula/error.h>

namespace facula::base {
namespace {

namespace fs = std::filesystem;

/// A root folder with files of our own in place of /proc and /sys.
class CgroupFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ("facula_cgroup_" + std::to_string(reinterpret_cast<uintptr_t>(this)));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const fs::path file = root_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  CgroupLimits limits() { return read_cgroup_limits(root_.string()); }

 private:
  fs::path root_;
};

TEST_F(CgroupFiles, NothingThereMeansNoLimits) {
  EXPECT_FALSE(limits().cpus);
  EXPECT_FALSE(limits().memory_bytes);
}

TEST_F(CgroupFiles, Version2TakesTheTightestAncestor) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  write("sys/fs/cgroup/a/b/memory.max", "3000\n");
  write("sys/fs/cgroup/a/memory.max", "2000\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 2.5);
  EXPECT_EQ(limits().memory_bytes, 2000);
}

TEST_F(CgroupFiles, Version2InsideAContainerSeesTheMount) {
  write("proc/self/cgroup", "0::/kubepods/pod7/c1\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/memory.max", "1048576\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 0.5);
  EXPECT_EQ(limits().memory_bytes, 1048576);
}

TEST_F(CgroupFiles, Version1HasAFolderPerController) {
  write("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/job\n3:memory:/job\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096000\n");
  EXPECT_DOUBLE_EQ(limits().cpus.value(), 3.0);
  EXPECT_EQ(limits().memory_bytes, 4096000);
}

TEST_F(CgroupFiles, DamagedFilesAreIgnored) {
  write("proc/self/cgroup", "nonsense\n0:\n0::/a\n::\n");
  write("sys/fs/cgroup/a/cpu.max", "\n");
  write("sys/fs/cgroup/a/memory.max", "");
  write("sys/fs/cgroup/cpu.max", "100000 0\n");
  write("sys/fs/cgroup/memory.max", "99999999999999999999999\n");
  EXPECT_FALSE(limits().cpus);
  EXPECT_FALSE(limits().memory_bytes);
}

TEST(CpuCapabilityNames, RoundTripAndRefuseOthers) {
  for (auto c : {CpuCapability::kBaseline, CpuCapability::kAvx2, CpuCapability::kAvx512}) {
    EXPECT_EQ(parse_cpu_capability(to_string(c), "test"), c);
  }
  try {
    parse_cpu_capability("sse9", "FACULA_CPU_CAPABILITY");
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_STREQ(error.what(),
                 "FACULA_CPU_CAPABILITY='sse9' is unknown; use baseline, avx2 or avx512");
  }
}

TEST(CpuInfo, CapabilityNeverExceedsTheDetectedOne) {
  EXPECT_LE(cpu_capability(), detected_cpu_capability());
}

TEST(CpuInfo, CountsCpusAndMemory) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), static_cast<int>(affinity_cpus().size()));
  EXPECT_GT(physical_memory_bytes(), int64_t{16} << 20);
  EXPECT_GT(usable_memory_bytes(), 0);
  EXPECT_LE(usable_memory_bytes(), physical_memory_bytes());
}

TEST(CpuInfo, CachesAndNameArePlausible) {
  EXPECT_GE(cache_sizes().l1_data, 8 << 10);
  EXPECT_GE(cache_sizes().l2, cache_sizes().l1_data);
  EXPECT_FALSE(cpu_model_name().empty());
}

}  // namespace
}  // namespace facula::base
