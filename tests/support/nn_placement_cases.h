// The functions of kernels/nn under a device placement against the same calls on the host: run over the emulated module, and on a GPU (tests/gpu).
// Calls are queued one behind the other and looked at in the end, so that a workspace that is used again too early shows.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <list>

#include "core/error.h"
#include "core/random.h"
#include "kernels/nn/attention/attention.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/layernorm.h"
#include "kernels/nn/optimizer.h"
#include "kernels/nn/device/placed_tokens.h"
#include "kernels/nn/softmax.h"
#include "kernels/nn/sums.h"

namespace thinwire::testing {

inline constexpr std::uint64_t placement_seed = 20261121;

inline std::vector<float> numbers(std::int64_t count, const std::string& name, double deviation = 1) {
  const Random random(placement_seed, name);
  std::vector<float> v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(deviation * random.normal(i));
  return v;
}
inline std::vector<std::int32_t> token_numbers(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t r = 0; r < count; ++r) tokens.push_back(static_cast<std::int32_t>((r * r + 3 * r + vocab - 1) % vocab));
  return tokens;
}

/// One argument of a call: its contents before, whether the call fills it, and how near the device must come to the host's result.
struct Operand {
  enum class Kind { f32, f64, tokens } kind = Kind::f32;
  std::vector<std::byte> bytes;
  bool filled = false;
  double tolerance = 2e-5;  ///< relative to the largest of the host's

  template <typename T>
  static Operand of(Kind kind, const std::vector<T>& values, double tolerance) {
    Operand o{kind, std::vector<std::byte>(values.size() * sizeof(T)), false, tolerance};
    if (!values.empty()) std::memcpy(o.bytes.data(), values.data(), o.bytes.size());
    return o;
  }
};
inline Operand with(const std::vector<float>& values, double tolerance = 2e-5) { return Operand::of(Operand::Kind::f32, values, tolerance); }
inline Operand with(const std::vector<std::int32_t>& tokens) { return Operand::of(Operand::Kind::tokens, tokens, 0); }
inline Operand with_f64(const std::vector<double>& values, double tolerance = 1e-6) { return Operand::of(Operand::Kind::f64, values, tolerance); }
/// `count` floats that the call must write, all of them.
inline Operand room(std::int64_t count, double tolerance = 2e-5) {
  return {Operand::Kind::f32, std::vector<std::byte>(static_cast<std::size_t>(count) * 4, std::byte{0xcd}), true, tolerance};
}

class Arguments {
 public:
  explicit Arguments(std::vector<std::byte*> at) : at_(std::move(at)) {}
  float* operator[](std::size_t i) const { return reinterpret_cast<float*>(at_[i]); }
  double* f64(std::size_t i) const { return reinterpret_cast<double*>(at_[i]); }
  const std::int32_t* tokens(std::size_t i) const { return reinterpret_cast<const std::int32_t*>(at_[i]); }

 private:
  std::vector<std::byte*> at_;
};

/// Calls on the host and, queued, under a device placement whose tensors lie `offset` elements from a 64-byte boundary.
class PlacedCalls {
 public:
  using Body = std::function<void(const Arguments&)>;
  PlacedCalls(const Placement& where, std::size_t offset) : where_(where), offset_(offset) {}

  void run(const std::string& what, const std::vector<Operand>& operands, const Body& body) {
    Call& call = calls_.emplace_back(Call{what, operands, {}, {}, {}});
    std::vector<std::byte*> here, there;
    for (const Operand& o : operands) {
      call.host.push_back(o.bytes);
      here.push_back(call.host.back().data());
    }
    body(Arguments(here));
    const PlacementScope scope(where_);
    for (const Operand& o : operands) {
      std::vector<std::byte>& framed = call.uploads.emplace_back(o.bytes.size() + 2 * frame + lead(o), guard);
      if (!o.bytes.empty()) std::memcpy(framed.data() + frame + lead(o), o.bytes.data(), o.bytes.size());
      call.device.emplace_back(framed.size());
      copy_bytes(call.device.back().data(), framed.data(), framed.size());
      there.push_back(call.device.back().data() + frame + lead(o));
    }
    body(Arguments(there));
  }

