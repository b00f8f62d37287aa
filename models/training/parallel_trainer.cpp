#include "models/training/parallel_trainer.h"

#include <cmath>
#include <limits>
#include <optional>

#include "collectives/process/node_info.h"
#include "core/device/device_module.h"
#include "core/device/device_stream.h"
#include "core/tensor_names.h"
#include "kernels/nn/device/device_dispatch.h"
#include "models/training/codec_training.h"
#include "models/data/batches.h"
#include "models/parallel/pipeline/pipeline.h"
#include "models/compute/recorded_passes.h"
#include "models/store/parameter_store.h"
#include "models/training/trainer_channels.h"
#include "models/update/update_policy.h"

namespace thinwire {
namespace {

constexpr const char* timed_on_device =
    "Timed compute replays durations of host sections; a device runs its work beside the host and takes its own time (--compute real, or --device host)";

/// Of the devices that this process sees the one with the rank's number on its machine, modulo their number: several ranks may share one.
Device device_of_rank(DeviceKind kind) {
  if (kind == DeviceKind::host) return {};
  return {kind, NodeInfo::rank_here() % device_module().devices()};
}

/// `Model`: Gpt<T>, or GridGpt<T> where the tensor group is a grid.
template <typename T, typename Model>
class Trainer3d final : public ParallelTrainer {
 public:
  /// Under the placement of `stream`, which all that lies on this rank shares.
  Trainer3d(Communicator& world, const TrainConfig& config, const Corpus& corpus, std::unique_ptr<OwnedStream> stream)
      : stream_(std::move(stream)),
        world_(world),
        config_(config),
        corpus_hash_(corpus.hash()),
        mesh_(world, config.mesh),
        at_(mesh_.coordinates()),
        training_(corpus.training(), config.model.seed, "data.training"),
        validation_(corpus.validation(), config.model.seed, "data.validation"),
        schedule_(pipeline_schedule(config)),
        optimizer_(parse_update(config.optimizer)) {
    clock_.measure_devices();
    open_channels();
    make_chunks();
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
    const PlacementScope here(where());
    const std::int64_t number = steps_taken_, begin = now_ns();
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
    pipeline_->train(
        schedule_, static_cast<std::uint64_t>(number), batches(training_, static_cast<std::uint64_t>(number)), loss,
        [&](int unit) { update_->reduce(unit, static_cast<int>(config_.micro_batches()) - 1, true); }, [&] {
          for (auto& [name, pair] : pairs_->named) pair->progress();
        });
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
    pairs_->sum_within_replica(sums, number);
    double clipped_by = std::sqrt(sums[0]);
    pairs_->sum_over_replicas(sums, number);
    if (!clock_.replays() && !(std::isfinite(sums[0]) && std::isfinite(sums[1]))) name_the_rank(own_loss, number);
    const NormScope scope = update_->clip_scope();
    // Of replicas with norms of their own the root of the mean square.
    record.gradient_norm = std::sqrt(scope == NormScope::all ? sums[0] : sums[0] / mesh_.shape().data().replicas);
    if (scope != NormScope::replica) clipped_by = record.gradient_norm;
    record.loss = sums[1];
    record.learning_rate = config_.trainer.schedule.at(number);
    const double scale = scope == NormScope::none ? 1.0 : nn::clip_factor(clipped_by, config_.trainer.max_norm);
    update_->finish_step({number, record.learning_rate, clipped_by, scale});
    steps_taken_ = number + 1;
    if (grid_) grid_->weights_changed(number + 1);
    codec_training_->step(number, record.learning_rate);
    store_->updated(steps_taken_);
    clock_.settle();
    record.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
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

  double validate() override {
    const PlacementScope here(where());
    const std::int64_t rounds = std::max<std::int64_t>(1, (config_.eval_sequences + config_.global_batch - 1) / config_.global_batch);
    double loss = 0;
    if (update_->begin_evaluation()) store_->updated(steps_taken_);
    for (std::int64_t round = 0; round < rounds; ++round) {
      numbers_.fill_zero();
      double *own = data_of<double>(numbers_), of_round = 0;
      pipeline_->evaluate(schedule_, static_cast<int>(round), batches(validation_, static_cast<std::uint64_t>(round)), own);
      copy_and_wait(&of_round, own, sizeof of_round);
      loss += of_round;
    }
    if (update_->end_evaluation()) store_->updated(steps_taken_);
    nn::check_device_status();
    clock_.settle();
    std::array<double, 2> sums = {0, mesh_.last_stage() && at_.tp == 0 ? loss / static_cast<double>(rounds * config_.mesh.dp) : 0};
    pairs_->sum_over_mesh(sums, steps_taken());
    std::vector<TrafficRecord> not_training;
    take_records(not_training);
    return sums[1];
  }

  std::int64_t steps_taken() const override { return steps_taken_; }
  void state_loaded(std::int64_t steps) override {
    const PlacementScope here(where());
    steps_taken_ = steps;
    store_->loaded(steps);
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
  const std::string& corpus_hash() const override { return corpus_hash_; }

  std::vector<StateSlot> state_slots() override {
    const PlacementScope here(where());
    synchronize_placement();  // who reads these tensors need not know the stream
    std::vector<StateSlot> all = store_->state();
    for (StateSlot& slot : update_->state()) all.push_back(std::move(slot));
    return all;
  }
  std::map<std::string, std::vector<std::byte>> codec_state() const override {
    const PlacementScope here(where());
    std::map<std::string, std::vector<std::byte>> state;
    pairs_->save_states(state);
    if (grid_) grid_->save_states(state);
    if (!codec_training_->empty()) state["trained codecs"] = codec_training_->save_state();
    return state;
  }
  void load_codec_state(const std::map<std::string, std::vector<std::byte>>& state) override {
    const PlacementScope here(where());
    pairs_->load_states(state);
    if (grid_) grid_->load_states(state);
    if (codec_training_->empty()) return;
    const auto moments = state.find("trained codecs");
    if (moments == state.end()) throw CorruptData("The checkpoint has no optimizer state of its trained codecs");
    codec_training_->load_state(moments->second);
  }

 private:
  void open_channels() {
    const DType wire = std::is_same_v<T, double> ? DType::f64 : config_.comm_dtype;
    std::vector<ChannelSpec> wanted;
    for (const auto& channels : {optimizer_.info->channels, store_info(config_.zero_stage).channels})
      if (channels)
        for (ChannelSpec& spec : channels(config_, mesh_)) wanted.push_back(std::move(spec));
    pairs_.emplace(world_, mesh_, config_, wanted, wire, dtype_of<T>);
    if constexpr (std::is_same_v<Model, GridGpt<T>>) {
      GridOptions options;
      options.comm_dtype = wire, options.form = config_.form, options.compress = config_.compress, options.stage = at_.pp;
      grid_ = std::make_unique<TensorGrid<T>>(mesh_.tp(), parse_grid(config_.tensor_parallel, config_.mesh.tp), options, clock_);
    }
    if (pairs_->tensor_forward)
      tensor_.emplace(*pairs_->tensor_forward, *pairs_->tensor_backward, *pairs_->look_up, *pairs_->tensor_control, at_.pp, config_.sequence_parallel);
    else
      tensor_.emplace();
    tensor_->error_interval = config_.error_interval;
  }

  void make_chunks() {
    const int positions = config_.mesh.pp * config_.virtual_stages;
    const int layers = static_cast<int>(config_.model.layers) / positions;
    for (int v = 0; v < config_.virtual_stages; ++v) {
      const int position = global_chunk(schedule_, at_.pp, v);
      const GptPart part{position * layers, layers, position == 0, position == positions - 1};
      if constexpr (std::is_same_v<Model, GridGpt<T>>)
        chunks_.push_back(std::make_unique<GridGpt<T>>(config_.model, part, *grid_, config_.recompute));
      else
        chunks_.push_back(std::make_unique<Gpt<T>>(config_.model, part, GptRuntime<T>{&*tensor_, &clock_, config_.recompute}));
    }
    std::vector<Model*> pointers;
    for (auto& chunk : chunks_) pointers.push_back(chunk.get());
    pipeline_.emplace(config_, at_, pointers, pairs_->boundary, clock_);
  }

  void make_update() {
    StoreContext<T> context{config_, mesh_, {}, nullptr, pairs_->named, clock_};
    for (auto& chunk : chunks_) {
      const auto& list = chunk->parameters();
      for (std::size_t i = 0; i < list.size(); ++i) context.parameters.push_back({list[i], chunk->layers_of_parameters()[i]});
      if (config_.mesh.pp > 1 && chunk->token()) context.table = chunk->token();
    }
    store_ = make_store<T>(store_info(config_.zero_stage), context);
    update_ = make_update_policy<T>(*optimizer_.info, {config_, optimizer_.options, mesh_, *store_, pairs_->named, *pairs_->tensor_control, clock_});
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
      const GptPart& part = chunk->part();
      for (int l = part.first_layer; l < part.first_layer + part.layers; ++l)
        if (forward && forward->codes(l, at_.pp, settled))
          for (const char* linear : {".attention.projection", ".mlp.projection"})
            sums.push_back(tensor_id("layer" + std::to_string(l) + linear));
      const auto add_boundary = [&](int boundary, int sender) {
        if (boundary_forward->codes(boundary, sender, settled)) boundaries.push_back(tensor_id("boundary" + std::to_string(boundary)));
      };
      const int stages = config_.mesh.pp;
      if (part.first_layer > 0) add_boundary(part.first_layer, (at_.pp + stages - 1) % stages);
      if (part.first_layer + part.layers < config_.model.layers) add_boundary(part.first_layer + part.layers, at_.pp);
    }
    if (forward) codec_training_->add(*forward, sums, config_.model.hidden, true, false);
    const bool rows_differ = config_.mesh.tp > 1 && (config_.scatter_gather || config_.sequence_parallel);
    if (boundary_forward) codec_training_->add(*boundary_forward, boundaries, config_.model.hidden, rows_differ, rows_differ);
  }

  /// This replica's micro-batches of a global batch.
  std::vector<TokenBatch> batches(const BatchSampler& sampler, std::uint64_t number) const {
    std::vector<TokenBatch> list;
    const std::int64_t count = config_.micro_batches();
    for (std::int64_t m = 0; m < count; ++m)
      list.push_back(sampler.batch(number, (at_.dp * count + m) * config_.micro_batch, config_.micro_batch, config_.seq));
    return list;
  }

  /// The rank whose loss or gradient is not finite says so; the others give it time to end the job.
  [[noreturn]] void name_the_rank(double own_loss, std::int64_t number) {
    const std::string where = "step " + std::to_string(number) + ", rank " + std::to_string(world_.rank()) + " (stage " +
                              std::to_string(at_.pp) + ", tensor rank " + std::to_string(at_.tp) + ", replica " + std::to_string(at_.dp) + ")";
    if (!std::isfinite(own_loss))
      throw RuntimeFailure("The loss is not finite at " + where + ". Lower the learning rate or lengthen its warm-up.");
    try {
      update_->check_finite();
    } catch (const RuntimeFailure& e) {
      throw RuntimeFailure(std::string(e.what()) + " Seen at " + where + ".");
    }
    sleep_until_ns(now_ns() + 2'000'000'000);
    throw RuntimeFailure("Loss or gradient is not finite on another rank; " + where + " stops with it.");
  }

  void take_records(std::vector<TrafficRecord>& records) {
    pairs_->take_records(records);
    if (grid_) grid_->take_records(records);
  }

  Placement where() const { return {stream_->get().device, stream_->get()}; }

  std::unique_ptr<OwnedStream> stream_;
  Communicator& world_;
  const TrainConfig config_;
  const std::string corpus_hash_;
  ProcessMesh mesh_;
  MeshCoordinates at_;
  BatchSampler training_, validation_;
  Schedule schedule_;
  ComputeClock clock_;
  RecordedPasses recorded_{config_.graphs, clock_};
  Tensor numbers_{{2}, DType::f64};  ///< of a step, read once: squares of the gradient, loss
  std::optional<TrainerChannels> pairs_;
  std::optional<TensorParallel<T>> tensor_;
  std::unique_ptr<TensorGrid<T>> grid_;  ///< null in 1-D
  std::vector<std::unique_ptr<Model>> chunks_;
  std::optional<Pipeline<T, Model>> pipeline_;
  std::unique_ptr<ParameterStore<T>> store_;
  UpdateExpression optimizer_;
  std::unique_ptr<UpdatePolicy<T>> update_;
  std::int64_t steps_taken_ = 0;
  std::optional<CodecTraining> codec_training_;
};

}  // namespace

std::unique_ptr<ParallelTrainer> ParallelTrainer::make(Communicator& world, const TrainConfig& config, const Corpus& corpus) {
  config.check();
  auto stream = std::make_unique<OwnedStream>(device_of_rank(config.device));
  const PlacementScope here(Placement{stream->get().device, stream->get()});
  const bool grid = parse_grid(config.tensor_parallel, config.mesh.tp).kind != GridKind::one_d;
  if (config.dtype == DType::f64 && grid) return std::make_unique<Trainer3d<double, GridGpt<double>>>(world, config, corpus, std::move(stream));
  if (config.dtype == DType::f64) return std::make_unique<Trainer3d<double, Gpt<double>>>(world, config, corpus, std::move(stream));
  if (grid) return std::make_unique<Trainer3d<float, GridGpt<float>>>(world, config, corpus, std::move(stream));
  return std::make_unique<Trainer3d<float, Gpt<float>>>(world, config, corpus, std::move(stream));
}

}  // namespace thinwire
