// labels: unit
// Conversions of f64 on the host: through f32, whose narrow values they have.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/half.h"
#include "core/random.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

TEST(Values, OfF64BecomeWhatTheirF32ValuesBecome) {
  const Random random(3, "values");
  std::vector<double> wide = {0, -0.0, 1, -1, 1 + 0x1p-8, 1 + 0x1p-9, 65504, 65520, 1e5, -1e300, 1e-300, 0x1p-24, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
  for (std::uint64_t i = 0; i < 1000; ++i) wide.push_back(random.normal(i) * std::pow(10, static_cast<double>(i % 12) - 6));
  const auto n = static_cast<std::int64_t>(wide.size());
  std::vector<float> single(wide.size()), back(wide.size());
  convert_values(wide.data(), DType::f64, single.data(), DType::f32, n);
  for (std::size_t i = 0; i < wide.size(); ++i)
    if (!std::isnan(wide[i])) {
      EXPECT_EQ(single[i], static_cast<float>(wide[i]));
    }
  for (const DType narrow : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> from_wide(wide.size()), from_single(wide.size());
    convert_values(wide.data(), DType::f64, from_wide.data(), narrow, n);
    convert_values(single.data(), DType::f32, from_single.data(), narrow, n);
    EXPECT_EQ(from_wide, from_single) << name_of(narrow);
    std::vector<double> widened(wide.size());
    convert_values(from_wide.data(), narrow, widened.data(), DType::f64, n);
    convert_values(from_wide.data(), narrow, back.data(), DType::f32, n);
    for (std::size_t i = 0; i < wide.size(); ++i)
      EXPECT_TRUE(widened[i] == back[i] || (std::isnan(widened[i]) && std::isnan(back[i]))) << wide[i];
  }
}

}  // namespace
}  // namespace thinwire