  /// Compares everything that was run since the last time.
  void check() {
    for (Call& call : calls_) {
      std::size_t i = 0;
      for (Buffer& memory : call.device) {
        SCOPED_TRACE(call.what + ", argument " + std::to_string(i) + ", +" + std::to_string(offset_) + " elements, seed " + std::to_string(placement_seed));
        ASSERT_NO_FATAL_FAILURE(compare(call.operands[i], call.host[i], memory));
        ++i;
      }
    }
    calls_.clear();
  }

 private:
  static constexpr std::size_t frame = 64;
  static constexpr std::byte guard{0x5e};
  struct Call {
    std::string what;
    std::vector<Operand> operands;
    std::vector<std::vector<std::byte>> host, uploads;
    std::list<Buffer> device;
  };
  std::size_t lead(const Operand& o) const { return offset_ * (o.kind == Operand::Kind::f64 ? 8 : 4); }

  void compare(const Operand& o, const std::vector<std::byte>& host, Buffer& memory) {
    std::vector<std::byte> framed(o.bytes.size() + 2 * frame + lead(o));
    {
      const PlacementScope scope(where_);
      copy_and_wait(framed.data(), memory.data(), framed.size());
    }
    const std::byte* at = framed.data() + frame + lead(o);
    for (std::size_t b = 0; b < framed.size(); ++b) {
      const bool inside = b >= frame + lead(o) && b < frame + lead(o) + o.bytes.size();
      ASSERT_TRUE(inside || framed[b] == guard) << "byte " << b << " beside the tensor was written";
    }
    switch (o.kind) {
      case Operand::Kind::tokens: ASSERT_EQ(std::memcmp(at, host.data(), host.size()), 0) << "tokens were changed"; break;
      case Operand::Kind::f32: near<float>(o, at, host); break;
      case Operand::Kind::f64: near<double>(o, at, host); break;
    }
  }
  template <typename T>
  static void near(const Operand& o, const std::byte* at, const std::vector<std::byte>& host) {
    const std::size_t count = host.size() / sizeof(T);
    std::vector<T> actual(count), expected(count);
    if (count == 0) return;
    std::memcpy(actual.data(), at, host.size());
    std::memcpy(expected.data(), host.data(), host.size());
    double largest = 1e-20;
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(!o.filled || std::memcmp(at + i * sizeof(T), o.bytes.data(), sizeof(T)) != 0) << "element " << i << " was not written";
      if (std::isfinite(expected[i])) largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (actual[i] == expected[i]) continue;  // infinities, too
      ASSERT_LE(std::abs(static_cast<double>(actual[i]) - static_cast<double>(expected[i])), o.tolerance * largest)
          << "element " << i << " is " << actual[i] << " instead of " << expected[i];
    }
  }

  Placement where_;
  std::size_t offset_;
  std::list<Call> calls_;
};

using RowsColumns = std::pair<std::int64_t, std::int64_t>;
constexpr RowsColumns placed_shapes[] = {{1, 1}, {3, 7}, {17, 64}, {270, 24}, {5, 129}, {2, 768}};
inline std::string text_of(const RowsColumns& e) { return " " + std::to_string(e.first) + " x " + std::to_string(e.second); }

