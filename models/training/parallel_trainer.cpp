#include "models/training/parallel_trainer.h"

#include <cmath>
#include <limits>
#include <optional>

#include "collectives/process/node_info.h"
#include "collectives/process/rank_clock.h"
#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "core/process/log.h"
#include "core/tensor_names.h"
#include "kernels/nn/device/device_dispatch.h"
#include "kernels/nn/gemm/packed_weight.h"
#include "models/training/agreement.h"
#include "models/training/codec_training.h"
#include "models/training/replica_batches.h"
#include "models/stage/model_kind.h"
#include "models/training/step_schedule.h"
#include "models/data/batches.h"
#include "models/optimizer/diverged.h"
#include "models/parallel/pipeline/local_boundaries.h"
#include "models/parallel/pipeline/pipeline.h"
#include "models/compute/recorded_passes.h"
#include "models/store/flat_store.h"
#include "models/training/trainer_channels.h"
#include "models/update/update_policy.h"

namespace thinwire {
namespace {

constexpr const char* timed_on_device =
    "Timed compute replays durations of host sections; a device runs its work beside the host and takes its own time (--compute real, or --device host)";

/// Of trained codecs, in a checkpoint. Older ones have no steps.
constexpr const char *codec_moments = "trained codecs", *codec_steps = "steps of trained codecs";

/// Of the devices that this process sees the one with the rank's number on its machine, modulo their number: several ranks may share one.
Device device_of_rank(DeviceKind kind) {
  if (kind == DeviceKind::host) return {};
  return {kind, NodeInfo::rank_here() % device_module().devices()};
}

template <typename T>
class Trainer3d final : public ParallelTrainer {
 public:
  /// Under the placement of `stream`, which all that lies on this rank shares.
  Trainer3d(Communicator& world, const TrainConfig& config, DataSource data, std::unique_ptr<OwnedStream> stream)
      : stream_(std::move(stream)),
        world_(world),
        config_(config),
        data_(std::move(data)),
        mesh_(world, config.mesh),
        at_(mesh_.coordinates()),
        schedule_(training_schedule(config)),
        optimizer_(parse_update(config.optimizer)) {
    clock_.measure_devices();
    clock_.progress_by([] { return Channel::progress_all(); });
    open_channels();
    make_chunks();
    begin_from();
    make_update();
    make_codec_training();
    synchronize_placement();
  }
  ~Trainer3d() override {
    try {
      const PlacementScope here(where());
      synchronize_placement();
    } catch (const std::exception&) {  // why the trainer ends, most likely
    }
  }

  StepRecord step() override {
    return naming_divergence([this] { return take_step(); }, ". Seen at " + place_in(steps_taken_) + ".");
  }

  Evaluation evaluate() override {
    return naming_divergence([this] { return take_evaluation(); }, ". Seen in the validation after step " + std::to_string(steps_taken_) + ", rank " + std::to_string(world_.rank()) + ".");
  }

  std::int64_t steps_taken() const override { return steps_taken_; }
  std::map<std::string, double> update_numbers() const override { return update_->numbers(); }
  void set_update_numbers(const std::map<std::string, double>& numbers) override { update_->set_numbers(numbers); }
  void state_loaded(std::int64_t steps, bool replicas_anew) override {
    const PlacementScope here(where());
    steps_taken_ = steps;
    store_->loaded(steps);
    update_->loaded(steps, replicas_anew);
    if (grid_) grid_->weights_changed(steps);
    synchronize_placement();
  }

  void set_compute(ComputeMode mode) override {
    if (!where().on_host() && mode != ComputeMode::real) throw UsageError(timed_on_device);
    const PlacementScope here(where());
    world_.barrier();  // no operation of a neighbour may be in flight
    clock_.set_mode(mode);
    clock_.set_scale(config_.compute_scale);
    pairs_->set_compute(mode, config_.compute_scale);
    if (grid_) grid_->set_compute(mode, config_.compute_scale);
    // Only where nothing is computed: a real step needs what its messages bring.
    pairs_->omit(mode == ComputeMode::replay ? config_.omitted() : std::set<TrafficClass>());
  }
  void drain_link(LinkDrain* drain) override {
    pairs_->drain_link(drain);
    if (grid_) grid_->drain_link(drain);
  }
  ProcessMesh& mesh() override { return mesh_; }
  const std::string& corpus_hash() const override { return data_.hash; }

