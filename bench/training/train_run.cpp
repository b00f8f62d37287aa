#include "bench/training/train_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <type_traits>

#include "bench/harness/gather_texts.h"
#include "bench/harness/link_trust.h"
#include "bench/training/moved_start.h"
#include "bench/training/product_peak.h"
#include "bench/training/shared_start.h"
#include "bench/training/timeline.h"
#include "bench/training/train_program.h"
#include "bench/training/train_report.h"
#include "bench/training/train_resume.h"
#include "bench/training/train_tables.h"
#include "bench/training/train_prediction.h"
#include "collectives/link/emulated_network.h"
#include "collectives/link/link_calibration.h"
#include "collectives/link/link_drain.h"
#include "collectives/process/node_info.h"
#include "collectives/process/waiter.h"
#include "core/clock.h"
#include "core/device/device_module.h"
#include "core/error.h"
#include "core/process/log.h"
#include "core/memory_counter.h"
#include "core/device/placement.h"
#include "core/process/real_time.h"
#include "core/statistics.h"
#include "core/process/stop_request.h"
#include "kernels/subnormals.h"
#include "models/training/agreement.h"
#include "models/training/checkpoint/checkpoint.h"
#include "models/training/parallel_trainer.h"
#include "models/training/step_schedule.h"
#include "models/cost_model/machine_file.h"
#include "results/files/files.h"
#include "results/kept_state.h"
#include "results/provenance.h"

namespace thinwire::bench {
namespace {

/// The most ranks that a message of this class is shared with, on this mesh.
int ranks_of(const TrainConfig& config, TrafficClass traffic) {
  const std::string name = name_of(traffic);
  const MeshShape& mesh = config.mesh;
  if (name.starts_with("tp_")) return mesh.tp;
  if (name.starts_with("pp_")) return config.stages();
  if (traffic == TrafficClass::embedding) return std::max(config.stages(), mesh.dp);
  if (traffic == TrafficClass::outer_gradient) return mesh.data().replicas;
  if (traffic == TrafficClass::optimizer) return std::max(mesh.tp, mesh.dp);  // over which of them is the policy's matter
  return mesh.data().within_replica();
}

/// Classes that are to be compressed but have nobody to talk to on this mesh.
void warn_about_idle_rules(const TrainConfig& config) {
  for (const auto& [traffic, rule] : config.compress) {
    const std::string name = name_of(traffic);
    if (rule.active() && ranks_of(config, traffic) < 2)
      log_warning("compress." + name + " = " + rule.codec + ": a mesh of " +
                  describe_mesh(config.mesh).substr(5, describe_mesh(config.mesh).find('\n') - 5) +
                  " has no such traffic");
  }
}

class Training {
 public:
  Training(BenchContext& context, const Cell& cell)
      : context_(context),
        cell_(cell),
        world_(context.world),
        files_(context.bookkeeping()),
        config_(train_config_of(cell.parameters)),
        moved_(moved_start_of(cell.parameters, config_)),
        plan_(plan_of(cell.parameters, config_)),
        // Times mean nothing across two runs: a timed cell starts anew.
        resume_(config_.compute == ComputeMode::real ? context.resume : std::string(), cell.cell_id) {
    config_.check();
    require_ranks(config_.mesh, world_.size());
    names_cell_ = config_.resume.starts_with("kept:");
    config_.resume = resume_path(context.resume, config_.resume);
    keep_at_ = keep_at_of(cell.parameters, config_);
    if (keep_at_ > 0 && context.resume.empty()) throw UsageError("--keep-at is for cells of a sweep, which others begin with; a run of its own has --checkpoint FILE.h5 --checkpoint-interval N");
    if (context.check_only)
      throw UsageError(
          "train_gpt has nothing that --check could verify alone; the tests compare it with a single rank "
          "(ctest -L parity)");
    wants_timeline_ = cell.parameters.flag("timeline") || context.run_options.contains("trace");
    if (world_.rank() == 0) warn_about_idle_rules(config_);
  }

