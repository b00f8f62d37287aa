// Extents of a tensor, row-major. At most four axes, stored in place.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace thinwire {

class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    TW_ASSERT(extents.size() <= max_rank);
    for (std::int64_t e : extents) {
      TW_ASSERT(e >= 0);
      extents_[rank_++] = e;
    }
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[axis]; }
  /// Product of all extents; 1 for a scalar (rank 0).
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[i];
    return n;
  }
  /// The tensor seen as a matrix: last axis = columns (channels), all others = rows (tokens).
  std::int64_t columns() const { return rank_ == 0 ? 1 : extents_[rank_ - 1]; }
  std::int64_t rows() const { return columns() == 0 ? 0 : elements() / columns(); }
  bool operator==(const Shape& other) const = default;
  /// "[8, 128, 512]"
  std::string to_string() const {
    std::string text = "[";
    for (int i = 0; i < rank_; ++i) text += (i ? ", " : "") + std::to_string(extents_[i]);
    return text + "]";
  }

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

}  // namespace thinwire
