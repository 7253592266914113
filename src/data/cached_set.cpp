// A data set that reads every sample of another one once.
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

#include "base/check.h"
#include "data/loading.h"

namespace facula::data {
namespace {

/// One field of a sample that is kept.
struct KeptField {
  std::string name;
  Value value;
  /// Where the pixels of an image of bytes lie, [height, width, channels]; `value` owns them.
  const std::uint8_t* pixels = nullptr;
  std::int64_t height = 0, width = 0, channels = 0;
};

/// What a kept value looks like to somebody who may change it, while it stays as it is.
struct HandOut {
  const KeptField& kept;

  Value operator()(const Image& image) const {
    if (!kept.pixels) return image;
    return Image(kept.pixels, kept.height, kept.width, kept.channels);
  }
  Value operator()(const Tensor& tensor) const {
    return tensor.defined() ? tensor.clone() : Tensor();
  }
  Value operator()(std::int64_t number) const { return number; }
  Value operator()(double number) const { return number; }
};

class CachedDataset final : public Loading<Dataset> {
 public:
  explicit CachedDataset(DatasetPtr set) : set_(std::move(set)) {
    check<ValueError>(set_ != nullptr, "cached: the data set is null");
    size_ = set_->size();
    check<ValueError>(size_ >= 0,
                      "cached: the data set says that its size is {}, expected 0 or more", size_);
    entries_ = std::make_unique<Entry[]>(static_cast<std::size_t>(size_));
  }

  std::int64_t size() const override { return size_; }
  std::string source(std::int64_t index) const override { return set_->source(index); }

  void load(std::int64_t index, Sample& sample) const override {
    check_index(index, size_, "cached");
    Entry& entry = entries_[static_cast<std::size_t>(index)];
    if (entry.state.load(std::memory_order_acquire) != kFull) fill(entry, index);
    auto& fields = sample.fields();
    fields.resize(entry.fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const KeptField& kept = entry.fields[i];
      if (fields[i].name != kept.name) fields[i].name = kept.name;
      fields[i].set(std::visit(HandOut{kept}, kept.value));
    }
  }

 private:
  /// Of an entry: empty, full, or the process that is reading it.
  using State = pid_t;
  static constexpr State kEmpty = 0, kFull = -1;

  struct Entry {
    std::atomic<State> state{kEmpty};
    std::vector<KeptField> fields;

    void become(State next) {
      state.store(next, std::memory_order_release);
      state.notify_all();
    }
  };

  /// Whoever wants a sample that is being read waits; if reading it fails, the next one tries
  /// again. Those that a thread of the parent was reading when it forked are read anew.
  void fill(Entry& entry, std::int64_t index) const {
    const State reading = ::getpid();
    while (true) {
      State state = entry.state.load(std::memory_order_acquire);
      if (state == kFull) return;
      if (state == reading) {
        entry.state.wait(reading, std::memory_order_acquire);
      } else if (entry.state.compare_exchange_strong(state, reading, std::memory_order_acquire)) {
        // Left as it is: the parent's thread may have been in the midst of writing it.
        if (state != kEmpty) std::construct_at(&entry.fields);
        break;
      }
    }
    try {
      entry.fields = read(index);
    } catch (...) {
      entry.become(kEmpty);
      throw;
    }
    entry.become(kFull);
  }

  std::vector<KeptField> read(std::int64_t index) const {
    Sample sample = set_->get(index);
    std::vector<KeptField> kept(sample.size());
    for (std::size_t i = 0; i < kept.size(); ++i) {
      KeptField& field = kept[i];
      field.name = std::move(sample.fields()[i].name);
      field.value = std::move(sample.fields()[i].value);
      auto* image = std::get_if<Image>(&field.value);
      if (!image || !image->defined()) continue;
      const Tensor pixels = image->pixels();
      if (image->is_float()) continue;  // only the image itself knows which numbers it stands for
      field.pixels = pixels.data_ptr<std::uint8_t>();
      field.height = pixels.size(0);
      field.width = pixels.size(1);
      field.channels = pixels.size(2);
    }
    return kept;
  }

  DatasetPtr set_;
  std::int64_t size_ = 0;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace

DatasetPtr cached(DatasetPtr set) { return std::make_shared<CachedDataset>(std::move(set)); }

}  // namespace facula::data