  /// UsageError for data that end a run at its first validation, after all steps if there is no other.
  void check_validation(const DataSource& data) const {
    const auto check = [&](const std::string& what, const Dataset* samples) {
      try {
        if (samples != nullptr) (void)samples->batch(0, 0, 1, config_.seq);
      } catch (const UsageError& error) {
        throw UsageError("--data " + config_.data + ", " + what + ": " + error.what());
      }
    };
    check("the part that is left out for validation", data.validation.get());
    for (const JudgedSet& set : data.judged) check(set.name, set.samples.get());
  }

  /// What fails on all ranks alike: a launch makes a row of it (guarded), else one rank tells it.
  void alike(const std::function<void()>& body) { context_.launched ? body() : complain_once(world_, body); }

  /// Nothing when the run ended early on request: its state is saved, and context.stopped is set.
  std::optional<Measured> run() {
    DataSource data;
    alike([&] {
      data = open_data(config_.data, config_.text, config_.model.seed, config_.global_batch, config_.vocabulary);
      if (const std::string& wanted = config_.data_sha256; !wanted.empty() && data.hash != wanted)
        throw UsageError("--data " + config_.data + " of --text " + config_.text + " is of SHA-256 " + data.hash + ", not the one that --data-sha256 " + wanted + " names");
    });
    if (config_.compute == ComputeMode::real) alike([&] { check_validation(data); });
    corpus_hash_ = data.hash;
    unigram_entropy_ = data.unigram_entropy, bigram_entropy_ = data.bigram_entropy;
    data_remark_ = data.remark;
    predicts_tokens_ = data.predicts_tokens;
    const std::int64_t held_before = buffer_bytes();
    reset_buffer_bytes_peak();
    if (const auto peak = context_.run_options.find("peak-tflops"); peak != context_.run_options.end()) {
      const bool host = config_.device == DeviceKind::host;
      const PlacementScope here(host ? Device() : Device{config_.device, NodeInfo::rank_here() % device_module().devices()});
      peak_ = product_peak(world_, config_.model.compute, peak->second);
    }
    alike([&] { trainer_ = ParallelTrainer::make(world_, config_, std::move(data)); });
    const std::string goes_on = resume_.enabled() ? resume_.load(files_, *trainer_, config_, validation_, metrics_) : std::string();
    if (!goes_on.empty()) note(goes_on);
    if (!config_.resume.empty() && trainer_->steps_taken() == 0) resume();
    if (moved_ && trainer_->steps_taken() == 0) {
      tell_resumed(begin_moved(world_, files_, *trainer_, config_, *moved_));
      reset_buffer_bytes_peak();
    }
    if (trainer_->steps_taken() < config_.shared_start) begin_with_shared_steps();
    if (context_.stopped) return std::nullopt;
    if (config_.compute == ComputeMode::real)
      train();
    else
      time();
    if (context_.stopped) return std::nullopt;
    peak_bytes_ = buffer_bytes_peak() - held_before;
    return report();
  }

  /// The record is written: what was saved for an early end has served.
  void forget_saved_state() const {
    if (resume_.enabled() && world_.rank() == 0) resume_.remove();
  }

 private:
  /// Of the file that it starts from: what the hash of a cell's parameters must cover, for a path says nothing. Collective; empty but on rank 0.
  std::string required_content() {
    std::string content;
    run_in_agreement(world_, [&] {
      if (world_.rank() != 0) return;
      content = checkpoint_content(config_.resume);
      const std::string& wanted = config_.resume_sha256;
      const bool of_sweep = !context_.resume.empty();
      if (wanted.empty() && of_sweep && !names_cell_)  // the id of the cell that kept a state says what it is
        throw UsageError("--resume " + config_.resume + ": a cell of a sweep is told by its parameters, and a path does not say what it starts from; add resume-sha256 = \"" +
                         content + "\" if this is the state that you mean");
      if (!wanted.empty() && wanted != content)
        throw UsageError("--resume " + config_.resume + " holds a state of SHA-256 " + content + ", not the one that --resume-sha256 " + wanted + " names");
    });
    return content;
  }

