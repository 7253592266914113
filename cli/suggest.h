// Guessing what a mistyped word was meant to be.
#pragma once

#include <string>
#include <vector>

namespace facula::cli {

/// The one of `known` that the fewest changes of single letters make of `word`; empty if it takes
/// so many that it is another word.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace facula::cli
