// labels: mpi
// ranks: 2
// timeout: 120
// Sums of gradients set out while the backward pass still runs (TrainConfig::overlap), and with the same bits as those that wait for its end. By the order in which
// this thread begins things, not by how long they take.
#include "core/process/trace.h"
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

struct Exchange {
  const char* name;
  void (*change)(TrainConfig&);
  int begun;  ///< at least so many messages of the step
};

TrainConfig four_layers(const Exchange& exchange, bool overlap) {
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.model.layers = 4;
  c.mesh = {1, 1, 2};
  c.bucket_cap_mb = 0;
  c.messages_at_once = 64;  // none waits for others
  c.overlap = overlap;
  exchange.change(c);
  c.check();
  return c;
}

/// Messages of gradients that begin before the step's last section of the first layer does: behind it all gradients but the embedding's are complete.
int begun_inside(const TrainConfig& c, const Corpus& corpus) {
  const auto trainer = ParallelTrainer::make(world(), c, corpus);
  trainer->step();
  Trace::start();
  trainer->step();
  const std::vector<TraceSpan> spans = Trace::stop();
  std::int64_t last_pass = 0;
  for (const TraceSpan& span : spans)
    if (span.category == TraceCategory::compute && span.layer == 0 && span.micro >= 0) last_pass = std::max(last_pass, span.begin_ns);
  int begun = 0;
  for (const TraceSpan& span : spans) {
    const bool gradients = std::string_view(span.name) == "dp_gradient" || std::string_view(span.name) == "grad_reduce_scatter";
    begun += gradients && span.category == TraceCategory::transfer && span.begin_ns < last_pass ? 1 : 0;
  }
  return begun;
}

class GradientOverlap : public ::testing::TestWithParam<Exchange> {};

TEST_P(GradientOverlap, SumsSetOutInsideTheBackwardPass) {
  const Corpus corpus = Corpus::from_text(parity_text(), "gradient overlap");
  EXPECT_EQ(begun_inside(four_layers(GetParam(), false), corpus), 0);
  EXPECT_GE(begun_inside(four_layers(GetParam(), true), corpus), GetParam().begun);
}

TEST_P(GradientOverlap, ChangesNoBit) {
  const Corpus corpus = Corpus::from_text(parity_text(), "gradient overlap");
  const RunCurve behind = parallel_curve(world(), four_layers(GetParam(), false), corpus), inside = parallel_curve(world(), four_layers(GetParam(), true), corpus);
  EXPECT_EQ(inside.loss, behind.loss);
  EXPECT_EQ(inside.norm, behind.norm);
  EXPECT_EQ(inside.validation, behind.validation);
}

// Of four layers with four matrices each, three are complete before the first layer's pass begins.
INSTANTIATE_TEST_SUITE_P(Exchanges, GradientOverlap,
                         ::testing::Values(Exchange{"dense", [](TrainConfig& c) { c.bucket_cap_mb = 0.005; }, 3}, Exchange{"top_k", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.1+ef"; }, 12},
                                           Exchange{"powersgd", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=2+ef"; }, 12},
                                           Exchange{"zero_1", [](TrainConfig& c) { c.zero_stage = 1; }, 12}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace thinwire
