// Memory of one rank in closed form: what the model declares of its passes and parameters (models/stage/geometry.h), times what schedule, store and
// gradient synchronisation make of it. A test compares it with the counters of the allocator.
#include <algorithm>
#include <map>
#include <numeric>

#include "models/cost_model/flat_sizes.h"
#include "models/cost_model/remembered_bytes.h"
#include "models/cost_model/stored_bytes.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/parallel/schedule/schedule.h"
#include "models/stage/geometry.h"
#include "models/store/parameter_store.h"
#include "models/training/parallel_trainer.h"
#include "models/training/step_schedule.h"
#include "models/update/update_policy.h"

namespace thinwire {
namespace {

/// The copies of it that two stages hold, if they are not shared out.
bool table_is_whole(const TrainConfig& c) { return c.mesh.pp > 1 && !c.shards_table(); }

/// Most micro-batches of a chunk whose activations are alive at once on this stage, summed over its chunks.
std::int64_t live_micro_batches(const Schedule& schedule, int stage) {
  std::int64_t live = 0, most = 0;
  for (const Instruction& i : schedule.stage[static_cast<std::size_t>(stage)]) {
    // A received activation is alive before its forward pass.
    const bool begins = i.kind == InstructionKind::forward && i.at_first_unit();
    if (begins) most = std::max(most, ++live);
    if (i.kind == InstructionKind::backward && i.at_first_unit()) --live;
  }
  return most;
}

/// Parameters of a rank, all its chunks together, in numbers.
struct RankParameters {
  std::vector<std::int64_t> matrices;  ///< one by one, without a tied table
  std::int64_t in_matrices = 0, vectors = 0, table = 0;
  std::int64_t least_of_layers = 0, most_of_layers = 0, in_layers = 0;  ///< matrices of layers

