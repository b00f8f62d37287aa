// labels: unit
#include <gtest/gtest.h>

#include <cmath>

#include "bench/device/device_codec_rows.h"
#include "bench/device/device_kernel_rows.h"
#include "bench/training/mfu.h"
#include "bench/codec/reduction_break_even.h"
#include "core/formulas.h"
#include "kernels/codec/registry.h"
#include "models/gpt/gpt.h"

namespace thinwire::bench {
namespace {

const ReductionCost& of(const std::vector<ReductionCost>& costs, const std::string& protocol) {
  for (const ReductionCost& cost : costs)
    if (cost.protocol == protocol) return cost;
  throw std::runtime_error("no " + protocol);
}

TEST(ReductionBreakEven, IsTheLinkOnWhichBothSidesTakeTheSameTime) {
  const CodecStack topk = make_codec("topk:fraction=0.01"), cast = make_codec("cast");
  const double dense = 128e6, payload = 3e6, encode = 200, decode = 90;
  for (const int ranks : {2, 3, 8})
    for (const CodecStack* stack : {&topk, &cast})
      for (const ReductionCost& cost : reduction_costs(stack->codec->traits(), ranks, dense, payload, encode, decode)) {
        EXPECT_NEAR(cost.dense_link_bytes, 2.0 * (ranks - 1) / ranks * dense, 1);
        if (cost.break_even_gbps == 0) continue;  // it sends more than the dense ring
        EXPECT_NEAR(link_time_us(cost.dense_link_bytes, cost.break_even_gbps),
                    cost.encode_us + link_time_us(cost.link_bytes, cost.break_even_gbps) + cost.decode_us, 1e-6)
            << cost.protocol << " over " << ranks;
      }
}

TEST(ReductionBreakEven, CountsTheCodecsWorkAsTheProtocolsDo) {
  const auto costs = reduction_costs(make_codec("topk:fraction=0.01").codec->traits(), 8, 128e6, 3e6, 200, 90);
  EXPECT_THROW(of(costs, "rounds"), std::runtime_error);  // Top-K's payloads cannot be summed
  EXPECT_DOUBLE_EQ(of(costs, "gather").link_bytes, 7 * 3e6);
  EXPECT_DOUBLE_EQ(of(costs, "gather").decode_us, 8 * 90);
  EXPECT_DOUBLE_EQ(of(costs, "two_shot").encode_us, 200 * 1.125);
  EXPECT_DOUBLE_EQ(of(costs, "two_shot").decode_us, 2 * 90);
  const auto low_rank = reduction_costs(make_codec("powersgd:rank=4").codec->traits(), 4, 100, 10, 3, 2);
  EXPECT_DOUBLE_EQ(of(low_rank, "rounds").link_bytes, 15);
  EXPECT_DOUBLE_EQ(of(low_rank, "rounds").break_even_gbps, break_even_gbps(150, 15, 5));
  EXPECT_TRUE(reduction_costs(make_codec("cast").codec->traits(), 1, 100, 50, 1, 1).empty());
}

TEST(CodecTraffic, IsWhatMustBeReadAndWritten) {
  const auto traffic = [](const char* codec, double payload) { return codec_traffic(*make_codec(codec).codec, {100, 10}, payload); };
  EXPECT_DOUBLE_EQ(traffic("cast", 2000).encode, 6000);
  EXPECT_DOUBLE_EQ(traffic("cast", 2000).decode, 6000);
  EXPECT_DOUBLE_EQ(traffic("powersgd:rank=4", 100).encode, 8100);  // two passes over the tensor
  EXPECT_DOUBLE_EQ(traffic("powersgd:rank=4", 100).decode, 4100);
  EXPECT_DOUBLE_EQ(traffic("randomk:fraction=0.01", 40).encode, 360);
  EXPECT_DOUBLE_EQ(traffic("randomk:fraction=0.9", 3600).encode, 7600);  // every sector once
}

TEST(CodecTarget, IsStatedForElementWiseCodecsAndTopK) {
  const auto goal = [](const char* codec) { return make_codec(codec).codec->traits().device_goal; };
  EXPECT_DOUBLE_EQ(goal("cast"), 0.85);
  EXPECT_DOUBLE_EQ(goal("quantize"), 0.85);
  EXPECT_DOUBLE_EQ(goal("topk"), 0.5);
  EXPECT_DOUBLE_EQ(goal("powersgd"), 0);
}

TEST(KernelWork, CountsProductsAndCausalAttention) {
  EXPECT_DOUBLE_EQ(gemm_work(2, 3, 5, 4, 4).flops, 60);
  EXPECT_DOUBLE_EQ(gemm_work(2, 3, 5, 4, 4).bytes, 124);
  EXPECT_DOUBLE_EQ(gemm_work(2, 3, 5, 2, 4).bytes, 74);
  KernelShapes s;
  s.batch = 2, s.seq = 4, s.hidden = 6, s.heads = 3;
  // Per head (size 2): two products of 2 * 4 * 4 * 2 operations, half of them below the diagonal.
  EXPECT_DOUBLE_EQ(attention_work(s, false, 2).flops, 2 * 3 * 2 * (2.0 * 4 * 4 * 2) / 2);
  EXPECT_DOUBLE_EQ(attention_work(s, true, 2).flops, 2.5 * attention_work(s, false, 2).flops);
}

TEST(ModelFlops, OfGpt2IsTheFormulasNumber) {
  GptConfig gpt2;
  gpt2.vocab = 50257, gpt2.hidden = 768, gpt2.layers = 12, gpt2.heads = 12, gpt2.max_seq = 1024;
  EXPECT_EQ(gpt2.parameters(), 124439808);
  const double per_token = 6.0 * (124439808 - 1024 * 768) + 12.0 * 12 * 768 * 1024;
  EXPECT_DOUBLE_EQ(model_flops_per_token("gpt", gpt2, 1024), per_token);
  EXPECT_DOUBLE_EQ(model_gflops("gpt", gpt2, 1024, 8192, 0.5), per_token * 8192 / 0.5 * 1e-9);
}

TEST(ModelFlops, GrowWithTheSequenceByAttentionOnly) {
  GptConfig model;
  model.vocab = 100, model.hidden = 32, model.layers = 3, model.heads = 4, model.max_seq = 64;
  EXPECT_DOUBLE_EQ(model_flops_per_token("gpt", model, 64) - model_flops_per_token("gpt", model, 32), 12.0 * 3 * 32 * 32);
}

}  // namespace
}  // namespace thinwire::bench
