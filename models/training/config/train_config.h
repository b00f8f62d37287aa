// Everything that decides a training run: model, data, mesh, schedule, optimizer, compression. Plain data; models/training/config/train_options.h
// reads it from TOML and flags, the parallel trainer carries it out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "collectives/communicator/process_mesh.h"
#include "collectives/channel/traffic.h"
#include "models/parallel/channels/compress_rule.h"
#include "models/gpt/gpt.h"
#include "models/parallel/schedule/schedule.h"
#include "models/gpt/trainer.h"

namespace thinwire {

struct TrainConfig {
  std::string model_kind = "gpt";  ///< NAME[:options] of models/stage/model_kind.h
  ModelConfig model;               ///< sizes; model.max_seq >= seq
  std::string from;                ///< folder of another program's weights, which training begins with; empty: drawn by the seed
  std::string from_sha256;         ///< what pretrained_content() must say of it; empty: anything
  std::string data = "text";       ///< NAME[:options] of models/data/dataset.h
  std::string data_sha256;         ///< what DataSource::hash must be; empty: anything
  std::string text;  ///< file or folder; empty: the Python standard library's sources
  std::string vocabulary;  ///< vocab.txt, for data of words
  MeshShape mesh;

  // One step: global_batch sequences = dp x micro-batches x micro_batch.
  std::int64_t global_batch = 8, micro_batch = 1, seq = 128;
  std::int64_t steps = 100;
  TrainerOptions trainer;
  std::string optimizer = "adamw";  ///< update policy, NAME[:key=value,...] (models/update)

  std::string schedule = "1f1b";
  int virtual_stages = 1;
  std::string token_slices = "1";  ///< how sequences are cut along their tokens for schedule terapipe: "4" equal slices, "32,16,16" these
  int boundary_stages = 0;         ///< on one rank: the model's backward boundary messages between so many stages are coded; 0: none
  std::string tensor_parallel = "1d";  ///< how the mesh.tp ranks split a layer: 1d | 2d | 2.5d:depth=D | 3d | 3d:sides=XxYxZ
  bool sequence_parallel = false;
  bool scatter_gather = false;      ///< each tensor rank sends a part of a boundary tensor; the receivers gather
  int zero_stage = 0;               ///< what data-parallel ranks share out (models/store)
  std::string zero_layout = "rows"; ///< how what is shared out is cut: "rows" of each matrix, or equal shards of parameters in a row, "flat" (models/store/flat_store.h)
  std::int64_t zero_wrap = 0;       ///< flat: matrices of so many elements on a rank are gathered and reduced alone, what is left together; 0: each unit together
  double flat_padding = 0;          ///< flat: what stands behind the last parameter; no option of a program, tests put NaN there
  std::string zero_keep = "auto";   ///< how long gathered values stay: "layer", "micro_batch", "step"; "auto": as the store says, with pipelines for the step
  std::string zero_reduce = "auto"; ///< when gradients of a store that lends them travel: "micro_batch", "step"; "auto" likewise
  bool zero_node_shards = false;    ///< gathers after the first of a step are served from a copy inside the node (ZeRO++'s hpZ)
  int zero_prefetch = 1;            ///< a gather starts so many unit passes before its values are needed
  bool recompute = false;           ///< keep only the input of each layer, run it again before its backward pass
  bool overlap = true;              ///< reduce gradients while the backward pass still runs
  double bucket_cap_mb = 0;            ///< dense gradients travel in buckets of about so many MiB; 0: see bucket_bytes()
  /// Of a step's exchange, which has a message for each matrix, so many small ones are under way together (ChannelOptions::small_at_once): eight are
  /// those of two transformer layers.
  int messages_at_once = 8;
  std::string embedding_sync = "two_step";  ///< or "fused": one reduction over {first, last stage} x replicas
  DeviceKind device = DeviceKind::host;  ///< where each rank computes; cuda: f32 only, real compute only
  bool graphs = false;              ///< on a device: passes are recorded as graphs and launched as a whole
  bool flush_subnormals = true;     ///< numbers below the smallest normal one count as zero on the host (kernels/subnormals.h)
  DType dtype = DType::f32;         ///< f64: the parity mode; then nothing can be compressed
  DType comm_dtype = DType::bf16;         ///< type of dense transfers; f64 runs send f64
  /// FSDP's MixedPrecision. Type that passes read parameters in, and that these are gathered in, while what is updated keeps `dtype`; empty: passes read what they get.
  std::optional<DType> param_dtype;
  std::optional<DType> reduce_dtype;  ///< of dense gradients between replicas (and stages, of the tied table); empty: comm_dtype
  std::map<TrafficClass, CompressRule> compress;
  Form form = Form::fair;

