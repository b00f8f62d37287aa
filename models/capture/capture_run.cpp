#include "models/capture/capture_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "core/clock.h"
#include "core/joined.h"
#include "core/process/log.h"
#include "core/statistics.h"
#include "models/capture/capture_configuration.h"
#include "models/data/batches.h"
#include "models/capture/spectrum.h"
#include "results/record.h"

namespace thinwire {
namespace {

using nn::Transpose;

/// Receives the model's tensors during one captured micro-batch and hands those that are planned to the
/// writer.
class Recorder final : public TrafficObserver<float> {
 public:
  Recorder(CaptureWriter& writer, const CapturePlan& plan, std::int64_t hidden)
      : writer_(writer), hidden_(hidden) {
    for (const PlannedSlot& p : plan.kept) numbers_.push_back(writer.declare(p.slot));
  }

  void begin_step(const std::string& point, const CaptureShape& shape, std::int64_t step, bool with_spectra) {
    point_ = point, shape_ = shape, step_ = step, with_spectra_ = with_spectra;
  }
  void begin_micro(int micro) { micro_ = micro; }

  void row_parallel(const std::string& name, std::int64_t rows, std::int64_t in, std::int64_t out,
                    const float* x, const float* weight) override {
    if (micro_ != 0) return;  // one reduction of each step
    for_slots("tp_forward", name, [&](const CaptureSlot& s, std::size_t number) {
      partial_.resize(static_cast<std::size_t>(rows * out));
      const std::int64_t share = in / s.parts;
      for (int r = 0; r < s.parts;
           ++r) {  // rank r holds columns of x and rows of the weight: the exact split
        nn::gemm<float>(Transpose::no, Transpose::no, rows, out, share, 1.0f, x + r * share, in,
                        weight + r * share * out, out, 0.0f, partial_.data(), out);
        writer_.write(number, step_, r, partial_.data());
      }
    });
  }
  void boundary_activation(int boundary, std::int64_t rows, std::int64_t hidden, const float* x) override {
    keep_micro("pp_forward", "boundary" + std::to_string(boundary), "activation", rows, hidden, x);
  }
  void boundary_gradient(int boundary, std::int64_t rows, std::int64_t hidden, const float* g) override {
    keep_micro("pp_backward", "boundary" + std::to_string(boundary), "boundary_gradient", rows, hidden, g);
  }
  void embedding_gradient(bool first_use, std::int64_t vocab, std::int64_t hidden, const float* g) override {
    keep_micro("embedding", first_use ? "token.first_use" : "token.last_use", nullptr, vocab, hidden, g);
  }
  /// After the backward pass of a micro-batch: the weight gradients that are planned.
  void weight_gradients(Gpt<float>& model) {
    for (Parameter<float>* p : model.parameters())
      keep_micro("dp_gradient", p->name(), "weight_gradient", p->value.shape().rows(),
                 p->value.shape().columns(), p->g());
    if (with_spectra_ && micro_ == 0)
      for (const Parameter<float>* p : model.parameters()) count_magnitudes(kind_of(p->name()), {p->g(), static_cast<std::size_t>(p->elements())});
  }
  /// Before the first micro-batch of a step: the weights that are planned, as sharded training gathers them.
  void weights(Gpt<float>& model) {
    micro_ = 0;
    for (Parameter<float>* p : model.parameters())
      keep_micro("param_all_gather", p->name(), nullptr, p->value.shape().rows(), p->value.shape().columns(), p->w());
  }
  const std::vector<results::SpectrumRow>& spectra() const { return spectra_; }
  std::vector<results::MagnitudeRow> magnitudes() const {
    std::vector<results::MagnitudeRow> rows;
    for (const auto& [of, count] : magnitudes_) rows.push_back({std::get<0>(of), std::get<1>(of), std::get<2>(of), count});
    return rows;
  }