  void resume() {
    const std::string content = required_content();
    const ResumeReport resumed = load_checkpoint(files_, *trainer_, config_, config_.resume);
    checkpoint_ = config_.resume + " (step " + std::to_string(resumed.steps) + ")";
    if (config_.compute == ComputeMode::real && resumed.steps >= config_.steps)
      throw UsageError("--resume " + config_.resume + " holds step " + std::to_string(resumed.steps) +
                       " already; --steps " + std::to_string(config_.steps) + " must be beyond it");
    note("resumed from " + checkpoint_ + ", state " + content);
    tell_resumed(resumed);
  }

  void tell_resumed(const ResumeReport& resumed) {
    if (resumed.codec_state == CodecStateUse::reset) note("codec state starts anew (--codec-state reset)");
    for (const std::string& remark : resumed.remarks) note(remark);
  }

  /// The state after `config_.shared_start` steps, from its file or trained for it. The steps themselves are nobody's: they are not recorded.
  void begin_with_shared_steps() {
    const std::string path = shared_start_path(config_, results::code_of(results::hash_of_binary("/proc/self/exe")), corpus_hash_);
    TrainConfig fresh = config_;
    fresh.reset_codec_state = true;  // the file may be from a run under other rules, none of which has begun
    std::int32_t there = 0;
    if (world_.rank() == 0) there = std::filesystem::exists(path) ? 1 : 0;
    world_.broadcast(&there, sizeof there, 0)->wait();
    if (there != 0 && trainer_->steps_taken() == 0) {
      load_checkpoint(files_, *trainer_, fresh, path);
      note("began with the " + std::to_string(config_.shared_start) + " shared steps of " + path);
      return;
    }
    while (trainer_->steps_taken() < config_.shared_start) {
      take_step(false);
      steps_.clear();
      if (trainer_->steps_taken() < config_.shared_start && stop_agreed()) return save_for_later();
    }
    run_in_agreement(world_, [&] {
      if (world_.rank() == 0) results::make_folder(config_.shared_start_folder);
    });
    // Runs that begin at once all come here: each writes a file of its own, and the last one's name wins.
    const std::string own = path + "." + results::hashed_hostname() + "-" + std::to_string(getpid());
    save_checkpoint(files_, *trainer_, config_, own);
    run_in_agreement(world_, [&] {
      if (world_.rank() != 0) return;
      std::error_code failed;
      std::filesystem::rename(own, path, failed);
      if (failed) throw EnvironmentError(own + " cannot be renamed to " + path + ": " + failed.message() + "; choose another --shared-start-folder");
    });
    note("kept " + std::to_string(config_.shared_start) + " shared steps in " + path);
  }

  /// Into journal and log, from one rank.
  void note(const std::string& text) {
    if (world_.rank() != 0) return;
    log_info(text);
    context_.note(cell_, text);
  }

  void train() {
    TrainProgress progress(world_.rank() == 0, config_);
    while (trainer_->steps_taken() < config_.steps) {
      const bool last = trainer_->steps_taken() + 1 == config_.steps;
      take_step(last);
      const std::int64_t done = trainer_->steps_taken();
      const StepRecord& step = steps_.back();
      if (last || (config_.eval_interval > 0 && done % config_.eval_interval == 0))
        evaluate(step.step);
      if (!config_.checkpoint.empty() &&
          (last || (config_.save_interval > 0 && done % config_.save_interval == 0))) {
        save_checkpoint(files_, *trainer_, config_, config_.checkpoint);
        checkpoint_ = config_.checkpoint + " (step " + std::to_string(done) + ")";
        context_.note(cell_, "saved " + checkpoint_);
      }
      if (done == keep_at_) keep();
      if (!last && stop_agreed()) return save_for_later();
      const auto found = validation_.find(step.step);
      progress.show(step, found == validation_.end() ? results::not_measured : found->second);
    }
  }

