// Checks of the CUDA implementations of kernels/nn: run on a GPU (tests/gpu) and on emulated kernels. The host kernel in f32 is the oracle, on inputs that
// were rounded to the type under test. One tolerance per type, relative to the largest reference value.
#pragma once

#include <cmath>

#include "core/half.h"
#include "kernels/nn/attention/attention.h"
#include "kernels/nn/device/device_nn.h"
#include "kernels/nn/elementwise.h"
#include "kernels/nn/gelu.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/nn/layernorm.h"
#include "kernels/nn/optimizer.h"
#include "kernels/nn/softmax.h"
#include "support/device_matrix_cases.h"

namespace thinwire::testing {

/// A device whose tensors have one type, at `offset` elements from a 64-byte boundary.
class TypedDevice {
 public:
  TypedDevice(DeviceUnderTest& device, int type, std::size_t offset) : device_(device), type_(type), offset_(offset * size()) {}
  int type() const { return type_; }
  double tolerance() const { return type_ == device_bf16 ? 1.5e-2 : 2e-5; }
  std::size_t size() const { return type_ == device_bf16 ? 2 : 4; }
  /// N(0, 1) numbers that the type can hold.
  std::vector<float> normal(std::int64_t count, const std::string& name, double deviation = 1) const {
    std::vector<float> v = normal_matrix(count, name, deviation);
    if (type_ == device_bf16)
      for (float& x : v) x = to_float(to_bfloat16(x));
    return v;
  }
  void* put(const std::vector<float>& values) {
    if (type_ == device_f32) return device_.upload(values, offset_);
    std::vector<BFloat16> rounded;
    for (float x : values) rounded.push_back(to_bfloat16(x));
    return device_.upload(rounded, offset_);
  }
  void* room(std::int64_t count) { return device_.poisoned(static_cast<std::size_t>(count) * size(), offset_); }
  std::vector<float> get(const void* p, std::size_t count) {
    if (type_ == device_f32) return device_.download(static_cast<const float*>(p), count);
    std::vector<float> values;
    for (BFloat16 b : device_.download(static_cast<const BFloat16*>(p), count)) values.push_back(to_float(b));
    return values;
  }
  void expect(const void* actual, const std::vector<float>& expected, const std::string& what) {
    expect_close(get(actual, expected.size()), expected, tolerance(), what);
  }
  void expect_f32(const float* actual, const std::vector<float>& expected, const std::string& what, double scale = 1) {
    expect_close(device_.download(actual, expected.size()), expected, scale * tolerance(), what);
  }

