// The samples of labelled image sets.
#pragma once

#include <cstdint>
#include <utility>

#include <facula/data/sample.h>

namespace facula::data {

/// Makes `sample` {"image": image, "label": label}. If it has that form already, as when a loader
/// hands back the sample it had before, nothing is allocated.
inline void set_labelled_image(Sample& sample, Image image, std::int64_t label) {
  auto& fields = sample.fields();
  if (fields.size() != 2 || fields[0].name != "image" || fields[1].name != "label") {
    fields.resize(2);
    fields[0].name = "image";
    fields[1].name = "label";
  }
  fields[0].set(std::move(image));
  fields[1].set(label);
}

}  // namespace facula::data
