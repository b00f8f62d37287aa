#include "models/training/config/train_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <optional>
#include <type_traits>

#include "core/error.h"
#include "core/joined.h"
#include "models/parallel/channels/number_ranges.h"
#include "models/stage/model_kind.h"

namespace thinwire {
namespace {

using Kind = TrainOption::Kind;

constexpr TrafficClass compressible[] = {TrafficClass::tp_forward,       TrafficClass::tp_backward,         TrafficClass::pp_forward,
                                         TrafficClass::pp_backward,      TrafficClass::dp_gradient,         TrafficClass::embedding,
                                         TrafficClass::param_all_gather, TrafficClass::grad_reduce_scatter, TrafficClass::outer_gradient,
                                         TrafficClass::optimizer,        TrafficClass::tp_weight,           TrafficClass::tp_weight_gradient};

// ---- values as text ----

template <typename T>
std::string text_of(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else {
    char digits[40];
    const auto [end, error] =
        std::to_chars(digits, digits + sizeof digits, value);  // the shortest that reads back
    TW_ASSERT(error == std::errc());
    return {digits, end};
  }
}

template <typename T>
T value_of(const std::string& text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "true" || text == "on" || text == "1") return true;
    if (text == "false" || text == "off" || text == "0") return false;
    throw UsageError("`" + text + "` is neither true nor false");
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range)
      throw UsageError("`" + text + "` is beyond what this number can hold");
    if (error != std::errc() || end != text.data() + text.size() ||
        !std::isfinite(static_cast<double>(value)))
      throw UsageError("`" + text + "` is not a " +
                       (std::is_floating_point_v<T> ? "number" : "whole number"));
    return value;
  }
}

template <typename T>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return Kind::truth;
  else if constexpr (std::is_same_v<T, std::string>)
    return Kind::text;
  else if constexpr (std::is_floating_point_v<T>)
    return Kind::real;
  else
    return Kind::integer;
}

const std::string& one_of(const std::string& text, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  throw UsageError("`" + text + "` does not exist; did you mean `" +
                   nearest_name(text, choices.data(), choices.data() + choices.size()) +
                   "`? There are: " + joined(choices));
}

// ---- building the table ----

/// `member(config)` is a reference to the setting.
template <typename Member>
TrainOption option(std::string key, std::string flag, OnResume on_resume, std::string help, std::string unit, Member member,
                   std::vector<std::string> choices = {}) {
  using T = std::remove_cvref_t<decltype(member(std::declval<TrainConfig&>()))>;
  TrainOption o(std::move(key), std::move(flag), on_resume, std::move(help), std::move(unit), kind_of<T>(), choices);
  o.get = [member](const TrainConfig& c) { return text_of<T>(member(const_cast<TrainConfig&>(c))); };
  o.set = [member, choices](TrainConfig& c, const std::string& text) {
    if (!choices.empty()) one_of(text, choices);
    member(c) = value_of<T>(text);
  };
  return o;
}

/// An option whose default is not what programs did before they knew it.
TrainOption formerly(std::string value, TrainOption option) {
  option.formerly = std::move(value);
  return option;
}

/// A setting that is an enumeration (or a truth value) in the configuration and a word in the file;
/// choices[i] stands for values[i].
template <typename T, typename Member>
TrainOption word(std::string key, std::string flag, OnResume on_resume, std::string help, Member member,
                 std::vector<std::string> choices, std::vector<T> values) {
  TrainOption o(std::move(key), std::move(flag), on_resume, std::move(help), "", Kind::text, choices);
  o.get = [member, choices, values](const TrainConfig& c) {
    const auto at = std::find(values.begin(), values.end(), T(member(const_cast<TrainConfig&>(c))));
    TW_ASSERT(at != values.end(), "a configuration value without a word");
    return choices[static_cast<std::size_t>(at - values.begin())];
  };
  o.set = [member, choices, values](TrainConfig& c, const std::string& text) {
    const std::string& found = one_of(text, choices);
    member(c) =
        values[static_cast<std::size_t>(std::find(choices.begin(), choices.end(), found) - choices.begin())];
  };
  return o;
}