 private:
  template <typename Body>
  void for_slots(const std::string& traffic, const std::string& tensor, const Body& body) {
    for (std::size_t number : numbers_) {
      const CaptureSlot& s = writer_.slots()[number];
      if (s.traffic == traffic && s.tensor == tensor && s.point == point_ && s.batch == shape_.batch &&
          s.seq == shape_.seq)
        body(s, number);
    }
  }
  void keep_micro(const char* traffic, const std::string& tensor, const char* kind, std::int64_t rows,
                  std::int64_t columns, const float* values) {
    for_slots(traffic, tensor, [&](const CaptureSlot& s, std::size_t number) {
      if (micro_ < s.parts) writer_.write(number, step_, micro_, values);
      if (kind && with_spectra_ && micro_ == 0) add_spectra(tensor, kind, rows, columns, values);
    });
  }
  /// "layer3.mlp.expand.weight" and the other layers' alike: "mlp.expand.weight".
  static std::string kind_of(const std::string& parameter) {
    return parameter.starts_with("layer") && parameter.find('.') != std::string::npos ? parameter.substr(parameter.find('.') + 1) : parameter;
  }
  void count_magnitudes(const std::string& kind, std::span<const float> values) {
    std::map<std::int64_t, std::int64_t> counts;
    for (const float x : values) ++counts[x == 0 ? results::exponent_of_zero : std::ilogb(x)];
    for (const auto& [exponent, count] : counts) magnitudes_[{kind, step_, exponent}] += count;
  }
  void add_spectra(const std::string& tensor, const std::string& kind, std::int64_t rows,
                   std::int64_t columns, const float* values) {
    for (const bool centred : {false, true}) {
      const auto singular = normalised_singular_values(rows, columns, values, centred, 4 * hidden_);
      for (std::size_t i = 0; i < singular.size(); ++i)
        spectra_.push_back({tensor, step_, kind, centred, static_cast<std::int64_t>(i), singular[i]});
    }
  }

  CaptureWriter& writer_;
  std::int64_t hidden_;
  std::vector<std::size_t> numbers_;
  std::string point_;
  CaptureShape shape_;
  std::int64_t step_ = 0;
  int micro_ = 0;
  bool with_spectra_ = false;
  std::vector<float> partial_;
  std::vector<results::SpectrumRow> spectra_;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::int64_t> magnitudes_;  ///< elements by kind, step and exponent
};

/// Everything that one run holds while it trains.
class CaptureRun {
 public:
  CaptureRun(const Corpus& corpus, const CaptureRunOptions& options, const CapturePlan& plan, h5::File& file,
             const std::function<void(std::int64_t, std::int64_t, double)>& progress)
      : corpus_(corpus),
        options_(options),
        progress_(progress),
        model_(options.model),
        trainer_(model_, options.trainer),
        sampler_(corpus.training(), options.model.seed, "data.training"),
        writer_(file),
        recorder_(writer_, plan, options.model.hidden),
        file_(file) {}

  CaptureSummary run(const CapturePlan& plan) {
    const CapturePlanOptions& p = options_.plan;
    total_steps_ =
        options_.late_step + p.base_steps + p.other_steps * static_cast<std::int64_t>(p.shapes.size() - 1);
    train_until(options_.early_step);
    const double early = capture_steps("early", p.shapes.front(), p.base_steps, p.replicas);
    train_until(options_.late_step);
    summary_.validation_loss = validation_loss();
    const double late = capture_steps("late", p.shapes.front(), p.base_steps, p.replicas);
    for (std::size_t i = 1; i < p.shapes.size(); ++i)
      capture_steps("late", p.shapes[i], p.other_steps, p.other_micro);
    finish(early, late, plan);
    return summary_;
  }

 private:
  /// Plain steps of the base shape; every fourth of the longest captured sequence instead, at as many tokens,
  /// so that the position table is trained for every shape.
  void train_until(std::int64_t step) {
    const Stopwatch watch;
    std::int64_t longest = 0;
    for (const CaptureShape& s : options_.plan.shapes) longest = std::max(longest, s.seq);
    while (trainer_.steps_taken() < step) {
      const std::int64_t seq = trainer_.steps_taken() % 4 == 3 ? longest : options_.plan.shapes.front().seq;
      const std::int64_t batch = std::max<std::int64_t>(1, options_.tokens_per_step / seq);
      const Batch tokens =
          sampler_.batch(static_cast<std::uint64_t>(trainer_.steps_taken()), 0, batch, seq);
      const StepReport report = trainer_.step({&tokens, 1});
      rates_.push_back(static_cast<double>(report.tokens) / report.seconds);
      note(report);
    }
    summary_.training_seconds += watch.seconds();
  }

