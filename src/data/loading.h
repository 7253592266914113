// What the data sets of this folder share.
#pragma once

#include <cstdint>

#include <facula/data/dataset.h>

#include "base/check.h"

namespace facula::data {

/// A data set (Dataset or ImageDataset) for which load() is the cheaper way to a sample.
template <class Base>
class Loading : public Base {
 public:
  Sample get(std::int64_t index) const final {
    Sample sample;
    load(index, sample);
    for (Sample::Field& field : sample.fields()) {
      auto* image = std::get_if<Image>(&field.value);
      if (image && image->defined()) image->keep();
    }
    return sample;
  }
  void load(std::int64_t index, Sample& sample) const override = 0;
};

/// Throws IndexError; `set` names the data set.
inline void check_index(std::int64_t index, std::int64_t size, const char* set) {
  check<IndexError>(index >= 0 && index < size, "{}: sample {} of {}; indices are 0 to size - 1",
                    set, index, size);
}

}  // namespace facula::data
