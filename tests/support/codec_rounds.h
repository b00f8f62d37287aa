// Reduction by rounds in one process: one codec instance per rank, sums in the round's data type.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/codec/registry.h"

namespace thinwire::testing {

/// Element-wise reduction over ranks of integers, in their own type: by their sum or by OR.
template <typename Integer>
void reduce_integers(std::vector<Round>& rounds) {
  for (std::size_t i = 0; i < rounds.front().send.size() / sizeof(Integer); ++i) {
    Integer sum = 0, term = 0;
    for (const Round& round : rounds) {
      std::memcpy(&term, round.send.data() + sizeof term * i, sizeof term);
      sum = static_cast<Integer>(round.op == ReduceOp::bit_or ? sum | term : sum + term);
    }
    for (Round& round : rounds) std::memcpy(round.receive.data() + sizeof sum * i, &sum, sizeof sum);
  }
}

/// Element-wise reduction over ranks as MPI does it: integers as they are, floats added in f32, rounded to the type once per addition.
inline void sum_round(std::vector<Round>& rounds) {
  const Round& first = rounds.front();
  if (first.dtype == DType::u8) return reduce_integers<std::uint8_t>(rounds);
  if (first.dtype == DType::u16) return reduce_integers<std::uint16_t>(rounds);
  const std::size_t size = size_of(first.dtype);
  const auto read = [&](const std::byte* from) {
    float value = 0;
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    if (first.dtype == DType::f32)
      std::memcpy(&value, from, 4);
    else
      value = first.dtype == DType::f16 ? to_float(Half{bits}) : to_float(BFloat16{bits});
    return value;
  };
  const auto write = [&](float value, std::byte* to) {
    const std::uint16_t bits = first.dtype == DType::f16 ? to_half(value).bits : to_bfloat16(value).bits;
    if (first.dtype == DType::f32)
      std::memcpy(to, &value, 4);
    else
      std::memcpy(to, &bits, 2);
  };
  TW_ASSERT(first.dtype == DType::f32 || first.dtype == DType::f16 || first.dtype == DType::bf16);
  std::byte rounded[4];
  for (std::size_t i = 0; i < first.send.size() / size; ++i) {
    float sum = read(first.send.data() + size * i);
    for (std::size_t r = 1; r < rounds.size(); ++r) {
      write(sum + read(rounds[r].send.data() + size * i), rounded);
      sum = read(rounded);
    }
    for (Round& round : rounds) write(sum, round.receive.data() + size * i);
  }
}

/// The sum over ranks as rank 0 sees it; `sums` (optional) gets every rank's.
inline std::vector<float> reduce_by_rounds(std::vector<CodecStack>& ranks,
                                           const std::vector<std::vector<float>>& inputs, Shape shape,
                                           const MessageKey& key,
                                           std::vector<std::vector<float>>* sums = nullptr) {
  const int world = static_cast<int>(ranks.size());
  for (int r = 0; r < ranks[0].codec->traits().rounds; ++r) {
    std::vector<Round> rounds;
    for (int i = 0; i < world; ++i) {
      const auto at = static_cast<std::size_t>(i);
      rounds.push_back(
          ranks[at].codec->as<Rounds>()->begin_round(r, ConstTensorView(inputs[at].data(), shape), key, world));
    }
    sum_round(rounds);
  }
  std::vector<std::vector<float>> all;
  for (CodecStack& rank : ranks) {
    all.emplace_back(static_cast<std::size_t>(shape.elements()), -7.0f);
    rank.codec->as<Rounds>()->end_rounds(key, world, TensorView(all.back().data(), shape));
  }
  if (sums != nullptr) *sums = all;
  return all.front();
}

/// A point-to-point message as its sender sees it, wrappers included; returns what the receiver decodes.
inline std::vector<float> send_message(CodecStack& stack, std::vector<float> x, Shape shape, const MessageKey& key) {
  for (auto& w : stack.wrappers) w->before_encode(TensorView(x.data(), shape), key);
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  payload.resize(stack.codec->encode(ConstTensorView(x.data(), shape), key, payload));
  std::vector<float> out(x.size());
  stack.codec->decode(payload, key, TensorView(out.data(), shape));
  for (auto& w : stack.wrappers) w->after_encode(ConstTensorView(x.data(), shape), ConstTensorView(out.data(), shape), key);
  return out;
}

inline std::vector<CodecStack> codec_of_every_rank(const std::string& text, int world,
                                                   Form form = Form::fair) {
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