inline void run_activations(PlacedCalls& calls) {
  for (std::int64_t count : {1, 7, 64, 1031}) {
    const auto x = numbers(count, "gelu x", 3), dy = numbers(count, "gelu dy");
    const std::string n = " of " + std::to_string(count);
    calls.run("gelu_forward" + n, {with(x), room(count)}, [=](const Arguments& a) { nn::gelu_forward<float>(count, a[0], a[1]); });
    calls.run("gelu_backward" + n, {with(x), with(dy)}, [=](const Arguments& a) { nn::gelu_backward<float>(count, a[0], a[1], a[1]); });
    calls.run("add_into" + n, {with(x), with(dy)}, [=](const Arguments& a) { nn::add_into<float>(count, a[0], a[1]); });
    calls.run("scale_in_place" + n, {with(x)}, [=](const Arguments& a) { nn::scale_in_place<float>(count, 0.3f, a[0]); });
    for (double rate : {0.0, 0.37})
      for (std::int64_t first : {0, 3, 1 << 20})
        calls.run("dropout" + n, {with(x), room(count)}, [=](const Arguments& a) {
          nn::dropout<float>(count, rate, {.seed = 5, .name = "layer0.dropout", .step = 2}, first, a[0], a[1]);
        });
  }
}

inline void run_rows(PlacedCalls& calls) {
  for (const auto& shape : placed_shapes) {
    const auto [rows, columns] = shape;
    const std::int64_t r = rows, c = columns, n = r * c, vocab = 11;
    const auto x = numbers(n, "rows x"), y = numbers(n, "rows y"), bias = numbers(c, "bias");
    const std::string what = text_of(shape);
    calls.run("fill_rows" + what, {with(bias), room(n)}, [=](const Arguments& a) { nn::fill_rows<float>(r, c, a[0], a[1]); });
    calls.run("add_column_sums" + what, {with(x), with(bias)}, [=](const Arguments& a) { nn::add_column_sums<float>(r, c, a[0], a[1]); });
    for (const std::int64_t period : {1, 5, 300})
      for (const std::int64_t first : {0, 3}) {
        const auto repeated = numbers(period * c, "repeated");
        const std::string where = what + ", period " + std::to_string(period) + " from " + std::to_string(first);
        calls.run("add_rows" + where, {with(repeated), with(y)}, [=](const Arguments& a) { nn::add_rows<float>(r, c, period, first, a[0], a[1]); });
        calls.run("add_rows_gradient" + where, {with(x), with(repeated)},
                  [=](const Arguments& a) { nn::add_rows_gradient<float>(r, c, period, first, a[0], a[1]); });
      }
    calls.run("copy_rows" + what, {with(numbers(r * (c + 8), "from")), with(numbers(r * (c + 4), "to"))},
              [=](const Arguments& a) { nn::copy_rows<float>(r, c, a[0], c + 8, a[1], c + 4); });
    for (double rate : {0.0, 0.5})
      calls.run("dropout_rows" + what, {with(x), room(n)}, [=](const Arguments& a) {
        nn::dropout_rows<float>(r, c, c + 13, rate, {.seed = 5, .name = "grid", .step = 2}, 9, a[0], a[1]);
      });
    const auto tokens = token_numbers(r, vocab);
    const auto table = numbers(vocab * c, "table"), positions = numbers(5 * c, "positions"), part = numbers(4 * c, "part");
    calls.run("embed" + what, {with(tokens), with(table), with(positions), room(n)},
              [=](const Arguments& a) { nn::embed<float>(r, c, 5, vocab, a.tokens(0), a[1], a[2], a[3]); });
    calls.run("embed_backward" + what, {with(tokens), with(x), with(table), with(positions)},
              [=](const Arguments& a) { nn::embed_backward<float>(r, c, 5, vocab, a.tokens(0), a[1], a[2], a[3]); });
    calls.run("embed_part" + what, {with(tokens), with(part), room(n)},
              [=](const Arguments& a) { nn::embed_part<float>(r, c, vocab, 3, 4, a.tokens(0), a[1], a[2]); });
    calls.run("embed_part_backward" + what, {with(tokens), with(x), with(part)},
              [=](const Arguments& a) { nn::embed_part_backward<float>(r, c, 3, 4, a.tokens(0), a[1], a[2]); });
  }
}

