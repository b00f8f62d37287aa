// One traffic class between one group of ranks: a dense channel, and a coded one for the messages that the compression rule
// covers. Says for every message which of the two it takes; both ends of a message decide alike.
#pragma once

#include <optional>
#include <vector>

#include "collectives/channel/channel.h"
#include "models/parallel/channels/rule_coverage.h"
#include "models/parallel/channels/traffic_record.h"

namespace thinwire {

struct ChannelPairOptions {
  DType comm_dtype = DType::f32;  ///< of dense transfers
  Form form = Form::fair;
  bool average = false;
  bool keep_for_recompute = false;
  bool measures_errors = false;  ///< compare() will be called
  int stages = 1, micro_batches = 1;  ///< of the pipeline and of one step: what CompressRule::epilogue_only goes by
  ReduceOp operation = ReduceOp::sum;  ///< of the dense channel's reductions
  bool reuse_payloads = false;
  ChannelLevel level = ChannelLevel::whole;  ///< for records
  std::optional<std::uint64_t> run_seed = {};  ///< ChannelOptions::run_seed
  int small_at_once = 0;                       ///< ChannelOptions::small_at_once, of either channel
};

class ChannelPair {
 public:
  /// Collective over `group`.
  ChannelPair(Communicator& group, TrafficClass traffic, const CompressRule& rule, const ChannelPairOptions& options);

  /// Whether the rule covers the message of this layer (and pipeline stage: of the sender, or of the group); `elements`: where it goes by size.
  bool codes(int layer, int stage, const MessageKey& key, std::int64_t elements = std::numeric_limits<std::int64_t>::max()) const {
    return coded_ && coverage_.covers(layer, stage, key, elements);
  }
  Channel& at(int layer, int stage, const MessageKey& key, std::int64_t elements = std::numeric_limits<std::int64_t>::max()) {
    return codes(layer, stage, key, elements) ? *coded_ : dense_;
  }
  /// Before this step it covers no message of training.
  std::int64_t first_coded_step() const { return coverage_.first_step(); }
  Channel& dense() { return dense_; }
  /// Null when the class is never compressed.
  Channel* coded() { return coded_ ? &*coded_ : nullptr; }
  const Channel* coded() const { return coded_ ? &*coded_ : nullptr; }
  int size() { return dense_.communicator().size(); }

  /// Reduces `in` once more, dense and unmetered, and adds the distance of `reduced` from that to the step's error norms.
  /// Collective; outside of timed steps.
  void compare_reduction(ConstTensorView in, ConstTensorView reduced, const MessageKey& key);
  /// Likewise of a message between two ranks. The operation is empty where nothing is compared; `in` must stay valid until it is
  /// done.
  Operation compare_sent(ConstTensorView in, int to, const MessageKey& key);
  void compare_received(ConstTensorView decoded, int from, const MessageKey& key);

  void set_compute(ComputeMode mode, double scale);
  /// Channel::omit, dense and coded.
  void omit(bool omitted);
  void drain_link(LinkDrain* drain);
  void progress();
  /// Appends what this class cost since the last call, dense and coded apart, and starts anew.
  void take_records(std::vector<TrafficRecord>& records);

 private:
  void add_error(ConstTensorView approximate, ConstTensorView exact);
  RuleCoverage coverage_;
  Channel dense_;
  std::optional<Channel> coded_, probe_;
  ChannelLevel level_;
  Tensor exact_;
  double error_squared_ = 0, reference_squared_ = 0;
};

}  // namespace thinwire
