// Memory straight from the system: mappings, and moving their pages to other addresses.
#pragma once

#include <cstddef>

namespace facula::detail {

/// The unit of everything here but small mappings: 2 MiB.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// From here on, mappings are aligned to huge pages and backed by them. Smaller ones come with all
/// their pages.
inline constexpr std::size_t kHugeThreshold = std::size_t{4} << 20;

/// Zeroed memory; null if the system refuses.
void* map_pages(std::size_t bytes) noexcept;
void unmap_pages(void* begin, std::size_t bytes) noexcept;

/// Whole huge pages: what can be cut anywhere between them, and moved.
bool movable(const void* begin, std::size_t bytes) noexcept;
/// Addresses for whole huge pages, without memory. Null if the system refuses.
void* reserve_addresses(std::size_t bytes) noexcept;
/// Moves pages to reserved addresses. Their contents move along and nothing is copied or faulted
/// in; it takes a few microseconds per huge page. Returns how many bytes were moved, fewer than
/// asked for where the system refuses.
std::size_t move_pages(void* from, std::size_t bytes, void* to) noexcept;

}  // namespace facula::detail
