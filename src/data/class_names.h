// What the classes of the published sets are called, in the order of their labels.
#pragma once

#include <string>
#include <vector>

namespace facula::data {

std::vector<std::string> mnist_class_names();
std::vector<std::string> fashion_mnist_class_names();
std::vector<std::string> cifar10_class_names();
/// The fine ones.
std::vector<std::string> cifar100_class_names();

}  // namespace facula::data
