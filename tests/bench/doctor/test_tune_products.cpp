// labels: unit
// The choice that `doctor --tune` makes of rates: numbers that the test makes up.
#include <gtest/gtest.h>

#include <vector>

#include "bench/doctor/tune_products.h"
#include "core/error.h"

namespace thinwire::bench {
namespace {

ProductRates even(const std::string& kernels, double gflops) {
  ProductRates rates{kernels, {}};
  for (const char* name : nn::product_classes) rates.gflops[name] = gflops;
  return rates;
}

TEST(TunedChoice, TakesTheFastestKernelsAndOneDnnWhereItIsFaster) {
  const std::vector<ProductRates> openblas = {even("Haswell", 100), even("SkylakeX", 150)};
  ProductRates onednn = even("", 90);
  onednn.gflops["large_nn"] = 200;
  onednn.gflops["medium_tn"] = 170;
  EXPECT_EQ(choose_products(openblas, onednn, "Haswell").text(), "openblas:kernels=SkylakeX,medium_tn=onednn,large_nn=onednn");
}

TEST(TunedChoice, WhatDiffersLittleIsNoReasonToLeaveWhatComesByItself) {
  const std::vector<ProductRates> openblas = {even("Haswell", 100), even("SkylakeX", 104)};
  EXPECT_EQ(choose_products(openblas, even("", 104), "Haswell").text(), "openblas:kernels=Haswell");
  EXPECT_EQ(choose_products(openblas, even("", 104), "SkylakeX").text(), "openblas:kernels=SkylakeX");
  EXPECT_EQ(choose_products(openblas, even("", 106), "Haswell").text(), "onednn:kernels=Haswell");
}

TEST(TunedChoice, AContenderThatMultipliedWronglyOrNotAtAllIsNone) {
  ProductRates wrong = even("SkylakeX", 1000);
  wrong.gflops.erase("small_nt");
  const std::vector<ProductRates> openblas = {even("Haswell", 100), wrong};
  EXPECT_EQ(choose_products(openblas, ProductRates(), "SkylakeX").text(), "openblas:kernels=Haswell");
  const std::vector<ProductRates> none = {wrong};
  EXPECT_THROW((void)choose_products(none, even("", 1), "SkylakeX"), UsageError);
}

}  // namespace
}  // namespace thinwire::bench
