#include "kernels/codec/codecs/sketch/row_hash.h"

#include <bit>

#include "core/error.h"

namespace thinwire {

std::uint32_t murmur3_x86_32(std::uint32_t key, std::uint32_t seed) {
  std::uint32_t h = seed ^ std::rotl(key * 0xcc9e2d51u, 15) * 0x1b873593u;
  h = std::rotl(h, 13) * 5 + 0xe6546b64u;
  h ^= 4;  // bytes of the key
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

void RowHash::build(std::int64_t rows, std::int64_t buckets) {
  if (rows == rows_ && buckets == buckets_) return;
  const bool any = rule_.buckets == Buckets::any;
  TW_ASSERT(buckets > 0 && (any || buckets >= hashes));
  if (rows > 0x7fffffff / hashes / static_cast<std::int64_t>(simd::sketch_block)) throw UsageError("sketch: a message of " + std::to_string(rows) + " rows of 1024 elements; split it");
  rows_ = rows, buckets_ = buckets;
  of_rows_.resize(static_cast<std::size_t>(hashes * rows));
  starts_.resize(static_cast<std::size_t>(buckets) + 1);
  counts_.assign(static_cast<std::size_t>(buckets), 0);
  turns_.assign(static_cast<std::size_t>(rows), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    if (rule_.lanes == Lanes::turned) turns_[static_cast<std::size_t>(row)] = static_cast<std::uint16_t>(murmur3_x86_32(static_cast<std::uint32_t>(row), hashes) % simd::sketch_lanes);
    for (int j = 0; j < hashes; ++j) {
      const std::uint32_t h = murmur3_x86_32(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(j));
      const std::int64_t first = any ? 0 : buckets * j / hashes, end = any ? buckets : buckets * (j + 1) / hashes;
      const auto bucket = static_cast<std::uint32_t>(first + static_cast<std::int64_t>(h) % (end - first));
      of_rows_[static_cast<std::size_t>(hashes * row + j)] = bucket | (h & simd::sketch_sign);
      ++counts_[bucket];
    }
  }
  starts_[0] = 0;
  for (std::size_t b = 0; b < counts_.size(); ++b) starts_[b + 1] = starts_[b] + static_cast<std::uint32_t>((counts_[b] + simd::sketch_block - 1) / simd::sketch_block * simd::sketch_block);
  entries_.assign(starts_.back(), static_cast<std::uint32_t>(rows));
  counts_.assign(counts_.size(), 0);
  for (std::size_t i = 0; i < of_rows_.size(); ++i) {
    const std::uint32_t bucket = number(of_rows_[i]);
    entries_[starts_[bucket] + counts_[bucket]++] = static_cast<std::uint32_t>(i / hashes) | (of_rows_[i] & simd::sketch_sign);
  }
}

}  // namespace thinwire