  void keep() {
    const std::string path = results::kept_state_path(context_.resume, cell_.cell_id);
    run_in_agreement(world_, [&] {
      if (world_.rank() == 0) results::make_folder(context_.resume);
    });
    save_checkpoint(files_, *trainer_, config_, path);
    context_.note(cell_, "kept " + path + " (step " + std::to_string(keep_at_) + ")");
  }

  void evaluate(std::int64_t step) {
    Evaluation evaluation = naming_the_checkpoint([&] { return trainer_->evaluate(); });
    validation_[step] = evaluation.loss;
    if (!evaluation.metrics.empty()) metrics_[step] = std::move(evaluation.metrics);
  }

  /// SIGUSR1 reaches the ranks at different moments; they stop after the same step.
  bool stop_agreed() {
    if (!resume_.enabled() && config_.checkpoint.empty()) return false;
    const std::int32_t mine = stop_requested() ? 1 : 0;
    std::int32_t any = 0;
    world_.all_reduce(&mine, &any, 1, DType::i32, ReduceOp::max)->wait();
    return any != 0;
  }

  void save_for_later() {
    const std::string done = " (step " + std::to_string(trainer_->steps_taken()) + ")";
    if (resume_.enabled()) {
      resume_.save(files_, *trainer_, config_, steps_, validation_, metrics_);
      note("asked to stop: saved " + resume_.checkpoint() + done + "; the same sweep goes on from it");
    } else {
      save_checkpoint(files_, *trainer_, config_, config_.checkpoint);
      note("asked to stop: saved " + config_.checkpoint + done + "; go on with --resume " + config_.checkpoint);
    }
    context_.stopped = true;
  }

  void time() {
    TrainProgress progress(world_.rank() == 0, config_);
    // So many ranks that mostly nap leave the machine to what it needs itself; more of them would not.
    std::optional<RealTimePriority> undisturbed;
    const Waiter::Quiet naps(100);
    world_.barrier();  // a rank that is late must not find the cores taken
    if (NodeInfo::oversubscription() <= 8) undisturbed.emplace();
    if (!undisturbed || !undisturbed->granted())
      note("no real-time priority (needs root or CAP_SYS_NICE, and at most 8 ranks to a core): other jobs on this machine show in the times");
    next_step();  // buffers grow, connections open
    trainer_->set_compute(ComputeMode::serial);
    for (int i = 0; i < config_.serial_steps; ++i) next_step();
    trainer_->set_compute(ComputeMode::replay);
    trainer_->drain_link(drain_.get());
    for (std::int64_t i = 0; i < config_.steps; ++i) {
      world_.barrier();  // a step's time starts on all ranks alike
      take_step(i + 1 == config_.steps);
      steps_.back().step = i;
      progress.show(steps_.back(), results::not_measured);
    }
  }

  void take_step(bool last) {
    const bool traced = last && wants_timeline_;
    if (traced) Trace::start();
    steps_.push_back(next_step());
    if (traced) spans_ = Trace::stop();
    if (since_news_.seconds() > 10) {  // a sweep ends what it hears nothing of
      since_news_ = Stopwatch();
      context_.note(cell_, "step " + std::to_string(trainer_->steps_taken()) + " taken");
    }
  }

  StepRecord next_step() {
    return naming_the_checkpoint([&] { return trainer_->step(); });
  }

  template <class Body>
  std::invoke_result_t<Body> naming_the_checkpoint(const Body& body) {
    try {
      return body();
    } catch (const RuntimeFailure& error) {
      // Nothing of the state that failed is saved. What was saved before may have been about to fail: no step followed it.
      std::string reason = error.what();
      while (reason.ends_with('.')) reason.pop_back();
      throw RuntimeFailure(
          reason +
          (!checkpoint_.empty() ? ". The last checkpoint is " + checkpoint_
           : !config_.checkpoint.empty()
               ? std::string(". No checkpoint was written yet")
               : std::string(". There is no checkpoint (--checkpoint FILE.h5 --checkpoint-interval N)")));
    }
  }

