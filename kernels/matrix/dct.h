// The orthonormal discrete cosine transform (DCT-II; Ahmed, Natarajan, Rao 1974) of the tiles of a band, by products of matrices:
//   C[u, i] = s cos(pi (2 i + 1) u / (2 n)),  s = sqrt(1/n) for u = 0, else sqrt(2/n);   Y = C X C'^T,   X = C^T Y C'
// A band is `height` rows of neighbouring tiles of `width` columns. Both products work on the whole band: C times it as it lies, then the rows of all tiles,
// which lie one after another, times C'^T. One thread; no two may use one object at once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device/device.h"

namespace thinwire {

class BandDct {
 public:
  BandDct(std::int64_t height, std::int64_t width);
  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  /// out [height, tiles * width] = the transforms of x [rows, columns], rows `stride` elements apart, with zeros behind its rows and columns.
  void forward(const float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, std::int64_t tiles, float* out);

  /// The inverse of few coefficients, given one by one: begin, one add for each, end.
  void begin_inverse(std::int64_t tiles);
  void add(std::int64_t tile, std::int64_t position, float value);
  /// x [rows, columns] = their inverse transforms, or += them.
  void end_inverse(float* x, std::int64_t stride, std::int64_t rows, std::int64_t columns, bool accumulate);

 private:
  std::int64_t height_, width_, tiles_ = 0;
  std::vector<float> down_, across_;  // C [height, height], C' [width, width]
  Buffer half_;                       // one product done: [height, tiles * width]
};

}  // namespace thinwire