#define TW_MEMBER(path)          \
  [](TrainConfig & c) -> auto& { \
    return c.path;               \
  }

template <typename Member>
TrainOption rule_option(TrafficClass traffic, const char* part, std::string help, std::string unit,
                        Member member) {
  const std::string key = "compress." + name_of(traffic) + (*part == 0 ? "" : std::string(".") + part);
  using T = std::remove_cvref_t<decltype(member(std::declval<CompressRule&>()))>;
  TrainOption o(key, key, OnResume::codec_state, std::move(help), std::move(unit), kind_of<T>());
  o.get = [traffic, member](const TrainConfig& c) {
    const auto found = c.compress.find(traffic);
    CompressRule rule = found == c.compress.end() ? CompressRule() : found->second;
    return text_of<T>(member(rule));
  };
  o.set = [traffic, member](TrainConfig& c, const std::string& text) {
    member(c.compress[traffic]) = value_of<T>(text);
  };
  return o;
}

void add_rule(std::vector<TrainOption>& table, TrafficClass traffic) {
  const std::string name = name_of(traffic);
  table.push_back(rule_option(
      traffic, "", "codec of " + name + " messages, NAME[:key=value,...][+WRAPPER...]", "",
      [](CompressRule & r) -> auto& { return r.codec; }));
  const std::string key = "compress." + name + ".protocol";
  TrainOption protocol(key, key, OnResume::codec_state, "how payloads are summed over ranks", "", Kind::text,
                       {"automatic", "dense", "rounds", "gather", "two_shot", "point_to_point"});
  protocol.get = [traffic](const TrainConfig& c) {
    const auto found = c.compress.find(traffic);
    return name_of(found == c.compress.end() ? Protocol::automatic : found->second.protocol);
  };
  protocol.set = [traffic](TrainConfig& c, const std::string& text) {
    c.compress[traffic].protocol = parse_protocol(text);
  };
  table.push_back(std::move(protocol));
  table.push_back(rule_option(
      traffic, "layers",
      "compressed in these layers, all or ranges like 0-3,6; a stage boundary counts as the layer behind it",
      "", [](CompressRule & r) -> auto& { return r.layers; }));
  table.push_back(rule_option(
      traffic, "stages", "compressed in these pipeline stages, all or ranges", "",
      [](CompressRule & r) -> auto& { return r.stages; }));
  table.push_back(rule_option(
      traffic, "warmup_steps", "dense before this step", "steps",
      [](CompressRule & r) -> auto& { return r.warmup_steps; }));
  if (traffic == TrafficClass::pp_backward)
    table.push_back(rule_option(
        traffic, "epilogue_only", "compress only a mini-batch's last messages, which no computing hides (1f1b)", "",
        [](CompressRule & r) -> auto& { return r.epilogue_only; }));
  if (traffic == TrafficClass::dp_gradient || traffic == TrafficClass::grad_reduce_scatter || traffic == TrafficClass::param_all_gather)
    table.push_back(rule_option(
        traffic, "min_elements", "matrices with fewer elements on a rank travel dense", "elements", [](CompressRule & r) -> auto& { return r.min_elements; }));
  if (traffic == TrafficClass::grad_reduce_scatter || traffic == TrafficClass::param_all_gather)
    table.push_back(rule_option(
        traffic, "inside", "codec of what stays inside a node (--dp-nodes), where the rule's own is for what crosses", "", [](CompressRule & r) -> auto& { return r.inside; }));
  if (traffic == TrafficClass::grad_reduce_scatter) {
    table.push_back(rule_option(
        traffic, "overlap", "rows for one owner are encoded while those for another travel, where the codec sums them apart; same result", "",
        [](CompressRule & r) -> auto& { return r.overlap; }));
    table.back().on_resume = OnResume::free;
  }
  if (traffic == TrafficClass::dp_gradient)
    table.push_back(rule_option(
        traffic, "stacked", "a stage's matrices of one shape travel as one message when the last is complete (powersgd)", "",
        [](CompressRule & r) -> auto& { return r.stacked; }));
  table.push_back(rule_option(
      traffic, "at_evaluation", "compressed in validation, too", "",
      [](CompressRule & r) -> auto& { return r.at_evaluation; }));
}

