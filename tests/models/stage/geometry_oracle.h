// What a model declares of itself against the stage that is really made.
#pragma once

#include <optional>

#include "models/stage/model_kind.h"
#include "tests/collectives/world.h"

namespace thinwire::testing {

/// Channels and group of 1-D tensor parallelism over all ranks of the launch.
class TensorRanks {
 public:
  explicit TensorRanks(bool sequence_parallel) {
    if (world().size() == 1) return;
    ChannelPairOptions options;
    options.comm_dtype = DType::f64;
    forward_.emplace(world(), TrafficClass::tp_forward, CompressRule(), options);
    backward_.emplace(world(), TrafficClass::tp_backward, CompressRule(), options);
    ChannelOptions control;
    control.traffic = TrafficClass::control;
    control.comm_dtype = DType::f64, control.protocol = Protocol::dense;
    look_up_.emplace(world(), control);
    control_.emplace(world(), control);
    group.emplace(*forward_, *backward_, *look_up_, *control_, 0, sequence_parallel);
  }
  TensorParallel<double>& get() { return group ? *group : alone_; }

 private:
  TensorParallel<double> alone_;
  std::optional<ChannelPair> forward_, backward_;
  std::optional<Channel> look_up_, control_;
  std::optional<TensorParallel<double>> group;
};

/// Units, parameters, the tied table and the boundary of a part, name by name and number by number.
inline void expect_as_declared(Stage<double>& stage, const Geometry& declared, const PassShape& pass, const std::string& what) {
  ASSERT_EQ(declared.units.size(), stage.units().size()) << what;
  for (std::size_t u = 0; u < declared.units.size(); ++u) {
    const DeclaredUnit& mine = declared.units[u];
    const Unit<double>& made = stage.units()[u];
    EXPECT_EQ(mine.name, made.name) << what;
    EXPECT_EQ(mine.layer, made.layer) << what << " " << made.name;
    ASSERT_EQ(mine.parameters.size(), made.parameters.size()) << what << " " << made.name;
    for (std::size_t i = 0; i < mine.parameters.size(); ++i) {
      const DeclaredParameter& p = mine.parameters[i];
      const Parameter<double>& q = *made.parameters[i];
      const std::string name = what + " " + q.name();
      EXPECT_EQ(p.name(), q.name()) << what;
      EXPECT_EQ(p.layout.global(), q.layout.global()) << name;
      EXPECT_EQ(p.layout.local(), q.value.shape()) << name;
      EXPECT_EQ(p.layout.rows(), q.layout.rows()) << name;
      EXPECT_EQ(p.layout.columns(), q.layout.columns()) << name;
      EXPECT_EQ(p.layout.replicas(), q.layout.replicas()) << name;
      EXPECT_EQ(p.decays, q.decays) << name;
      EXPECT_EQ(p.tied, &q == stage.tied_table()) << name;
    }
  }
  std::int64_t held = 0, told = 0;
  for (const Parameter<double>* p : stage.parameters()) held += p->elements();
  for (const DeclaredParameter& p : declared.parameters()) told += p.local();
  EXPECT_EQ(told, held) << what;
  EXPECT_EQ(declared.memory(pass).boundary, stage.boundary({pass.batch, pass.seq}).elements()) << what;
}

}  // namespace thinwire::testing
