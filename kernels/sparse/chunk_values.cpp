#include "kernels/sparse/chunk_values.h"

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/convert.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

std::int64_t sign_bytes(std::int64_t kept) { return (kept + 7) / 8; }

/// Calls body(chunk, where its values begin, where its signs begin) for all chunks.
template <typename Body>
void for_chunks(const ChunkGrid& grid, const Body& body) {
  parallel_ranges(grid.chunks(), 256, 1, [&](std::int64_t first, std::int64_t last, int) {
    std::int64_t values = grid.kept_before(first), signs = 2 * grid.chunks() + grid.before(first, sign_bytes);
    for (std::int64_t number = first; number < last; ++number) {
      const Chunk chunk = grid.chunk(number);
      body(chunk, values, signs);
      values += chunk.kept, signs += sign_bytes(chunk.kept);
    }
  });
}

void write_signs(const ChunkGrid& grid, const float* values, std::byte* out) {
  for_chunks(grid, [&](const Chunk& chunk, std::int64_t at, std::int64_t signs_at) {
    double sum = 0;
    std::byte* const signs = out + signs_at;
    std::memset(signs, 0, static_cast<std::size_t>(sign_bytes(chunk.kept)));
    for (std::int64_t i = 0; i < chunk.kept; ++i) {
      sum += std::fabs(values[at + i]);
      signs[i / 8] |= static_cast<std::byte>((std::signbit(values[at + i]) ? 1u : 0u) << i % 8);
    }
    BFloat16 scale = to_bfloat16(static_cast<float>(chunk.kept > 0 ? sum / static_cast<double>(chunk.kept) : 0));
    if (scale.bits == 0x7f80) --scale.bits;  // at the end of f32: the largest that is finite
    std::memcpy(out + 2 * chunk.number, &scale.bits, 2);
  });
}

bool read_signs(const ChunkGrid& grid, const std::byte* in, float* values) {
  bool good = true;
  for_chunks(grid, [&](const Chunk& chunk, std::int64_t at, std::int64_t signs_at) {
    BFloat16 wire;
    std::memcpy(&wire.bits, in + 2 * chunk.number, 2);
    if (wire.bits >= 0x7f80) {  // negative, infinite or NaN
#pragma omp atomic write
      good = false;
    }
    const float scale = to_float(wire);
    for (std::int64_t i = 0; i < chunk.kept; ++i) values[at + i] = (in[signs_at + i / 8] >> i % 8 & std::byte{1}) != std::byte{0} ? -scale : scale;
  });
  return good;
}

/// Through aligned memory: payloads lie anywhere.
template <typename Wire>
bool write_as(std::span<const float> values, Buffer& aligned, std::byte* out) {
  const std::span<Wire> wire(aligned.as<Wire>(values.size()), values.size());
  convert(values, wire);
  if (!values.empty()) std::memcpy(out, wire.data(), wire.size_bytes());
  constexpr unsigned exponent = std::is_same_v<Wire, Half> ? 0x7c00 : 0x7f80;
  bool finite = true;
  for (const Wire w : wire) finite = finite && (w.bits & exponent) != exponent;
  return finite;
}
template <typename Wire>
void read_as(const std::byte* in, Buffer& aligned, std::span<float> values) {
  const std::span<Wire> wire(aligned.as<Wire>(values.size()), values.size());
  if (!values.empty()) std::memcpy(wire.data(), in, wire.size_bytes());
  convert(std::span<const Wire>(wire), values);
}

}  // namespace

std::size_t ChunkValues::bytes(const ChunkGrid& grid) const {
  const auto kept = static_cast<std::size_t>(grid.kept());
  switch (form_) {
    case ChunkValueForm::f32:
      return 4 * kept;
    case ChunkValueForm::f16:
    case ChunkValueForm::bf16:
      return 2 * kept;
    case ChunkValueForm::codebook2:
      return kept == 0 ? 0 : rule_.book_bytes() + rule_.code_bytes(kept);
    case ChunkValueForm::sign:
      return static_cast<std::size_t>(2 * grid.chunks() + grid.before(grid.chunks(), sign_bytes));
  }
  return 0;
}

bool ChunkValues::write(const ChunkGrid& grid, std::span<const float> values, std::byte* out) {
  switch (form_) {
    case ChunkValueForm::f32:
      if (!values.empty()) std::memcpy(out, values.data(), values.size_bytes());
      return true;
    case ChunkValueForm::f16:
      return write_as<Half>(values, aligned_, out);
    case ChunkValueForm::bf16:
      return write_as<BFloat16>(values, aligned_, out);
    case ChunkValueForm::codebook2:
      return values.empty() || writer_.write(rule_, values, out, out + rule_.book_bytes());
    case ChunkValueForm::sign:
      write_signs(grid, values.data(), out);
      return true;
  }
  return false;
}

bool ChunkValues::read(const ChunkGrid& grid, const std::byte* in, std::span<float> values) {
  switch (form_) {
    case ChunkValueForm::f32:
      if (!values.empty()) std::memcpy(values.data(), in, values.size_bytes());
      return all_finite(values);
    case ChunkValueForm::f16:
      read_as<Half>(in, aligned_, values);
      return all_finite(values);
    case ChunkValueForm::bf16:
      read_as<BFloat16>(in, aligned_, values);
      return all_finite(values);
    case ChunkValueForm::codebook2:
      return values.empty() || read_code_book(rule_, in, in + rule_.book_bytes(), values, false, false);
    case ChunkValueForm::sign:
      return read_signs(grid, in, values.data());
  }
  return false;
}

}  // namespace thinwire