 private:
  DeviceUnderTest& device_;
  int type_;
  std::size_t offset_;
};

/// Runs body(typed device) for both types, aligned and one element off.
template <typename Body>
void for_types(DeviceUnderTest& device, const Body& body) {
  for (int type : {device_f32, device_bf16})
    for (std::size_t offset : {0u, 1u}) {
      SCOPED_TRACE(std::string(type == device_f32 ? "f32" : "bf16") + ", +" + std::to_string(offset) + " elements");
      TypedDevice typed(device, type, offset);
      body(typed);
    }
}

using Extents = std::pair<std::int64_t, std::int64_t>;
constexpr Extents awkward_extents[] = {{1, 1}, {3, 7}, {17, 64}, {5, 129}, {270, 24}, {9, 768}};

inline void expect_gelu_like_host(DeviceUnderTest& device) {
  for_types(device, [&](TypedDevice& d) {
    for (std::int64_t count : {1, 7, 64, 1031}) {
      auto x = d.normal(count, "gelu", 3);
      x[0] = 40, x.back() = count > 1 ? -40.0f : x.back();
      const auto dy = d.normal(count, "gelu dy");
      std::vector<float> y(x.size()), dx(x.size());
      nn::gelu_forward(count, x.data(), y.data());
      nn::gelu_backward(count, x.data(), dy.data(), dx.data());
      void *in = d.put(x), *out = d.room(count);
      ASSERT_EQ(device.entry<thinwire_cuda_gelu_forward_fn>("thinwire_cuda_gelu_forward")(d.type(), count, in, out, 0, device.stream), 0);
      d.expect(out, y, "gelu of " + std::to_string(count));
      void* gradient = d.put(dy);  // in place
      ASSERT_EQ(device.entry<thinwire_cuda_gelu_backward_fn>("thinwire_cuda_gelu_backward")(d.type(), count, in, gradient, gradient, 0, device.stream), 0);
      d.expect(gradient, dx, "gradient of gelu of " + std::to_string(count));
    }
  });
}

inline void expect_layernorm_like_host(DeviceUnderTest& device) {
  for_types(device, [&](TypedDevice& d) {
    for (const auto& [rows, columns] : awkward_extents)
      for (const std::int64_t hidden : {columns, 2 * columns}) {  // the row as a whole, or half of it
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + " of " + std::to_string(hidden));
        const std::int64_t n = rows * columns;
        const auto x = d.normal(n, "norm x"), dy = d.normal(n, "norm dy"), start = d.normal(n, "norm dx");
        const auto gamma = normal_matrix(columns, "gamma"), beta = normal_matrix(columns, "beta");
        std::vector<float> sums(2 * rows), y(n), mean(rows), rstd(rows), moments(2 * rows), dx = start, dgamma = gamma, dbeta = beta;
        nn::row_moments(rows, columns, x.data(), sums.data());
        nn::normalise(rows, columns, hidden, x.data(), sums.data(), gamma.data(), beta.data(), y.data(), mean.data(), rstd.data());
        nn::gradient_moments(rows, columns, x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(), moments.data());
        nn::normalise_backward(rows, columns, hidden, x.data(), dy.data(), gamma.data(), mean.data(), rstd.data(), moments.data(), true, dx.data(),
                               dgamma.data(), dbeta.data());
        const bool whole = hidden == columns;
        void *in = d.put(x), *gradient = d.put(dy), *out = d.room(n), *back = d.put(start);
        const float *g = device.upload(gamma), *b = device.upload(beta);
        float *dg = device.upload(gamma), *db = device.upload(beta);
        auto *s = reinterpret_cast<float*>(device.poisoned(sums.size() * 4)), *m = reinterpret_cast<float*>(device.poisoned(mean.size() * 4)),
             *r = reinterpret_cast<float*>(device.poisoned(rstd.size() * 4));
        ASSERT_EQ(device.entry<thinwire_cuda_row_moments_fn>("thinwire_cuda_row_moments")(d.type(), rows, columns, in, s, 0, device.stream), 0);
        expect_close(device.download(s, sums.size()), sums, 2e-5, "row moments");
        ASSERT_EQ(device.entry<thinwire_cuda_normalise_fn>("thinwire_cuda_normalise")(d.type(), rows, columns, hidden, in, whole ? nullptr : s, g, b, out, m, r, 0,
                                                                                      device.stream), 0);
        d.expect(out, y, "normalised");
        expect_close(device.download(m, mean.size()), mean, 2e-5, "mean");
        // One element has variance 0: 1/sqrt(epsilon) there amplifies the rounding of S2 - S1^2.
        expect_close(device.download(r, rstd.size()), rstd, columns == 1 ? 1e-2 : 5e-5, "1 / deviation");
        ASSERT_EQ(device.entry<thinwire_cuda_gradient_moments_fn>("thinwire_cuda_gradient_moments")(d.type(), rows, columns, in, gradient, g, m, r, s, 0,
                                                                                                    device.stream), 0);
        expect_close(device.download(s, moments.size()), moments, 1e-4, "gradient moments");
        void* workspace = device.poisoned(column_sums_workspace_bytes(rows, columns, 2));
        ASSERT_EQ(device.entry<thinwire_cuda_normalise_backward_fn>("thinwire_cuda_normalise_backward")(
                      d.type(), rows, columns, hidden, in, gradient, g, m, r, whole ? nullptr : s, 1, back, dg, db, workspace, 0, device.stream), 0);
        if (columns > 1) d.expect(back, dx, "dx");
        expect_close(device.download(dg, dgamma.size()), dgamma, 1e-4, "dgamma");
        expect_close(device.download(db, dbeta.size()), dbeta, 1e-4, "dbeta");
      }
  });
}

