#include "kernels/nn/elementwise.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/simd/philox.h"
#include "kernels/threads.h"

namespace thinwire::nn {
namespace {

std::int64_t row_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, default_grain / std::max<std::int64_t>(1, columns));
}
std::int64_t column_grain(std::int64_t rows) {
  return std::max<std::int64_t>(64, default_grain / std::max<std::int64_t>(1, rows));
}

template <typename T>
void add_row(std::int64_t count, const T* __restrict x, T* __restrict y) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) y[c] += x[c];
}

}  // namespace

template <typename T>
void fill_rows(std::int64_t rows, std::int64_t columns, const T* bias, T* y) {
  if (device::on_device()) return device::queue<T>(device::entries().fill_rows, device_f32, rows, columns, bias, y);
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) std::copy(bias, bias + columns, y + r * columns);
  });
}

template <typename T>
void add_column_sums(std::int64_t rows, std::int64_t columns, const T* x, T* sums) {
  if (device::on_device())
    return device::queue<T>(device::entries().add_column_sums, device_f32, rows, columns, x, sums,
                            device::workspace(column_sums_workspace_bytes(rows, columns, 1)));
  parallel_for(columns, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) add_row(end - begin, x + r * columns + begin, sums + begin);
  });
}

template <typename T>
void add_into(std::int64_t count, const T* x, T* y) {
  if (device::on_device()) return device::queue<T>(device::entries().add_into, device_f32, count, x, y);
  parallel_for(count,
               [&](std::int64_t begin, std::int64_t end) { add_row(end - begin, x + begin, y + begin); });
}

template <typename T>
void scale_in_place(std::int64_t count, T factor, T* x) {
  if (device::on_device()) return device::queue<T>(device::entries().scale_in_place, device_f32, count, factor, x);
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) x[i] *= factor;
  });
}

namespace {
void check_token(const std::int32_t* tokens, std::int64_t r, std::int64_t vocab) {
  if (tokens[r] < 0 || tokens[r] >= vocab)
    throw CorruptData("Token " + std::to_string(tokens[r]) + " at position " + std::to_string(r) + " is outside the vocabulary of " +
                      std::to_string(vocab) + ". Check the text's tokeniser and the model's vocabulary.");
}
}  // namespace

template <typename T>
void embed_part(std::int64_t rows, std::int64_t columns, std::int64_t vocab, std::int64_t first, std::int64_t count,
                const std::int32_t* tokens, const T* table, T* y) {
  if (device::on_device())
    return device::queue<T>(device::entries().embed, device_f32, rows, columns, std::int64_t{1}, vocab, first, count, tokens, table, nullptr, y,
                            device::status_word(device::StatusWord::tokens));
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      check_token(tokens, r, vocab);
      const std::int64_t row = tokens[r] - first;
      if (row >= 0 && row < count)
        std::copy_n(table + row * columns, columns, y + r * columns);
      else
        std::fill_n(y + r * columns, columns, T{0});
    }
  });
}

template <typename T>
void embed_part_backward(std::int64_t rows, std::int64_t columns, std::int64_t first, std::int64_t count, const std::int32_t* tokens,
                         const T* dy, T* gradient) {
  if (device::on_device())
    return device::queue<T>(device::entries().embed_backward, device_f32, rows, columns, std::int64_t{1}, first, count, tokens, dy, gradient, nullptr);
  parallel_for(columns, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t row = tokens[r] - first;
      if (row >= 0 && row < count) add_row(end - begin, dy + r * columns + begin, gradient + row * columns + begin);
    }
  });
}

template <typename T>
void embed(std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab,
           const std::int32_t* tokens, const T* token_table, const T* position_table, T* y) {
  if (device::on_device())
    return device::queue<T>(device::entries().embed, device_f32, rows, columns, seq, vocab, std::int64_t{0}, vocab, tokens, token_table, position_table, y,
                            device::status_word(device::StatusWord::tokens));
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      check_token(tokens, r, vocab);
      std::copy_n(token_table + tokens[r] * columns, columns, y + r * columns);
      add_row(columns, position_table + r % seq * columns, y + r * columns);
    }
  });
}

template <typename T>
void embed_backward(std::int64_t rows, std::int64_t columns, std::int64_t seq, std::int64_t vocab, const std::int32_t* tokens,
                    const T* dy, T* token_gradient, T* position_gradient) {
  if (device::on_device())
    return device::queue<T>(device::entries().embed_backward, device_f32, rows, columns, seq, std::int64_t{0}, vocab, tokens, dy, token_gradient,
                            position_gradient);
  parallel_for(columns, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* from = dy + r * columns + begin;
      add_row(end - begin, from, token_gradient + tokens[r] * columns + begin);
      add_row(end - begin, from, position_gradient + r % seq * columns + begin);
    }
  });
}

