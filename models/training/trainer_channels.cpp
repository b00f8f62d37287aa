#include "models/training/trainer_channels.h"

#include <utility>

#include "core/tensor_names.h"
#include "models/layout/grid_shape.h"
#include "models/parallel/channels/dense_algorithm.h"
#include "models/training/config/released_form.h"

namespace thinwire {
namespace {

Channel dense_channel(Communicator& group, TrafficClass traffic, DType wire) {
  ChannelOptions o;
  o.traffic = traffic;
  o.comm_dtype = wire;
  o.protocol = Protocol::dense;  // a gather of boundary tensors is a collective of a point-to-point class
  // Sums of a few numbers are faster by the library's tree.
  o.algorithm = traffic == TrafficClass::control && wire == DType::f64 ? DenseAlgorithm::library : dense_algorithm(group);
  return Channel(group, o);
}

}  // namespace

ChannelPair* TrainerChannels::open_pair(const std::string& name, Communicator& group, const ChannelSpec& spec, bool kept, int small_at_once) {
  ChannelPairOptions o{config_.wire(spec.traffic), config_.form, spec.average, kept && config_.recompute, config_.error_interval > 0, config_.stages(),
                static_cast<int>(config_.micro_batches())};
  o.reuse_payloads = spec.reuse_payloads, o.level = spec.level, o.run_seed = config_.model.seed;
  CompressRule rule = rule_in_form(config_, spec.traffic);
  if (spec.level == ChannelLevel::inside) rule.codec = rule.inside, rule.protocol = Protocol::automatic;
  o.small_at_once = small_at_once;
  pairs_.push_back(std::make_unique<ChannelPair>(group, spec.traffic, rule, o));
  pair_names_.push_back(name);
  return pairs_.back().get();
}

Channel* TrainerChannels::open_channel(Communicator& group, TrafficClass traffic, DType type) {
  channels_.push_back(std::make_unique<Channel>(dense_channel(group, traffic, type)));
  return channels_.back().get();
}

// Opening a channel is collective over its group: all ranks open theirs in the same order.
TrainerChannels::TrainerChannels(Communicator& world, ProcessMesh& mesh, const TrainConfig& config, std::span<const ChannelSpec> wanted, DType exact)
    : config_(config) {
  const MeshShape& m = config.mesh;
  tensor_control = open_channel(mesh.tp(), TrafficClass::control, exact);
  {
    const PlacementScope host{Device()};  // single numbers, which the host decides by
    const bool apart = m.data().replicas > 1;
    const auto open = [&](NormScope level, Communicator* group) {
      if (group) sum_channels_[level].push_back(open_channel(*group, TrafficClass::control, DType::f64));
    };
    open(NormScope::model, &mesh.tp());
    open(NormScope::model, &mesh.pp());
    open(NormScope::replica, apart ? mesh.group("within_replica") : &mesh.dp());
    if (apart) open(NormScope::all, mesh.group("replica"));
  }
  if (m.tp > 1 && parse_grid(config.tensor_parallel, m.tp).kind == GridKind::one_d) {
    tensor_forward = open_pair("tp_forward", mesh.tp(), {.traffic = TrafficClass::tp_forward}, true);
    tensor_backward = open_pair("tp_backward", mesh.tp(), {.traffic = TrafficClass::tp_backward});
    look_up = open_channel(mesh.tp(), TrafficClass::control, config.wire(TrafficClass::control));
  }
  if (m.pp > 1) {
    boundary.forward = open_pair("pp_forward", mesh.pp(), {.traffic = TrafficClass::pp_forward});
    boundary.backward = open_pair("pp_backward", mesh.pp(), {.traffic = TrafficClass::pp_backward});
    if (config.scatter_gather && m.tp > 1) {
      boundary.gather_forward = open_channel(mesh.tp(), TrafficClass::pp_forward, config.wire(TrafficClass::pp_forward));
      boundary.gather_backward = open_channel(mesh.tp(), TrafficClass::pp_backward, config.wire(TrafficClass::pp_backward));
    }
  }
  if (config.boundary_stages > 0) local_boundary = open_pair("pp_backward", mesh.pp(), {.traffic = TrafficClass::pp_backward});
  open_wanted(world, mesh, wanted);
}

void TrainerChannels::open_wanted(Communicator& world, ProcessMesh& mesh, std::span<const ChannelSpec> wanted) {
  for (const ChannelSpec& spec : wanted) {
    TW_ASSERT(!named.contains(spec.name), spec.name + " is wanted twice");
    Communicator* group = nullptr;
    if (spec.group.empty()) {
      own_groups_.push_back(world.split(group_of(spec.ranks, world.rank()), world.rank()));
      group = own_groups_.back().get();
    } else {
      group = mesh.group(spec.group);
    }
    if (group) named[spec.name] = open_pair(spec.name, *group, spec, false, spec.traffic == TrafficClass::embedding || config_.messages_at_once == 1 ? 0 : config_.messages_at_once);
  }
}

void TrainerChannels::sum_over(NormScope level, std::span<double> values, std::int64_t step) {
  const PlacementScope host{Device()};
  MessageKey key;
  key.tensor = hash_name("step sums");
  key.step = step;
  const TensorView view(values.data(), {static_cast<std::int64_t>(values.size())});
  const auto of_level = sum_channels_.find(level);
  if (of_level == sum_channels_.end()) return;
  for (Channel* channel : of_level->second)
    if (channel->communicator().size() > 1) channel->all_reduce(view, view, key).wait();
}

void TrainerChannels::set_compute(ComputeMode mode, double scale) {
  for (auto& pair : pairs_) pair->set_compute(mode, scale);
  for (auto& channel : channels_) channel->set_compute(mode, scale);
}

void TrainerChannels::omit(const std::set<TrafficClass>& classes) {
  for (auto& pair : pairs_) pair->omit(classes.contains(pair->dense().options().traffic));
  for (auto& channel : channels_) channel->omit(classes.contains(channel->options().traffic));
}

void TrainerChannels::drain_link(LinkDrain* drain) {
  for (auto& pair : pairs_) pair->drain_link(drain);
  for (auto& channel : channels_) channel->drain_link_before_transfers(drain);
}

void TrainerChannels::take_records(std::vector<TrafficRecord>& records) {
  for (auto& pair : pairs_) pair->take_records(records);
  for (auto& channel : channels_) {
    if (channel->meter().operations() == 0) continue;
    records.push_back({channel->options().traffic, uncompressed, channel->meter().operations(), channel->meter().total(), 0, 0});
    channel->meter().reset();
  }
}

void TrainerChannels::save_states(std::map<std::string, std::vector<std::byte>>& to) const {
  for (std::size_t i = 0; i < pairs_.size(); ++i)
    if (const Channel* coded = std::as_const(*pairs_[i]).coded()) to[pair_names_[i]] = coded->save_state();
}

void TrainerChannels::load_states(const std::map<std::string, std::vector<std::byte>>& from) {
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    if (pairs_[i]->coded() == nullptr) continue;
    const auto found = from.find(pair_names_[i]);
    if (found == from.end()) throw CorruptData("The checkpoint has no codec state for '" + pair_names_[i] + "'");
    pairs_[i]->coded()->load_state(found->second);
  }
}

}  // namespace thinwire
