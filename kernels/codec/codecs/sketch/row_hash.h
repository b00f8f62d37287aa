// Where the rows of a message go in its sketch: to three of R sketch rows ("buckets"), each with a sign.
//   h_j = murmur3_x86_32(row as 4 little-endian bytes, seed j), j = 0, 1, 2;   sign_j = top bit of h_j ? - : +
//   bucket_j = h_j mod R                      (Buckets::any; two of them may be the same)
//   bucket_j = R j / 3 + h_j mod (its third)  (Buckets::thirds; never the same)
// and which lanes of the sketch its lanes go to: lane l goes to (l - turn) mod 1024.
//   turn = murmur3_x86_32(row, seed 3) mod 1024   (Lanes::turned: columns of a matrix spread over all lanes), or 0 (Lanes::kept, as released)
// Austin Appleby's murmur3 with the seeds of the LHC code (docs/papers/gradient_compression.md, "Sketches").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codec/codecs/sketch/sketch_tiles.h"

namespace thinwire {

/// Of a key of 4 bytes.
std::uint32_t murmur3_x86_32(std::uint32_t key, std::uint32_t seed);

class RowHash {
 public:
  enum class Buckets { any, thirds };
  enum class Lanes { turned, kept };
  struct Rule {
    Buckets buckets = Buckets::any;
    Lanes lanes = Lanes::turned;
  };
  static constexpr int hashes = 3;

  explicit RowHash(Rule rule) : rule_(rule) {}
  /// Nothing to do where it is for these already. Thirds need buckets >= 3.
  void build(std::int64_t rows, std::int64_t buckets);

  std::int64_t rows() const { return rows_; }
  std::int64_t buckets() const { return buckets_; }
  static std::uint32_t number(std::uint32_t entry) { return entry & ~simd::sketch_sign; }

  /// Three entries (simd::sketch_sign): the buckets of a row.
  const std::uint32_t* of_row(std::size_t row) const { return of_rows_.data() + hashes * row; }
  const std::uint16_t* turns() const { return turns_.data(); }  ///< of all rows
  /// Entries of the rows that fall into a bucket, ascending; a row that does so twice comes twice.
  std::span<const std::uint32_t> in_bucket(std::size_t bucket) const { return {entries_.data() + starts_[bucket], counts_[bucket]}; }
  /// All buckets' lists, as simd::sum_signed_rows and simd::peel take them: each filled up with the row behind the last one to whole blocks, so that loops over blocks end
  /// where the processor expects it.
  const std::uint32_t* starts() const { return starts_.data(); }
  const std::uint32_t* counts() const { return counts_.data(); }
  const std::uint32_t* entries() const { return entries_.data(); }

 private:
  Rule rule_;
  std::int64_t rows_ = -1, buckets_ = -1;
  std::vector<std::uint32_t> of_rows_, starts_, counts_, entries_;
  std::vector<std::uint16_t> turns_;
};

}  // namespace thinwire