inline void run_layernorm(PlacedCalls& calls) {
  for (const auto& shape : placed_shapes)
    for (const std::int64_t parts : {1, 2}) {
      const std::int64_t r = shape.first, c = shape.second, n = r * c, hidden = parts * c;
      if (hidden == 1) continue;  // variance 0: 1 / sqrt(epsilon) amplifies the rounding of sums
      const std::string what = text_of(shape) + " of " + std::to_string(hidden);
      const auto x = numbers(n, "norm x"), dy = numbers(n, "norm dy"), dx = numbers(n, "norm dx"), gamma = numbers(c, "gamma"), beta = numbers(c, "beta");
      std::vector<float> sums(static_cast<std::size_t>(2 * r)), y(x.size()), mean(static_cast<std::size_t>(r)), rstd(mean.size()), moments(sums.size());
      nn::row_moments<float>(r, c, x.data(), sums.data());
      nn::normalise<float>(r, c, hidden, x.data(), sums.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data());
      nn::gradient_moments<float>(r, c, x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(), moments.data());
      calls.run("row_moments" + what, {with(x), room(2 * r)}, [=](const Arguments& a) { nn::row_moments<float>(r, c, a[0], a[1]); });
      calls.run("normalise" + what, {with(x), with(sums), with(gamma), with(beta), room(n, 1e-4), room(r), room(r, 1e-4)},
                [=](const Arguments& a) { nn::normalise<float>(r, c, hidden, a[0], a[1], a[2], a[3], a[4], a[5], a[6]); });
      calls.run("gradient_moments" + what, {with(x), with(dy), with(gamma), with(mean), with(rstd), room(2 * r, 1e-4)},
                [=](const Arguments& a) { nn::gradient_moments<float>(r, c, a[0], a[1], a[2], a[3], a[4], a[5]); });
      if (c == 1) continue;  // a gradient of rounding alone
      if (parts == 1) {        // the row as a whole, sums taken on the way
        calls.run("normalise whole" + what, {with(x), with(gamma), with(beta), room(n, 1e-4), room(r), room(r, 1e-4)},
                  [=](const Arguments& a) { nn::normalise<float>(r, c, c, a[0], nullptr, a[1], a[2], a[3], a[4], a[5]); });
        calls.run("normalise_backward whole" + what, {with(x), with(dy), with(gamma), with(mean), with(rstd), with(dx, 1e-4), with(gamma, 1e-4), with(beta, 1e-4)},
                  [=](const Arguments& a) { nn::normalise_backward<float>(r, c, c, a[0], a[1], a[2], a[3], a[4], nullptr, true, a[5], a[6], a[7]); });
      }
      for (bool adds : {false, true})
        calls.run("normalise_backward" + what,
                  {with(x), with(dy), with(gamma), with(mean), with(rstd), with(moments), with(dx, 1e-4), with(gamma, 1e-4), with(beta, 1e-4)},
                  [=](const Arguments& a) { nn::normalise_backward<float>(r, c, hidden, a[0], a[1], a[2], a[3], a[4], a[5], adds, a[6], a[7], a[8]); });
    }
}

