#include "data/class_names.h"

namespace facula::data {

std::vector<std::string> mnist_class_names() {
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

std::vector<std::string> fashion_mnist_class_names() {
  return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
          "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
}

std::vector<std::string> cifar10_class_names() {
  return {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
}

std::vector<std::string> cifar100_class_names() {
  return {"apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
          "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
          "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
          "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
          "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
          "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
          "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
          "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
          "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
          "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
          "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
          "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
          "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
          "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
          "table",       "tank",          "telephone", "television", "tiger",        "tractor",
          "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
          "willow_tree", "wolf",          "woman",     "worm"};
}

}  // namespace facula::data