  /// Consecutive captured steps of `micro_batches` micro-batches each. Returns the loss of the first.
  double capture_steps(const std::string& point, const CaptureShape& shape, int steps, int micro_batches) {
    const Stopwatch watch;
    double first = 0;
    for (int k = 0; k < steps; ++k) {
      const std::int64_t step = trainer_.steps_taken();
      recorder_.begin_step(point, shape, step, k == 0 && shape == options_.plan.shapes.front());
      recorder_.weights(model_);
      std::vector<Batch> micro;
      for (int m = 0; m < micro_batches; ++m)
        micro.push_back(
            sampler_.batch(static_cast<std::uint64_t>(step), m * shape.batch, shape.batch, shape.seq));
      const StepReport report = trainer_.step(
          micro, [&](int m) { return recorder_.begin_micro(m), &recorder_; },
          [&](int) { recorder_.weight_gradients(model_); });
      writer_.step_done(point, shape.batch, shape.seq, step, report.loss);
      note(report);
      if (k == 0) first = report.loss;
    }
    summary_.capture_seconds += watch.seconds();
    return first;
  }

  double validation_loss() {
    if (static_cast<std::int64_t>(corpus_.validation().size()) <= options_.plan.shapes.front().seq)
      return results::not_measured;
    const BatchSampler sampler(corpus_.validation(), options_.model.seed, "data.validation");
    Gpt<float>::Activations saved;
    double loss = 0;
    constexpr int batches = 16;  // 16384 tokens: the noise of the mean is about 0.01
    for (int b = 0; b < batches; ++b)
      loss +=
          model_.forward(sampler.batch(0, 8 * b, 8, options_.plan.shapes.front().seq), 0, false, 1.0, saved) /
          batches;
    return loss;
  }

  void note(const StepReport& r) {
    training_.push_back({trainer_.steps_taken() - 1, r.loss, static_cast<double>(r.tokens) / r.seconds,
                         r.learning_rate, r.gradient_norm});
    if (progress_) progress_(trainer_.steps_taken(), total_steps_, r.loss);
  }

  void finish(double early, double late, const CapturePlan& plan) {
    CaptureInfo& info = summary_.info;
    info = {options_.out,
            capture_schema_version,
            corpus_.hash(),
            options_.model.seed,
            options_.model.hidden,
            options_.model.layers,
            options_.model.heads,
            options_.model.vocab,
            options_.plan.loss_scale,
            corpus_.unigram_entropy(),
            corpus_.bigram_entropy(),
            early,
            late};
    writer_.finish(info);
    file_.write_table("spectra",
                      results::to_table(std::span(recorder_.spectra()), results::spectrum_columns()));
    const std::vector<results::MagnitudeRow> magnitudes = recorder_.magnitudes();
    file_.write_table("magnitudes", results::to_table(std::span(magnitudes), results::magnitude_columns()));
    file_.write_table("training", results::to_table(std::span<const results::TrainingRow>(training_),
                                                    results::training_columns()));
    for (const char* object : {"", "training"}) {
      file_.set_attribute(object, "unigram_entropy", corpus_.unigram_entropy());
      file_.set_attribute(object, "bigram_entropy", corpus_.bigram_entropy());
    }
    const auto place = [](const PlannedSlot& p) { return p.slot.traffic + "/" + p.slot.tensor + "/" + p.slot.point; };
    file_.set_attribute("", "left_out", joined(plan.left_out, ", ", place));
    file_.set_attribute("", "text", corpus_.source());
    file_.set_attribute("", "validation_loss", summary_.validation_loss);
    file_.set_attribute("", "parameters", options_.model.parameters());
    summary_.parameters = options_.model.parameters();
    summary_.bytes = writer_.bytes_written();
    summary_.tensors = static_cast<std::int64_t>(plan.kept.size());
    summary_.training_steps = trainer_.steps_taken();
    summary_.tokens_per_second = median(rates_);
    summary_.left_out = plan.left_out;
  }

