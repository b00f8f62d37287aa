#include "models/training/config/train_config.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/joined.h"
#include "kernels/codec/registry.h"
#include "models/parallel/channels/number_ranges.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/training/config/check_sharding.h"
#include "models/training/config/released_form.h"
#include "models/update/update_policy.h"
#include "models/parallel/schedule/token_slices.h"
#include "models/parallel/tensor/tensor_grid.h"

namespace thinwire {
namespace {

std::string str(std::int64_t value) {
  return std::to_string(value);
}

void at_least(const char* flag, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw UsageError(std::string("--") + flag + " is " + str(value) + "; it must be at least " + str(least));
}

void within(const char* flag, double value, bool good, const char* range) {
  if (!good)
    throw UsageError(std::string("--") + flag + " is " + std::to_string(value) + "; it must be " + range);
}

/// The nearest multiple of `of` to `value`, at least `of`.
std::int64_t nearest_multiple(std::int64_t value, std::int64_t of) {
  return std::max<std::int64_t>(1, (value + of / 2) / of) * of;
}

// The schedule's own rules, with the settings that its numbers come from.
void check_schedule(const TrainConfig& c) {
  try {
    (void)pipeline_schedule(c);
  } catch (const UsageError& error) {
    throw UsageError(std::string(error.what()) + " (--schedule " + c.schedule + (c.token_slices == "1" ? "" : ", --token-slices " + c.token_slices) + ", --pp " + str(c.mesh.pp) +
                     ", --virtual-stages " + str(c.virtual_stages) + ", micro-batches = global batch " +
                     str(c.global_batch) + " / (dp " + str(c.mesh.dp) + " x micro-batch " +
                     str(c.micro_batch) + "))");
  }
}

// What data-parallel ranks send is the matter of parameter store and optimizer.
void check_data_traffic(const TrainConfig& c, TrafficClass traffic, const std::string& name) {
  constexpr std::array along_data = {TrafficClass::dp_gradient, TrafficClass::param_all_gather, TrafficClass::grad_reduce_scatter, TrafficClass::outer_gradient,
                                     TrafficClass::optimizer};
  if (std::find(along_data.begin(), along_data.end(), traffic) == along_data.end()) return;
  std::set<TrafficClass> sent = parse_update(c.optimizer).classes(c);
  sent.insert(store_info(c.zero_stage).classes.begin(), store_info(c.zero_stage).classes.end());
  if (sent.contains(traffic)) return;
  const std::string list = joined(sent, ", ", [](TrafficClass other) { return name_of(other); });
  std::string stages;
  for (const StoreInfo* store : all_stores())
    if (store->classes.contains(traffic) || (store->shards_gradients && traffic == TrafficClass::grad_reduce_scatter))
      stages += (stages.empty() ? "; it exists with --zero-stage " : ", ") + str(store->zero_stage);
  throw UsageError(name + ": --optimizer " + c.optimizer + " with --zero-stage " + str(c.zero_stage) + " has no such traffic to compress, but " + list + stages);
}

void check_update(const TrainConfig& c) {
  const StoreInfo& store = store_info(c.zero_stage);
  const UpdateExpression update = parse_update(c.optimizer);
  if (c.mesh.dp_replicas > 1 && !update.factors().contains("replica"))
    throw UsageError("--dp-replicas " + str(c.mesh.dp_replicas) + ": --optimizer " + update.name() + " treats all data-parallel ranks alike; leave it out");
  if (c.mesh.dp_replicas > 1 && c.mesh.pp > 1 && c.embedding_sync == "fused")
    throw UsageError("--embedding-sync fused sums over all data-parallel ranks at once, but --dp-replicas " + str(c.mesh.dp_replicas) + " keeps them apart; use two_step");
  check_sharding(c, store, update);
  if (store.check) store.check(c);
  update.check(c);
}

void check_rule(const TrainConfig& c, TrafficClass traffic, const CompressRule& rule) {
  if (!compresses(rule.codec)) return;
  const std::string name = "compress." + name_of(traffic);
  if (traffic == TrafficClass::control)
    throw UsageError(name + ": control traffic (norms, loss, look-ups) is never compressed; remove it");
  if (c.dtype == DType::f64)
    throw UsageError(name + " = " + rule.codec +
                     " beside --dtype f64: the parity mode compares exact sums and compresses nothing; use "
                     "--dtype f32, or codec none");
  try {
    const CodecStack stack = make_codec(rule_in_form(c, traffic).codec, c.form);
    const bool pipeline = traffic == TrafficClass::pp_forward || traffic == TrafficClass::pp_backward;
    if (pipeline && rule.protocol != Protocol::automatic && rule.protocol != Protocol::point_to_point)
      throw UsageError("protocol " + name_of(rule.protocol) +
                       " sums over ranks, but this class goes from stage to stage; use automatic");
    if (pipeline && !stack.codec->traits().gather)
      throw UsageError("codec " + rule.codec +
                       " has no payload of its own and cannot be sent from stage to stage; choose another");
    if (!pipeline && rule.protocol == Protocol::point_to_point)
      throw UsageError(
          "protocol point_to_point joins two stages, but this class is summed over ranks; use automatic");
    // The mask or code of a message is kept for the whole tensor; a reduce-scatter encodes it block by block.
    if (traffic == TrafficClass::tp_forward && c.sequence_parallel && c.mesh.tp > 1 &&
        stack.codec->traits().backward != BackwardRule::straight_through)
      throw UsageError("codec " + rule.codec +
                       " sends back another gradient than that of the decoded tensor, which sequence "
                       "parallelism cannot; choose a codec with a straight-through "
                       "gradient (quantize, cast), or --sequence-parallel false");
    if (traffic == TrafficClass::param_all_gather) {
      if (!stack.codec->traits().gather) throw UsageError("codec " + rule.codec + " has no payload of its own, and weights are gathered, not summed; choose another");
      if (rule.protocol != Protocol::automatic && rule.protocol != Protocol::gather)
        throw UsageError("protocol " + name_of(rule.protocol) + " sums over ranks, but weights are gathered; use automatic");
    }
    if (traffic == TrafficClass::tp_forward && rule.protocol == Protocol::two_shot && stack.codec->traits().backward != BackwardRule::straight_through &&
        !(stack.codec->traits().backward == BackwardRule::masked && c.form == Form::released))
      throw UsageError("protocol two_shot codes a message twice, and codec " + rule.codec +
                       " sends back another gradient than that of the decoded tensor, which is that of one message; use gather or rounds, or a codec with a straight-through gradient");
    if (rule.protocol == Protocol::rounds && stack.codec->traits().rounds == 0)
      throw UsageError(
          "codec " + rule.codec +
          " is not a sequence of dense reductions, so protocol rounds cannot sum it; use gather or two_shot");
    if ((rule.protocol == Protocol::gather || rule.protocol == Protocol::two_shot) &&
        !stack.codec->traits().gather)
      throw UsageError("codec " + rule.codec + " has no payload of its own, so protocol " +
                       name_of(rule.protocol) + " cannot carry it; use rounds");
    if (rule.epilogue_only && (c.stages() < 2 || !schedule_traits(c.schedule).epilogue || c.virtual_stages != 1))
      throw UsageError("epilogue_only means the last backward messages of a 1f1b pipeline of two stages or more, not interleaved; here --pp is " +
                       str(c.mesh.pp) + ", --boundary-stages " + str(c.boundary_stages) + ", --schedule " + c.schedule + ", --virtual-stages " + str(c.virtual_stages));
    const bool activation = pipeline || traffic == TrafficClass::tp_forward || traffic == TrafficClass::tp_backward;
    std::vector<int> tokens = c.slices();  // a slice is a message of its own
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (const int slice : tokens) {
      if (activation) stack.codec->check_message({c.micro_batch * slice / (pipeline && c.scatter_gather ? c.mesh.tp : 1), c.model.hidden});
    }
    if (traffic == TrafficClass::pp_backward) check_released(c);
    if (pipeline && stack.codec->traits().by_sample && c.mesh.tp > 1 &&
        (c.tensor_parallel != "1d" || c.sequence_parallel || (c.scatter_gather && c.micro_batch % c.mesh.tp != 0)))
      throw UsageError("codec " + rule.codec + " remembers whole samples, and here each tensor rank sends a part of one; use --tensor-parallel 1d, --sequence-parallel false, and "
                       "--scatter-gather false or a micro-batch that --tp divides");
    if (stack.codec->traits().by_token) {
      if (traffic != TrafficClass::pp_forward)
        throw UsageError("codec " + rule.codec + " goes by the token ids of a message's rows, which activations between stages (pp_forward) have, and no other traffic; compress "
                         "that, or use a codec, or a setting of this one, that does without");
      if (c.mesh.tp > 1 && (c.tensor_parallel != "1d" || c.sequence_parallel))
        throw UsageError("codec " + rule.codec + " goes by the token ids of a message's rows, and here each tensor rank holds a part of an activation; use --tensor-parallel 1d "
                         "and --sequence-parallel false");
    }
    // The receiver trains its decoder; the sender, who would look at its own message, never sees that one.
    if (pipeline && stack.codec->as<Trainable>() != nullptr && std::ranges::any_of(stack.wrappers, [](const auto& wrapper) { return wrapper->needs_own_decoded(); }))
      throw UsageError("codec " + rule.codec + ": what a message lost is measured by the sender's decoder, but the one that trains is the receiver's, on another stage; leave the wrapper out");
    for (const CodecExpression::Part& wrapper : stack.expression.wrappers) {
      const WrapperInfo& info = wrapper_info(wrapper.name);
      if (info.needs_loss && stack.codec->traits().lossless)
        throw UsageError(info.name + ": the codec loses nothing, so there is no error to pass on; drop +" + info.name + " or choose a lossy codec");
      if (info.point_to_point_only && !pipeline)
        throw UsageError(info.name + " is what one sender and one receiver agree on, as at a stage boundary, but this class is summed or gathered "
                         "over ranks; use a wrapper for sums, such as +ef");
    }
    if (rule.stacked && !stack.codec->traits().stacks)
      throw UsageError("stacked gives each matrix of a message factors of its own, which " + stack.expression.codec.name + " has not; use a low-rank codec (powersgd)");
    if (rule.stacked && rule.protocol != Protocol::automatic && rule.protocol != Protocol::rounds)
      throw UsageError("stacked matrices travel by protocol rounds only");
    if (rule.stacked && c.error_interval > 0)
      throw UsageError("--error-interval measures matrix by matrix; set stacked to false, or the interval to 0");
    if (rule.protocol == Protocol::dense)
      throw UsageError("protocol dense carries tensors as they are; use automatic");
  } catch (const UsageError& error) {
    throw UsageError(name + ": " + error.what());
  }
  const auto covers = [&](const std::string& what, const std::string& ranges, std::int64_t count) {
    const NumberRanges numbers = NumberRanges::parse(name + "." + what, ranges);
    const bool some = [&] {
      for (int i = 0; i < count; ++i)
        if (numbers.contains(i)) return true;
      return false;
    }();
    // The released code compares pipeline indices only: `way` beyond the last stage means all of them.
    const bool any_stage = what == "stages" && c.form == Form::released;
    if (some && numbers.largest() >= count && !any_stage)
      throw UsageError(name + "." + what + " = " + ranges + " names " + str(numbers.largest()) + ", but there are only " + str(count) + " " + what +
                       ", which count from 0");
    if (some) return;
    throw UsageError(name + "." + what + " = " + ranges + " names none of the " + str(count) + " " + what +
                     ", which count from 0");
  };
  covers("layers", rule.layers, c.model.layers);
  covers("stages", rule.stages, c.stages());  // of ranks: all chunks of a rank go by its stage
  at_least((name + ".warmup_steps").c_str(), rule.warmup_steps, 0);
  at_least((name + ".min_elements").c_str(), rule.min_elements, 0);
  check_data_traffic(c, traffic, name);
  const bool of_grid = traffic == TrafficClass::tp_weight || traffic == TrafficClass::tp_weight_gradient;
  if (of_grid && parse_grid(c.tensor_parallel, c.mesh.tp).kind == GridKind::one_d)
    throw UsageError(name + ": only grids send this (--tensor-parallel 2d, 2.5d or 3d)");
}

/// Whether both rules cover the messages of one boundary between stages.
bool meet_at_a_boundary(const TrainConfig& c, const CompressRule& forward, const CompressRule& backward) {
  const auto ranges = [](const std::string& text) { return NumberRanges::parse("layers or stages", text); };
  const NumberRanges layers[] = {ranges(forward.layers), ranges(backward.layers)}, stages[] = {ranges(forward.stages), ranges(backward.stages)};
  const int positions = c.stages() * c.virtual_stages;
  for (int p = 1; p < positions; ++p) {
    const int layer = static_cast<int>(c.model.layers / positions) * p;  // the one behind the boundary
    if (layers[0].contains(layer) && layers[1].contains(layer) && stages[0].contains((p - 1) % c.stages()) && stages[1].contains(p % c.stages())) return true;
  }
  return false;
}

// What goes back through the mask or the map of a forward message is no matrix of tokens any more, and what one number of it stands for may change with each message.
void check_masked_gradients(const TrainConfig& c) {
  const CompressRule forward = rule_in_form(c, TrafficClass::pp_forward), backward = rule_in_form(c, TrafficClass::pp_backward);
  if (c.dtype == DType::f64 || !compresses(forward.codec) || !compresses(backward.codec)) return;
  const BackwardRule back = make_codec(forward.codec, c.form).codec->traits().backward;
  if (back == BackwardRule::straight_through) return;
  const CodecStack stack = make_codec(backward.codec, c.form);
  if ((stack.wrappers.empty() && stack.codec->traits().flat) || !meet_at_a_boundary(c, forward, backward)) return;
  const bool masked = back == BackwardRule::masked;
  throw UsageError("compress.pp_backward = " + backward.codec + " behind compress.pp_forward = " + forward.codec + ": the gradient goes back through the forward message's " +
                   (masked ? "mask, as a list of what was kept, and this codec would leave elements out a second time, share scales by the list's shape, or add what it remembers "
                             "of one place to another"
                           : "map, as the gradient of its code, which this codec would take for a gradient of activations") +
                   "; drop compress.pp_backward: the gradient goes back through the forward message's " + (masked ? "mask" : "map") +
                   (masked ? "; or add +straight_through to compress.pp_forward so that the gradient has a mask of its own" : "") +
                   "; or give compress.pp_backward a codec that takes any list of numbers alike (cast, group)");
}

// The first step of an exchange in two.
void check_inside(const TrainConfig& c, TrafficClass traffic, CompressRule rule) {
  if (!compresses(rule.inside)) return;
  if (!RowOwners{c.mesh.data(), {}}.two_levels())
    throw UsageError("compress." + name_of(traffic) + ".inside = " + rule.inside + " codes what stays inside a node, but there are no nodes of several ranks; give --dp-nodes");
  rule.codec = std::exchange(rule.inside, uncompressed), rule.protocol = Protocol::automatic;
  TrainConfig as_whole = c;
  as_whole.compress[traffic] = rule;
  check_rule(as_whole, traffic, rule);
}

// What cannot be cut along the tokens.
void check_slices(const TrainConfig& c) {
  const std::vector<int> slices = c.slices();
  if (slices.size() == 1) return;
  const std::string with = " does not go with --token-slices " + c.token_slices + "; ";
  if (c.tensor_parallel != "1d") throw UsageError("--tensor-parallel " + c.tensor_parallel + with + "the attention of a grid works on whole sequences; use 1d");
  if (c.sequence_parallel)
    throw UsageError("--sequence-parallel" + with + "it cuts the tokens of a micro-batch into blocks across sequences, where slices cut every sequence");
  if (sends_positions_first(c)) throw UsageError("--form released of powersgd on pp_backward" + with + "the released code knows whole micro-batches; use --form fair");
  if (c.forward_us > 0) throw UsageError("--stage-forward-us" + with + "it states the time of a micro-batch, and slices of one differ; measure them");
  for (const auto& [traffic, rule] : c.compress)
    if (rule.active() && make_codec(rule.codec, c.form).codec->as<Trainable>() != nullptr)
      throw UsageError("compress." + name_of(traffic) + " = " + rule.codec + with + "weights of a codec (an auto-encoder's) belong to messages of whole micro-batches");
  for (const int tokens : slices)
    if (c.scatter_gather && c.micro_batch * tokens % c.mesh.tp != 0)
      throw UsageError("scatter/gather splits the " + str(c.micro_batch * tokens) + " rows of a slice (micro-batch " + str(c.micro_batch) + " x " + str(tokens) +
                       " tokens) over " + str(c.mesh.tp) + " tensor-parallel ranks, which do not divide them; choose other --token-slices");
}

// One rank that loses at its boundaries what the ranks of a pipeline lose: what it would not repeat faithfully is refused.
void check_boundary_stages(const TrainConfig& c) {
  if (c.boundary_stages == 0) return;
  const auto refuse = [&](const std::string& why) {
    throw UsageError("--boundary-stages " + str(c.boundary_stages) + " codes the backward messages of a 1f1b pipeline within one rank; " + why);
  };
  if (c.boundary_stages < 2) refuse("one stage has no boundary; give 2 or more, or 0 for none");
  if (c.mesh.ranks() != 1)
    refuse("here are tp " + str(c.mesh.tp) + " x pp " + str(c.mesh.pp) + " x dp " + str(c.mesh.dp) + " ranks; give --tp 1 --pp 1 --dp 1, or a pipeline of ranks without it");
  if (c.token_slices != "1") refuse("its messages are of whole sequences; leave out --token-slices " + c.token_slices);
  if (c.virtual_stages != 1) refuse("its stages hold one chunk each; leave out --virtual-stages " + str(c.virtual_stages));
  if (!schedule_traits(c.schedule).epilogue) refuse("leave out --schedule " + c.schedule);
  if (c.device != DeviceKind::host) refuse("its messages stay on the host; use --device host");
  if (c.compute != ComputeMode::real) refuse("it is for losses, and its times are nobody's; use --compute real");
  if (c.dtype == DType::f32 && c.comm_dtype != DType::f32)
    refuse("a pipeline of --comm-dtype " + std::string(name_of(c.comm_dtype)) + " rounds its activations too, which one rank does not send; use --comm-dtype f32");
  if (sends_positions_first(c)) refuse("the released form of powersgd sees a message as a pipeline's ranks hold it; use --form fair");
  if (c.model.layers % c.boundary_stages != 0) refuse(str(c.model.layers) + " layers do not divide into its stages");
  for (const auto& [traffic, rule] : c.compress)
    if (rule.active() && traffic != TrafficClass::pp_backward)
      refuse("compress." + name_of(traffic) + " = " + rule.codec + " has no messages there; only pp_backward can be compressed");
}

// Types that parameters and gradients are sent in.
void check_mixed_precision(const TrainConfig& c) {
  if (c.dtype == DType::f64 && c.reduce_dtype)
    throw UsageError("--reduce-dtype " + std::string(name_of(*c.reduce_dtype)) + " beside --dtype f64: the parity mode compares exact sums; leave it out, or use --dtype f32");
  const auto rule = c.compress.find(TrafficClass::param_all_gather);
  if (!c.rounds_parameters() || rule == c.compress.end()) return;
  for (const std::string& codec : {rule->second.codec, rule->second.inside})
    if (compresses(codec))
      throw UsageError("compress.param_all_gather = " + codec + " beside --param-dtype " + std::string(name_of(*c.param_dtype)) + ": passes would read what the codec decodes, which is not of that type; "
                       "leave one of the two out (cast:to=bf16 and --param-dtype bf16 send the same bytes)");
}

// Steps that are shared by runs under other rules must not depend on a rule.
void check_shared_start(const TrainConfig& c) {
  if (c.shared_start == 0) return;
  const std::string with = "--shared-start " + str(c.shared_start) + " shares the first steps of runs that differ in what they compress after them; ";
  if (c.shared_start >= c.steps) throw UsageError(with + "--steps " + str(c.steps) + " must be more");
  if (c.shared_start_folder.empty()) throw UsageError(with + "name a folder for their state with --shared-start-folder");
  if (!c.resume.empty()) throw UsageError(with + "leave out --resume " + c.resume + ", which starts elsewhere");
  if (c.compute != ComputeMode::real) throw UsageError(with + "a timed run has no state worth keeping; use --compute real");
  for (const auto& [traffic, rule] : c.compress)
    if (rule.active() && rule.warmup_steps < c.shared_start)
      throw UsageError(with + "compress." + name_of(traffic) + " = " + rule.codec + " begins at step " + str(rule.warmup_steps) + "; give --compress." + name_of(traffic) + ".warmup_steps " +
                       str(c.shared_start) + " or more");
}

// A recorded pass is a fixed list of work: nothing in it may wait for other ranks or change from step to step.
void check_graphs(const TrainConfig& c) {
  if (!c.graphs) return;
  const auto refuse = [](const std::string& why) { throw UsageError("--graphs true records passes as a fixed list of work on a device; " + why); };
  if (c.device == DeviceKind::host) refuse("give --device cuda");
  if (c.mesh.tp > 1 || c.tensor_parallel != "1d") refuse("tensor parallelism talks to other ranks in the middle of them; use --tp 1");
  if (c.model.dropout > 0) refuse("dropout drops other elements in each step; use --dropout 0");
  if (c.recompute) refuse("recomputation exchanges its buffers; use --recompute none");
  if (c.slices().size() > 1) refuse("slices of a micro-batch are not recorded; use --token-slices 1");
}

// What 2-D, 2.5-D and 3-D tensor parallelism need, and what was built for 1-D alone.
void check_grid_settings(const TrainConfig& c, const GridShape& grid) {
  check_grid(grid, {c.micro_batch, c.model.hidden, c.model.heads});
  check_grid_rules(c.compress, c.form);
  const std::string with = " does not go with --tensor-parallel " + c.tensor_parallel + "; ";
  if (c.sequence_parallel) throw UsageError("--sequence-parallel" + with + "a grid splits the batch and never keeps a whole activation");
  if (c.scatter_gather) throw UsageError("--scatter-gather" + with + "boundary tensors are shards already");
  if (sends_positions_first(c)) throw UsageError("--form released of powersgd on pp_backward" + with + "use --form fair");
  for (const auto& [traffic, rule] : c.compress)
    if (rule.active() && make_codec(rule.codec, c.form).codec->as<Trainable>() != nullptr)
      throw UsageError("compress." + name_of(traffic) + " = " + rule.codec + with + "weights of a codec (an auto-encoder's) are for whole rows of the hidden size");
  if (!c.omit.empty()) throw UsageError("--omit" + with + "its messages cannot be left out yet; leave it empty");
  if (c.error_interval > 0)
    throw UsageError("--error-interval" + with + "errors of a grid's messages are not measured; set it to 0");
}

}  // namespace

void TrainConfig::check() const {
  model.check();
  check_mesh(mesh);
  at_least("global-batch", global_batch, 1);
  at_least("micro-batch", micro_batch, 1);
  at_least("seq", seq, 1);
  for (const auto& [name, value] : {std::pair("global-batch", global_batch), {"micro-batch", micro_batch}, {"seq", seq}})
    within(name, static_cast<double>(value), value <= std::numeric_limits<std::int32_t>::max(), "at most 2147483647");
  at_least("steps", steps, 1);
  at_least("virtual-stages", virtual_stages, 1);
  at_least("eval-interval", eval_interval, 0);
  at_least("eval-sequences", eval_sequences, 1);
  at_least("error-interval", error_interval, 0);
  at_least("zero-prefetch", zero_prefetch, 0);
  at_least("zero-wrap", zero_wrap, 0);
  at_least("checkpoint-interval", save_interval, 0);
  if (from.empty() && !from_sha256.empty()) throw UsageError("--from-sha256 says what the folder of --from must hold, and there is no --from");
  at_least("serial-steps", serial_steps, 1);
  within("compute-scale", compute_scale, compute_scale > 0 && compute_scale <= 1e6, "above 0, at most 1e6");
  if (compute == ComputeMode::real && compute_scale != 1)
    throw UsageError("compute-scale stretches timed waits; real compute takes its own time (use compute = timed)");
  within("stage-forward-us", forward_us, forward_us >= 0 && forward_us <= 1e9, "0 (as measured) to 1e9");
  within("stage-backward-us", backward_us, backward_us >= 0 && backward_us <= 1e9, "0 (as measured) to 1e9");
  if ((forward_us > 0) != (backward_us > 0))
    throw UsageError("stage-forward-us and stage-backward-us are stated together: a step of one measured and one stated pass says nothing");
  if (compute == ComputeMode::real && forward_us > 0)
    throw UsageError("stage-forward-us states what a timed pass waits; real compute takes its own time (use compute = timed)");
  if (!omitted().empty() && compute == ComputeMode::real)
    throw UsageError("omit = " + omit + " leaves messages out, so losses would be those of another training; only times mean something then (use compute = timed)");
  at_least("warmup", trainer.schedule.warmup, 0);
  at_least("schedule-steps", trainer.schedule.total, 1);
  within("learning-rate", trainer.schedule.peak, trainer.schedule.peak > 0, "above 0");
  within("min-lr", trainer.schedule.min_lr,
         trainer.schedule.min_lr >= 0 && trainer.schedule.min_lr <= trainer.schedule.peak,
         "from 0 to the learning rate");
  within("beta1", trainer.adamw.beta1, trainer.adamw.beta1 >= 0 && trainer.adamw.beta1 < 1, "in [0, 1)");
  within("beta2", trainer.adamw.beta2, trainer.adamw.beta2 >= 0 && trainer.adamw.beta2 < 1, "in [0, 1)");
  within("epsilon", trainer.adamw.epsilon, trainer.adamw.epsilon > 0, "above 0");
  within("weight-decay", trainer.adamw.weight_decay, trainer.adamw.weight_decay >= 0, "0 or more");
  within("clip", trainer.max_norm, trainer.max_norm > 0, "above 0");
  within("bucket-cap-mb", bucket_cap_mb, bucket_cap_mb >= 0, "0 or more");
  within("messages-at-once", messages_at_once, messages_at_once >= 1 && messages_at_once <= 64, "1 to 64");

  if (seq > model.max_seq)
    throw UsageError("sequences of " + str(seq) + " tokens do not fit the " + str(model.max_seq) +
                     " positions of the model; give --max-seq " + str(seq) + " or --seq " +
                     str(model.max_seq));
  const GridShape grid = parse_grid(tensor_parallel, mesh.tp);
  if (grid.kind != GridKind::one_d)
    check_grid_settings(*this, grid);
  else if (model.heads % mesh.tp != 0)
    throw UsageError(str(model.heads) + " attention heads cannot be split over " + str(mesh.tp) +
                     " tensor-parallel ranks; choose --heads " + str(nearest_multiple(model.heads, mesh.tp)) +
                     " or a --tp that divides " + str(model.heads));
  const std::int64_t chunks = std::int64_t{mesh.pp} * virtual_stages;
  if (model.layers % chunks != 0)
    throw UsageError(str(model.layers) + " layers cannot be split evenly over " + str(chunks) +
                     " model chunks (pp " + str(mesh.pp) + " x virtual stages " + str(virtual_stages) +
                     "); choose --layers " + str(nearest_multiple(model.layers, chunks)) +
                     ", or stages that divide " + str(model.layers));
  const std::int64_t together = mesh.dp * micro_batch;
  if (global_batch % together != 0)
    throw UsageError("global batch " + str(global_batch) + " is not a multiple of " + str(together) +
                     " (dp " + str(mesh.dp) + " x micro-batch " + str(micro_batch) +
                     "); choose --global-batch " + str(nearest_multiple(global_batch, together)));
  if ((sequence_parallel || scatter_gather) && micro_batch * seq % mesh.tp != 0)
    throw UsageError(std::string(sequence_parallel ? "sequence parallelism" : "scatter/gather") +
                     " splits the " + str(micro_batch * seq) + " rows of a micro-batch (micro-batch " +
                     str(micro_batch) + " x seq " + str(seq) + ") over " + str(mesh.tp) +
                     " tensor-parallel ranks, which do not divide them; choose a multiple of " +
                     str(mesh.tp) + " for --seq");
  check_schedule(*this);
  at_least("boundary-stages", boundary_stages, 0);
  at_least("shared-start", shared_start, 0);
  check_shared_start(*this);
  check_boundary_stages(*this);
  check_mixed_precision(*this);
  check_slices(*this);
  check_graphs(*this);
  if (device != DeviceKind::host && dtype == DType::f64)
    throw UsageError("--dtype f64 beside --device cuda: devices compute in f32 (and multiply in f32 or bf16); the parity mode is the host's (--device host)");
  if (device != DeviceKind::host && compute != ComputeMode::real)
    throw UsageError("--compute timed replays durations of the host, but a device runs its work beside the host and takes its own time; use --compute real, or --device host");
  check_update(*this);
  if (dtype != DType::f32 && dtype != DType::f64)
    throw UsageError("--dtype " + std::string(name_of(dtype)) + ": f32 or f64");
  if (embedding_sync != "two_step" && embedding_sync != "fused")
    throw UsageError("--embedding-sync " + embedding_sync + ": two_step or fused");
  for (const auto& [traffic, rule] : compress) check_rule(*this, traffic, rule), check_inside(*this, traffic, rule);
  check_masked_gradients(*this);
  if (compute != ComputeMode::real && !checkpoint.empty())
    throw UsageError("--compute timed replays durations, so its weights mean nothing and are not saved; drop --checkpoint, or use --compute real");
  if (!resume_sha256.empty() && resume.empty())
    throw UsageError("--resume-sha256 names the state of a checkpoint, but there is none to start from; give --resume FILE.h5");
  if (save_interval > 0 && checkpoint.empty())
    throw UsageError("--checkpoint-interval " + str(save_interval) +
                     " without a file; name it with --checkpoint FILE.h5");
}

bool TrainConfig::shards_gradients() const { return mesh.data().within_replica() > 1 && store_info(zero_stage).shards_gradients; }
bool TrainConfig::shards_table() const { return mesh.pp > 1 && shards_gradients() && embedding_sync == "two_step"; }

std::int64_t TrainConfig::bucket_bytes(std::int64_t gradient_bytes) const {
  if (bucket_cap_mb > 0) return static_cast<std::int64_t>(bucket_cap_mb * (1 << 20));
  return std::clamp<std::int64_t>(gradient_bytes / 16, 64 << 10, 4 << 20);
}

std::vector<int> TrainConfig::slices() const { return parse_slices(token_slices, static_cast<int>(seq)); }

Schedule pipeline_schedule(const TrainConfig& c) {
  return make_schedule(c.schedule, c.mesh.pp, static_cast<int>(c.micro_batches()), c.virtual_stages, static_cast<int>(c.slices().size()));
}

DType TrainConfig::wire(TrafficClass traffic) const {
  if (traffic == TrafficClass::param_all_gather && param_dtype) return *param_dtype;
  if (dtype == DType::f64) return DType::f64;
  const bool gradient = traffic == TrafficClass::dp_gradient || traffic == TrafficClass::grad_reduce_scatter || traffic == TrafficClass::embedding;
  return gradient ? reduce_dtype.value_or(comm_dtype) : comm_dtype;
}

std::set<TrafficClass> TrainConfig::omitted() const {
  std::set<TrafficClass> classes;
  for (std::size_t begin = 0; begin < omit.size();) {
    const std::size_t end = std::min(omit.find(',', begin), omit.size());
    const TrafficClass traffic = parse_traffic(omit.substr(begin, end - begin));
    if (traffic == TrafficClass::control)
      throw UsageError("omit = " + omit + ": control traffic (norms, loss, look-ups) belongs to computing; leave it out of the list");
    classes.insert(traffic);
    begin = end + 1;
  }
  return classes;
}

}  // namespace thinwire
