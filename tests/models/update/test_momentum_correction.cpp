// labels: unit
// What deep gradient compression keeps on a rank, against the published vector (docs/papers/gradient_compression.md, "Worked examples") and a reference in float64 that takes the
// largest elements by sorting.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/update/policies/momentum_correction.h"
#include "support/codec_rounds.h"

namespace thinwire {
namespace {

using testing::normal_numbers;

TEST(MomentumCorrection, SendsThePagesVector) {
  MomentumCorrection<float> one({Shape{3}}, 0.9, false, true);
  const std::vector<std::vector<float>> gradients = {{1, -.2f, .1f}, {.5f, -.3f, .1f}, {.1f, -.3f, .2f}};
  const std::vector<std::size_t> places = {0, 1, 0};
  const std::vector<float> values = {1, -0.68f, 1.05f};
  for (std::size_t step = 0; step < 3; ++step) {
    one.add(0, gradients[step].data(), 1.0);
    const std::span<float> v = one.late(0).as<float>();
    const auto largest = static_cast<std::size_t>(std::max_element(v.begin(), v.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }) - v.begin());
    EXPECT_EQ(largest, places[step]) << step;
    EXPECT_NEAR(v[largest], values[step], 1e-6) << step;
    std::vector<float> sent(3, 0.0f);
    sent[largest] = v[largest];
    one.sent(0, ConstTensorView(sent.data(), Shape{3}));
    EXPECT_EQ(v[largest], 0);
    EXPECT_EQ(one.momentum(0).as<float>()[largest], 0);
  }
}

struct Reference {
  std::vector<double> u, v;
};

void take_largest(Reference& r, std::size_t count, bool masking) {
  std::vector<std::size_t> order(r.v.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return std::fabs(r.v[a]) > std::fabs(r.v[b]); });
  for (std::size_t k = 0; k < count; ++k) {
    r.v[order[k]] = 0;
    if (masking) r.u[order[k]] = 0;
  }
}

TEST(MomentumCorrection, FollowsTheRecursionInFloat64) {
  constexpr std::size_t n = 500;
  const Shape shape{20, 25};
  for (const bool nesterov : {false, true})
    for (const bool masking : {false, true}) {
      MomentumCorrection<float> built({shape}, 0.8, nesterov, masking);
      CodecStack stack = make_codec("topk:fraction=0.04,values=f32");
      Reference expected{std::vector<double>(n, 0.0), std::vector<double>(n, 0.0)};
      for (int step = 0; step < 30; ++step) {
        const std::vector<float> g = normal_numbers(n, 40 + static_cast<std::uint64_t>(step));
        for (std::size_t i = 0; i < n; ++i) {
          const double x = 0.5 * static_cast<double>(g[i]);
          // Nesterov as the authors write it, whose u is m times ours: u = m (u + g), v = v + u + g.
          expected.u[i] = nesterov ? 0.8 * (expected.u[i] + x) : 0.8 * expected.u[i] + x;
          expected.v[i] += nesterov ? expected.u[i] + x : expected.u[i];
        }
        built.add(0, g.data(), 0.5);
        for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(built.late(0).as<float>()[i], expected.v[i], 1e-4) << step << " " << i;
        const std::span<const float> v = built.late(0).as<float>();
        MessageKey key;
        key.step = step;
        const std::vector<float> arrived = testing::send_message(stack, {v.begin(), v.end()}, shape, key);
        built.sent(0, ConstTensorView(arrived.data(), shape));
        take_largest(expected, 20, masking);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_NEAR(built.late(0).as<float>()[i], expected.v[i], 1e-4) << step << " " << i;
          ASSERT_NEAR(built.momentum(0).as<float>()[i] * (nesterov ? 0.8 : 1.0), expected.u[i], 1e-4) << step << " " << i;
        }
      }
    }
}

TEST(MomentumCorrection, WhatValuesIn16BitsLoseIsSentLater) {
  MomentumCorrection<float> one({Shape{2}}, 0, false, true);
  const std::vector<float> g = {1.0001f, 0}, arrived = {1, 0};
  one.add(0, g.data(), 1);
  one.sent(0, ConstTensorView(arrived.data(), Shape{2}));
  EXPECT_EQ(one.late(0).as<float>()[0], g[0] - 1);
  EXPECT_EQ(one.momentum(0).as<float>()[0], 0) << "it was sent";
}

}  // namespace
}  // namespace thinwire
