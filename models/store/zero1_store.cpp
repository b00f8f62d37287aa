// Zero stage 1 (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, P_os): values and gradients
// are whole on every rank, but of each matrix a rank updates, and keeps optimizer state for, a block of rows alone. Its rows of the weights it
// keeps in full precision besides, because what is gathered may be rounded or compressed. Vectors are kept whole, and so is the tied table of
// a pipeline.
#include <deque>

#include "collectives/communicator/process_mesh.h"
#include "core/process/trace.h"
#include "core/tensor_names.h"
#include "models/parallel/channels/channel_pair.h"
#include "models/store/parameter_store.h"

namespace thinwire {
namespace {

constexpr const char* gather_name = "param_all_gather";

template <typename T>
class Zero1Store final : public ParameterStore<T> {
 public:
  explicit Zero1Store(const StoreContext<T>& c)
      : stage_(c.mesh.coordinates().pp), first_stage_(c.mesh.first_stage()), gather_(find_channel(c.channels, gather_name)) {
    for (auto p = c.parameters.rbegin(); p != c.parameters.rend(); ++p) {
      if (p->parameter == c.table) continue;
      parts_.push_back(whole_part(*p));
      if (gather_ && is_matrix(*p->parameter)) shard(parts_.back(), c.mesh.shape().data().within_replica(), c.mesh.data_coordinates().within_replica);
    }
    if (c.table) parts_.push_back(table_part(*c.table));
  }
  const std::vector<OwnedPart<T>>& parts() const override { return parts_; }

  void updated(std::int64_t version) override {
    this->version_ = version;
    MessageKey key;
    key.step = version - 1;  // of the update
    std::vector<Operation> gathers;
    for (const OwnedPart<T>& part : parts_) {
      if (!part.sharded) continue;
      key.tensor = tensor_id(part.parameter->name());
      gathers.push_back(gather_->at(part.unit, stage_, key).all_gather(part.weights, part.parameter->value.view(), key));
    }
    for (Operation& gather : gathers) {
      const std::int64_t begin = now_ns();
      gather.wait();
      const std::int64_t end = now_ns();
      this->waited_us += static_cast<double>(end - begin) * 1e-3;
      Trace::add(TraceCategory::wait, "weights", begin, end);
    }
  }
  void loaded(std::int64_t version) override { this->version_ = version; }

  // The whole values are what was sent, which may be less than the owners keep.
  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    for (const OwnedPart<T>& part : parts_) {
      slots.push_back(weights_slot(part.parameter->layout, part.parameter->value.view()));
      slots.back().copy = part.tied_table && !first_stage_;
      if (!part.sharded) continue;
      slots.back().sources = {"weights"};
      StateSlot& kept = slots.emplace_back(weights_slot(part.parameter->layout, part.weights));
      kept.name = "full_precision_weights";
      kept.owner = Owner::sharded, kept.first_row = part.rows.first;
    }
    return slots;
  }

 private:
  void shard(OwnedPart<T>& part, int ranks, int index) {
    const Parameter<T>& p = *part.parameter;
    part.sharded = true;
    part.rows = shard_rows(p.value.shape().rows(), index, ranks);
    Tensor& kept = kept_.emplace_back(Shape{part.rows.count, p.value.shape().columns()}, dtype_of<T>);
    copy_bytes(kept.view().data(), p.w() + part.rows.first * p.value.shape().columns(), kept.bytes());
    part.weights = kept.view();
    part.gradient = rows_of(part.gradient, part.rows);
  }

  int stage_;
  bool first_stage_;
  ChannelPair* gather_;
  std::vector<OwnedPart<T>> parts_;
  std::deque<Tensor> kept_;
};

std::vector<ChannelSpec> channels(const TrainConfig&, ProcessMesh&) {
  return {{.name = gather_name, .traffic = TrafficClass::param_all_gather, .group = "within_replica"}};
}

// The full-precision rows, and the rows of the reduced gradient as they arrive.
StoreFootprint footprint(std::int64_t split, std::int64_t whole, int ranks) {
  return {.weights = split + whole, .gradients = split + whole, .kept = 2 * split / ranks, .owned = whole + split / ranks};
}

const bool registered = register_store<Zero1Store>({.zero_stage = 1,
                                                    .summary = "optimizer state of matrices split over the replicas",
                                                    .source = "Rajbhandari et al., ZeRO, SC 2020, P_os",
                                                    .shards_gradients = true,
                                                    .classes = {TrafficClass::param_all_gather},
                                                    .channels = channels,
                                                    .footprint = footprint});

}  // namespace
}  // namespace thinwire