  const Corpus& corpus_;
  const CaptureRunOptions& options_;
  const std::function<void(std::int64_t, std::int64_t, double)>& progress_;
  Gpt<float> model_;
  Trainer<float> trainer_;
  BatchSampler sampler_;
  CaptureWriter writer_;
  Recorder recorder_;
  h5::File& file_;
  std::int64_t total_steps_ = 0;
  std::vector<double> rates_;
  std::vector<results::TrainingRow> training_;
  CaptureSummary summary_;
};

}  // namespace

CaptureSummary run_capture(const Corpus& corpus, const CaptureRunOptions& requested,
                           const std::function<void(std::int64_t, std::int64_t, double)>& progress) {
  CaptureRunOptions options = requested;
  options.plan.hidden = options.model.hidden, options.plan.layers = options.model.layers,
  options.plan.vocab = options.model.vocab;
  for (const CaptureShape& s : options.plan.shapes)
    options.model.max_seq = std::max(options.model.max_seq, s.seq);
  options.model.check();
  for (int t : options.plan.tensor_ranks)
    for (const auto& [what, number] :
         {std::pair<const char*, std::int64_t>{"Hidden size", options.model.hidden}, {"Number of heads", options.model.heads}})
      if (number % t != 0)
        throw UsageError(what + (" " + std::to_string(number)) + " cannot be split over " + std::to_string(t) +
                         " tensor-parallel ranks. Choose a multiple, or other --tensor-ranks.");
  if (options.early_step + options.plan.base_steps > options.late_step)
    throw UsageError("The late point (step " + std::to_string(options.late_step) +
                     ") comes before the early captured steps end (step " +
                     std::to_string(options.early_step + options.plan.base_steps) +
                     "). Raise --late-step or lower --early-step.");
  const CapturePlan plan = plan_capture(options.plan);
  options.trainer.schedule.total =
      options.late_step + options.plan.base_steps +
      options.plan.other_steps * static_cast<std::int64_t>(options.plan.shapes.size() - 1);
  CaptureSummary summary;
  results::write_h5_atomically(options.out, [&](h5::File& file) {
    summary = CaptureRun(corpus, options, plan, file, progress).run(plan);
    file.set_attribute("", "configuration", capture_configuration(requested, corpus.hash()));
  });
  return summary;
}

std::vector<StepProfile> profile_steps(const Corpus& corpus, const GptConfig& config,
                                       const std::vector<CaptureShape>& shapes, int repetitions) {
  GptConfig c = config;
  for (const CaptureShape& s : shapes) c.max_seq = std::max(c.max_seq, s.seq);
  Gpt<float> model(c);
  Trainer<float> trainer(model, {});
  const BatchSampler sampler(corpus.training(), c.seed, "data.training");
  std::vector<StepProfile> profiles;
  for (const CaptureShape& s : shapes) {
    std::vector<StepProfile> samples;
    for (int r = -1; r < repetitions; ++r) {
      const Batch tokens = sampler.batch(static_cast<std::uint64_t>(r + 1), 0, s.batch, s.seq);
      nn::start_gemm_profile();
      const StepReport report = trainer.step({&tokens, 1});
      const nn::GemmProfile gemm = nn::stop_gemm_profile();
      if (r >= 0)
        samples.push_back({s.batch, s.seq, report.seconds, gemm.seconds, gemm.flops / gemm.seconds * 1e-9,
                           static_cast<double>(report.tokens) / report.seconds});
    }
    std::sort(samples.begin(), samples.end(),
              [](const StepProfile& a, const StepProfile& b) { return a.step_seconds < b.step_seconds; });
    profiles.push_back(samples[samples.size() / 2]);
  }
  return profiles;
}

}  // namespace thinwire
