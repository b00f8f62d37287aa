// labels: mpi
// ranks: 8
// timeout: 600
// The closed form of a rank's memory against the allocator's counter, rank by rank.
#include <cmath>

#include "core/memory_counter.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "models/training/parallel_trainer.h"
#include "tests/collectives/world.h"
#include "tests/models/training/parity_cases.h"

namespace thinwire {
namespace {

using namespace testing;

TEST(MemoryEstimate, IsWithinFifteenPercentOfTheAllocatorOnEveryRank) {
  const Corpus corpus = Corpus::from_text(parity_text(), "memory");
  struct Case {
    const char* name;
    MeshShape mesh;
    void (*change)(TrainConfig&);
  };
  const std::vector<Case> cases = {{"2x2x2", {2, 2, 2}, [](TrainConfig&) {}},
                                   {"2x2x2, messages together", {2, 2, 2}, [](TrainConfig& c) { c.messages_at_once = 8; }},
                                   {"replicas, bf16, messages together", {1, 1, 4}, [](TrainConfig& c) { c.comm_dtype = DType::bf16, c.messages_at_once = 3; }},
                                   {"zero 2, messages together", {1, 1, 2}, [](TrainConfig& c) { c.zero_stage = 2, c.messages_at_once = 8; }},
                                   {"zero 3, bf16, messages together", {1, 2, 4}, [](TrainConfig& c) { c.zero_stage = 3, c.param_dtype = c.reduce_dtype = DType::bf16, c.messages_at_once = 8; }},
                                   {"tensor", {8, 1, 1}, [](TrainConfig&) {}},
                                   {"pipeline", {1, 8, 1}, [](TrainConfig&) {}},
                                   {"gpipe", {1, 4, 2}, [](TrainConfig& c) { c.schedule = "gpipe"; }},
                                   {"interleaved", {1, 2, 4}, [](TrainConfig& c) { c.schedule = "interleaved", c.virtual_stages = 2; }},
                                   {"replicas", {1, 1, 8}, [](TrainConfig&) {}},
                                   {"sharded", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 1; }},
                                   {"zero 2", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 2; }},
                                   {"zero 3", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 3; }},
                                   {"zero 3, kept for the step, reduced once", {1, 1, 4}, [](TrainConfig& c) { c.zero_stage = 3, c.zero_keep = "step", c.zero_reduce = "step"; }},
                                   {"zero 3, prefetch 3, no overlap", {1, 1, 4}, [](TrainConfig& c) { c.zero_stage = 3, c.zero_prefetch = 3, c.overlap = false; }},
                                   {"zero 3, copies in nodes", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 3, c.mesh.dp_nodes = 2, c.zero_node_shards = true; }},
                                   {"zero 3, all splits", {2, 2, 2}, [](TrainConfig& c) { c.zero_stage = 3; }},
                                   {"bf16 on every wire", {1, 1, 8}, [](TrainConfig& c) { c.comm_dtype = DType::bf16; }},
                                   {"parameters read in bf16", {1, 1, 8}, [](TrainConfig& c) { c.param_dtype = DType::bf16; }},
                                   {"zero 1, parameters read in bf16", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 1, c.param_dtype = DType::bf16; }},
                                   {"zero 3, parameters read in bf16", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 3, c.param_dtype = DType::bf16; }},
                                   {"zero 3, both in bf16, a pipeline", {1, 2, 4}, [](TrainConfig& c) { c.zero_stage = 3, c.param_dtype = c.reduce_dtype = DType::bf16; }},
                                   {"zero 3, both in bf16, nodes", {1, 1, 8}, [](TrainConfig& c) { c.zero_stage = 3, c.mesh.dp_nodes = 2, c.param_dtype = c.reduce_dtype = DType::bf16; }},
                                   {"replicas apart", {1, 1, 8, "tp-pp-dp", 8}, [](TrainConfig& c) { c.optimizer = "adamw+diloco:inner_steps=1"; }},
                                   {"replicas apart, bf16 between them", {1, 1, 8, "tp-pp-dp", 8}, [](TrainConfig& c) { c.comm_dtype = DType::bf16, c.optimizer = "adamw+diloco:inner_steps=1"; }},
                                   {"replicas apart, zero 1 inside", {1, 1, 8, "tp-pp-dp", 2}, [](TrainConfig& c) { c.zero_stage = 1, c.optimizer = "adamw+local_sgd:inner_steps=1"; }},
                                   {"fragments", {1, 1, 4, "tp-pp-dp", 4}, [](TrainConfig& c) { c.optimizer = "adamw+streaming_diloco:inner_steps=4,fragments=2"; }},
                                   {"replicas apart, residuals", {1, 1, 4, "tp-pp-dp", 4},
                                    [](TrainConfig& c) { c.optimizer = "adamw+local_sgd:inner_steps=1", c.compress[TrafficClass::outer_gradient].codec = "chunk_topk+ef:beta=0.95"; }},
                                   {"recompute", {2, 2, 2}, [](TrainConfig& c) { c.recompute = true; }},
                                   {"sequence parallel", {4, 1, 2}, [](TrainConfig& c) { c.sequence_parallel = true; }},
                                   {"products in bf16", {1, 1, 8}, [](TrainConfig& c) { c.model.compute = nn::ComputeType::bf16; }},
                                   {"products in bf16, all splits", {2, 2, 2}, [](TrainConfig& c) { c.model.compute = nn::ComputeType::bf16, c.recompute = true; }},
                                   {"products in bf16, sequence parallel", {4, 1, 2}, [](TrainConfig& c) { c.model.compute = nn::ComputeType::bf16, c.sequence_parallel = true; }}};
  const bool has_bf16 = nn::detail::onednn_has_bf16();  // needs AVX-512
  if (has_bf16) setenv("THINWIRE_SLOW_BF16", "1", 1);
  for (const Case& one : cases) {
    TrainConfig c = parity_config();
    c.dtype = DType::f32;
    c.comm_dtype = DType::f32;
    c.mesh = one.mesh;
    c.model.hidden = 128, c.model.layers = 8, c.model.max_seq = c.seq = 64, c.model.dropout = 0;
    c.global_batch = 16;
    c.bucket_cap_mb = 0.5;
    c.messages_at_once = 1;
    one.change(c);
    if (c.model.compute == nn::ComputeType::bf16 && !has_bf16) continue;
    const std::int64_t before = buffer_bytes();
    reset_buffer_bytes_peak();
    const auto group = world().split(world().rank() / c.mesh.ranks(), world().rank());
    const auto trainer = ParallelTrainer::make(*group, c, corpus);
    for (int s = 0; s < 2; ++s) trainer->step();
    const double counted = static_cast<double>(buffer_bytes_peak() - before);
    const MemoryEstimate m = estimate_memory(c, trainer->mesh().coordinates());
    EXPECT_NEAR(static_cast<double>(m.total()) / counted, 1.0, 0.15)
        << one.name << ", rank " << world().rank() << ": weights " << m.weights << " optimizer " << m.optimizer << " activations "
        << m.activations << " workspace " << m.workspace << ", counted " << counted;
  }
  unsetenv("THINWIRE_SLOW_BF16");
}