inline void run_losses(PlacedCalls& calls) {
  for (const auto& shape : {RowsColumns{1, 1}, {3, 7}, {5, 512}, {4, 1031}}) {
    const std::int64_t r = shape.first, vocab = shape.second, half = (vocab + 1) / 2, columns = half + 3;
    const std::string what = text_of(shape);
    const auto logits = numbers(r * vocab, "logits", 4);
    const auto targets = token_numbers(r, vocab);
    calls.run("cross_entropy" + what, {with(logits), with(targets), room(r)},
              [=](const Arguments& a) { nn::cross_entropy<float>(r, vocab, a[0], a.tokens(1), 0.25f, a[2]); });
    // Split over two ranks, with padding behind each part.
    std::vector<float> parts[2], statistics(static_cast<std::size_t>(6 * r));
    for (int rank = 0; rank < 2; ++rank) {
      const std::int64_t valid = rank == 0 ? half : vocab - half, first = rank * half;
      for (std::int64_t row = 0; row < r; ++row)
        for (std::int64_t c = 0; c < columns; ++c) parts[rank].push_back(c < valid ? logits[static_cast<std::size_t>(row * vocab + first + c)] : 77.0f);
      nn::softmax_statistics<float>(r, columns, valid, first, vocab, parts[rank].data(), targets.data(), statistics.data() + 3 * rank * r);
      calls.run("softmax_statistics" + what, {with(parts[rank]), with(targets), room(3 * r)},
                [=](const Arguments& a) { nn::softmax_statistics<float>(r, columns, valid, first, vocab, a[0], a.tokens(1), a[2]); });
      const std::vector<float> mine(statistics.begin() + 3 * rank * r, statistics.begin() + 3 * (rank + 1) * r);
      std::vector<float> maxima;
      for (std::int64_t row = 0; row < r; ++row) maxima.push_back(mine[static_cast<std::size_t>(3 * row)] + 0.5f * static_cast<float>(row % 2));
      calls.run("take_maxima" + what, {with(mine), room(r)}, [=](const Arguments& a) { nn::take_maxima<float>(r, a[0], a[1]); });
      calls.run("rescale_sums" + what, {with(mine), with(maxima), room(2 * r)},
                [=](const Arguments& a) { nn::rescale_sums<float>(r, valid, a[0], a[1], a[2]); });
      calls.run("join_statistics" + what, {with(maxima), with(numbers(2 * r, "sums")), room(3 * r)},
                [=](const Arguments& a) { nn::join_statistics<float>(r, a[0], a[1], a[2]); });
    }
    for (int rank = 0; rank < 2; ++rank) {
      const std::int64_t valid = rank == 0 ? half : vocab - half, first = rank * half;
      calls.run("split_cross_entropy" + what, {with(parts[rank]), with(statistics), with(targets), room(r)}, [=](const Arguments& a) {
        nn::split_cross_entropy<float>(r, columns, valid, first, 2, a[1], a.tokens(2), 0.25f, a[0], a[3]);
      });
    }
  }
  for (std::int64_t count : {1, 7, 1031}) {
    const auto losses = numbers(count, "losses");
    calls.run("add_total into f64", {with(losses), with_f64({0.75})},
              [=](const Arguments& a) { nn::add_total<float, double>(count, a[0], 0.3, static_cast<double>(count), a.f64(1)); });
    calls.run("add_total into f32", {with(losses), with(std::vector<float>{0.75f})},
              [=](const Arguments& a) { nn::add_total<float, float>(count, a[0], 0.3, 1.0, a[1]); });
  }
  calls.run("add_total of f64", {with_f64({1.5, -2.0, 7.25}), with_f64({0.5})}, [](const Arguments& a) { nn::add_total<double, double>(3, a.f64(0), 2.0, 3.0, a.f64(1)); });
}

inline void run_optimizer(PlacedCalls& calls) {
  const nn::AdamW options;
  for (std::int64_t count : {1, 64, 1031, 40000}) {
    const auto g = numbers(count, "gradient"), w = numbers(count, "weight"), m = numbers(count, "m", 0.1);
    auto v = numbers(count, "v", 0.1);
    for (float& x : v) x = x * x;
    const double squares = nn::sum_of_squares<float>(count, g.data());
    const std::string what = " of " + std::to_string(count);
    calls.run("add_sum_of_squares" + what, {with(g), with_f64({0.5})}, [=](const Arguments& a) { nn::add_sum_of_squares<float>(count, a[0], a.f64(1)); });
    calls.run("adamw_step" + what, {with(g), with(w), with(m), with(v)},
              [=](const Arguments& a) { nn::adamw_step<float>(options, 0.1, 1e-2, 3, 0.5, count, a[0], a[1], a[2], a[3]); });
    for (double max_norm : {0.7 * std::sqrt(squares), 2 * std::sqrt(squares)})
      calls.run("clipped_adamw_step" + what, {with(g), with(w), with(m), with(v), with_f64({squares})}, [=](const Arguments& a) {
        nn::clipped_adamw_step<float>(options, 0.1, 1e-2, 3, max_norm, a.f64(4), count, a[0], a[1], a[2], a[3]);
      });
  }
}

