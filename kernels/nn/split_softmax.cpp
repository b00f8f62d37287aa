// Softmax cross-entropy over a vocabulary that is split over ranks (Megatron-LM's parallel cross-entropy).
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/softmax.h"
#include "kernels/threads.h"

namespace thinwire::nn {
namespace {

constexpr std::int64_t row_work = 16;  // an exponential costs about as much as this many plain elements

std::int64_t row_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, default_grain / (row_work * std::max<std::int64_t>(1, columns)));
}

}  // namespace

template <typename T>
void softmax_statistics(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, std::int64_t vocab,
                        const T* logits, const std::int32_t* targets, T* statistics) {
  if (device::on_device())
    return device::queue<T>(device::entries().softmax_statistics, device_f32, rows, columns, valid, first, vocab, logits, targets, statistics,
                            device::status_word(device::StatusWord::targets));
  constexpr T nowhere = -std::numeric_limits<T>::infinity();
  parallel_ranges(rows, row_grain(columns), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t r = begin; r < end; ++r) {
      if (targets[r] < 0 || targets[r] >= vocab)
        throw CorruptData("Target " + std::to_string(targets[r]) + " of row " + std::to_string(r) +
                          " is outside the vocabulary of " + std::to_string(vocab) + ". Check the tokens handed to the model.");
      const T* row = logits + r * columns;
      T largest = nowhere, sum = 0;
      for (std::int64_t c = 0; c < valid; ++c) largest = std::max(largest, row[c]);
      for (std::int64_t c = 0; c < valid; ++c) sum += std::exp(row[c] - largest);
      const std::int64_t target = targets[r] - first;
      T* s = statistics + 3 * r;
      s[0] = largest;
      s[1] = sum;
      s[2] = target >= 0 && target < valid ? row[target] : nowhere;
    }
  });
}

template <typename T>
void split_cross_entropy(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, int ranks,
                         const T* statistics, const std::int32_t* targets, T gradient_scale, T* logits, T* losses) {
  if (device::on_device())
    return device::queue<T>(device::entries().split_cross_entropy, device_f32, rows, columns, valid, first, ranks, statistics, targets, gradient_scale,
                            logits, losses);
  for (std::int64_t r = 0; r < rows; ++r) {
    T largest = statistics[3 * r];
    for (int rank = 1; rank < ranks; ++rank) largest = std::max(largest, statistics[3 * (rank * rows + r)]);
    T sum = 0, of_target = -std::numeric_limits<T>::infinity();
    for (int rank = 0; rank < ranks; ++rank) {
      const T* s = statistics + 3 * (rank * rows + r);
      if (s[1] > T{0}) sum += s[1] * std::exp(s[0] - largest);  // a rank of padding alone has nothing to add
      if (!(s[1] >= T{0})) sum = s[1];                           // NaN must not be lost
      of_target = std::max(of_target, s[2]);
    }
    losses[r] = std::log(sum) + largest - of_target;
    T* row = logits + r * columns;
    const T factor = gradient_scale / sum;
    for (std::int64_t c = 0; c < valid; ++c) row[c] = factor * std::exp(row[c] - largest);
    for (std::int64_t c = valid; c < columns; ++c) row[c] = T{0};
    const std::int64_t target = targets[r] - first;
    if (target >= 0 && target < valid) row[target] -= gradient_scale;
  }
}

template <typename T>
void take_maxima(std::int64_t rows, const T* statistics, T* maxima) {
  if (device::on_device()) return device::queue<T>(device::entries().take_maxima, rows, statistics, maxima);
  for (std::int64_t r = 0; r < rows; ++r) maxima[r] = statistics[3 * r];
}

template <typename T>
void rescale_sums(std::int64_t rows, std::int64_t valid, const T* statistics, const T* maxima, T* sums) {
  if (device::on_device()) return device::queue<T>(device::entries().rescale_sums, rows, valid, statistics, maxima, sums);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* s = statistics + 3 * r;
    sums[2 * r] = valid > 0 ? s[1] * std::exp(s[0] - maxima[r]) : T{0};
    sums[2 * r + 1] = s[2] > -std::numeric_limits<T>::infinity() ? s[2] : T{0};
  }
}

template <typename T>
void join_statistics(std::int64_t rows, const T* maxima, const T* sums, T* statistics) {
  if (device::on_device()) return device::queue<T>(device::entries().join_statistics, rows, maxima, sums, statistics);
  for (std::int64_t r = 0; r < rows; ++r) {
    statistics[3 * r] = maxima[r];
    statistics[3 * r + 1] = sums[2 * r];
    statistics[3 * r + 2] = sums[2 * r + 1];
  }
}

#define TW_INSTANTIATE(T)                                                                                                       \
  template void softmax_statistics<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*,           \
                                      const std::int32_t*, T*);                                                                 \
  template void split_cross_entropy<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, const T*,                   \
                                       const std::int32_t*, T, T*, T*);                                                         \
  template void take_maxima<T>(std::int64_t, const T*, T*);                                                                     \
  template void rescale_sums<T>(std::int64_t, std::int64_t, const T*, const T*, T*);                                            \
  template void join_statistics<T>(std::int64_t, const T*, const T*, T*)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire::nn