  Measured report() {
    TrainRun run;
    run.config = config_;
    run.plan = plan_;
    run.link = context_.link;
    run.corpus = corpus_hash_;
    run.predicts_tokens = predicts_tokens_;
    run.adds_losses = adds_to_token_loss(config_.model_kind);
    run.oversubscription = NodeInfo::oversubscription();
    if (config_.device != DeviceKind::host) {
      run.device = device_name({config_.device, 0});
      run.oversubscription = static_cast<double>(NodeInfo::ranks_here()) / device_module().devices();
    }
    run.validation = validation_;
    run.metrics = metrics_;
    if (peak_) run.peak_gflops = peak_->gflops, run.peak = peak_->from;
    std::vector<std::string> by_rank;
    for (const std::string& text : gather_texts(world_, to_text(steps_)))
      run.ranks.push_back(steps_from_text(resume_.earlier(run.ranks.size()) + text));
    for (const std::string& text : gather_texts(world_, std::to_string(peak_bytes_))) run.peak_bytes.push_back(std::stoll(text));
    if (wants_timeline_) by_rank = gather_texts(world_, to_text(spans_));
    Measured measured;
    if (world_.rank() == 0) {
      measured.rows = training_rows(run);
      measured.training = training_tables(run);
      measured.samples = step_samples(run);
      measured.unigram_entropy = unigram_entropy_, measured.bigram_entropy = bigram_entropy_;
      if (wants_timeline_) measured.training.timeline = timeline_rows(by_rank, plan_, context_.link);
      write_trace(measured.training.timeline);
      std::fputs(describe_run(run, measured.training, data_remark_).c_str(), context_.text);
      std::fflush(context_.text);
    }
    judge_link(measured);
    predict(run, measured);
    if (measured.rows.empty()) measured.rows.emplace_back();  // only rank 0's count, but every rank has some
    return measured;
  }

  void write_trace(const std::vector<results::TimelineRow>& timeline) const {
    const auto path = context_.run_options.find("trace");
    if (path != context_.run_options.end())
      results::write_file_atomically(path->second, chrome_trace(timeline, config_.mesh));
  }

  /// Beside a measured step what the step model makes of the same work, bytes and link. Collective.
  void predict(const TrainRun& run, Measured& measured) {
    if (config_.compute == ComputeMode::real || world_.size() < 2) return;
    if (config_.tensor_parallel != "1d") {
      if (world_.rank() == 0) std::fputs("step model         none: it does not know grids of the tensor group\n", context_.text);
      return;
    }
    ClusterMachine machine;  // one rank to a node where nothing else is known
    LinkModel& link = machine.between;
    if (const auto file = context_.run_options.find("machine"); file != context_.run_options.end()) {
      const MachineFile measured_links = MachineFile::read(file->second);
      const auto found = measured_links.links.find(context_.link);
      if (found == measured_links.links.end())
        throw UsageError(file->second + " has no link \"" + context_.link + "\"; measure it: bench_collective --link " + context_.link + " --fit " + file->second);
      link = found->second;
    } else if (EmulatedLink::is_emulated(context_.link)) {
      const EmulatedLink emulated = EmulatedLink::parse(context_.link);
      if (emulated.meter == LinkMeter::inbound) {
        if (world_.rank() == 0) std::fputs("step model         none: it does not know a meter's one wire for two neighbours\n", context_.text);
        return;
      }
      machine = machine_of(emulated);
    } else if (std::isnan(nominal_link_gbps(context_.link))) {
      return;  // of memory that all ranks share no link model is known
    } else {
      link.latency_us = measure_latency_us(world_);
      std::vector<double> rates;
      for (const results::LinkRow& row : measured.links)
        if (row.direction == "both_ways") rates.push_back(row.measured_gbps);
      link.gbps = rates.empty() ? nominal_link_gbps(context_.link) : median(rates);
    }
    if (world_.rank() != 0 || measured.training.time.empty()) return;
    const Schedule schedule = training_schedule(config_);
    const StepPrediction prediction = predict_step(schedule, step_costs(run, machine));
    measured.training.prediction = prediction_rows(prediction, plan_, context_.link);
    std::fputs(describe_prediction(prediction, measured.training.time.front().step_ms * 1e3, link).c_str(), context_.text);
    std::fflush(context_.text);
  }

