// A matrix cut into chunks of height x width elements, each of which keeps some. Positions in a chunk are row * width + column, of the whole chunk also where the
// tensor ends inside of it. A tensor of one row is cut into height * width neighbours.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/device/tensor.h"

namespace thinwire {

inline constexpr std::int64_t largest_chunk = 64;                            ///< on a side: positions have 12 bits
inline constexpr std::int64_t largest_area = largest_chunk * largest_chunk;

struct Chunk {
  std::int64_t row = 0, column = 0;    ///< its first element
  std::int64_t rows = 0, columns = 0;  ///< what lies in the tensor
  std::int64_t kept = 0;
  std::int64_t number = 0;
};

class ChunkGrid {
 public:
  struct Rule {
    std::int64_t chunk = 64, kept = 64;
    bool divisors = false;  ///< chunks are the largest divisors of the extents instead (released forms); else the last ones may be cut off
    bool padded = false;    ///< cut off chunks keep as many as others: what is kept are no elements
  };
  ChunkGrid(const Shape& shape, const Rule& rule) : rule_(rule), rows_(shape.rows()), columns_(shape.columns()) {
    const auto extent = [&](std::int64_t length) {
      std::int64_t size = rule.chunk;
      while (rule.divisors && length % size != 0) --size;
      return size;
    };
    const bool vector = rows_ == 1;
    height_ = vector ? 1 : extent(rows_);
    width_ = !vector || rule.divisors ? extent(columns_) : rule.chunk * rule.chunk;
    down_ = (rows_ + height_ - 1) / height_, across_ = rows_ == 0 ? 0 : (columns_ + width_ - 1) / width_;
    if (across_ == 0) down_ = 0;
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }
  std::int64_t area() const { return height_ * width_; }
  std::int64_t down() const { return down_; }
  std::int64_t across() const { return across_; }
  std::int64_t chunks() const { return down_ * across_; }

  Chunk chunk(std::int64_t number) const {
    const std::int64_t i = number / across_, j = number % across_;
    Chunk c;
    c.row = i * height_, c.column = j * width_;
    c.rows = std::min(height_, rows_ - c.row), c.columns = std::min(width_, columns_ - c.column);
    c.kept = kept(c.rows, c.columns), c.number = number;
    return c;
  }

  /// Sum of of(kept) over the chunks before `number`: where the part of a list of all chunks begins.
  template <typename Of>
  std::int64_t before(std::int64_t number, const Of& of) const {
    if (number == 0) return 0;
    const std::int64_t i = number / across_, j = number % across_, right = columns_ - (across_ - 1) * width_, low = rows_ - (down_ - 1) * height_;
    const auto each = [&](std::int64_t rows, std::int64_t columns) { return static_cast<std::int64_t>(of(kept(rows, columns))); };
    const auto band = [&](std::int64_t rows) { return (across_ - 1) * each(rows, width_) + each(rows, right); };
    if (i == down_) return (down_ - 1) * band(height_) + band(low);
    return i * band(height_) + j * each(i + 1 == down_ ? low : height_, width_);
  }
  std::int64_t kept_before(std::int64_t number) const {
    return before(number, [](std::int64_t kept) { return kept; });
  }
  std::int64_t kept() const { return kept_before(chunks()); }

 private:
  std::int64_t kept(std::int64_t rows, std::int64_t columns) const { return std::min(rule_.kept, rule_.padded ? area() : rows * columns); }

  Rule rule_;
  std::int64_t rows_, columns_, height_ = 1, width_ = 1, down_ = 0, across_ = 0;
};

}  // namespace thinwire