inline void run_gemm(PlacedCalls& calls) {
  using nn::Transpose;
  struct Product {
    std::int64_t m, n, k, pad;
    float alpha, beta;
  };
  for (const Product& p : {Product{1, 1, 1, 0, 1, 0}, {7, 5, 3, 0, 1, 1}, {16, 24, 8, 0, 1, 0}, {9, 11, 33, 2, 0.5f, -2}, {31, 8, 0, 0, 1, 0}, {4, 6, 0, 0, 1, 0.5f}})
    for (Transpose ta : {Transpose::no, Transpose::yes})
      for (Transpose tb : {Transpose::no, Transpose::yes}) {
        const std::int64_t lda = (ta == Transpose::yes ? p.m : p.k) + p.pad, ldb = (tb == Transpose::yes ? p.k : p.n) + p.pad, ldc = p.n + p.pad;
        const auto a_values = numbers((ta == Transpose::yes ? p.k : p.m) * std::max<std::int64_t>(1, lda), "A");
        const auto b_values = numbers((tb == Transpose::yes ? p.n : p.k) * std::max<std::int64_t>(1, ldb), "B");
        const auto c_values = numbers(p.m * ldc, "C");
        for (nn::ComputeType compute : {nn::ComputeType::f32, nn::ComputeType::bf16}) {
          const bool rounds = compute == nn::ComputeType::bf16 && p.alpha == 1 && p.pad == 0 && (p.beta == 0 || p.beta == 1);
          const std::string what = std::string(rounds ? "bf16" : "f32") + " product " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k);
          calls.run(what, {with(a_values), with(b_values), with(c_values, rounds ? 1e-2 : 2e-5)}, [=](const Arguments& a) {
            // The host's processor may have no bf16, and its result in f32 is what a device's comes near to.
            const nn::ComputeType type = placement().on_host() ? nn::ComputeType::f32 : compute;
            nn::gemm(type, ta, tb, p.m, p.n, p.k, p.alpha, a[0], std::max<std::int64_t>(1, lda), a[1], std::max<std::int64_t>(1, ldb), p.beta, a[2], ldc);
          });
          const double near = compute == nn::ComputeType::bf16 ? 1e-2 : 2e-5;
          calls.run(what + " with bias", {with(a_values), with(b_values), with(numbers(p.n, "bias")), room(p.m * p.n, near)}, [=](const Arguments& a) {
            const nn::ComputeType type = placement().on_host() ? nn::ComputeType::f32 : compute;
            nn::gemm_with_bias<float>(type, ta, tb, p.m, p.n, p.k, a[0], std::max<std::int64_t>(1, lda), a[1], std::max<std::int64_t>(1, ldb), a[2], a[3]);
          });
        }
      }
}

inline void run_attention(PlacedCalls& calls) {
  for (const nn::AttentionShape& s :
       {nn::AttentionShape{1, 1, 1, 1}, {2, 3, 2, 5}, {1, 40, 2, 17}, {2, 20, 1, 32}, {1, 18, 1, 65}, {1, 17, 1, 128}, {1, 5, 2, 129}, {1, 3, 1, 300}}) {
    const std::int64_t n = s.batch * s.seq * s.hidden(), rows = s.batch * s.heads * s.seq;
    const std::string what = " " + std::to_string(s.batch) + " x " + std::to_string(s.seq) + ", " + std::to_string(s.heads) + " heads of " + std::to_string(s.head_size);
    const auto qkv = numbers(3 * n, "qkv"), dcontext = numbers(n, "dcontext");
    std::vector<float> context(static_cast<std::size_t>(n)), lse(static_cast<std::size_t>(rows));
    nn::attention_forward<float>(s, qkv.data(), context.data(), lse.data());
    // A device's bf16; wider heads stay in f32, and the host does.
    for (const auto& [compute, near] : {std::pair{nn::ComputeType::f32, 2e-5}, {nn::ComputeType::bf16, s.head_size <= 128 ? 2e-2 : 2e-5}}) {
      const nn::ComputeType type = compute;
      calls.run("attention_forward" + what, {with(qkv), room(n, near), room(rows, near)},
                [=](const Arguments& a) { nn::attention_forward<float>(s, a[0], a[1], a[2], type); });
      if (s.seq > 1 || near < 1e-4)  // the gradient of a single token's query and key is rounding alone
        calls.run("attention_backward" + what, {with(qkv), with(context), with(lse), with(dcontext), room(3 * n, std::max(near, 1e-4))},
                  [=](const Arguments& a) { nn::attention_backward<float>(s, a[0], a[1], a[2], a[3], a[4], type); });
    }
  }
}