  /// The link is held against its nominal rate with the size of each class's messages, which rank 0 tells the others: between
  /// stages one way, else all ranks at once.
  void judge_link(Measured& measured) {
    constexpr std::size_t most = 16;
    std::int64_t sizes[most] = {}, one_way[most] = {};
    if (world_.rank() == 0)
      for (std::size_t i = 0; i < std::min(most, measured.training.traffic.size()); ++i) {
        const results::TrainingTrafficRow& row = measured.training.traffic[i];
        if (row.traffic == "control") continue;
        sizes[i] = row.payload_bytes / std::max<std::int64_t>(1, row.operations);
        one_way[i] = row.traffic.starts_with("pp_");
      }
    world_.broadcast(sizes, sizeof sizes, 0)->wait();
    world_.broadcast(one_way, sizeof one_way, 0)->wait();
    Measured probe;
    for (std::size_t i = 0; i < most; ++i) {
      results::CellRow row;
      row.payload_bytes = sizes[i];
      row.operation = one_way[i] != 0 ? "send_recv" : "all_reduce";
      probe.rows.push_back(row);
    }
    LinkTrust(context_).judge(probe);
    if (world_.rank() != 0) return;
    measured.links = std::move(probe.links);
    for (std::size_t i = 0; i < measured.rows.size(); ++i) {
      results::CellRow& row = measured.rows[i];
      for (std::size_t k = 0; k < std::min(most, measured.training.traffic.size()); ++k)
        if (measured.training.traffic[k].traffic == row.traffic &&
            measured.training.traffic[k].codec == row.codec) {
          row.link_gbps = probe.rows[k].link_gbps;
          if (config_.compute == ComputeMode::real) continue;  // bytes and losses do not depend on the rate
          row.status = probe.rows[k].status;
          row.reason = probe.rows[k].reason;
        }
    }
  }

  BenchContext& context_;
  const Cell& cell_;
  Communicator& world_;
  Communicator& files_;  ///< its ranks, for states, which an emulated link must not slow: nobody measures how they are read
  TrainConfig config_;
  SubnormalsFlushed flushed_{config_.flush_subnormals};
  std::optional<MovedStart> moved_;
  std::string plan_, checkpoint_;
  std::string corpus_hash_, data_remark_;
  double unigram_entropy_ = results::not_measured, bigram_entropy_ = results::not_measured;
  bool predicts_tokens_ = true;
  TrainResume resume_;
  std::int64_t peak_bytes_ = 0;
  std::optional<ProductPeak> peak_;
  bool wants_timeline_ = false;
  bool names_cell_ = false;  ///< --resume kept:ID
  std::int64_t keep_at_ = 0;
  Stopwatch since_news_;
  std::unique_ptr<LinkDrain> drain_ = LinkDrain::open(context_.link);  ///< before trainer_, whose channels use it
  std::unique_ptr<ParallelTrainer> trainer_;
  std::vector<StepRecord> steps_;
  std::map<std::int64_t, double> validation_;
  std::map<std::int64_t, std::vector<Evaluation::Metric>> metrics_;
  std::vector<TraceSpan> spans_;
};

}  // namespace

void run_training(BenchContext& context, const Cell& cell) {
  context.start(cell);
  Training training(context, cell);
  std::optional<Measured> measured = training.run();
  if (!measured) return;
  context.finish(cell, std::move(*measured));
  training.forget_saved_state();
}

}  // namespace thinwire::bench