inline void expect_cross_entropy_like_host(DeviceUnderTest& device) {
  for_types(device, [&](TypedDevice& d) {
    for (const auto& [rows, vocab] : {Extents{1, 1}, {3, 7}, {5, 512}, {4, 1031}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(vocab));
      const auto logits = d.normal(rows * vocab, "logits", 4);
      std::vector<std::int32_t> targets;
      for (std::int64_t r = 0; r < rows; ++r) targets.push_back(static_cast<std::int32_t>((r * 37 + vocab - 1) % vocab));
      std::vector<float> gradient = logits, losses(rows);
      nn::cross_entropy<float>(rows, vocab, gradient.data(), targets.data(), 0.25f, losses.data());
      const std::int32_t* at = device.upload(targets);
      std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
      void* x = d.put(logits);
      auto* loss = reinterpret_cast<float*>(device.poisoned(losses.size() * 4));
      ASSERT_EQ(device.entry<thinwire_cuda_cross_entropy_fn>("thinwire_cuda_cross_entropy")(d.type(), rows, vocab, x, at, 0.25f, loss, status, 0,
                                                                                            device.stream), 0);
      expect_close(device.download(loss, losses.size()), losses, 1e-5, "losses");
      d.expect(x, gradient, "gradient");

      // Split over two ranks, the second with padding behind its part.
      const std::int64_t half = (vocab + 1) / 2, columns = half + 3;
      std::vector<float> parts[2], statistics(static_cast<std::size_t>(6 * rows));
      auto* all = reinterpret_cast<float*>(device.poisoned(statistics.size() * 4));
      void* part[2];
      for (int rank = 0; rank < 2; ++rank) {
        const std::int64_t valid = rank == 0 ? half : vocab - half;
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c) parts[rank].push_back(c < valid ? logits[r * vocab + rank * half + c] : 77.0f);
        nn::softmax_statistics<float>(rows, columns, valid, rank * half, vocab, parts[rank].data(), targets.data(), statistics.data() + 3 * rank * rows);
        part[rank] = d.put(parts[rank]);
        ASSERT_EQ(device.entry<thinwire_cuda_softmax_statistics_fn>("thinwire_cuda_softmax_statistics")(
                      d.type(), rows, columns, valid, rank * half, vocab, part[rank], at, all + 3 * rank * rows, status, 0, device.stream), 0);
      }
      for (int rank = 0; rank < 2; ++rank) {
        const std::int64_t valid = rank == 0 ? half : vocab - half;
        nn::split_cross_entropy<float>(rows, columns, valid, rank * half, 2, statistics.data(), targets.data(), 0.25f, parts[rank].data(), losses.data());
        ASSERT_EQ(device.entry<thinwire_cuda_split_cross_entropy_fn>("thinwire_cuda_split_cross_entropy")(
                      d.type(), rows, columns, valid, rank * half, 2, all, at, 0.25f, part[rank], loss, 0, device.stream), 0);
        expect_close(device.download(loss, losses.size()), losses, 1e-5, "split losses");
        if (valid > 0) d.expect(part[rank], parts[rank], "split gradient");
      }
      EXPECT_EQ(device.download(status, 1)[0], 0u);
      targets[0] = static_cast<std::int32_t>(vocab);
      ASSERT_EQ(device.entry<thinwire_cuda_cross_entropy_fn>("thinwire_cuda_cross_entropy")(d.type(), rows, vocab, x, device.upload(targets), 0.25f, loss, status,
                                                                                            0, device.stream), 0);
      EXPECT_EQ(device.download(status, 1)[0], device_status_damaged);
    }
  });
}

