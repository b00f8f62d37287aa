// Element types that cross kernels and links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace thinwire {

enum class DType : std::uint8_t { f32, f64, f16, bf16, i8, u8, u16, i32, i64 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::i8:
    case DType::u8: return 1;
    case DType::f16:
    case DType::bf16:
    case DType::u16: return 2;
    case DType::f32:
    case DType::i32: return 4;
    case DType::f64:
    case DType::i64: return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  constexpr std::string_view names[] = {"f32", "f64", "f16", "bf16", "i8", "u8", "u16", "i32", "i64"};
  return names[static_cast<std::size_t>(type)];
}

/// Inverse of name_of. Throws UsageError listing the names.
DType parse_dtype(std::string_view name);

/// IEEE binary16 as bits. Converted in core/half.h.
struct Half {
  std::uint16_t bits;
};
/// bfloat16 as bits.
struct BFloat16 {
  std::uint16_t bits;
};

template <typename T>
inline constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, Half>) return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, std::uint16_t>) return DType::u16;
  else if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  else {
    static_assert(std::is_same_v<T, std::int64_t>, "no DType for this element type");
    return DType::i64;
  }
}();

}  // namespace thinwire