  std::vector<StateSlot> state_slots() override {
    const PlacementScope here(where());
    synchronize_placement();  // who reads these tensors need not know the stream
    std::vector<StateSlot> all = update_->weights(store_->state());
    for (StateSlot& slot : update_->state()) all.push_back(std::move(slot));
    return all;
  }
  std::map<std::string, std::vector<std::byte>> codec_state() const override {
    const PlacementScope here(where());
    std::map<std::string, std::vector<std::byte>> state;
    pairs_->save_states(state);
    if (grid_) grid_->save_states(state);
    if (!codec_training_->empty()) state[codec_moments] = codec_training_->save_state(), state[codec_steps] = codec_training_->save_steps();
    return state;
  }
  void load_codec_state(const std::map<std::string, std::vector<std::byte>>& state) override {
    const PlacementScope here(where());
    pairs_->load_states(state);
    if (grid_) grid_->load_states(state);
    if (codec_training_->empty()) return;
    const auto moments = state.find(codec_moments), steps = state.find(codec_steps);
    if (moments == state.end()) throw CorruptData("The checkpoint has no optimizer state of its trained codecs");
    codec_training_->load_state(moments->second);
    codec_training_->load_steps(steps == state.end() ? std::span<const std::byte>() : std::span<const std::byte>(steps->second));
  }

 private:
  void open_channels() {
    std::vector<ChannelSpec> wanted;
    for (ChannelSpec& spec : optimizer_.channels(config_, mesh_)) wanted.push_back(std::move(spec));
    if (const auto& channels = store_info(config_.zero_stage).channels)
      for (ChannelSpec& spec : channels(config_, mesh_)) wanted.push_back(std::move(spec));
    pairs_.emplace(world_, mesh_, config_, wanted, dtype_of<T>);
    const GridShape shape = parse_grid(config_.tensor_parallel, config_.mesh.tp);
    if (shape.kind != GridKind::one_d) {
      GridOptions options;
      options.comm_dtype = config_.wire(TrafficClass::tp_weight), options.form = config_.form, options.compress = config_.compress, options.stage = at_.pp;
      options.run_seed = config_.model.seed;
      grid_ = std::make_unique<TensorGrid<T>>(mesh_.tp(), shape, options, clock_);
    }
    if (pairs_->tensor_forward)
      tensor_.emplace(*pairs_->tensor_forward, *pairs_->tensor_backward, *pairs_->look_up, *pairs_->tensor_control, at_.pp, config_.sequence_parallel);
    else
      tensor_.emplace();
    tensor_->error_interval = config_.error_interval;
  }

  void make_chunks() {
    // Where a store splits matrices, no rank ever holds them all; and flat parameters give them memory themselves.
    const DeferredMatrices deferred((store_info(config_.zero_stage).lends || config_.zero_layout == "flat") && config_.mesh.data().within_replica() > 1);
    for (int v = 0; v < config_.virtual_stages; ++v) {
      const ModelPart part = part_at(config_, global_chunk(schedule_, at_.pp, v));
      chunks_.push_back(make_stage<T>(config_.model_kind, config_.model, part, {&*tensor_, grid_.get(), &clock_, config_.recompute}));
    }
    if (config_.slices().size() > 1 && !chunks_.front()->traits().token_slices)
      throw UsageError("--token-slices " + config_.token_slices + ": model " + config_.model_kind + " cannot see a part of a sequence alone");
    if (pairs_->local_boundary) local_boundaries_.emplace(config_, *pairs_->local_boundary, *chunks_.front());
  }

  /// Before anything reads the parameters: weights of another program's checkpoint.
  void begin_from() {
    if (config_.from.empty()) return;
    std::string fresh;
    run_in_agreement(world_, [&] {
      if (const std::string& wanted = config_.from_sha256; !wanted.empty())
        if (const std::string content = pretrained_content(config_.model_kind, config_.from); content != wanted)
          throw UsageError("--from " + config_.from + " holds a model of SHA-256 " + content + ", not the one that --from-sha256 " + wanted + " names");
      for (auto& chunk : chunks_)
        for (const std::string& name : load_pretrained<T>(config_.model_kind, config_.from, config_.model, *chunk)) fresh += " " + name;
    });
    if (!fresh.empty() && at_.tp == 0 && at_.dp == 0) log_info("drawn by the seed, for " + config_.from + " does not have them:" + fresh);
  }

