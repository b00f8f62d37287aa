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

ChannelPair* TrainerChannels::open_pair(const char* name, Communicator& group, TrafficClass traffic, bool average, bool kept) {
  ChannelPairOptions o{wire_, config_.form, average, kept && config_.recompute, config_.error_interval > 0, config_.mesh.pp,
                static_cast<int>(config_.micro_batches())};
  pairs_.push_back(std::make_unique<ChannelPair>(group, traffic, rule_in_form(config_, traffic), o));
  pair_names_.push_back(name);
  return pairs_.back().get();
}

Channel* TrainerChannels::open_channel(Communicator& group, TrafficClass traffic, DType type) {
  channels_.push_back(std::make_unique<Channel>(dense_channel(group, traffic, type)));
  return channels_.back().get();
}

// Opening a channel is collective over its group: all ranks open theirs in the same order.
TrainerChannels::TrainerChannels(Communicator& world, ProcessMesh& mesh, const TrainConfig& config, DType wire, DType exact) : config_(config), wire_(wire) {
  const MeshShape& m = config.mesh;
  tensor_control = gradient.tensor_control = open_channel(mesh.tp(), TrafficClass::control, exact);
  {
    const PlacementScope host{Device()};  // single numbers, which the host decides by
    for (Communicator* group : {&mesh.tp(), &mesh.pp(), &mesh.dp()}) sum_channels_.push_back(open_channel(*group, TrafficClass::control, DType::f64));
  }
  if (m.tp > 1 && parse_grid(config.tensor_parallel, m.tp).kind == GridKind::one_d) {
    tensor_forward = open_pair("tp_forward", mesh.tp(), TrafficClass::tp_forward, false, true);
    tensor_backward = open_pair("tp_backward", mesh.tp(), TrafficClass::tp_backward);
    look_up = open_channel(mesh.tp(), TrafficClass::control, wire);
  }
  if (m.pp > 1) {
    boundary.forward = open_pair("pp_forward", mesh.pp(), TrafficClass::pp_forward);
    boundary.backward = open_pair("pp_backward", mesh.pp(), TrafficClass::pp_backward);
    if (config.scatter_gather && m.tp > 1) {
      boundary.gather_forward = open_channel(mesh.tp(), TrafficClass::pp_forward, wire);
      boundary.gather_backward = open_channel(mesh.tp(), TrafficClass::pp_backward, wire);
    }
  }
  if (m.dp > 1) {
    gradient.gradient = open_pair("dp_gradient", mesh.dp(), TrafficClass::dp_gradient, true);
    if (config.zero_stage > 0) {
      gradient.scatter = open_pair("grad_reduce_scatter", mesh.dp(), TrafficClass::grad_reduce_scatter, true);
      gradient.gather = open_pair("param_all_gather", mesh.dp(), TrafficClass::param_all_gather);
    }
  }
  if (m.pp > 1) open_embedding(world, mesh);
}

void TrainerChannels::open_embedding(Communicator& world, ProcessMesh& mesh) {
  if (config_.embedding_sync == "fused") {
    embedding_group_ = world.split(group_of(fused_embedding_groups(config_.mesh, config_.form), world.rank()), world.rank());
    if (embedding_group_) gradient.embedding_dp = open_pair("embedding", *embedding_group_, TrafficClass::embedding);
    return;
  }
  if (!mesh.first_stage() && !mesh.last_stage()) return;
  if (config_.mesh.dp > 1) gradient.embedding_dp = open_pair("embedding.replicas", mesh.dp(), TrafficClass::embedding);
  gradient.embedding_stages = open_pair("embedding.stages", *mesh.embedding(), TrafficClass::embedding);
}

void TrainerChannels::sum_over_mesh(std::span<double> values, std::int64_t step) {
  const PlacementScope host{Device()};
  MessageKey key;
  key.tensor = hash_name("step sums");
  key.step = step;
  const TensorView view(values.data(), {static_cast<std::int64_t>(values.size())});
  for (Channel* channel : sum_channels_)
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