inline void expect_optimizer_like_host(DeviceUnderTest& device) {
  const nn::AdamW options;
  for (std::int64_t count : {1, 5, 64, 1031, 40000})
    for (std::size_t offset : {0u, 4u}) {
      SCOPED_TRACE(std::to_string(count) + " elements");
      const auto g = normal_matrix(count, "gradient");
      auto w = normal_matrix(count, "weight"), m = normal_matrix(count, "m", 0.1), v = normal_matrix(count, "v", 0.1);
      for (float& x : v) x = x * x;
      float *gd = device.upload(g, offset), *wd = device.upload(w), *md = device.upload(m), *vd = device.upload(v);
      auto* copy = reinterpret_cast<BFloat16*>(device.poisoned(static_cast<std::size_t>(count) * 2));
      auto* squares = reinterpret_cast<double*>(device.poisoned(8));
      ASSERT_EQ(device.entry<thinwire_cuda_sum_of_squares_fn>("thinwire_cuda_sum_of_squares")(
                    count, gd, squares, 0, device.poisoned(sum_of_squares_workspace_bytes(count)), 0, device.stream), 0);
      const double sum = nn::sum_of_squares(count, g.data());
      EXPECT_NEAR(device.download(squares, 1)[0], sum, 1e-6 * sum);
      const double scale = 0.5, norm = scale * std::sqrt(sum), clip = nn::clip_factor(norm, 0.7 * norm);
      nn::adamw_step<float>(options, 0.1, 1e-2, 3, scale * clip, count, g.data(), w.data(), m.data(), v.data());
      const thinwire_cuda_adamw_factors factors{static_cast<float>(options.beta1), static_cast<float>(options.beta2),
                                                static_cast<float>(1 / (1 - std::pow(options.beta1, 3))), static_cast<float>(1 / (1 - std::pow(options.beta2, 3))),
                                                static_cast<float>(options.epsilon), 1e-2f, static_cast<float>(1 - 1e-2 * 0.1), static_cast<float>(scale),
                                                static_cast<float>(0.7 * norm)};
      ASSERT_EQ(device.entry<thinwire_cuda_adamw_step_fn>("thinwire_cuda_adamw_step")(&factors, count, gd, wd, md, vd, copy, squares, 0, device.stream), 0);
      expect_close(device.download(wd, w.size()), w, 1e-5, "weight");
      expect_close(device.download(md, m.size()), m, 1e-5, "m");
      expect_close(device.download(vd, v.size()), v, 1e-5, "v");
      std::vector<float> rounded;
      for (BFloat16 b : device.download(copy, w.size())) rounded.push_back(to_float(b));
      expect_close(rounded, w, 5e-3, "copy in bf16");
    }
}

inline void expect_attention_like_host(DeviceUnderTest& device) {
  for_types(device, [&](TypedDevice& d) {
    for (const nn::AttentionShape& s : {nn::AttentionShape{1, 1, 1, 1}, {2, 3, 2, 5}, {1, 17, 3, 64}, {1, 40, 2, 17}, {2, 67, 1, 32}, {1, 33, 1, 128},
                                        {1, 130, 1, 16}, {1, 20, 1, 96}}) {
      SCOPED_TRACE("batch " + std::to_string(s.batch) + ", seq " + std::to_string(s.seq) + ", heads " + std::to_string(s.heads) + " x " +
                   std::to_string(s.head_size));
      const std::int64_t n = s.batch * s.seq * s.hidden(), rows = s.batch * s.heads * s.seq;
      const auto qkv = d.normal(3 * n, "qkv"), dcontext = d.normal(n, "dcontext");
      std::vector<float> context(n), lse(rows), dqkv(3 * n);
      nn::attention_forward<float>(s, qkv.data(), context.data(), lse.data());
      nn::attention_backward<float>(s, qkv.data(), context.data(), lse.data(), dcontext.data(), dqkv.data());
      void *in = d.put(qkv), *out = d.room(n), *gradient = d.put(dcontext), *back = d.room(3 * n);
      auto* sums = reinterpret_cast<float*>(device.poisoned(lse.size() * 4));
      ASSERT_EQ(device.entry<thinwire_cuda_attention_forward_fn>("thinwire_cuda_attention_forward")(d.type(), s.batch, s.seq, s.heads, s.head_size, in, out, sums, 0,
                                                                                                    device.stream), 0);
      d.expect(out, context, "context");
      expect_close(device.download(sums, lse.size()), lse, 2e-5, "log of sums");
      ASSERT_EQ(device.entry<thinwire_cuda_attention_backward_fn>("thinwire_cuda_attention_backward")(
                    d.type(), s.batch, s.seq, s.heads, s.head_size, in, out, sums, gradient, back, device.poisoned(attention_workspace_bytes(s.batch, s.seq, s.heads)),
                    0, device.stream), 0);
      if (s.seq > 1) d.expect(back, dqkv, "dqkv");
    }
  });
}

