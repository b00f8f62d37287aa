// Reduction by rounds in one process: one codec instance per rank, sums in the round's data type.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/codec/registry.h"

namespace thinwire::testing {

/// Element-wise sum over ranks as MPI does it: added in f32, rounded to the type once per addition.
inline void sum_round(std::vector<Round>& rounds) {
  const Round& first = rounds.front();
  const std::size_t count = first.send.size() / size_of(first.dtype);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (std::size_t r = 0; r < rounds.size(); ++r) {
      float value;
      if (first.dtype == DType::f16) {
        Half h;
        std::memcpy(&h, rounds[r].send.data() + 2 * i, 2);
        value = to_float(h);
        sum = r == 0 ? value : round_to_half(sum + value);
      } else {
        std::memcpy(&value, rounds[r].send.data() + 4 * i, 4);
        sum += value;
      }
    }
    for (Round& round : rounds) {
      if (first.dtype == DType::f16) {
        const Half h = to_half(sum);
        std::memcpy(round.receive.data() + 2 * i, &h, 2);
      } else {
        std::memcpy(round.receive.data() + 4 * i, &sum, 4);
      }
    }
  }
}

/// The sum over ranks as rank 0 sees it; `sums` (optional) gets every rank's.
inline std::vector<float> reduce_by_rounds(std::vector<CodecStack>& ranks, const std::vector<std::vector<float>>& inputs, Shape shape,
                                           const MessageKey& key, std::vector<std::vector<float>>* sums = nullptr) {
  const int world = static_cast<int>(ranks.size());
  for (int r = 0; r < ranks[0].codec->traits().rounds; ++r) {
    std::vector<Round> rounds;
    for (int i = 0; i < world; ++i) {
      const auto at = static_cast<std::size_t>(i);
      rounds.push_back(ranks[at].codec->begin_round(r, ConstTensorView(inputs[at].data(), shape), key, world));
    }
    sum_round(rounds);
  }
  std::vector<std::vector<float>> all;
  for (CodecStack& rank : ranks) {
    all.emplace_back(static_cast<std::size_t>(shape.elements()), -7.0f);
    rank.codec->end_rounds(key, world, TensorView(all.back().data(), shape));
  }
  if (sums != nullptr) *sums = all;
  return all.front();
}

inline std::vector<CodecStack> codec_of_every_rank(const std::string& text, int world, Form form = Form::fair) {
  std::vector<CodecStack> ranks;
  for (int i = 0; i < world; ++i) ranks.push_back(make_codec(text, form));
  return ranks;
}

inline std::vector<float> normal_numbers(std::int64_t count, std::uint64_t seed) {
  const Random random(seed, "test");
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

/// ||a - b|| / ||b||, in float64.
template <typename A, typename B>
double relative_difference(const A& a, const B& b) {
  double wrong = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    wrong += d * d;
    all += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return all > 0 ? std::sqrt(wrong / all) : std::sqrt(wrong);
}

}  // namespace thinwire::testing
