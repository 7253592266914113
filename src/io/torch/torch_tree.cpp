#include "io/torch/torch_tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/bounded.h"
#include "io/state_entry.h"
#include "io/torch/torch_values.h"

namespace facula::io {
namespace {

using Items = std::span<const PickleValue>;

constexpr int kMaxDepth = 64;
/// PyTorch's limit.
constexpr size_t kMaxRank = 64;
/// Beyond what any memory holds, and far from overflow.
constexpr int64_t kMaxStride = int64_t{1} << 48;
/// Views that show elements repeatedly, such as expanded ones, may grow to so many bytes when they
/// are copied.
constexpr uint64_t kMaxExpanded = uint64_t{16} << 20;
/// An entry of a StateDict with what vectors keep in reserve, and of the list of tensors.
constexpr uint64_t kEntryCost = 240;
constexpr uint64_t kTensorCost = 140;
constexpr uint64_t kStorageCost = 180;

/// A persistent value: a storage, or a part of one.
struct StorageUse {
  size_t index = 0;
  uint64_t offset = 0;  // in elements
  const TorchType* type = nullptr;
};

/// A call of one of the functions that rebuild tensors.
struct Rebuilt {
  std::string_view function;
  Items arguments;
  const PickleValue& call;  // for messages
};

class Builder {
 public:
  Builder(const Pickle& pickle, const std::string& source, TorchContent content,
          MemoryBudget& budget)
      : pickle_(pickle),
        source_(source),
        tensors_only_(content == TorchContent::tensors),
        budget_(budget) {}

  TorchTree build() {
    add("", pickle_.root(), 0);
    return std::move(tree_);
  }

 private:
  void add(const std::string& name, const PickleValue& value, int depth);
  void add_call(const std::string& name, const PickleValue& call, int depth);
  void add_rebuilt(const std::string& name, const Rebuilt& tensor, int depth);
  void add_list(const std::string& name, Items items, int depth);
  void add_dict(const std::string& name, Items items, int depth);
  void add_object(const std::string& name, const PickleValue& call, int depth);
  void add_collection(const std::string& name, const PickleValue& call, int depth);
  void add_elements(const std::string& name, const PickleValue& list, const PickleValue& call,
                    int depth);
  void add_pairs(const std::string& name, const PickleValue& pairs, const PickleValue& call,
                 int depth);
  void add_tensor(const std::string& name, const Rebuilt& rebuilt);
  void add_storage(const std::string& name, const PickleValue& id);

  void leaf(const std::string& name, StateValue value);
  void set(const std::string& name, StateValue value);
  void tree(const std::string& name);
  std::string below(const std::string& name, const std::string& key) const {
    return name.empty() ? key : name + "." + key;
  }

  StorageUse storage_of(const PickleValue& value);
  void check_view(const TorchTensor& tensor, uint64_t element_size) const;
  void finish_tensor(TorchTensor tensor, const TorchType& type);