inline void expect_elementwise_like_host(DeviceUnderTest& device) {
  for_types(device, [&](TypedDevice& d) {
    for (const auto& [rows, columns] : awkward_extents) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const std::int64_t n = rows * columns, vocab = 11, seq = 5;
      const auto x = d.normal(n, "x"), bias = d.normal(columns, "bias");
      std::vector<float> filled(n), sums = bias, added = d.normal(n, "added"), scaled = x;
      nn::fill_rows(rows, columns, bias.data(), filled.data());
      nn::add_column_sums(rows, columns, x.data(), sums.data());
      void *in = d.put(x), *out = d.room(n), *to = d.put(added);
      float* s = device.upload(bias);
      ASSERT_EQ(device.entry<thinwire_cuda_fill_rows_fn>("thinwire_cuda_fill_rows")(d.type(), rows, columns, d.put(bias), out, 0, device.stream), 0);
      EXPECT_EQ(d.get(out, filled.size()), filled);
      ASSERT_EQ(device.entry<thinwire_cuda_add_column_sums_fn>("thinwire_cuda_add_column_sums")(d.type(), rows, columns, in, s,
                                                                                                device.poisoned(column_sums_workspace_bytes(rows, columns, 1)),
                                                                                                0, device.stream), 0);
      expect_close(device.download(s, sums.size()), sums, 2e-5, "column sums");
      nn::add_into(n, x.data(), added.data());
      ASSERT_EQ(device.entry<thinwire_cuda_add_into_fn>("thinwire_cuda_add_into")(d.type(), n, in, to, 0, device.stream), 0);
      d.expect(to, added, "sum");
      nn::scale_in_place(n, 0.3f, scaled.data());
      void* product = d.put(x);
      ASSERT_EQ(device.entry<thinwire_cuda_scale_in_place_fn>("thinwire_cuda_scale_in_place")(d.type(), n, 0.3f, product, 0, device.stream), 0);
      d.expect(product, scaled, "scaled");

      std::vector<std::int32_t> tokens;
      for (std::int64_t r = 0; r < rows; ++r) tokens.push_back(static_cast<std::int32_t>((r * r + 3) % vocab));
      const auto table = d.normal(vocab * columns, "table"), positions = d.normal(seq * columns, "positions");
      std::vector<float> embedded(n), part(n), token_gradient = table, position_gradient = positions, part_gradient(4 * columns);
      nn::embed(rows, columns, seq, vocab, tokens.data(), table.data(), positions.data(), embedded.data());
      nn::embed_part(rows, columns, vocab, 3, 4, tokens.data(), table.data() + 3 * columns, part.data());
      nn::embed_backward(rows, columns, seq, vocab, tokens.data(), x.data(), token_gradient.data(), position_gradient.data());
      nn::embed_part_backward(rows, columns, 3, 4, tokens.data(), x.data(), part_gradient.data());
      const std::int32_t* at = device.upload(tokens);
      std::uint32_t* status = device.upload(std::vector<std::uint32_t>(1));
      const auto embed = device.entry<thinwire_cuda_embed_fn>("thinwire_cuda_embed");
      const auto backward = device.entry<thinwire_cuda_embed_backward_fn>("thinwire_cuda_embed_backward");
      ASSERT_EQ(embed(d.type(), rows, columns, seq, vocab, 0, vocab, at, d.put(table), d.put(positions), out, status, 0, device.stream), 0);
      d.expect(out, embedded, "embedding");
      const std::vector<float> rows_here(table.begin() + 3 * columns, table.begin() + 7 * columns);
      ASSERT_EQ(embed(d.type(), rows, columns, seq, vocab, 3, 4, at, d.put(rows_here), nullptr, out, status, 0, device.stream), 0);
      EXPECT_EQ(d.get(out, part.size()), part);
      float *tg = device.upload(table), *pg = device.upload(positions), *part_back = device.upload(std::vector<float>(part_gradient.size()));
      ASSERT_EQ(backward(d.type(), rows, columns, seq, 0, vocab, at, in, tg, pg, 0, device.stream), 0);
      EXPECT_EQ(device.download(tg, token_gradient.size()), token_gradient) << "the order of additions is the host's";
      expect_close(device.download(pg, position_gradient.size()), position_gradient, 2e-5, "gradient of positions");
      ASSERT_EQ(backward(d.type(), rows, columns, seq, 3, 4, at, in, part_back, nullptr, 0, device.stream), 0);
      EXPECT_EQ(device.download(part_back, part_gradient.size()), part_gradient);
      EXPECT_EQ(device.download(status, 1)[0], 0u);
      tokens.back() = static_cast<std::int32_t>(vocab);
      ASSERT_EQ(embed(d.type(), rows, columns, seq, vocab, 0, vocab, device.upload(tokens), d.put(table), d.put(positions), out, status, 0, device.stream), 0);
      EXPECT_EQ(device.download(status, 1)[0], device_status_damaged);

      for (const std::int64_t first : {0, 3, 1 << 20}) {
        std::vector<float> dropped(n);
        nn::dropout(n, 0.37, {.seed = 5, .name = "layer0.dropout", .step = 2}, first, x.data(), dropped.data());
        ASSERT_EQ(device.entry<thinwire_cuda_dropout_fn>("thinwire_cuda_dropout")(d.type(), 1, n, n, 0.37, 5, mix_stream(hash_name("layer0.dropout"), 2), first, in, out,
                                                                                  0, device.stream), 0);
        d.expect(out, dropped, "dropout");
      }
    }
  });
}

