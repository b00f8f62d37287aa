// Values whole on every rank, of which each updates its rows and sends them to the others after every step (Rajbhandari et al., "ZeRO: Memory
// Optimizations Toward Training Trillion Parameter Models", SC 2020). Of each matrix a rank keeps optimizer state for a block of rows alone.
//   zero stage 1 (P_os): gradients are whole too.
//   zero stage 2 (P_os+g): a gradient is whole while backward passes add to it; when it was reduced a rank keeps its rows.
// A rank keeps its rows of the weights in full precision besides, because what is gathered may be rounded or compressed. Vectors are kept whole,
// and so is the tied table of a pipeline where its two copies are summed over stages and replicas at once; with --param-dtype passes read them rounded, too.
#include <deque>

#include "core/tensor_names.h"
#include "models/store/rounded_values.h"
#include "models/store/shards.h"

namespace thinwire {
namespace {

template <typename T, bool lends>
class UpdatedRowsStore : public ParameterStore<T> {
 public:
  explicit UpdatedRowsStore(const StoreContext<T>& c)
      : first_stage_(c.mesh.first_stage()), exchange_(weight_exchange(c)), gradients_(c, pool_), rounded_(c.param_dtype, c.clock) {
    for (auto p = c.parameters.rbegin(); p != c.parameters.rend(); ++p) {
      if (c.keeps_whole(p->parameter)) continue;
      const bool splits = exchange_ && is_matrix(*p->parameter);
      make_values(*p->parameter);
      if (!(splits && lends)) make_gradient(*p->parameter);
      OwnedPart<T>& part = parts_.emplace_back(whole_part(*p));
      if (!splits) {
        rounded_.keep(part);
        continue;
      }
      part.tied_table = p->parameter == c.table;
      keep_rows(part, exchange_.owners(), kept_.emplace_back());
      rounded_.round(p->parameter->value.view());
      if constexpr (lends)
        gradients_.add(part);
      else
        part.gradient = rows_of(part.gradient, part.rows);
    }
    if (!c.table || c.shards_table) return;
    make_values(*c.table), make_gradient(*c.table);
    rounded_.keep(parts_.emplace_back(table_part(*c.table)));
  }
  const std::vector<OwnedPart<T>>& parts() const override { return parts_; }

  void updated(std::int64_t version) override {
    this->version_ = version;
    MessageKey key;
    key.step = version - 1;  // of the update
    std::deque<RowExchange::Ticket> gathers;
    // Between two steps a message has a block of its own: not all of them at once.
    const std::size_t most = exchange_.owners().two_levels() ? 8 : parts_.size();
    for (const OwnedPart<T>& part : parts_) {
      if (!part.sharded) continue;
      key.tensor = tensor_id(part.parameter->name());
      gathers.push_back(exchange_.gather(part.rule_layer, key, part.weights, part.parameter->value.view()));
      if (gathers.size() < most) continue;
      exchange_.wait(gathers.front(), "weights", this->waited_us);
      gathers.pop_front();
    }
    rounded_.follow();
    for (const RowExchange::Ticket& gather : gathers) exchange_.wait(gather, "weights", this->waited_us);
  }
  void loaded(std::int64_t version) override {
    this->version_ = version;
    rounded_.follow();
    for (const OwnedPart<T>& part : parts_)
      if (part.sharded) rounded_.round(part.parameter->value.view());
  }
  void lend_gradients(int unit) override { gradients_.lend(unit); }
  void gradient_reduced(const OwnedPart<T>& part) override { gradients_.reduced(*part.parameter); }

  // The whole values are what was sent, which may be less than the owners keep.
  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    for (const OwnedPart<T>& part : parts_) {
      slots.push_back(weights_slot(part.parameter->layout, part.sharded ? part.parameter->value.view() : part.weights));
      slots.back().copy = part.tied_table && !first_stage_;
      if (!part.sharded) continue;
      if (!rounded_) slots.back().sources = {"weights"};  // else the rounded full precision, whoever saved it
      StateSlot& kept = slots.emplace_back(weights_slot(part.parameter->layout, part.weights));
      kept.name = "full_precision_weights";
      kept.owner = Owner::sharded, kept.first_row = part.rows.first, kept.copy = part.tied_table && !first_stage_;
    }
    return slots;
  }

 private:
  bool first_stage_;
  RowExchange exchange_;
  std::vector<OwnedPart<T>> parts_;
  std::deque<Tensor> kept_;
  MemoryPool pool_;
  LentGradients<T> gradients_;
  RoundedValues<T> rounded_;
};

template <typename T>
using Zero1Store = UpdatedRowsStore<T, false>;
template <typename T>
using Zero2Store = UpdatedRowsStore<T, true>;

std::vector<ChannelSpec> channels(const TrainConfig&, ProcessMesh& mesh) { return weight_channels(mesh, false); }

// Kept besides: the full-precision rows, and the rows of the reduced gradient as they arrive.
StoreFootprint footprint_1(std::int64_t split, std::int64_t whole, int ranks) {
  return {.weights = split + whole, .gradients = split + whole, .kept = 2 * split / ranks, .owned = whole + split / ranks, .in_place = whole};
}
StoreFootprint footprint_2(std::int64_t split, std::int64_t whole, int ranks) {
  return {.weights = split + whole, .gradients = whole + split / ranks, .kept = split / ranks, .owned = whole + split / ranks, .in_place = whole};
}

const bool registered_1 = register_store<Zero1Store>({.zero_stage = 1,
                                                      .summary = "optimizer state of matrices split over the replicas",
                                                      .source = "Rajbhandari et al., ZeRO, SC 2020, P_os",
                                                      .shards_gradients = true,
                                                      .classes = {TrafficClass::param_all_gather},
                                                      .channels = channels,
                                                      .footprint = footprint_1});
const bool registered_2 = register_store<Zero2Store>({.zero_stage = 2,
                                                      .summary = "and their gradients",
                                                      .source = "Rajbhandari et al., ZeRO, SC 2020, P_os+g",
                                                      .shards_gradients = true,
                                                      .reduce = ReduceWhen::every,
                                                      .lends = true,
                                                      .classes = {TrafficClass::param_all_gather},
                                                      .channels = channels,
                                                      .footprint = footprint_2});

}  // namespace
}  // namespace thinwire
