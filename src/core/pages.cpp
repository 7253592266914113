#include "core/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace facula::detail {
namespace {

/// A mapping aligned to huge pages: mapped with slack, which is returned at both ends.
void* map_aligned(std::size_t bytes, int protection) {
  const std::size_t mapped_bytes = bytes + kHugePage;
  void* mapped = mmap(nullptr, mapped_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(begin) & (kHugePage - 1);
  if (head != 0) munmap(begin, head);
  if (head != kHugePage) munmap(begin + head + bytes, kHugePage - head);
  return begin + head;
}

}  // namespace

void* map_pages(std::size_t bytes) noexcept {
  if (bytes < kHugeThreshold) {
    // What shorter uses of the block leave untouched would fault in the midst of later work.
    void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages == MAP_FAILED ? nullptr : pages;
  }
  void* pages = map_aligned(bytes, PROT_READ | PROT_WRITE);
  // First touch by huge pages is ten times cheaper. Refusal (no such kernel option) does no harm.
  if (pages) madvise(pages, bytes, MADV_HUGEPAGE);
  return pages;
}

void unmap_pages(void* begin, std::size_t bytes) noexcept { munmap(begin, bytes); }

bool movable(const void* begin, std::size_t bytes) noexcept {
  return (reinterpret_cast<std::uintptr_t>(begin) | bytes) % kHugePage == 0;
}

void* reserve_addresses(std::size_t bytes) noexcept { return map_aligned(bytes, PROT_NONE); }

std::size_t move_pages(void* from, std::size_t bytes, void* to) noexcept {
#ifdef MREMAP_FIXED
  auto move = [&](std::size_t at, std::size_t length) {
    void* target = static_cast<std::byte*>(to) + at;
    return mremap(static_cast<std::byte*>(from) + at, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                  target) == target;
  };
  if (move(0, bytes)) return bytes;
  // The kernel moves only what was mapped together, and this may have been put together.
  std::size_t moved = 0;
  while (moved < bytes && move(moved, kHugePage)) moved += kHugePage;
  return moved;
#else
  return 0;
#endif
}

}  // namespace facula::detail
