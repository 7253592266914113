#include "cli/suggest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace facula::cli {
namespace {

/// Letters to insert, remove, replace or swap with their neighbour (optimal string alignment).
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : known) {
    const std::size_t changes = distance(word, candidate);
    if (changes < least) {
      least = changes;
      best = candidate;
    }
  }
  return best;
}

}  // namespace facula::cli