  void make_update() {
    StoreContext<T> context{config_, mesh_, {}, {}, nullptr, pairs_->named, clock_, config_.zero_node_shards, config_.param_dtype};
    context.shards_table = config_.shards_table();
    if (config_.zero_layout == "flat") context.flat = {config_.zero_wrap, config_.flat_padding};
    for (auto& chunk : chunks_) {
      context.units.insert(context.units.end(), chunk->units().begin(), chunk->units().end());
      for (Parameter<T>* p : chunk->parameters()) context.parameters.push_back({p, chunk->home_layer(p)});
      if (config_.mesh.pp > 1 && chunk->tied_table()) context.table = chunk->tied_table();
    }
    store_ = make_store_in_layout<T>(store_info(config_.zero_stage), context);
    update_ = make_update_policy<T>(optimizer_, config_, mesh_, *store_, pairs_->named, *pairs_->tensor_control, clock_);
    std::vector<Stage<T>*> pointers;
    for (auto& chunk : chunks_) pointers.push_back(chunk.get());
    pipeline_.emplace(config_, at_, pointers, pairs_->boundary, UnitActors{store_.get(), update_.get()}, clock_);
    evaluator_.emplace(config_, at_, *pipeline_, *chunks_.back(), *pairs_);
  }

  StepRecord take_step() {
    const PlacementScope here(where());
    const std::int64_t number = steps_taken_, begin = RankClock::now_ns();
    clock_.reset();
    tensor_->waited_us = store_->waited_us = update_->waited_us = 0;
    if (grid_) grid_->waited_us = 0;
    pipeline_->reset_times();
    recorded_.run({"zero gradients"}, -1, [&] {
      clock_.run("zero gradients", -1, -1, [&] {
        for (auto& chunk : chunks_) chunk->zero_gradients();
      });
    });
    update_->begin_step(number);
    double *squares = data_of<double>(numbers_), *loss = squares + 1;
    numbers_.fill_zero();
    {
      const nn::PackedWeightsScope packed(packed_weights_);  // an update comes after the passes
      pipeline_->train(schedule_, static_cast<std::uint64_t>(number), replica_batches(config_, at_, *data_.training, static_cast<std::uint64_t>(number)), loss);
    }
    if (local_boundaries_) chunks_.front()->join_table_gradients();
    update_->finish_reduction();

    StepRecord record;
    record.step = number;
    recorded_.run({"gradient norm"}, -1, [&] { clock_.run("gradient norm", -1, -1, [&] { update_->add_sum_of_squares(squares); }); });
    // The one time in a step that the host sees numbers of a device.
    std::array<double, 2> sums{};
    copy_and_wait(sums.data(), numbers_.view().data(), sizeof sums);
    nn::check_device_status();
    const double own_loss = sums[1];
    // One tensor rank of each last stage speaks for its replica's loss.
    const bool speaks = mesh_.last_stage() && at_.tp == 0;
    sums[1] = speaks ? own_loss / config_.mesh.dp : 0;
    // A timed step reports neither: it exchanges what its update needs. Replicas that meet every so many steps would wait for each other in every one.
    const NormScope scope = update_->clip_scope();
    const bool reports = !clock_.replays();
    double clipped_by = 0;
    for (const NormScope level : {NormScope::model, NormScope::replica, NormScope::all}) {
      if (!reports && level > scope) break;
      pairs_->sum_over(level, sums, number);
      if (level <= scope) clipped_by = std::sqrt(sums[0]);
    }
    if (reports && !(std::isfinite(sums[0]) && std::isfinite(sums[1]))) name_the_rank(own_loss, number);
    record.norm_scope = scope;
    // Of ranks or replicas with norms of their own the root of the mean square.
    const int norms = scope == NormScope::model ? config_.mesh.dp : scope == NormScope::replica ? config_.mesh.data().replicas : 1;
    record.gradient_norm = reports ? std::sqrt(sums[0] / norms) : clipped_by;
    if (scope == NormScope::none) clipped_by = record.gradient_norm;
    record.loss = sums[1];
    record.learning_rate = config_.trainer.schedule.at(number);
    const double scale = scope == NormScope::none ? 1.0 : nn::clip_factor(clipped_by, config_.trainer.max_norm);
    update_->finish_step({number, record.learning_rate, clipped_by, scale});
    steps_taken_ = number + 1;
    if (grid_) grid_->weights_changed(number + 1);
    codec_training_->step(number, record.learning_rate);
    store_->updated(steps_taken_);
    clock_.settle();
    record.seconds = static_cast<double>(RankClock::now_ns() - begin) * 1e-9;
    record.compute_us = clock_.total_us();
    record.forward_us = pipeline_->forward_us;
    record.backward_us = pipeline_->backward_us;
    record.slice_forward_us = pipeline_->slice_forward_us;
    record.slice_backward_us = pipeline_->slice_backward_us;
    record.wait_us = tensor_->waited_us + pipeline_->waited_us + update_->waited_us + store_->waited_us + (grid_ ? grid_->waited_us : 0);
    record.tokens = config_.global_batch * config_.seq;
    take_records(record.traffic);
    return record;
  }