TEST(MemoryEstimate, OfAGridIsWithinFivePercentOfTheAllocatorOnEveryRank) {
  const Corpus corpus = Corpus::from_text(parity_text(), "memory");
  struct Case {
    const char* grid;
    MeshShape mesh;
    bool recompute = false;
    DType comm_dtype = DType::f32;
  };
  const std::vector<Case> cases = {{"2d", {4, 2, 1}},       {"2d", {4, 1, 2}}, {"2.5d:depth=2", {8, 1, 1}},     {"3d", {8, 1, 1}},
                                   {"3d", {8, 1, 1}, true}, {"2d", {4, 2, 1}, true}, {"3d:sides=1x2x2", {4, 2, 1}}, {"3d", {8, 1, 1}, false, DType::bf16}};
  double worst = 0;
  for (const Case& one : cases) {
    TrainConfig c = parity_config();
    c.dtype = DType::f32;
    c.comm_dtype = one.comm_dtype;
    c.mesh = one.mesh;
    c.tensor_parallel = one.grid;
    c.recompute = one.recompute;
    c.model.hidden = 128, c.model.layers = 4, c.model.max_seq = c.seq = 32, c.model.dropout = 0;
    c.global_batch = 8, c.micro_batch = 4;
    c.bucket_cap_mb = 0.5;
    c.messages_at_once = 1;
    const std::int64_t before = buffer_bytes();
    reset_buffer_bytes_peak();
    const auto trainer = ParallelTrainer::make(world(), c, corpus);
    trainer->step();
    const double counted = static_cast<double>(buffer_bytes_peak() - before);
    const MemoryEstimate m = estimate_memory(c, trainer->mesh().coordinates());
    EXPECT_NEAR(static_cast<double>(m.total()) / counted, 1.0, 0.05)
        << one.grid << (one.recompute ? ", recomputed" : "") << ", rank " << world().rank() << ": weights " << m.weights << " optimizer " << m.optimizer
        << " activations " << m.activations << " workspace " << m.workspace << ", counted " << counted;
    if (world().rank() == 0) std::printf("%s pp %d dp %d%s: %.3f\n", one.grid, one.mesh.pp, one.mesh.dp, one.recompute ? ", recomputed" : "", static_cast<double>(m.total()) / counted);
    worst = std::max(worst, std::abs(static_cast<double>(m.total()) / counted - 1));
  }
  if (world().rank() == 0) std::printf("largest distance on rank 0: %.1f %%\n", 100 * worst);
}

}  // namespace
}  // namespace thinwire