std::vector<TrainOption> make_table() {
  std::vector<TrainOption> t = {
      option("model.kind", "model", OnResume::refused, "which model, NAME[:key=value,...]", "", TW_MEMBER(model_kind)),
      option("model.from", "from", OnResume::told,
             "folder of another program's checkpoint (Hugging Face's, of --model bert): its weights fill what it has of the model, whose sizes are its own where none are given", "",
             TW_MEMBER(from)),
      option("model.from_sha256", "from-sha256", OnResume::free, "SHA-256 of the model in that folder, which must be this one: a path does not say what a cell of a sweep begins with", "",
             TW_MEMBER(from_sha256)),
      option("model.hidden", "hidden", OnResume::refused, "hidden size", "", TW_MEMBER(model.hidden)),
      option("model.layers", "layers", OnResume::refused, "Transformer blocks", "", TW_MEMBER(model.layers)),
      option("model.heads", "heads", OnResume::refused, "attention heads", "", TW_MEMBER(model.heads)),
      option("model.vocab", "vocab", OnResume::refused, "tokens of the vocabulary (256: bytes); padded to a multiple of tp", "",
             TW_MEMBER(model.vocab)),
      option("model.max_seq", "max-seq", OnResume::refused, "positions of the model; 0: as seq", "tokens",
             TW_MEMBER(model.max_seq)),
      option("model.dropout", "dropout", OnResume::told, "dropout rate", "", TW_MEMBER(model.dropout)),
      option("model.seed", "seed", OnResume::refused, "seed of weights, data order and dropout", "", TW_MEMBER(model.seed)),
      word<nn::ComputeType>("model.products", "products", OnResume::told, "type of the matrix products",
                            TW_MEMBER(model.compute), {"f32", "bf16"},
                            {nn::ComputeType::f32, nn::ComputeType::bf16}),
      formerly("false", option("model.flush_subnormals", "flush-subnormals", OnResume::told,
                               "on the host numbers below the smallest normal one count as zero; false: kept, at up to 80 times the time of a product", "", TW_MEMBER(flush_subnormals))),
      option("data.kind", "data", OnResume::refused, "which data, NAME[:key=value,...]; text: windows of --text at random", "", TW_MEMBER(data)),
      option("data.sha256", "data-sha256", OnResume::free, "SHA-256 of these data as records have it, which must be this one: paths do not say what a cell of a sweep learns from", "",
             TW_MEMBER(data_sha256)),
      option("data.text", "text", OnResume::free, "file or folder of text, or of the tasks' folders; empty: the Python standard library's sources", "",
             TW_MEMBER(text)),
      option("data.vocabulary", "vocabulary", OnResume::free, "vocab.txt, for data of words; empty: that in the folder of --from", "", TW_MEMBER(vocabulary)),
      option("mesh.tp", "tp", OnResume::codec_state, "tensor-parallel ranks", "", TW_MEMBER(mesh.tp)),
      option("mesh.tensor_parallel", "tensor-parallel", OnResume::codec_state,
             "how the tp ranks split a layer: 1d, 2d (tp a square), 2.5d:depth=D (q q D), 3d (a cube) or 3d:sides=XxYxZ", "",
             TW_MEMBER(tensor_parallel)),
      option("mesh.pp", "pp", OnResume::codec_state, "pipeline stages", "", TW_MEMBER(mesh.pp)),
      option("mesh.dp", "dp", OnResume::codec_state, "data-parallel ranks", "", TW_MEMBER(mesh.dp)),
      option("mesh.dp_replicas", "dp-replicas", OnResume::codec_state, "of them replicas, which an optimizer may let train apart for a while", "", TW_MEMBER(mesh.dp_replicas)),
      option("mesh.dp_nodes", "dp-nodes", OnResume::codec_state, "nodes within each replica, between which an optimizer may exchange otherwise than inside", "", TW_MEMBER(mesh.dp_nodes)),
      option("mesh.order", "order", OnResume::codec_state, "which axis varies fastest with the rank, first one fastest", "",
             TW_MEMBER(mesh.order)),
      option("batch.global", "global-batch", OnResume::codec_state_and_data, "sequences of a step", "sequences", TW_MEMBER(global_batch)),
      option("batch.micro", "micro-batch", OnResume::codec_state, "sequences of a micro-batch", "sequences", TW_MEMBER(micro_batch)),
      option("batch.seq", "seq", OnResume::codec_state_and_data, "tokens of a sequence", "tokens", TW_MEMBER(seq)),
      option("train.steps", "steps", OnResume::free, "optimizer steps", "", TW_MEMBER(steps)),
      option("train.optimizer", "optimizer", OnResume::refused, "how weights are updated and gradients reduced, NAME[:key=value,...][+LOOP[:key=value,...]]", "", TW_MEMBER(optimizer)),
      option("train.learning_rate", "learning-rate", OnResume::told, "peak learning rate", "",
             TW_MEMBER(trainer.schedule.peak)),
      option("train.min_lr", "min-lr", OnResume::told, "learning rate at the end of the cosine", "",
             TW_MEMBER(trainer.schedule.min_lr)),
      option("train.warmup", "warmup", OnResume::told, "steps of linear warm-up", "steps",
             TW_MEMBER(trainer.schedule.warmup)),
      option("train.schedule_steps", "schedule-steps", OnResume::told, "step at which the cosine ends; 0: as steps", "steps",
             TW_MEMBER(trainer.schedule.total)),
      option("train.weight_decay", "weight-decay", OnResume::told, "AdamW: decay of weights", "",
             TW_MEMBER(trainer.adamw.weight_decay)),
      option("train.beta1", "beta1", OnResume::told, "AdamW: memory of the mean", "", TW_MEMBER(trainer.adamw.beta1)),
      option("train.beta2", "beta2", OnResume::told, "AdamW: memory of the square", "", TW_MEMBER(trainer.adamw.beta2)),
      option("train.epsilon", "epsilon", OnResume::told, "AdamW: added to the root", "", TW_MEMBER(trainer.adamw.epsilon)),
      option("train.clip", "clip", OnResume::told, "largest global norm of the gradient", "", TW_MEMBER(trainer.max_norm)),
      option("parallel.schedule", "schedule", OnResume::codec_state, "pipeline schedule", "", TW_MEMBER(schedule),
             schedule_names()),
      option("parallel.token_slices", "token-slices", OnResume::codec_state,
             "cut sequences along their tokens (schedule terapipe, which it chooses where none is given): so many equal slices, or their lengths: 32,16,16", "",
             TW_MEMBER(token_slices)),
      option("parallel.virtual_stages", "virtual-stages", OnResume::codec_state, "model chunks per pipeline rank (interleaved)", "",
             TW_MEMBER(virtual_stages)),
      option("parallel.boundary_stages", "boundary-stages", OnResume::codec_state,
             "on one rank: code the backward messages that a 1f1b pipeline of so many stages would send, as compress.pp_backward says; 0: none", "",
             TW_MEMBER(boundary_stages)),
      option("parallel.sequence_parallel", "sequence-parallel", OnResume::codec_state,
             "split activations between the tensor-parallel parts over the sequence", "",
             TW_MEMBER(sequence_parallel)),
      option("parallel.scatter_gather", "scatter-gather", OnResume::codec_state,
             "each tensor rank sends a part of a boundary tensor; the receivers gather", "",
             TW_MEMBER(scatter_gather)),
      option("parallel.zero_stage", "zero-stage", OnResume::codec_state,
             "what the replicas share out instead of holding it whole: 0 nothing, 1 optimizer state, 2 and gradients, 3 and weights (ZeRO, FSDP)", "", TW_MEMBER(zero_stage)),
      option("parallel.zero_layout", "zero-layout", OnResume::codec_state,
             "how stages 1 to 3 cut what they share out: by rows of each matrix (FSDP2), or all parameters of a unit one behind the other into equal shards (FSDP1, TAGC)", "", TW_MEMBER(zero_layout),
             {"rows", "flat"}),
      option("parallel.zero_wrap", "zero-wrap", OnResume::codec_state,
             "layout flat: matrices of so many elements on a rank are units of their own, what is left of the model is one (TAGC wraps from 2000001 on); 0: each layer is one", "elements",
             TW_MEMBER(zero_wrap)),
      option("parallel.zero_keep", "zero-keep", OnResume::told,
             "zero stage 3: gathered weights stay for one pass of their layer, until the micro-batch came back, or for the step; auto: layer, with pipelines step", "",
             TW_MEMBER(zero_keep), {"auto", "layer", "micro_batch", "step"}),
      option("parallel.zero_reduce", "zero-reduce", OnResume::codec_state,
             "zero stages 2 and 3: reduce gradients after each micro-batch, or once per step; auto: micro_batch, with pipelines step", "", TW_MEMBER(zero_reduce),
             {"auto", "micro_batch", "step"}),
      option("parallel.zero_node_shards", "zero-node-shards", OnResume::told,
             "zero stage 3 with --dp-nodes: each node keeps a copy of the weights, from which gathers after a step's first are served (ZeRO++'s hpZ)", "", TW_MEMBER(zero_node_shards)),
      option("parallel.zero_prefetch", "zero-prefetch", OnResume::told, "zero stage 3: a gather starts so many passes of layers before its weights are needed", "",
             TW_MEMBER(zero_prefetch)),
      word<bool>("parallel.recompute", "recompute", OnResume::told,
                 "keep all activations, or only each layer's input and run it again", TW_MEMBER(recompute),
                 {"none", "full"}, {false, true}),
      option("parallel.overlap", "overlap", OnResume::told, "reduce gradients while the backward pass still runs", "",
             TW_MEMBER(overlap)),
      word<bool>("parallel.sends", "sends", OnResume::free,
                 "boundary tensors leave while the stage computes on, or it waits for them first", TW_MEMBER(blocking_sends),
                 {"overlapped", "blocking"}, {false, true}),
      option("parallel.bucket_cap_mb", "bucket-cap-mb", OnResume::told, "size of a bucket of dense gradients; 0: a sixteenth of a rank's gradients, from 64 KiB to 4 MiB", "MiB",
             TW_MEMBER(bucket_cap_mb)),
      option("parallel.messages_at_once", "messages-at-once", OnResume::free,
             "of a step's exchange of gradients, weights or updates, so many messages of at most 1 MiB are under way together: a long latency is waited for once; 1: each in turn, with less memory", "",
             TW_MEMBER(messages_at_once)),
      option("parallel.embedding_sync", "embedding-sync", OnResume::codec_state,
             "gradient of the tied table: over replicas then stages, or over all at once", "",
             TW_MEMBER(embedding_sync), {"two_step", "fused"}),
      word<DeviceKind>("parallel.device", "device", OnResume::told, "where each rank computes: on the host, or on the GPU of its number on the machine, modulo their number",
                       TW_MEMBER(device), {"host", "cuda"}, {DeviceKind::host, DeviceKind::cuda}),
      option("parallel.graphs", "graphs", OnResume::free, "on a device: record the passes of a micro-batch and launch them as a whole (CUDA graphs)", "", TW_MEMBER(graphs)),
      word<DType>("parallel.dtype", "dtype", OnResume::refused, "float type of weights and sums; f64 is for parity, dense only",
                  TW_MEMBER(dtype), {"f32", "f64"}, {DType::f32, DType::f64}),
      word<DType>("parallel.comm_dtype", "comm-dtype", OnResume::told, "type of dense transfers", TW_MEMBER(comm_dtype), {"f32", "f16", "bf16"},
                  {DType::f32, DType::f16, DType::bf16}),
      word<std::optional<DType>>("parallel.param_dtype", "param-dtype", OnResume::told,
                                 "type that passes read parameters in and that they are gathered in (FSDP's MixedPrecision), while weights that are updated keep --dtype; auto: gathered in comm-dtype, "
                                 "and what is not gathered is read as it is",
                                 TW_MEMBER(param_dtype), {"auto", "f32", "f16", "bf16"}, {std::nullopt, DType::f32, DType::f16, DType::bf16}),
      word<std::optional<DType>>("parallel.reduce_dtype", "reduce-dtype", OnResume::told, "type of dense gradients between replicas; auto: comm-dtype", TW_MEMBER(reduce_dtype),
                                 {"auto", "f32", "f16", "bf16"}, {std::nullopt, DType::f32, DType::f16, DType::bf16}),
      word<Form>("compress.form", "form", OnResume::codec_state,
                 "our best implementation of each codec, or literally as its authors released it",
                 TW_MEMBER(form), {"fair", "released"}, {Form::fair, Form::released}),
  };
  for (const TrafficClass traffic : compressible) add_rule(t, traffic);
  const std::vector<TrainOption> rest = {
      option("eval.interval", "eval-interval", OnResume::free, "steps between validations; 0: at the end only", "steps",
             TW_MEMBER(eval_interval)),
      option("eval.sequences", "eval-sequences", OnResume::free, "sequences of a validation", "sequences",
             TW_MEMBER(eval_sequences)),
      option("record.error_interval", "error-interval", OnResume::free,
             "steps between comparisons of compressed with dense messages; 0: none", "steps",
             TW_MEMBER(error_interval)),
      word<ComputeMode>(
          "timing.compute", "compute", OnResume::free,
          "as it comes, or as waits of durations measured alone on a core (more ranks than cores)",
          TW_MEMBER(compute), {"real", "timed"}, {ComputeMode::real, ComputeMode::replay}),
      option("timing.serial_steps", "serial-steps", OnResume::free, "timed compute: measured steps, one rank at a time",
             "steps", TW_MEMBER(serial_steps)),
      option("timing.compute_scale", "compute-scale", OnResume::free,
             "timed compute: model and codecs on a processor that takes this many times as long", "times", TW_MEMBER(compute_scale)),
      option("timing.stage_forward_us", "stage-forward-us", OnResume::free,
             "timed compute: what the forward pass of a micro-batch through a stage takes; 0: as measured", "microseconds", TW_MEMBER(forward_us)),
      option("timing.stage_backward_us", "stage-backward-us", OnResume::free,
             "timed compute: what the backward pass of a micro-batch through a stage takes; 0: as measured", "microseconds", TW_MEMBER(backward_us)),
      option("timing.omit", "omit", OnResume::free,
             "timed compute: traffic classes whose messages cost nothing, separated by commas; what a step gains is what they cost it", "",
             TW_MEMBER(omit)),
      option("checkpoint.file", "checkpoint", OnResume::free, "HDF5 file to save to; empty: none", "", TW_MEMBER(checkpoint)),
      option("checkpoint.interval", "checkpoint-interval", OnResume::free, "steps between saves; 0: at the end only", "steps",
             TW_MEMBER(save_interval)),
      option("checkpoint.resume", "resume", OnResume::free, "checkpoint to start from", "", TW_MEMBER(resume)),
      option("checkpoint.resume_sha256", "resume-sha256", OnResume::free,
             "SHA-256 of the state in that checkpoint, which must be this one; a sweep's cell that resumes needs it as part of its identity", "",
             TW_MEMBER(resume_sha256)),
      option("checkpoint.shared_start", "shared-start", OnResume::free,
             "steps, all before compression begins, that runs under other rules share: trained once, their state is taken from --shared-start-folder; the record begins after them; 0: none",
             "steps", TW_MEMBER(shared_start)),
      option("checkpoint.shared_start_folder", "shared-start-folder", OnResume::free, "where such states are kept, named by what decides them", "", TW_MEMBER(shared_start_folder)),
      word<bool>("checkpoint.codec_state", "codec-state", OnResume::free,
                 "state of codecs in the checkpoint: continue it, or start anew (needed on another layout)",
                 TW_MEMBER(reset_codec_state), {"keep", "reset"}, {false, true}),
      word<bool>("checkpoint.replica_state", "replica-state", OnResume::free,
                 "state that an optimizer keeps replica by replica: continue it, or start anew (needed under another number of replicas)",
                 TW_MEMBER(reset_replica_state), {"keep", "reset"}, {false, true}),
  };
  t.insert(t.end(), rest.begin(), rest.end());
  return t;
}

