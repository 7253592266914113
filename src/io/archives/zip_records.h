// Marks and sizes of the records of zip archives, for reading and writing them.
#pragma once

#include <cstdint>

namespace facula::io {

inline constexpr uint32_t kZipLocalSignature = 0x04034b50;
inline constexpr uint32_t kZipCentralSignature = 0x02014b50;
inline constexpr uint32_t kZipEndSignature = 0x06054b50;
inline constexpr uint32_t kZip64EndSignature = 0x06064b50;
inline constexpr uint32_t kZip64LocatorSignature = 0x07064b50;

/// Without names, extra fields and comments.
inline constexpr uint64_t kZipLocalSize = 30;
inline constexpr uint64_t kZipEndSize = 22;
inline constexpr uint64_t kZip64EndSize = 56;
inline constexpr uint64_t kZip64LocatorSize = 20;
inline constexpr uint64_t kZipMaxComment = 0xffff;

inline constexpr uint16_t kZipStored = 0;
inline constexpr uint16_t kZipDeflated = 8;

/// CRC and sizes stand behind the data instead of in the local header.
inline constexpr uint16_t kZipFlagSizesLater = 1 << 3;
/// The name is UTF-8.
inline constexpr uint16_t kZipFlagUtf8 = 1 << 11;
/// Traditional and strong encryption, masked headers.
inline constexpr uint16_t kZipFlagsEncrypted = 1 << 0 | 1 << 6 | 1 << 13;

/// Extra field with the sizes and offsets that do not fit into 32 bits.
inline constexpr uint16_t kZip64Extra = 1;
/// Extra field that torch.save pads with.
inline constexpr uint16_t kZipPaddingExtra = 0x4246;

}  // namespace facula::io
