// The count sketch of a message and its decoding. A message of n elements is K = ceil(n / 1024) rows of 1024 lanes, the last filled up with zeros; its sketch has R rows:
//   Y[bucket_j(row)][(lane - turn(row)) mod 1024] += sign_j(row) x[row][lane]      j = 0, 1, 2 (row_hash.h), for every element of the index
// so lanes are 1024 sketches with one hash, and the sum of sketches is the sketch of the sum. Decoding from Y and the index (a superset of what is not 0):
//   peel    a counter with one unresolved element gives its value, which is subtracted from the element's three counters, until no counter has just one
//   rest    the median of the three counters, with their signs
// Which elements are peeled does not depend on the order; it is one of buckets and rows in each lane, so results depend on neither threads nor vectors.
// Released form: values carry the index in their last mantissa bit, which is set before they are added and cleared in what is peeled; and of two equal first
// estimates the third one is taken (docs/papers/gradient_compression.md, "Defects of the released code" 8 and 12).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "kernels/codec/codec.h"
#include "kernels/codec/codecs/sketch/row_hash.h"

namespace thinwire {

class RowSketch {
 public:
  static constexpr std::int64_t lanes = simd::sketch_lanes;
  static constexpr std::int64_t rows_of(std::int64_t elements) { return (elements + lanes - 1) / lanes; }
  static constexpr std::size_t index_words(std::int64_t elements) { return static_cast<std::size_t>(rows_of(elements) * lanes / 64); }

  RowSketch(RowHash::Rule rule, Form form) : hash_(rule), released_(form == Form::released) {}

  /// counters [buckets][1024] = the sketch of those elements of x whose bit is set in `words` (index_words of them). False where a sum is not finite.
  bool add_up(std::span<const float> x, std::span<const std::uint64_t> words, std::int64_t buckets, float* counters);

  struct Recovery {
    std::int64_t unpeeled = 0;  ///< elements of the index whose value is a median
    int passes = 0;             ///< over the buckets, of the tile of lanes that needed most
    bool finite = true;         ///< the counters, and `out`: sums of damaged ones may overflow
  };
  /// out = what the counters hold at the elements of the index, 0 elsewhere.
  Recovery recover(const float* counters, std::int64_t buckets, std::span<const std::uint64_t> words, std::span<float> out);

 private:
  /// A thread's lanes at a time.
  struct Tile {
    Buffer counters, unresolved, resolved, values, changed;
    simd::PeelTile lanes;
    float* x = nullptr;  ///< [rows][64], of what is added up
  };
  /// One per thread, with room for the message.
  std::vector<Tile>& tiles();
  /// The index of the lanes of tile t.
  void load_index(const simd::PeelTile& tile, std::span<const std::uint64_t> words, std::int64_t t) const;
  /// What is left of a tile, where its values lie: medians. Returns how many.
  std::int64_t estimate(const simd::PeelTile& tile, std::size_t first, std::size_t whole, float* out, std::uint32_t& largest);

  RowHash hash_;
  bool released_;
  std::vector<Tile> tiles_;
  float last_row_[lanes] = {};  ///< where the message ends inside of a row
};

}  // namespace thinwire
