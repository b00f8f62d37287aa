#include "bench/training/train_report.h"

#include <unistd.h>

#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "core/process/log.h"
#include "models/stage/model_kind.h"

namespace thinwire::bench {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string bytes_text(double bytes) {
  return bytes >= 1e9   ? format("%.2f GB", bytes * 1e-9)
         : bytes >= 1e6 ? format("%.2f MB", bytes * 1e-6)
                        : format("%.1f kB", bytes * 1e-3);
}

}  // namespace

std::string progress_line(std::int64_t done, std::int64_t steps, double loss, double validation,
                          double tokens_per_second, double eta_seconds) {
  std::string line = format("step %lld of %lld", static_cast<long long>(done), static_cast<long long>(steps));
  if (!std::isnan(loss)) line += format("  loss %.3f", loss);
  if (!std::isnan(validation)) line += format("  validation %.3f", validation);
  line += format("  %.0f tokens/s", tokens_per_second);
  if (!std::isnan(eta_seconds)) {
    const auto seconds = static_cast<long long>(std::ceil(eta_seconds));
    line += seconds >= 3600
                ? format("  ETA %lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60)
                : format("  ETA %lld:%02lld", seconds / 60, seconds % 60);
  }
  return line;
}

TrainProgress::TrainProgress(bool shows, const TrainConfig& config, double silence_s)
    : shows_(shows),
      terminal_(shows && isatty(STDERR_FILENO) == 1),
      timed_(config.compute != ComputeMode::real),
      steps_(config.steps),
      silence_s_(silence_s),
      validation_(results::not_measured) {}

TrainProgress::~TrainProgress() {
  if (wrote_) std::fputc('\n', stderr);
}

void TrainProgress::show(const StepRecord& step, double validation) {
  if (!shows_) return;
  if (!std::isnan(validation)) validation_ = validation;
  if (first_step_ < 0) first_step_ = step.step, since_first_ = Stopwatch();
  const std::int64_t done = step.step + 1, since = step.step - first_step_;
  // The first step also pays for memory and connections: the pace is that of those after it.
  const double pace = since > 0 ? since_first_.seconds() / static_cast<double>(since) : step.seconds;
  const std::string line =
      progress_line(done, steps_, timed_ ? results::not_measured : step.loss, validation_,
                    static_cast<double>(step.tokens) / pace,
                    since > 0 ? pace * static_cast<double>(steps_ - done) : results::not_measured);
  if (terminal_) {
    std::fprintf(stderr, "\r%s\033[K", line.c_str());
    wrote_ = true;
  } else if (since_told_.seconds() >= silence_s_) {
    log_info(line);
    since_told_ = Stopwatch();
  } else if (done % 10 == 0 || done == steps_) {
    log_debug(line);
  }
}

std::string describe_run(const TrainRun& run, const results::TrainingTables& tables, const std::string& data_remark) {
  const TrainConfig& c = run.config;
  std::string text = format("plan               %s on %s, tp %d x pp %d x dp %d, %s\n", run.plan.c_str(),
                            run.link.c_str(), c.mesh.tp, c.mesh.pp, c.mesh.dp, c.schedule.c_str());
  text += format(
      "model              hidden %lld, layers %lld, heads %lld, seq %lld; batch %lld in micro-batches of "
      "%lld\n",
      static_cast<long long>(c.model.hidden), static_cast<long long>(c.model.layers),
      static_cast<long long>(c.model.heads), static_cast<long long>(c.seq),
      static_cast<long long>(c.global_batch), static_cast<long long>(c.micro_batch));
  if (!tables.curve.empty()) {
    const char* unit = !run.predicts_tokens ? "per sample" : run.adds_losses ? "nats, a sum of losses" : "nats per token";
    text += format("training loss      %.4f %s at step %lld\n", tables.curve.back().loss, unit,
                   static_cast<long long>(tables.curve.back().step));
    if (!run.validation.empty()) {
      const double loss = run.validation.rbegin()->second;
      text += format("validation loss    %.4f %s", loss, unit);
      if (run.predicts_tokens && !run.adds_losses) text += format(", perplexity %.3f", std::exp(loss));
      text += (data_remark.empty() ? "" : " (" + data_remark + ")") + "\n";
      if (!run.metrics.empty())
        for (const Evaluation::Metric& metric : run.metrics.rbegin()->second) text += format("validation %-7s %.4f\n", metric.name.c_str(), metric.value);
    }
  }
  if (tables.time.empty()) return text;
  const results::TrainingTimeRow& time = tables.time.front();
  const double tokens = static_cast<double>(c.global_batch * c.seq);
  text += format(
      "step               %.2f ms (median of %lld, spread %.2f), %.0f tokens/s, %s, %.2g ranks per %s\n",
      time.step_ms, static_cast<long long>(time.steps), time.step_iqr_ms, tokens / time.step_ms * 1e3,
      (run.device.empty() ? time.compute + " compute" : "on " + run.device).c_str(), run.oversubscription, run.device.empty() ? "core" : "device");
  text += format("  mean over ranks  compute %.2f, encode %.2f, transfer %.2f, decode %.2f, wait %.2f ms\n",
                 time.compute_ms, time.encode_ms, time.transfer_ms, time.decode_ms, time.wait_ms);
  if (!std::isnan(time.mfu))
    text += format("model FLOPs        %.3g TFLOP/s, utilisation %.1f %% of %.3g TFLOP/s (%s)%s\n", time.gflops * 1e-3, time.mfu * 100,
                   time.peak_gflops * 1e-3, time.peak.c_str(), time.device.empty() ? "" : (", " + time.device).c_str());
  else if (!std::isnan(run.peak_gflops) && !model_kind(c.model_kind).geometry)
    text += "model FLOPs        skipped: --model " + c.model_kind + " declares no geometry, so nobody knows how many a step needs\n";
  if (std::isnan(time.communication_share))
    text +=
        run.device.empty() ? "communication      no share: real compute on more ranks than cores says nothing about time "
                             "(--compute timed does)\n"
                           : "communication      no share: ranks that share a device, or an emulated one, say nothing about time\n";
  else
    text += format("communication      %.1f %% of the step\n", time.communication_share * 100);
  text +=
      format("link bytes         %s per step, %s in all, all ranks together\n",
             bytes_text(static_cast<double>(link_bytes_of(run)) / static_cast<double>(time.steps)).c_str(),
             bytes_text(static_cast<double>(link_bytes_of(run))).c_str());
  return text;
}

}  // namespace thinwire::bench
