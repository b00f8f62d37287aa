// Memory of one rank in closed form. Follows what layers, schedule and gradient synchronisation allocate; a test compares it with
// the counters of the allocator.
#include <algorithm>

#include "models/cost_model/grid_memory.h"
#include "models/cost_model/stored_bytes.h"
#include "models/layers/embedding.h"
#include "models/store/parameter_store.h"
#include "models/training/parallel_trainer.h"
#include "models/training/step_schedule.h"
#include "models/parallel/schedule/schedule.h"

namespace thinwire {
namespace {

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

}  // namespace

MemoryEstimate estimate_memory(const TrainConfig& c, const MeshCoordinates& at) {
  if (c.slices().size() > 1)
    throw UsageError("--show-memory has no closed form for --token-slices " + c.token_slices + " yet; ask without, and add 2 x batch x seq x hidden numbers per layer and micro-batch for keys and values");
  const Schedule schedule = training_schedule(c);
  const std::int64_t live = live_micro_batches(schedule, at.pp);
  if (parse_grid(c.tensor_parallel, c.mesh.tp).kind != GridKind::one_d) return estimate_grid_memory(c, at, live);
  const std::int64_t size = c.dtype == DType::f64 ? 8 : 4, wire = c.dtype == DType::f64 ? 8 : static_cast<std::int64_t>(size_of(c.comm_dtype));
  const std::int64_t h = c.model.hidden, t = c.mesh.tp, rows = c.micro_batch * c.seq;
  const bool split_tokens = c.sequence_parallel && t > 1;
  const std::int64_t own = split_tokens ? (rows + t - 1) / t : rows;
  const std::int64_t layers = c.model.layers / c.mesh.pp;
  const bool first = at.pp == 0, last = at.pp == c.mesh.pp - 1;

  const std::int64_t matrices = layers * 12 * h * h / t + (first ? c.model.max_seq * h : 0);
  const std::int64_t vectors = layers * (7 * h / t + 6 * h) + (last ? 2 * h : 0);
  const std::int64_t table = first || last ? padded_vocabulary(c.model.vocab, static_cast<int>(t)) / t * h : 0;
  const std::int64_t parameters = matrices + vectors + table;

  MemoryEstimate m;
  const std::int64_t split = matrices + (c.mesh.pp == 1 ? table : 0);
  const StoredBytes stored = stored_bytes(c, split, parameters - split, size);
  m.weights = stored.weights, m.gradients = stored.gradients, m.optimizer = stored.optimizer;
  const bool sharded = c.mesh.data().within_replica() > 1 && store_info(c.zero_stage).shards_gradients;

  // One layer's activations of one micro-batch.
  const std::int64_t layer_output = own * h;
  const std::int64_t layer_all = rows * h * 2 + rows * (3 * h + h + 4 * h) / t + 2 * own * h + 4 * own + c.micro_batch * c.seq * c.model.heads / t;
  const std::int64_t chunk_layers = layers / c.virtual_stages;
  std::int64_t per_micro = own * h + chunk_layers * (c.recompute ? layer_output : layer_all);
  const std::int64_t columns = table > 0 ? table / h : 0;
  const std::int64_t head = last ? rows * h + rows * columns + 2 * own + (t > 1 ? 0 : rows) : 0;
  // The head's tensors are allocated for every set of activations that ever served its chunk.
  m.activations = (live * (per_micro + head) + (c.recompute ? layer_all : 0)) * size;
  if (c.recompute && t > 1) m.activations += live * chunk_layers * 2 * rows * h * size;  // results of sums, kept for the second pass

  std::int64_t scratch = rows * 8 * h / t + own * h + rows * h;          // wide, wide gradient, narrow, narrow2
  if (t > 1) scratch += rows * h + (split_tokens ? 2 * own * h : 0);     // partial sums
  scratch += own * h * (c.mesh.pp > 1 ? 2 : 1);                          // gradients in flight
  if (last) scratch += table + (t > 1 ? rows * 3 * (1 + t) : 0);         // table gradient, softmax statistics
  m.workspace = scratch * size;
  if (c.mesh.dp > 1) {
    // Packed buckets, and the wire buffers of the largest message in flight.
    const std::int64_t bucket = static_cast<std::int64_t>(c.bucket_cap_mb * (1 << 20));
    const std::int64_t packed = (h * h / t * size < bucket && !sharded ? matrices : 0) + vectors;
    m.workspace += packed * size;
    const std::int64_t largest = std::max(std::min(bucket, (parameters)*size), 4 * h * h / t * size) / size;
    if (wire != size) m.workspace += 2 * largest * wire;
  }
  if (wire != size && t > 1) m.workspace += 3 * 2 * rows * h * wire;  // forward, backward and look-up channels: in and out
  if (wire != size && c.mesh.pp > 1) m.workspace += 4 * own * h * wire;
  return m;
}

}  // namespace thinwire