  std::int64_t all() const { return in_matrices + vectors + table; }
};

RankParameters parameters_of(const std::vector<Geometry>& chunks, const FlatSizes* flats) {
  RankParameters all;
  for (const Geometry& chunk : chunks)
    for (const DeclaredUnit& unit : chunk.units)
      for (const DeclaredParameter& p : unit.parameters) {
        const std::int64_t numbers = p.local();
        if (p.tied) {
          all.table = numbers;  // read by two units, held once
        } else if (!p.decays) {
          all.vectors += numbers;
        } else {
          all.matrices.push_back(numbers);
          all.in_matrices += numbers;
          if (!unit.recomputed) continue;
          all.in_layers += numbers;
          all.least_of_layers = all.least_of_layers == 0 ? numbers : std::min(all.least_of_layers, numbers);
          all.most_of_layers = std::max(all.most_of_layers, numbers);
        }
      }
  if (!flats) return all;
  all.in_matrices = all.vectors = 0, all.matrices.clear();
  if (!flats->table_apart) all.table = 0;
  for (const FlatParameter& flat : flats->parameters) all.matrices.push_back(flat.elements()), all.in_matrices += flat.elements();
  return all;
}

/// Chunks of a rank take turns, and each set of activations is as large as that of the largest. What turns share is that of the chunk with most units
/// (first or last of the model): a pool's size depends on the order in which one chunk's passes borrow, and need not grow with the chunk.
PassMemory passes_of(const std::vector<Geometry>& chunks, const PassShape& pass) {
  PassMemory all;
  std::size_t units = 0;
  for (const Geometry& chunk : chunks) {
    const PassMemory m = chunk.memory(pass);
    for (const auto member : {&PassMemory::boundary, &PassMemory::saved, &PassMemory::again, &PassMemory::exact, &PassMemory::wire, &PassMemory::converted})
      all.*member = std::max(all.*member, m.*member);
    all.kept += m.kept;
    if (chunk.units.size() <= units) continue;
    units = chunk.units.size();
    all.scratch = m.scratch;
  }
  return all;
}

/// Bytes of matrices that a store has whole for a while only, and of the rows of a later micro-batch's gradient on their way to the first's.
std::int64_t lent_at_once(const TrainConfig& c, const Schedule& schedule, int stage, const std::vector<Geometry>& chunks, const FlatSizes* flats, std::int64_t size) {
  std::map<std::string, int> numbers;
  std::int64_t largest = 0;
  const auto matrices = [&](int chunk, int unit) {
    std::vector<LentMatrix> list;
    std::int64_t bytes = 0;
    const auto add = [&](const std::string& name, std::int64_t elements, bool completes) {
      const int id = numbers.emplace(name, static_cast<int>(numbers.size())).first->second;
      list.push_back({id, elements * size, completes});
      bytes += elements * size;
    };
    if (flats) {
      const int place = flats->place(chunk, unit);
      for (const FlatParameter& flat : flats->parameters)
        if (std::ranges::find(flat.readers, place) != flat.readers.end()) add(flat.name, flat.elements(), place == flat.home());
    } else {
      for (const DeclaredParameter& p : chunks.at(static_cast<std::size_t>(chunk)).units.at(static_cast<std::size_t>(unit)).parameters)
        if (p.decays && !(p.tied && table_is_whole(c))) add(p.name(), p.local(), !p.tied || c.mesh.pp > 1 || unit == 0);
    }
    largest = std::max(largest, bytes);
    return list;
  };
  const std::int64_t lent = peak_lent(schedule, stage, matrices);
  const auto& list = schedule.stage.at(static_cast<std::size_t>(stage));
  const bool adds = std::ranges::any_of(list, [](const Instruction& i) { return i.kind == InstructionKind::reduce && i.micro > 0; }) &&
                    std::ranges::any_of(list, [](const Instruction& i) { return i.kind == InstructionKind::reduce && i.micro == 0; });
  return lent + (adds ? largest / c.mesh.data().within_replica() : 0);
}

std::int64_t wire_bytes(const TrainConfig& c, TrafficClass traffic) { return static_cast<std::int64_t>(size_of(c.wire(traffic))); }

/// Of a matrix of which a rank has the rows of 1 / W on one side of an exchange and all on the other: converted numbers on both sides of each channel. Between
/// the steps of two lie the rows of 1 / L.
std::int64_t converted_by_exchange(const TrainConfig& c, std::int64_t matrix) {
  const DataAxis axis = c.mesh.data();
  const bool two_levels = RowOwners{axis, {}}.two_levels();
  return matrix + matrix / axis.within_replica() + (two_levels ? 2 * matrix / axis.inside : 0);
}

/// Sums over replicas in 1-D: packed buckets, and the wire's buffers of the largest message in flight; likewise what gathers rows of weights. Bytes.
std::int64_t replica_sums(const TrainConfig& c, const RankParameters& p, bool sharded, std::int64_t size) {
  const std::int64_t bucket = c.bucket_bytes(p.all() * size);
  const std::int64_t packed = (p.least_of_layers * size < bucket && !sharded ? p.in_matrices : 0) + p.vectors;
  const std::int64_t summed = wire_bytes(c, TrafficClass::dp_gradient), gathered = wire_bytes(c, TrafficClass::param_all_gather);
  std::int64_t converted = 0;
  if (!sharded) {
    const std::int64_t largest = std::max(std::min(bucket, p.all() * size), p.most_of_layers * size) / size;
    if (summed != size) converted += 2 * largest * summed;
  } else {
    std::int64_t matrix = table_is_whole(c) ? 0 : p.table;
    for (const std::int64_t elements : p.matrices) matrix = std::max(matrix, elements);
    if (summed != size) converted += (converted_by_exchange(c, matrix) + 2 * std::min(bucket / size, p.vectors)) * summed;
    if (gathered != size) converted += converted_by_exchange(c, matrix) * gathered;
  }
  return packed * size + converted;
}

/// Of sums over replicas whose small messages are under way together: what a ring has of each, two blocks, and the conversions. Bytes.
std::int64_t beside_each_other(const TrainConfig& c, const RankParameters& p, bool sharded, std::int64_t size) {
  const DataAxis axis = c.mesh.data();
  const int ranks = axis.within_replica();
  if (c.messages_at_once == 1 || ranks == 1 || c.device != DeviceKind::host) return 0;
  const std::int64_t bucket = std::max<std::int64_t>(1, c.bucket_bytes(p.all() * size) / size);
  std::vector<std::int64_t> messages;
  std::int64_t packed = 0;
  const auto add = [&](std::int64_t elements) {
    if (sharded || elements >= bucket)
      messages.push_back(elements);
    else
      packed += elements;
  };
  for (const std::int64_t elements : p.matrices) add(elements);
  if (!table_is_whole(c)) add(p.table);
  for (packed += p.vectors; packed > 0; packed -= bucket) messages.push_back(std::min(bucket, packed));
  std::erase_if(messages, [&](std::int64_t elements) { return elements * size > small_bytes; });
  // Of those of a step the first to so many, and in turn those behind them, have a place each.
  std::vector<std::int64_t> places(static_cast<std::size_t>(c.messages_at_once), 0);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::int64_t& most = places[i % places.size()];
    most = std::max(most, messages[i]);
  }
  const std::int64_t all = std::accumulate(places.begin(), places.end(), std::int64_t{0});
  const std::int64_t summed = wire_bytes(c, sharded ? TrafficClass::grad_reduce_scatter : TrafficClass::dp_gradient), gathered = wire_bytes(c, TrafficClass::param_all_gather);
  std::int64_t bytes = 2 * (all / ranks) * summed;
  if (summed != size) bytes += sharded ? converted_by_exchange(c, all) * summed : 2 * all * summed;
  if (sharded && gathered != size) bytes += converted_by_exchange(c, all) * gathered;
  return bytes;
}

/// On a grid also those of the tied table: packed buckets, and of the largest message two blocks of a ring and the conversions. Bytes.
std::int64_t replica_sums_of_grid(const TrainConfig& c, const RankParameters& p, bool sharded, std::int64_t size, std::int64_t wire) {
  std::int64_t bytes = 0;
  const auto ring = [&](std::int64_t elements, std::int64_t ranks) {
    if (ranks > 1) bytes += 2 * ((elements + ranks - 1) / ranks) * wire + (wire != size ? 2 * elements * wire : 0);
  };
  if (c.mesh.dp > 1) {
    const std::int64_t bucket = c.bucket_bytes(p.all() * size) / size;
    std::vector<std::int64_t> matrices = p.matrices;
    if (c.mesh.pp == 1) matrices.push_back(p.table);
    std::int64_t packed = p.vectors, alone = 0;
    for (const std::int64_t elements : matrices) {
      if (sharded || elements >= bucket)
        alone = std::max(alone, elements);
      else
        packed += elements;
    }
    bytes += packed * size;
    ring(std::max(alone, std::min(bucket, packed)), c.mesh.dp);
    if (c.mesh.pp > 1) ring(p.table, c.mesh.dp);
  }
  if (c.mesh.pp > 1) ring(p.table, 2);
  return bytes;
}

/// Sums between replicas that train apart, of what no rule covers: all of it is one message, of which a ring
/// has two blocks and the wire both sides. Bytes.
std::int64_t outer_sums(const TrainConfig& c, const RankParameters& p, double coded, std::int64_t size) {
  const DataAxis axis = c.mesh.data();
  if (axis.replicas == 1) return 0;
  const UpdateExpression update = parse_update(c.optimizer);
  const double share = update.info->message_share ? update.info->message_share(update.options) : 1;
  const double owned = c.shards_gradients() ? 1.0 / axis.within_replica() : 1;
  const std::int64_t whole = p.vectors + (table_is_whole(c) ? p.table : 0);
  const double message =
      share * (static_cast<double>(whole) + owned * (static_cast<double>(p.all() - whole) - coded));
  const std::int64_t wire = wire_bytes(c, TrafficClass::outer_gradient);
  return static_cast<std::int64_t>((2.0 / axis.replicas + (wire != size ? 2 : 0)) * message *
                                   static_cast<double>(wire));
}

}  // namespace