inline void expect_gemm_like_host(DeviceUnderTest& device) {
  for (int type : {device_f32, device_bf16}) {
    TypedDevice d(device, type, 0);
    void* workspace = device.allocate(product_workspace_bytes);
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {7, 5, 3}, {17, 33, 29}, {64, 32, 128}})
      for (int ta : {0, 1})
        for (int tb : {0, 1}) {
          SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) + (ta ? " A^T" : "") + (tb ? " B^T" : ""));
          const std::int64_t lda = (ta ? m : k) + 2, row_b = (tb ? k : n) + 8, ldc = n + 1;
          const auto a = d.normal(lda * (ta ? k : m), "a"), b = d.normal(row_b * (tb ? n : k), "b"), start = d.normal(m * ldc, "c");
          std::vector<float> c = start;
          nn::gemm<float>(ta ? nn::Transpose::yes : nn::Transpose::no, tb ? nn::Transpose::yes : nn::Transpose::no, m, n, k, 0.5f, a.data(), lda, b.data(), row_b,
                          -2.0f, c.data(), ldc);
          void* to = d.put(start);
          const auto gemm = device.entry<thinwire_cuda_gemm_fn>("thinwire_cuda_gemm");
          ASSERT_EQ(gemm(type, type, ta, tb, m, n, k, 0.5f, d.put(a), lda, d.put(b), row_b, -2.0f, to, ldc, nullptr, workspace, 0, device.stream), 0);
          d.expect(to, c, "product");  // elements between the rows of C stay as they were
          // bf16 operands with an f32 result, as gradients of weights are summed; and the bias of a linear layer.
          const auto bias = d.normal(n, "bias");
          std::vector<float> with_bias(static_cast<std::size_t>(m * n)), sum(with_bias.size(), 1.0f);
          for (std::int64_t r = 0; r < m; ++r) std::copy(bias.begin(), bias.end(), with_bias.begin() + r * n);
          const auto op = [](int t) { return t ? nn::Transpose::yes : nn::Transpose::no; };
          nn::gemm<float>(op(ta), op(tb), m, n, k, 1, a.data(), lda, b.data(), row_b, 1, with_bias.data(), n);
          nn::gemm<float>(op(ta), op(tb), m, n, k, 1, a.data(), lda, b.data(), row_b, 1, sum.data(), n);
          void* biased = d.room(m * n);
          ASSERT_EQ(gemm(type, type, ta, tb, m, n, k, 1, d.put(a), lda, d.put(b), row_b, 0, biased, n, d.put(bias), workspace, 0, device.stream), 0);
          d.expect(biased, with_bias, "with bias");
          float* sums = device.upload(std::vector<float>(sum.size(), 1.0f));
          ASSERT_EQ(gemm(type, device_f32, ta, tb, m, n, k, 1, d.put(a), lda, d.put(b), row_b, 1, sums, n, nullptr, workspace, 0, device.stream), 0);
          expect_close(device.download(sums, sum.size()), sum, 2e-5, "added to f32");
        }
  }
}

}  // namespace thinwire::testing