namespace {
void check_rate(double rate, const DropoutKey& key) {
  if (!(rate >= 0.0 && rate < 1.0))
    throw UsageError("Dropout rate " + std::to_string(rate) + " of '" + std::string(key.name) +
                     "' is not in [0, 1).");
}

/// y may be x.
template <typename T>
void drop(std::int64_t count, const std::uint32_t* words, std::uint32_t dropped_below, T factor, const T* x, T* y) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = words[i] < dropped_below ? T{0} : x[i] * factor;
}
}  // namespace

template <typename T>
void dropout(std::int64_t count, double rate, const DropoutKey& key, std::int64_t first_index, const T* x,
             T* y) {
  check_rate(rate, key);
  if (rate == 0.0) {
    if (x != y) copy_elements(y, x, static_cast<std::size_t>(count));
    return;
  }
  if (device::on_device()) return dropout_rows<T>(1, count, count, rate, key, first_index, x, y);
  const std::uint64_t stream = mix_stream(hash_name(key.name), key.step);
  const auto dropped_below = static_cast<std::uint32_t>(rate * 0x1p32);
  const T factor = static_cast<T>(1.0 / (1.0 - rate));
  parallel_for(count, default_grain / 8, [&](std::int64_t begin, std::int64_t end) {
    // One block of the generator has the words of four consecutive global indices.
    constexpr std::int64_t blocks_at_once = 256;
    std::uint32_t words[4 * blocks_at_once];
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t index = first_index + i, skipped = index % 4, count_here = std::min(end - i, 4 * blocks_at_once - skipped);
      simd::philox_blocks(key.seed, stream, static_cast<std::uint64_t>(index) / 4, static_cast<std::size_t>((skipped + count_here + 3) / 4), words);
      drop(count_here, words + skipped, dropped_below, factor, x + i, y + i);
      i += count_here;
    }
  });
}

template <typename T>
void dropout_rows(std::int64_t rows, std::int64_t columns, std::int64_t stride, double rate, const DropoutKey& key,
                  std::int64_t first_index, const T* x, T* y) {
  check_rate(rate, key);
  if (rate == 0.0) return dropout<T>(rows * columns, rate, key, first_index, x, y);
  if (!device::on_device()) {
    for (std::int64_t r = 0; r < rows; ++r) dropout<T>(columns, rate, key, first_index + r * stride, x + r * columns, y + r * columns);
    return;
  }
  device::queue<T>(device::entries().dropout, device_f32, rows, columns, stride, rate, key.seed, mix_stream(hash_name(key.name), key.step), first_index, x, y);
}

template <typename T>
void add_rows(std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const T* x, T* y) {
  if (device::on_device()) return device::queue<T>(device::entries().add_rows, device_f32, rows, columns, period, first, x, y);
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) add_row(columns, x + (first + r) % period * columns, y + r * columns);
  });
}

template <typename T>
void add_rows_gradient(std::int64_t rows, std::int64_t columns, std::int64_t period, std::int64_t first, const T* dy, T* gradient) {
  if (period == 1) return add_column_sums<T>(rows, columns, dy, gradient);
  if (device::on_device()) return device::queue<T>(device::entries().add_rows_gradient, device_f32, rows, columns, period, first, dy, gradient);
  parallel_for(columns, column_grain(rows), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = 0; r < rows; ++r) add_row(end - begin, dy + r * columns + begin, gradient + (first + r) % period * columns + begin);
  });
}

template <typename T>
void copy_rows(std::int64_t rows, std::int64_t columns, const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride) {
  if (device::on_device())
    return device::queue<T>(device::entries().copy_rows, device_f32, device_f32, rows, columns, from, from_stride, to, to_stride);
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) std::copy_n(from + r * from_stride, columns, to + r * to_stride);
  });
}

#define TW_INSTANTIATE(T)                                                                                  \
  template void fill_rows<T>(std::int64_t, std::int64_t, const T*, T*);                                    \
  template void add_column_sums<T>(std::int64_t, std::int64_t, const T*, T*);                              \
  template void add_into<T>(std::int64_t, const T*, T*);                                                   \
  template void scale_in_place<T>(std::int64_t, T, T*);                                                    \
  template void embed<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const std::int32_t*,      \
                         const T*, const T*, T*);                                                          \
  template void embed_backward<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t,                  \
                                  const std::int32_t*, const T*, T*, T*);                                  \
  template void embed_part<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,        \
                              const std::int32_t*, const T*, T*);                                          \
  template void embed_part_backward<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t,             \
                                       const std::int32_t*, const T*, T*);                                 \
  template void dropout<T>(std::int64_t, double, const DropoutKey&, std::int64_t, const T*, T*);           \
  template void dropout_rows<T>(std::int64_t, std::int64_t, std::int64_t, double, const DropoutKey&,       \
                                std::int64_t, const T*, T*);                                               \
  template void add_rows<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*, T*);         \
  template void add_rows_gradient<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*,     \
                                     T*);                                                                  \
  template void copy_rows<T>(std::int64_t, std::int64_t, const T*, std::int64_t, T*, std::int64_t)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire::nn
