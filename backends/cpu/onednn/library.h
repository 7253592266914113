// oneDNN as a library of sequential kernels: one thread per primitive, scratchpads of our own.
#pragma once

#include <omp.h>

#include <array>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "runtime/op_registry.h"

namespace facula::cpu::onednn {

const dnnl::engine& engine();

/// A reason not to use oneDNN in a thread that has begun to end, as the main one has in exit(), or
/// in a process that has: its generated code may go with its static objects before those of a
/// program that still compute.
Refusal refuse_at_end();

/// While this lives, the end of the process waits before it destroys oneDNN's static objects; but
/// for those that the first run of an implementation is making.
class InUse {
 public:
  InUse();
  ~InUse();
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  /// False where the process has begun to end since refuse_at_end() was asked.
  bool granted() const { return granted_; }

 private:
  bool granted_;
};

/// Runs the call by the first implementation that takes it at the end of the process.
void run_at_end(const KernelArgs& args);

/// oneDNN parallelises with OpenMP, whose team size a thread inherits from its environment. While
/// this lives, the calling thread creates and runs primitives alone.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// Attributes of every primitive: a scratchpad shared by two threads would give wrong numbers, so
/// it is passed in at each execution.
dnnl::primitive_attr attributes();

/// A primitive with its memory objects, belonging to one thread.
class Kernel {
 public:
  struct Operand {
    int argument;
    dnnl::memory::desc desc;
  };
  Kernel() = default;
  Kernel(dnnl::primitive primitive, const std::vector<Operand>& operands,
         const dnnl::memory::desc& scratchpad);

  /// Runs on the memory given in the order of the operands.
  void operator()(std::initializer_list<const void*> data);
  const dnnl::memory::desc& desc(std::size_t operand) const { return descs_[operand]; }

 private:
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl::memory::desc> descs_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratch_bytes_ = 0;
  const char* implementation_ = "";
  bool moves_stack_ = false;
  bool has_run_ = false;
};

/// Identifies a primitive: what it is, and all its sizes and strides.
struct Key {
  static constexpr int kWords = 32;
  std::array<std::int64_t, kWords> words = {};
  int count = 0;

  Key& operator<<(std::int64_t word) {
    words[static_cast<std::size_t>(count++)] = word;
    return *this;
  }
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& key) const;
};

/// The calling thread's kernels, the least recently used ones dropped. Every thread has its own,
/// because memory objects are not shared; oneDNN itself shares the generated code.
class KernelCache {
 public:
  static KernelCache& of_this_thread();

  /// `create()` is called for a new key, alone in OpenMP's eyes.
  template <class Create>
  Kernel& get(const Key& key, Create create) {
    const auto found = index_.find(key);
    if (found != index_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return found->second->second;
    }
    OneThread alone;
    order_.emplace_front(key, create());
    index_.emplace(key, order_.begin());
    if (order_.size() > kCapacity) {
      index_.erase(order_.back().first);
      order_.pop_back();
    }
    return order_.front().second;
  }

 private:
  static constexpr std::size_t kCapacity = 512;
  std::list<std::pair<Key, Kernel>> order_;
  std::unordered_map<Key, std::list<std::pair<Key, Kernel>>::iterator, KeyHash> index_;
};

}  // namespace facula::cpu::onednn
