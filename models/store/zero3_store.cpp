// Zero stage 3 (Rajbhandari et al., ZeRO, SC 2020, P_os+g+p; FSDP2's layout "rows"): of each matrix a rank keeps a block of rows, of weights, gradient
// and optimizer state alike. Units are gathered before their passes and given back after them, as the lowered schedule says (--zero-keep,
// --zero-prefetch); gradients are lent as in stage 2. What is gathered may be rounded or compressed: a rank encodes its rows once per version of the weights, so
// that forward pass, backward pass, recomputation and evaluation see the same bits, and the owner, too, computes with what it decoded. With --zero-node-shards the first gather of a
// version leaves a block of each matrix in every node, from which later ones are served without leaving it (Wang et al., ZeRO++, arXiv 2306.10209, hpZ); a block is as old as the
// weights or not used. Vectors are kept whole; with --param-dtype passes read them rounded, as what is gathered is.
#include <map>

#include "core/tensor_names.h"
#include "models/store/rounded_values.h"
#include "models/store/shards.h"

namespace thinwire {
namespace {

template <typename T>
class Zero3Store final : public ParameterStore<T> {
 public:
  explicit Zero3Store(const StoreContext<T>& c)
      : first_stage_(c.mesh.first_stage()), exchange_(weight_exchange(c)), node_shards_(c.node_shards), gradients_(c, pool_), rounded_(c.param_dtype, c.clock) {
    for (auto p = c.parameters.rbegin(); p != c.parameters.rend(); ++p) {
      if (c.keeps_whole(p->parameter)) continue;
      Parameter<T>& parameter = *p->parameter;
      const bool splits = exchange_ && is_matrix(parameter);
      if (!splits) make_values(parameter), make_gradient(parameter);
      OwnedPart<T>& part = parts_.emplace_back(whole_part(*p));
      if (!splits) {
        rounded_.keep(part);
        continue;
      }
      Shard& shard = shards_[&parameter];
      shard.rule_layer = p->rule_layer;
      part.tied_table = p->parameter == c.table;
      keep_rows(part, exchange_.owners(), shard.rows);
      gradients_.add(part);
      parameter.value = Tensor();
    }
    if (c.table && !c.shards_table) {
      make_values(*c.table), make_gradient(*c.table);
      rounded_.keep(parts_.emplace_back(table_part(*c.table)));
    }
    for (const Unit<T>& unit : c.units)
      for (Parameter<T>* p : unit.parameters)
        if (const auto found = shards_.find(p); found != shards_.end()) of_unit_[unit.layer].push_back(&*found);
  }

  const std::vector<OwnedPart<T>>& parts() const override { return parts_; }
  void updated(std::int64_t version) override {
    this->version_ = version;
    // Also where the version stays: an evaluation of other weights than those that are trained.
    exchange_.forget_payloads();
    for (auto& [p, shard] : shards_) shard.node_version = -1;
    rounded_.follow();
  }
  void loaded(std::int64_t version) override { updated(version); }

  // A tied table is read by two units and gathered once while both hold it.
  void unshard(int unit) override {
    exchange_.progress();
    for (auto* entry : of_unit_[unit]) {
      auto& [p, shard] = *entry;
      if (shard.users++ > 0) continue;
      p->value = pool_.take(p->shape(), dtype_of<T>);
      MessageKey key;
      key.tensor = tensor_id(p->name());
      key.step = this->version_;
      shard.version = this->version_;
      const bool in_node = node_shards_ && shard.node_version == this->version_;
      shard.gather = in_node ? exchange_.gather_inside(shard.rule_layer, key, shard.node_rows, p->value.view())
                             : exchange_.gather(shard.rule_layer, key, shard.rows.view(), p->value.view(), node_shards_ ? &shard.node_rows : nullptr);
      shard.node_version = this->version_;
    }
  }
  void wait_unshard(int unit) override {
    for (auto* entry : of_unit_[unit]) {
      auto& [p, shard] = *entry;
      if (shard.users == 0 || shard.version != this->version_)
        throw RuntimeFailure("The gathered values of '" + p->name() + "' are of version " + std::to_string(shard.version) + ", the weights of version " +
                             std::to_string(this->version_));
      if (shard.gather) exchange_.wait(shard.gather, "weights", this->waited_us);
      shard.gather = {};
    }
  }
  void reshard(int unit) override {
    for (auto* entry : of_unit_[unit]) {
      auto& [p, shard] = *entry;
      if (--shard.users == 0) pool_.give(p->value.own());
    }
  }
  void lend_gradients(int unit) override { gradients_.lend(unit); }
  void gradient_reduced(const OwnedPart<T>& part) override { gradients_.reduced(*part.parameter); }

  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    for (const OwnedPart<T>& part : parts_) {
      StateSlot& slot = slots.emplace_back(weights_slot(part.parameter->layout, part.weights));
      slot.copy = part.tied_table && !first_stage_;
      if (part.sharded) slot.owner = Owner::sharded, slot.first_row = part.rows.first;
    }
    return slots;
  }

 private:
  struct Shard {
    int rule_layer = 0, users = 0;
    std::int64_t version = -1;
    Tensor rows;  ///< this rank's weights
    Tensor node_rows;  ///< --zero-node-shards: the block that it serves its node from, as it arrived
    std::int64_t node_version = -1;
    RowExchange::Ticket gather;
  };

  bool first_stage_;
  RowExchange exchange_;
  bool node_shards_;
  std::vector<OwnedPart<T>> parts_;
  std::map<Parameter<T>*, Shard> shards_;
  std::map<int, std::vector<std::pair<Parameter<T>* const, Shard>*>> of_unit_;
  MemoryPool pool_;
  LentGradients<T> gradients_;
  RoundedValues<T> rounded_;
};

std::vector<ChannelSpec> channels(const TrainConfig&, ProcessMesh& mesh) { return weight_channels(mesh, true); }

StoreFootprint footprint(std::int64_t split, std::int64_t whole, int ranks) {
  return {.weights = whole + split / ranks, .gradients = whole + split / ranks, .owned = whole + split / ranks, .in_place = whole};
}

const bool registered = register_store<Zero3Store>({.zero_stage = 3,
                                                    .summary = "and the matrices themselves, gathered unit by unit",
                                                    .source = "Rajbhandari et al., ZeRO, SC 2020, P_os+g+p",
                                                    .gathers = true,
                                                    .keep = KeepGathered::layer,
                                                    .shards_gradients = true,
                                                    .reduce = ReduceWhen::every,
                                                    .lends = true,
                                                    .classes = {TrafficClass::param_all_gather},
                                                    .channels = channels,
                                                    .footprint = footprint});

}  // namespace
}  // namespace thinwire
