#include "kernels/sparse/positions.h"

#include <algorithm>
#include <cstring>

#include "kernels/convert.h"
#include "kernels/simd/magnitude.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::int64_t tile_elements = 4096;        // 16 KiB: stays in the first-level cache
constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches

void multiply(float* values, std::size_t count, float factor) {
  if (factor == 1.0f) return;
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) values[i] *= factor;
}

bool finite(const float* values, std::size_t count) {
  return simd::maximum_bits(values, count) < simd::non_finite_bits;
}

bool finite(const Half* values, std::size_t count) {
  int bad = 0;
#pragma omp simd reduction(| : bad)
  for (std::size_t i = 0; i < count; ++i) bad |= (values[i].bits & 0x7c00) == 0x7c00 ? 1 : 0;
  return bad == 0;
}

}  // namespace

std::vector<SparseMover::Scratch>& SparseMover::scratch() {
  const auto threads = static_cast<std::size_t>(omp_get_max_threads());
  if (scratch_.size() < threads) scratch_.resize(threads);
  return scratch_;
}

bool SparseMover::gather(const SparsePositions& positions, std::span<const float> x, float factor, DType type,
                         std::byte* list, bool scan) {
  TW_ASSERT(static_cast<std::int64_t>(x.size()) == positions.elements());
  auto& scratches = scratch();
  bool good = true;
  parallel_ranges(
      sparse_blocks(positions.elements()), 1, 1, [&](std::int64_t first, std::int64_t last, int thread) {
        Scratch& s = scratches[static_cast<std::size_t>(thread)];
        std::uint16_t* room = s.offsets.as<std::uint16_t>(sparse_block);
        float* gathered = s.values.as<float>(sparse_block);
        for (std::int64_t b = first; b < last; ++b) {
          const auto offsets = positions.offsets(b, room);
          const std::size_t count = offsets.size();
          const float* values = factor == 1.0f ? positions.values(b) : nullptr;
          if (values == nullptr) {
            const float* block = x.data() + b * sparse_block;
            for (std::size_t i = 0; i < count; ++i) gathered[i] = block[offsets[i]];
            multiply(gathered, count, factor);
            values = gathered;
          }
          const void* wire = values;
          bool fine = true;
          if (scan) {
            const std::int64_t length = std::min(sparse_block, positions.elements() - b * sparse_block);
            fine = finite(x.data() + b * sparse_block, static_cast<std::size_t>(length));
          }
          if (type == DType::f16) {
            Half* halves = s.halves.as<Half>(sparse_block);
            convert(std::span<const float>(values, count), std::span<Half>(halves, count));
            fine = fine && finite(halves, count);
            wire = halves;
          } else {
            fine = fine && finite(values, count);
          }
          if (!fine) {
#pragma omp atomic write
            good = false;
          }
          const std::size_t size = size_of(type);
          if (count > 0)
            std::memcpy(list + static_cast<std::size_t>(positions.start(b)) * size, wire, count * size);
        }
      });
  return good;
}

bool SparseMover::scatter(const SparsePositions& positions, const std::byte* list, DType type, float factor,
                          std::span<float> out, bool add) {
  TW_ASSERT(static_cast<std::int64_t>(out.size()) == positions.elements());
  auto& scratches = scratch();
  bool good = true;
  const bool stream = !add && out.size_bytes() >= stream_from_bytes;
  parallel_ranges(
      sparse_blocks(positions.elements()), 1, 1, [&](std::int64_t first, std::int64_t last, int thread) {
        Scratch& s = scratches[static_cast<std::size_t>(thread)];
        std::uint16_t* room = s.offsets.as<std::uint16_t>(sparse_block);
        float* values = s.values.as<float>(sparse_block);
        float* tile = s.tile.as<float>(tile_elements);
        std::memset(tile, 0, tile_elements * sizeof(float));
        for (std::int64_t b = first; b < last; ++b) {
          const auto offsets = positions.offsets(b, room);
          const std::size_t count = offsets.size();
          const std::byte* wire = list + static_cast<std::size_t>(positions.start(b)) * size_of(type);
          bool fine = true;
          if (type == DType::f16) {
            Half* halves = s.halves.as<Half>(sparse_block);
            if (count > 0) std::memcpy(halves, wire, count * sizeof(Half));
            fine = finite(halves, count);
            convert(std::span<const Half>(halves, count), std::span<float>(values, count));
          } else {
            if (count > 0) std::memcpy(values, wire, count * sizeof(float));
            fine = finite(values, count);
          }
          multiply(values, count, factor);
          if (!fine) {
#pragma omp atomic write
            good = false;
          }
          float* block = out.data() + b * sparse_block;
          const std::int64_t length = std::min(sparse_block, positions.elements() - b * sparse_block);
          if (add) {
            for (std::size_t i = 0; i < count; ++i) block[offsets[i]] += values[i];
          } else if (!stream) {
            std::memset(block, 0, static_cast<std::size_t>(length) * sizeof(float));
            for (std::size_t i = 0; i < count; ++i) block[offsets[i]] = values[i];
          } else {
            // Fill a zeroed tile in the first-level cache, stream it out, and zero again only what was set.
            const std::uint16_t* first_in_tile = offsets.data();
            for (std::int64_t t = 0; t < length; t += tile_elements) {
              const std::int64_t end = std::min(t + tile_elements, length);
              const std::uint16_t* next_tile = std::lower_bound(first_in_tile, offsets.data() + count, end);
              const float* value = values + (first_in_tile - offsets.data());
              for (const std::uint16_t* o = first_in_tile; o < next_tile; ++o, ++value) tile[*o - t] = *value;
              simd::stream_copy(block + t, tile, static_cast<std::size_t>(end - t));
              if (next_tile - first_in_tile > tile_elements / 64)
                std::memset(tile, 0, tile_elements * sizeof(float));
              else
                for (const std::uint16_t* o = first_in_tile; o < next_tile; ++o) tile[*o - t] = 0;
              first_in_tile = next_tile;
            }
          }
        }
      });
  return good;
}

}  // namespace thinwire