/// All slices of a micro-batch forward in order and backward in reverse, as a token-sliced pipeline calls them.
inline void run_attention_slices(PlacedCalls& calls) {
  struct Sliced {
    std::int64_t batch, heads, head_size;
    std::vector<std::int64_t> tokens;
  };
  for (const Sliced& s : {Sliced{1, 1, 1, {1, 1}}, {2, 2, 5, {3, 1, 4}}, {1, 2, 32, {17, 20, 3}}, {1, 1, 66, {2, 16}}, {2, 1, 130, {2, 1, 2}}, {1, 3, 8, {9}}}) {
    std::int64_t length = 0;
    for (std::int64_t t : s.tokens) length += t;
    const std::int64_t hidden = s.heads * s.head_size, n = s.batch * length * hidden;
    const auto body = [=](const Arguments& a) {
      std::vector<nn::AttentionSlice> slices;
      std::int64_t first = 0;
      for (std::int64_t t : s.tokens) slices.push_back({s.batch, t, first, length, s.heads, s.head_size}), first += t;
      for (const nn::AttentionSlice& slice : slices) {
        const std::int64_t at = s.batch * slice.first * hidden, row = s.batch * s.heads * slice.first;
        nn::attention_slice_forward<float>(slice, a[0] + 3 * at, a[1], a[2] + at, a[3] + row);
      }
      for (auto slice = slices.rbegin(); slice != slices.rend(); ++slice) {
        const std::int64_t at = s.batch * slice->first * hidden, row = s.batch * s.heads * slice->first;
        nn::attention_slice_backward<float>(*slice, a[0] + 3 * at, a[1], a[2] + at, a[3] + row, a[4] + at, a[5], a[6] + 3 * at);
      }
    };
    calls.run("attention slices, " + std::to_string(s.tokens.size()) + " of " + std::to_string(length) + " tokens, heads of " + std::to_string(s.head_size),
              {with(numbers(3 * n, "slices")), room(2 * n), room(n), room(s.batch * s.heads * length), with(numbers(n, "dcontext")), room(2 * n, 1e-4), room(3 * n, 1e-4)},
              body);
  }
}

constexpr auto placed_runs = {run_activations, run_rows, run_layernorm, run_losses, run_optimizer, run_gemm, run_attention, run_attention_slices};

/// Everything, at both alignments.
inline void expect_placed_like_host(const Placement& where) {
  for (const auto run : placed_runs)
    for (std::size_t offset : {0u, 1u}) {
      PlacedCalls calls(where, offset);
      run(calls);
      ASSERT_NO_FATAL_FAILURE(calls.check());
    }
  const PlacementScope scope(where);
  EXPECT_NO_THROW(nn::check_device_status());
}

/// After a first round nothing that is queued makes the host wait. Needs a device that runs nothing before it is made to (the emulated one's lazy
/// mode): there an event stays open while all that follows it is queued.
inline void expect_nothing_waits(const Placement& where) {
  DeviceBackend& backend = device_backend(where.device.kind);
  Buffer some(64, where.device);
  Event event = backend.create_event(where.device.ordinal);
  for (const auto run : placed_runs) {
    PlacedCalls calls(where, 0);
    run(calls);
    backend.synchronize(where.stream);
    for (int i = 0; i < 2; ++i) backend.fill_zero(some.data(), 64, where.stream);  // asking for an event runs one piece of work
    backend.record(event, where.stream);
    run(calls);
    EXPECT_FALSE(backend.finished(event));
    ASSERT_NO_FATAL_FAILURE(calls.check());
  }
  backend.destroy_event(event);
}