#undef TW_MEMBER

/// Weights of a checkpoint are of its own pieces: under another vocabulary of the same size its embeddings would be those of other words, and nothing would say so.
void refuse_other_pieces(const std::string& given, const std::string& own) {
  const auto content = [](const std::string& path) -> std::optional<std::string> {
    std::ifstream file(path, std::ios::binary);
    if (!file) return std::nullopt;  // a checkpoint need not have one; that a given one cannot be read, its reader says
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  if (given == own) return;
  const auto here = content(given), there = content(own);
  if (here && there && *here != *there)
    throw UsageError("--vocabulary " + given + " is not the vocabulary that the model of --from was trained with, " + own + "; leave --vocabulary out, or give the same pieces in the same order");
}

}  // namespace

std::span<const TrainOption> train_options() {
  static const std::vector<TrainOption> table = make_table();
  return table;
}

TrainConfig train_defaults() {
  TrainConfig config;
  config.model.max_seq = 0;
  config.trainer.schedule.total = 0;
  return config;
}

TrainConfig make_train_config(const TrainValues& values) {
  TrainConfig config = train_defaults();
  std::vector<std::string> flags;
  for (const TrainOption& option : train_options()) flags.push_back(option.flag);
  for (const auto& [flag, value] : values) {
    const auto found = std::find(flags.begin(), flags.end(), flag);
    if (found == flags.end())
      throw UsageError("unknown setting `" + flag + "`; did you mean `" +
                       nearest_name(flag, flags.data(), flags.data() + flags.size()) + "`?");
    try {
      train_options()[static_cast<std::size_t>(found - flags.begin())].set(config, value);
    } catch (const UsageError& error) {
      throw UsageError("--" + flag + ": " + error.what());
    }
  }
  if (!config.from.empty()) {
    const ModelConfig theirs = pretrained_sizes(config.model_kind, config.from, config.model);
    if (!values.contains("hidden")) config.model.hidden = theirs.hidden;
    if (!values.contains("layers")) config.model.layers = theirs.layers;
    if (!values.contains("heads")) config.model.heads = theirs.heads;
    if (!values.contains("vocab")) config.model.vocab = theirs.vocab;
    const std::string own = config.from + "/vocab.txt";
    if (config.vocabulary.empty()) config.vocabulary = own;
    refuse_other_pieces(config.vocabulary, own);
  }
  if (config.token_slices != "1" && !values.contains("schedule")) config.schedule = schedules_that(&ScheduleTraits::token_slices).front();
  if (config.model.max_seq == 0) config.model.max_seq = config.seq;
  if (config.trainer.schedule.total == 0) config.trainer.schedule.total = config.steps;
  for (const auto& [traffic, rule] : config.compress) {  // also of a rule without a codec, which is dropped
    (void)NumberRanges::parse("compress." + name_of(traffic) + ".layers", rule.layers);
    (void)NumberRanges::parse("compress." + name_of(traffic) + ".stages", rule.stages);
  }
  std::erase_if(config.compress, [](const auto& entry) { return !entry.second.active(); });
  return config;
}

}  // namespace thinwire
