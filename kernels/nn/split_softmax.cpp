// Softmax cross-entropy over a vocabulary that is split over ranks (Megatron-LM's parallel cross-entropy).
#include <cmath>
#include <limits>
#include <string>

#include "core/error.h"
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
double split_cross_entropy(std::int64_t rows, std::int64_t columns, std::int64_t valid, std::int64_t first, int ranks,
                           const T* statistics, const std::int32_t* targets, T gradient_scale, T* logits) {
  double total = 0;
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
    total += static_cast<double>(std::log(sum) + largest - of_target);
    T* row = logits + r * columns;
    const T factor = gradient_scale / sum;
    for (std::int64_t c = 0; c < valid; ++c) row[c] = factor * std::exp(row[c] - largest);
    for (std::int64_t c = valid; c < columns; ++c) row[c] = T{0};
    const std::int64_t target = targets[r] - first;
    if (target >= 0 && target < valid) row[target] -= gradient_scale;
  }
  return total;
}

#define TW_INSTANTIATE(T)                                                                                                       \
  template void softmax_statistics<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*,           \
                                      const std::int32_t*, T*);                                                                 \
  template double split_cross_entropy<T>(std::int64_t, std::int64_t, std::int64_t, std::int64_t, int, const T*,                 \
                                         const std::int32_t*, T, T*)
TW_INSTANTIATE(float);
TW_INSTANTIATE(double);
#undef TW_INSTANTIATE

}  // namespace thinwire::nn
