// labels: mpi
// ranks: 4
// timeout: 300
// TrainConfig::messages_at_once changes no bit of a training, whatever its exchanges are: over an emulated link whose latency keeps messages on the way.
#include "collectives/link/emulated_network.h"
#include "tests/models/training/parity_run.h"

namespace thinwire {
namespace {

using namespace testing;

struct Exchange {
  const char* name;
  void (*change)(TrainConfig&);
};

class MessagesAtOnce : public ::testing::TestWithParam<Exchange> {};

TEST_P(MessagesAtOnce, ChangeNoBit) {
  const Corpus corpus = Corpus::from_text(parity_text(), "messages at once");
  const auto link = make_emulated_communicator(world().duplicate(), EmulatedLink::parse("emulated:10gbit,latency=200us"));
  TrainConfig c = parity_config();
  c.dtype = DType::f32;
  c.model.layers = 4;
  c.mesh = {1, 1, 4};
  GetParam().change(c);
  c.check();
  std::vector<RunCurve> curves;
  for (const int together : {1, 2, 8}) {
    c.messages_at_once = together;
    curves.push_back(parallel_curve(*link, c, corpus));
    EXPECT_EQ(curves.back().loss, curves[0].loss) << together;
    EXPECT_EQ(curves.back().norm, curves[0].norm) << together;
    EXPECT_EQ(curves.back().validation, curves[0].validation) << together;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Exchanges, MessagesAtOnce,
    ::testing::Values(Exchange{"powersgd", [](TrainConfig& c) { c.compress[TrafficClass::dp_gradient].codec = "powersgd:rank=2+ef"; }},
                      Exchange{"two_shot",
                               [](TrainConfig& c) {
                                 c.compress[TrafficClass::dp_gradient].codec = "group+ef";
                                 c.compress[TrafficClass::dp_gradient].protocol = Protocol::two_shot;
                               }},
                      Exchange{"momentum", [](TrainConfig& c) { c.optimizer = "onebit_adam:freeze=3", c.compress[TrafficClass::optimizer].codec = "sign:scale=l2+ef"; }},
                      Exchange{"shards",
                               [](TrainConfig& c) {
                                 c.zero_stage = 3;
                                 c.micro_batch = 1;
                                 c.compress[TrafficClass::grad_reduce_scatter].codec = "sketch+ef", c.compress[TrafficClass::param_all_gather].codec = "group:bits=8";
                               }},
                      Exchange{"replicas_apart",
                               [](TrainConfig& c) {
                                 c.mesh.dp_replicas = 4;
                                 c.optimizer = "adamw+local_sgd:inner_steps=2", c.compress[TrafficClass::outer_gradient].codec = "chunk_topk:k=16+ef";
                               }},
                      Exchange{"stages", [](TrainConfig& c) { c.mesh = {1, 2, 2}, c.compress[TrafficClass::dp_gradient].codec = "topk:fraction=0.1+ef"; }}),
    [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace thinwire