MemoryEstimate estimate_memory(const TrainConfig& c, const MeshCoordinates& at) {
  if (c.slices().size() > 1)
    throw UsageError("--show-memory has no closed form for --token-slices " + c.token_slices + " yet; ask without, and add 2 x batch x seq x hidden numbers per layer and micro-batch for keys and values");
  const Schedule schedule = training_schedule(c);
  const std::int64_t live = live_micro_batches(schedule, at.pp);
  const std::int64_t size = c.dtype == DType::f64 ? 8 : 4, wire = wire_bytes(c, TrafficClass::tp_forward);
  const TensorSplit split{parse_grid(c.tensor_parallel, c.mesh.tp), at.tp, c.sequence_parallel};
  const std::vector<Geometry> chunks = stage_geometries(c, schedule, at.pp, split);
  const std::optional<FlatSizes> flat = flat_sizes(c, chunks);
  const FlatSizes* flats = flat ? &*flat : nullptr;
  const RankParameters p = parameters_of(chunks, flats);
  const bool rounds = c.model.compute == nn::ComputeType::bf16 && c.dtype == DType::f32 && c.device == DeviceKind::host;
  const PassMemory passes = passes_of(chunks, {c.micro_batch, c.seq, c.recompute, rounds});
  const bool grid = split.shape.kind != GridKind::one_d, pipeline = c.mesh.pp > 1;
  const bool sharded = c.shards_gradients();

  MemoryEstimate m;
  const std::int64_t splittable = p.in_matrices + (table_is_whole(c) ? 0 : p.table);
  const StoredBytes stored = stored_bytes(c, splittable, p.in_layers, p.all() - splittable, size);
  const std::int64_t in_node = c.zero_node_shards ? splittable / c.mesh.data().inside * size : 0;
  m.weights = stored.weights + in_node, m.gradients = stored.gradients, m.optimizer = stored.optimizer;
  m.codecs = remembered_bytes(c, at.pp, chunks);
  m.activations = (live * passes.saved + passes.again) * size;
  // Gradients in flight, and what the model says of itself.
  m.workspace = (passes.scratch + passes.kept + passes.boundary * (pipeline ? 2 : 1)) * size;
  if (sharded && store_info(c.zero_stage).lends) m.workspace += lent_at_once(c, schedule, at.pp, chunks, flats, size);
  m.workspace += passes.exact * size + passes.wire * wire + (wire != size ? passes.converted * wire : 0);
  if (grid)
    m.workspace += replica_sums_of_grid(c, p, sharded, size, wire_bytes(c, TrafficClass::dp_gradient));
  else if (c.mesh.data().within_replica() > 1)
    m.workspace += replica_sums(c, p, sharded, size) + beside_each_other(c, p, sharded, size);
  m.workspace += outer_sums(c, p, coded_outer_gradients(c, at.pp, chunks), size);
  if (wire != size && pipeline) m.workspace += 4 * passes.boundary * wire;
  return m;
}

}  // namespace thinwire