  std::int64_t eval_interval = 0;   ///< steps between validations; 0: only at the end
  std::int64_t eval_sequences = 32;
  std::int64_t error_interval = 0;  ///< every n steps compressed messages are compared with dense ones; 0: never

  ComputeMode compute = ComputeMode::real;  ///< replay: `serial_steps` measured one rank at a time, then timed waits
  int serial_steps = 2;
  double forward_us = 0, backward_us = 0;  ///< timed: stated durations of one micro-batch through one chunk of a stage; 0: as measured
  std::string omit;  ///< timed: traffic classes whose messages cost nothing, "dp_gradient,embedding"; a breakdown by differences
  bool blocking_sends = false;  ///< a stage computes on only when the boundary tensors that it sent have left it
  double compute_scale = 1;  ///< timed waits are this many times the measured durations, of model and codecs alike

  std::string checkpoint;           ///< file to save to; empty: none
  std::int64_t save_interval = 0;   ///< steps between checkpoints; 0: only at the end
  std::string resume;               ///< checkpoint to start from
  std::string resume_sha256;        ///< what checkpoint_content() must say of it; empty: anything (cells of a sweep: refused)
  std::int64_t shared_start = 0;    ///< steps without compression that runs under other rules share; 0: none
  std::string shared_start_folder = "shared_starts";  ///< where the states after them lie
  bool reset_codec_state = false;   ///< start codecs anew at a resume
  bool reset_replica_state = false; ///< likewise what an optimizer keeps replica by replica

  /// `omit` as classes. UsageError naming a word that is no class of this list or may not be left out (control).
  std::set<TrafficClass> omitted() const;
  /// Tokens of each slice, `seq` in all; one entry where sequences stay whole. UsageError when token_slices does not fit `seq`.
  std::vector<int> slices() const;
  /// Bytes up to which small dense gradients of a rank that holds `gradient_bytes` of them are packed together. Where the run does not say (bucket_cap_mb) a sixteenth, from
  /// 64 KiB to 4 MiB: what is in the last bucket hides behind nothing, so a small model in one would have no overlap at all.
  std::int64_t bucket_bytes(std::int64_t gradient_bytes) const;
  /// Of the pipeline, be it of ranks or within one.
  int stages() const { return boundary_stages > 0 ? boundary_stages : mesh.pp; }
  std::int64_t micro_batches() const { return global_batch / (mesh.dp * micro_batch); }
  /// Of dense transfers of this class.
  DType wire(TrafficClass traffic) const;
  /// Whether gradients of matrices go to the owners of their rows: the store says so, and there is somebody to share with.
  bool shards_gradients() const;
  /// Whether the tied table of a pipeline is shared out over replicas like any matrix: its gradient is reduce-scattered, and what arrives is summed over {first, last stage}.
  bool shards_table() const;
  /// Whether param_dtype is another type than weights have.
  bool rounds_parameters() const { return param_dtype.value_or(dtype) != dtype; }
  /// UsageError naming both numbers for the first pair of sizes that does not divide (heads by tp, layers by stages x virtual
  /// stages, batch by dp x micro-batch, rows by tp where they are split), a codec in f64, an impossible schedule, what no device does.
  void check() const;
};

/// What every stage does in a step. UsageError for an impossible schedule.
Schedule pipeline_schedule(const TrainConfig& config);

}  // namespace thinwire