/// What the host reports at once a device reports when it is asked, once.
inline void expect_placed_damage(const Placement& where) {
  const PlacementScope scope(where);
  Buffer memory(4096);
  fill_zero_bytes(memory.data(), 4096);
  auto* x = reinterpret_cast<float*>(memory.data());
  for (const std::int32_t bad : {-1, 7}) {
    nn::PlacedTokens tokens;
    const std::vector<std::int32_t> list = {1, bad, 3};
    const std::int32_t* at = tokens.set(list);
    nn::embed<float>(3, 4, 3, 7, at, x, x, x + 512);
    EXPECT_THROW(nn::check_device_status(), CorruptData);
    EXPECT_NO_THROW(nn::check_device_status());
    nn::embed_part<float>(3, 4, 7, 0, 7, at, x, x + 512);
    EXPECT_THROW(nn::check_device_status(), CorruptData);
    nn::embed_backward<float>(3, 4, 3, 7, at, x, x + 256, x + 512);
    nn::cross_entropy<float>(3, 7, x, at, 1.0f, x + 512);
    EXPECT_THROW(nn::check_device_status(), CorruptData);
    nn::softmax_statistics<float>(3, 7, 7, 0, 7, x, at, x + 512);
    EXPECT_THROW(nn::check_device_status(), CorruptData);
    EXPECT_NO_THROW(nn::check_device_status());
  }
}

inline void expect_placed_usage(const Placement& where) {
  const PlacementScope scope(where);
  Buffer memory(1024);
  auto* x = reinterpret_cast<double*>(memory.data());
  EXPECT_THROW(nn::gelu_forward<double>(4, x, x), UsageError);
  EXPECT_THROW(nn::gemm<double>(nn::Transpose::no, nn::Transpose::no, 2, 2, 2, 1, x, 2, x + 4, 2, 0, x + 8, 2), UsageError);
  EXPECT_THROW(nn::adamw_step<double>({}, 0, 1, 1, 1, 2, x, x + 2, x + 4, x + 6), UsageError);
  EXPECT_EQ(nn::why_no_bf16_gemm(), "");
  // The squared norm as a value: it waits, for checks.
  const auto g = numbers(1031, "gradient");
  Buffer copy(g.size() * 4);
  copy_and_wait(copy.data(), g.data(), g.size() * 4);
  const double on_device = nn::sum_of_squares<float>(1031, reinterpret_cast<const float*>(copy.data()));
  const PlacementScope host{Device{}};
  const double on_host = nn::sum_of_squares<float>(1031, g.data());
  EXPECT_NEAR(on_device, on_host, 1e-6 * on_host);
}

/// Lists of changing length come to the device whole, whatever the caller does with his own afterwards.
inline void expect_tokens_placed(const Placement& where) {
  const PlacementScope scope(where);
  nn::PlacedTokens tokens;
  std::vector<std::vector<std::int32_t>> seen;
  std::list<Buffer> copies;
  const std::int64_t lengths[] = {5, 3, 5, 64, 0, 64};
  for (std::int64_t length : lengths) {
    seen.push_back(token_numbers(length, 97));
    std::vector<std::int32_t> given = seen.back();
    const std::int32_t* at = tokens.set(given);
    EXPECT_EQ(at, tokens.data());
    std::fill(given.begin(), given.end(), -5);
    copies.emplace_back(static_cast<std::size_t>(length) * 4 + 4);
    copy_bytes(copies.back().data(), at, static_cast<std::size_t>(length) * 4);
  }
  std::size_t i = 0;
  for (Buffer& copy : copies) {
    std::vector<std::int32_t> back(seen[i].size());
    copy_and_wait(back.data(), copy.data(), back.size() * 4);
    EXPECT_EQ(back, seen[i++]);
  }
}

}  // namespace thinwire::testing