  const Pickle& pickle_;
  const std::string& source_;
  const bool tensors_only_;
  MemoryBudget& budget_;
  TorchTree tree_;
  std::unordered_map<std::string, size_t> storage_index_;
};

void Builder::set(const std::string& name, StateValue value) {
  // Every point in a name may make a tree.
  for (size_t end = name.rfind('.'); end != std::string::npos && end > 0;
       end = name.rfind('.', end - 1)) {
    if (tree_.structure.contains(std::string_view(name).substr(0, end))) break;
    budget_.charge(kEntryCost);
  }
  add_entry(tree_.structure, name, std::move(value), source_);
}

void Builder::leaf(const std::string& name, StateValue value) {
  if (!tensors_only_) set(name.empty() ? "value" : name, std::move(value));
}

/// Leaves a trace of a tree that may turn out to be empty.
void Builder::tree(const std::string& name) {
  if (!tensors_only_ && !name.empty() && !tree_.structure.find(name)) {
    set(name, StateDict());
  }
}

void Builder::add(const std::string& name, const PickleValue& value, int depth) {
  check<IoError>(depth <= kMaxDepth,
                 "{}: {} is nested deeper than {} levels, or contains itself; the file is damaged "
                 "or malicious, refuse it",
                 source_, quote_name(name), kMaxDepth);
  budget_.charge(kEntryCost + 2 * name.size());
  switch (value.kind) {
    case PickleKind::none: leaf(name, None); return;
    case PickleKind::boolean: leaf(name, value.integer != 0); return;
    case PickleKind::integer: leaf(name, value.integer); return;
    case PickleKind::number: leaf(name, value.number); return;
    case PickleKind::text:
      budget_.charge(value.length);
      leaf(name, std::string(value.data()));
      return;
    case PickleKind::bytes:
    case PickleKind::big_integer:
      budget_.charge(value.length);
      leaf(name, Bytes(value.data().begin(), value.data().end()));
      return;
    case PickleKind::global: leaf(name, pickle_.global(value)); return;
    case PickleKind::list:
    case PickleKind::tuple:
    case PickleKind::set: add_list(name, pickle_.items(value), depth); return;
    case PickleKind::dict: add_dict(name, pickle_.items(value), depth); return;
    case PickleKind::call: add_call(name, value, depth); return;
    case PickleKind::persistent: add_storage(name, value); return;
  }
}

void Builder::add_list(const std::string& name, Items items, int depth) {
  tree(name);
  for (size_t i = 0; i < items.size(); ++i) {
    add(below(name, std::to_string(i)), items[i], depth + 1);
  }
}

void Builder::add_dict(const std::string& name, Items items, int depth) {
  check<IoError>(items.size() % 2 == 0,
                 "{}: {} has a key without a value; the file is damaged, get it again", source_,
                 quote_name(name));
  tree(name);
  for (size_t i = 0; i < items.size(); i += 2) {
    // Keys may be shared; every copy counts.
    if (items[i].is(PickleKind::text)) budget_.charge(2 * uint64_t{items[i].length});
    add(below(name, name_of_key(items[i], i / 2)), items[i + 1], depth + 1);
  }
}

void Builder::add_call(const std::string& name, const PickleValue& call, int depth) {
  const std::string_view function = pickle_.callable(call);
  if (function.starts_with("torch._utils._rebuild_")) {
    add_rebuilt(name, {function, pickle_.items(pickle_.arguments(call)), call}, depth);
  } else if (function == "torch._tensor._rebuild_from_type_v2") {
    // (function, class, arguments, attributes) of a tensor that has attributes.
    const Items parts = pickle_.items(pickle_.arguments(call));
    const bool known = parts.size() == 4 && parts[0].is(PickleKind::global) &&
                       parts[2].is(PickleKind::tuple) &&
                       pickle_.global(parts[0]).starts_with("torch._utils._rebuild_");
    if (!known) fail_arguments(pickle_, call, source_);
    add_rebuilt(name, {pickle_.global(parts[0]), pickle_.items(parts[2]), call}, depth);
  } else if (function.starts_with("__torch__.")) {
    add_object(name, call, depth);
  } else if (auto value = leaf_of_call(pickle_, call, name, source_)) {
    if (const auto* bytes = value->get_if<Bytes>()) budget_.charge(bytes->size());
    leaf(name, std::move(*value));
  } else {
    add_collection(name, call, depth);
  }
}

void Builder::add_rebuilt(const std::string& name, const Rebuilt& tensor, int depth) {
  if (const TorchLackingKind* lacking = torch_lacking_kind(tensor.function)) {
    fail<IoError>("{}: {} is {}, which Facula lacks; {}", source_,
                  quote_name(name.empty() ? "tensor" : name), lacking->kind, lacking->remedy);
  }
  if (tensor.function.starts_with("torch._utils._rebuild_parameter")) {
    if (tensor.arguments.empty()) fail_arguments(pickle_, tensor.call, source_);
    add(name, tensor.arguments[0], depth + 1);
  } else {
    add_tensor(name, tensor);
  }
}

/// An object of TorchScript: its state, normally a dict of attributes.
void Builder::add_object(const std::string& name, const PickleValue& call, int depth) {
  const PickleValue& state = pickle_.state(call);
  if (state.is(PickleKind::none)) {
    tree(name);
  } else {
    add(name, state, depth + 1);
  }
}

/// A list or dict made by a call, from its argument and what was added to it.
void Builder::add_collection(const std::string& name, const PickleValue& call, int depth) {
  const std::string_view function = pickle_.callable(call);
  const Items arguments = pickle_.items(pickle_.arguments(call));
  if (function == "torch.jit._pickle.restore_type_tag" && !arguments.empty()) {
    add(name, arguments[0], depth + 1);
    return;
  }
  tree(name);
  const bool is_dict = function.ends_with("ict") || function == "collections.Counter";
  // What a defaultdict is called with makes its values.
  if (!arguments.empty() && function != "collections.defaultdict") {
    if (arguments.size() != 1) fail_arguments(pickle_, call, source_);
    is_dict ? add_pairs(name, arguments[0], call, depth)
            : add_elements(name, arguments[0], call, depth);
  }
  if (is_dict) add_dict(name, pickle_.items(call), depth);
}

void Builder::add_elements(const std::string& name, const PickleValue& list,
                           const PickleValue& call, int depth) {
  const bool is_list =
      list.is(PickleKind::list) || list.is(PickleKind::tuple) || list.is(PickleKind::set);
  if (!is_list) fail_arguments(pickle_, call, source_);
  add_list(name, pickle_.items(list), depth);
}

/// A dict, or a list of pairs, as OrderedDict([[key, value], ...]) has it.
void Builder::add_pairs(const std::string& name, const PickleValue& pairs, const PickleValue& call,
                        int depth) {
  if (pairs.is(PickleKind::dict)) {
    add_dict(name, pickle_.items(pairs), depth);
    return;
  }
  if (!pairs.is(PickleKind::list)) fail_arguments(pickle_, call, source_);
  for (const PickleValue& pair : pickle_.items(pairs)) {
    const bool is_pair = pair.is(PickleKind::list) || pair.is(PickleKind::tuple);
    if (!is_pair || pickle_.items(pair).size() != 2) fail_arguments(pickle_, call, source_);
    add_dict(name, pickle_.items(pair), depth);
  }
}

// --- Tensors -------------------------------------------------------------------------------------

/// ('storage', type, key, device, number of elements), for the legacy format with None or
/// (key, offset, number of elements) of a view of the storage at the end.
StorageUse Builder::storage_of(const PickleValue& value) {
  const auto wrong = [&](bool ok) {
    check<IoError>(ok,
                   "{}: a tensor's storage is not described as torch.save does it; the file "
                   "is damaged or malicious, refuse it",
                   source_);
  };
  wrong(value.is(PickleKind::persistent));
  const PickleValue& id = pickle_.arguments(value);
  wrong(id.is(PickleKind::tuple));
  const Items parts = pickle_.items(id);
  wrong(parts.size() == 5 || parts.size() == 6);
  wrong(parts[0].is(PickleKind::text) && parts[0].data() == "storage" &&
        parts[1].is(PickleKind::global) && parts[2].is(PickleKind::text) &&
        parts[3].is(PickleKind::text) && parts[4].is(PickleKind::integer));
  const TorchType* type = torch_type_of_storage(pickle_.global(parts[1]));
  uint64_t bytes = 0, offset = 0;
  wrong(type && parts[4].integer >= 0 &&
        !__builtin_mul_overflow(static_cast<uint64_t>(parts[4].integer), type->size, &bytes));
  if (parts.size() == 6 && !parts[5].is(PickleKind::none)) {
    wrong(parts[5].is(PickleKind::tuple));
    const Items view = pickle_.items(parts[5]);
    wrong(view.size() == 3 && view[1].is(PickleKind::integer) && view[1].integer >= 0);
    offset = static_cast<uint64_t>(view[1].integer);
  }
  // Every use of a long key takes time.
  budget_.charge(2 * (uint64_t{parts[2].length} + parts[3].length));
  std::string key(parts[2].data());
  const auto [found, added] = storage_index_.try_emplace(key, tree_.storages.size());
  if (added) {
    budget_.charge(kStorageCost);
    tree_.storages.push_back({.key = std::move(key),
                              .element_size = type->size,
                              .device = std::string(parts[3].data()),
                              .bytes = bytes});
  }
  check<IoError>(tree_.storages[found->second].bytes == bytes,
                 "{}: the storage {} has {} bytes in one place and {} in another; the file is "
                 "damaged or malicious, refuse it",
                 source_, quote_name(tree_.storages[found->second].key),
                 tree_.storages[found->second].bytes, bytes);
  return {found->second, offset, type};
}

void Builder::check_view(const TorchTensor& tensor, uint64_t element_size) const {
  const TorchStorage& storage = tree_.storages[tensor.storage];
  const uint64_t available = storage.bytes / element_size;
  uint64_t bytes = element_size, end = tensor.offset;
  bool empty = false, fits = tensor.shape.size() == tensor.strides.size();
  for (size_t d = 0; fits && d < tensor.shape.size(); ++d) {
    empty |= tensor.shape[d] == 0;
    // Zeros count as ones: sizes are multiplied with others all the same.
    const auto size = static_cast<uint64_t>(std::max<int64_t>(tensor.shape[d], 1));
    const auto stride = static_cast<uint64_t>(tensor.strides[d]);
    uint64_t reach = 0;
    fits = tensor.strides[d] <= kMaxStride && !__builtin_mul_overflow(bytes, size, &bytes) &&
           !__builtin_mul_overflow(size - 1, stride, &reach) &&
           !__builtin_add_overflow(end, reach, &end);
  }
  fits = fits && bytes <= std::max(storage.bytes, kMaxExpanded) &&
         (empty ? tensor.offset <= available : end < available);
  check<IoError>(fits,
                 "{}: the tensor {} of dtype {}, {} dimensions and offset {} does not lie within "
                 "its storage of {} bytes; the file is damaged or malicious, refuse it",
                 source_, quote_name(tensor.name), tensor.dtype, tensor.shape.size(), tensor.offset,
                 storage.bytes);
}

void Builder::finish_tensor(TorchTensor tensor, const TorchType& type) {
  budget_.charge(kTensorCost + tensor.name.size() + 16 * tensor.shape.size());
  if (tensor.name.empty()) tensor.name = "tensor";
  tensor.dtype = type.dtype;
  tensor.facula_dtype = type.facula_dtype;
  check_view(tensor, type.size);
  set(tensor.name, Tensor());
  tree_.tensors.push_back(std::move(tensor));
}

/// _rebuild_tensor(storage, offset, size, strides); _v2 with (requires_grad, hooks, metadata)
/// behind; _v3 with (requires_grad, hooks, dtype, metadata); _rebuild_qtensor with
/// (quantizer, requires_grad, hooks).
void Builder::add_tensor(const std::string& name, const Rebuilt& rebuilt) {
  const std::string_view function = rebuilt.function;
  const Items arguments = rebuilt.arguments;
  const bool v3 = function.ends_with("_v3");
  const auto wrong = [&](bool ok) {
    if (!ok) fail_arguments(pickle_, rebuilt.call, source_);
  };
  wrong(arguments.size() >= (v3 ? 7 : 4) && arguments[1].is(PickleKind::integer) &&
        arguments[1].integer >= 0);
  auto shape = sizes_of(pickle_, arguments[2], kMaxRank);
  auto strides = sizes_of(pickle_, arguments[3], kMaxRank);
  wrong(shape && strides);
  // Conjugated and negated views say so behind everything else.
  const size_t last = v3 ? 7 : 6;
  wrong(arguments.size() <= last || arguments[last].is(PickleKind::none) ||
        (arguments[last].is(PickleKind::dict) && pickle_.items(arguments[last]).empty()) ||
        function.ends_with("_qtensor"));
  const StorageUse storage = storage_of(arguments[0]);
  const TorchType* type = storage.type;
  if (v3) {
    wrong(arguments[6].is(PickleKind::global));
    type = torch_type_of_dtype(pickle_.global(arguments[6]));
  }
  TorchTensor tensor;
  wrong(type && !__builtin_add_overflow(static_cast<uint64_t>(arguments[1].integer), storage.offset,
                                        &tensor.offset));
  tensor.name = name;
  tensor.shape = std::move(*shape);
  tensor.strides = std::move(*strides);
  tensor.storage = storage.index;
  finish_tensor(std::move(tensor), *type);
}

/// A storage on its own: a tensor of all its elements.
void Builder::add_storage(const std::string& name, const PickleValue& id) {
  const StorageUse storage = storage_of(id);
  const uint64_t elements = tree_.storages[storage.index].bytes / storage.type->size;
  TorchTensor tensor;
  tensor.name = name;
  tensor.shape = {static_cast<int64_t>(elements)};
  tensor.strides = {1};
  tensor.storage = storage.index;
  const bool untyped = storage.type->dtype == "untyped";
  finish_tensor(std::move(tensor), untyped ? torch_type_of(kUInt8) : *storage.type);
}

}  // namespace

TorchTree build_torch_tree(const Pickle& pickle, const std::string& source, TorchContent content,
                           MemoryBudget& budget) {
  return Builder(pickle, source, content, budget).build();
}

}  // namespace facula::io