  Evaluation take_evaluation() {
    const PlacementScope here(where());
    if (update_->begin_evaluation()) other_weights();
    const nn::PackedWeightsScope packed(packed_weights_);
    Evaluation evaluation = evaluator_->run(data_, steps_taken_);
    for (auto& told : update_->told()) evaluation.metrics.push_back({std::move(told.name), told.value});
    if (update_->end_evaluation()) other_weights();
    clock_.settle();
    std::vector<TrafficRecord> not_training;
    take_records(not_training);
    return evaluation;
  }

  // Auto-encoders learn on the messages that their rules cover.
  void make_codec_training() {
    ChannelPair* gradients = find_channel(pairs_->named, "dp_gradient");
    codec_training_.emplace(gradients ? &gradients->dense() : nullptr, pairs_->tensor_control,
                            config_.trainer.adamw, clock_);
    MessageKey settled;  // a step after any warm-up
    settled.step = std::numeric_limits<std::int64_t>::max();
    std::vector<std::uint64_t> sums, boundaries;
    ChannelPair *forward = pairs_->tensor_forward, *boundary_forward = pairs_->boundary.forward;
    for (auto& chunk : chunks_) {
      const ModelPart& part = chunk->part();
      for (const Unit<T>& unit : chunk->units())
        if (forward && forward->codes(unit.layer, at_.pp, settled))
          for (const std::string& summed : unit.summed) sums.push_back(tensor_id(summed));
      const auto add_boundary = [&](int boundary, int sender) {
        if (boundary_forward->codes(boundary, sender, settled)) boundaries.push_back(tensor_id("boundary" + std::to_string(boundary)));
      };
      const int stages = config_.mesh.pp;
      if (part.first_layer > 0) add_boundary(part.first_layer, (at_.pp + stages - 1) % stages);
      if (part.end_layer() < config_.model.layers) add_boundary(part.end_layer(), at_.pp);
    }
    if (forward) codec_training_->add(*forward, sums, config_.model.hidden, true, false);
    const bool rows_differ = config_.mesh.tp > 1 && (config_.scatter_gather || config_.sequence_parallel);
    if (boundary_forward) codec_training_->add(*boundary_forward, boundaries, config_.model.hidden, rows_differ, rows_differ);
  }

  std::string place_in(std::int64_t step) const {
    return "step " + std::to_string(step) + ", rank " + std::to_string(world_.rank()) + " (stage " + std::to_string(at_.pp) + ", tensor rank " + std::to_string(at_.tp) + ", replica " +
           std::to_string(at_.dp) + ")";
  }

  /// The rank whose loss or gradient is not finite says so; the others give it time to end the job.
  [[noreturn]] void name_the_rank(double own_loss, std::int64_t number) {
    const std::string where = place_in(number);
    if (!std::isfinite(own_loss))
      throw Diverged("The loss is not finite at " + where + ". Lower the learning rate or lengthen its warm-up.");
    try {
      update_->check_finite();
    } catch (const Diverged& e) {
      throw Diverged(std::string(e.what()).substr(diverged_mark.size()) + " Seen at " + where + ".");
    }
    leave_it_to_another();
    throw Diverged("Loss or gradient is not finite on another rank; " + where + " stops with it.");
  }

  /// The policy put others into the store's parts, between two steps.
  void other_weights() {
    store_->updated(steps_taken_);
    if (grid_) grid_->weights_changed(steps_taken_);
  }

  void take_records(std::vector<TrafficRecord>& records) {
    pairs_->take_records(records);
    if (grid_) grid_->take_records(records);
  }

  Placement where() const { return {stream_->get().device, stream_->get()}; }

  std::unique_ptr<OwnedStream> stream_;
  Communicator& world_;
  const TrainConfig config_;
  DataSource data_;
  ProcessMesh mesh_;
  MeshCoordinates at_;
  Schedule schedule_;  ///< lowered to units
  ComputeClock clock_;
  RecordedPasses recorded_{config_.graphs, clock_};
  Tensor numbers_{{2}, DType::f64};  ///< of a step, read once: squares of the gradient, loss
  std::optional<TrainerChannels> pairs_;
  std::optional<TensorParallel<T>> tensor_;
  std::unique_ptr<TensorGrid<T>> grid_;  ///< null in 1-D
  std::vector<std::unique_ptr<Stage<T>>> chunks_;
  nn::PackedWeights packed_weights_;  ///< of products in bf16 on the host
  std::optional<LocalBoundaries<T>> local_boundaries_;
  std::optional<Pipeline<T>> pipeline_;
  std::optional<Evaluator<T>> evaluator_;
  std::unique_ptr<ParameterStore<T>> store_;
  UpdateExpression optimizer_;
  std::unique_ptr<UpdatePolicy<T>> update_;
  std::int64_t steps_taken_ = 0;
  std::optional<CodecTraining> codec_training_;
};

/// UsageError for codecs that remember samples where these do not come again, or are more than are remembered. Says, once, where most messages will travel whole.
void check_samples(const TrainConfig& config, const Dataset& data, const Communicator& world) {
  for (const auto& [traffic, rule] : config.compress) {
    if (!compresses(rule.codec)) continue;
    const CodecTraits traits = make_codec(rule.codec, config.form).codec->traits();
    if (!traits.by_sample) continue;
    const std::string what = "compress." + name_of(traffic) + " = " + rule.codec + " remembers training samples and sends how they change; ", samples = std::to_string(data.samples());
    if (data.samples() == 0)
      throw UsageError(what + "--data " + config.data + " draws them without end, so none would ever come again: choose data with epochs (--data text:windows=N), or a codec that remembers none");
    if (data.samples() > traits.most_samples)
      throw UsageError(what + "--data " + config.data + " has " + samples + " of them, and it remembers " + std::to_string(traits.most_samples) + "; give samples=" + samples +
                       " or more, or fewer samples");
    const std::int64_t seen = config.steps * config.global_batch;
    if (seen < 2 * data.samples() && world.rank() == 0)
      log_warning(what + "in " + std::to_string(config.steps) + " steps of " + std::to_string(config.global_batch) + " it sees " + std::to_string(seen) + " of " + samples +
                  ", less than twice each: most messages travel whole");
  }
}

/// UsageError for tokens that the model does not know, and for codecs that go by token ids where the data have none.
void check_fields(const TrainConfig& config, const DataSource& source) {
  if (source.vocabulary > config.model.vocab)
    throw UsageError("--data " + config.data + " has a vocabulary of " + std::to_string(source.vocabulary) + " pieces, the model one of " + std::to_string(config.model.vocab) +
                     "; give --vocab " + std::to_string(source.vocabulary) + ", or the model's own --vocabulary");
  const Dataset& data = *source.training;
  for (const auto& [traffic, rule] : config.compress) {
    if (!rule.active() || !make_codec(rule.codec, config.form).codec->traits().by_token) continue;
    if (data.batch(0, 0, 1, config.seq).fields.contains("tokens")) continue;
    throw UsageError("compress." + name_of(traffic) + " = " + rule.codec + " goes by the token ids of a message's rows, and these data have no field `tokens`; choose data of tokens "
                     "(--data text), or a codec, or a setting of this one, that does without");
  }
}

}  // namespace

std::unique_ptr<ParallelTrainer> ParallelTrainer::make(Communicator& world, const TrainConfig& config, const Corpus& corpus) {
  return make(world, config, text_data(corpus, config.model.seed));
}

std::unique_ptr<ParallelTrainer> ParallelTrainer::make(Communicator& world, const TrainConfig& config, DataSource data) {
  config.check();
  check_fields(config, data);
  check_samples(config, *data.training, world);
  auto stream = std::make_unique<OwnedStream>(device_of_rank(config.device));
  const PlacementScope here(Placement{stream->get().device, stream->get()});
  if (config.dtype == DType::f64) return std::make_unique<Trainer3d<double>>(world, config, std::move(data), std::move(stream));
  return std::make_unique<Trainer3d<float>>(world, config, std::move(data), std::move(stream));
}

}  // namespace thinwire
