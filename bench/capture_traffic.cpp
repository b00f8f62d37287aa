// Trains a small GPT on real text and stores what its parallel training would put on the wire.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/clock.h"
#include "core/process/command_line.h"
#include "core/process/log.h"
#include "core/process/main_guard.h"
#include "models/capture/capture_configuration.h"
#include "models/capture/capture_presets.h"
#include "models/capture/capture_run.h"

namespace thinwire {
namespace {

void print_profile(const std::vector<StepProfile>& profiles) {
  std::printf("%-10s %12s %14s %14s %12s %14s\n", "shape", "step_ms", "products_ms", "products_share",
              "GFLOP/s", "tokens/s");
  for (const StepProfile& p : profiles)
    std::printf("%-10s %12.1f %14.1f %14.3f %12.1f %14.0f\n",
                (std::to_string(p.batch) + "x" + std::to_string(p.seq)).c_str(), p.step_seconds * 1e3,
                p.gemm_seconds * 1e3, p.share(), p.gemm_gflops, p.tokens_per_second);
}

void print_summary(const CaptureSummary& s, const Corpus& corpus, double seconds) {
  std::printf("text              %s, %.1f MB, %lld files, SHA-256 %s\n", corpus.source().c_str(),
              static_cast<double>(corpus.bytes()) / 1e6, static_cast<long long>(corpus.files()),
              corpus.hash().substr(0, 16).c_str());
  std::printf("entropy           unigram %.3f, bigram %.3f nats per byte\n", s.info.unigram_entropy,
              s.info.bigram_entropy);
  std::printf("model             hidden %lld, layers %lld, heads %lld, %.2f M parameters\n",
              static_cast<long long>(s.info.hidden), static_cast<long long>(s.info.layers),
              static_cast<long long>(s.info.heads), static_cast<double>(s.parameters) / 1e6);
  std::printf(
      "loss              early %.3f, late %.3f, validation %.3f nats per byte (%s the bigram entropy)\n",
      s.info.loss_early, s.info.loss_late, s.validation_loss,
      s.validation_loss < s.info.bigram_entropy ? "below" : "NOT below");
  std::printf("training          %lld steps, %.0f tokens/s, %.1f s; captured steps %.1f s\n",
              static_cast<long long>(s.training_steps), s.tokens_per_second, s.training_seconds,
              s.capture_seconds);
  std::printf("capture           %lld tensors, %.1f MiB -> %s\n", static_cast<long long>(s.tensors),
              static_cast<double>(s.bytes) / (1 << 20), s.info.path.c_str());
  for (const PlannedSlot& p : s.left_out)
    std::printf("left out (cap)    %s/%s/%s b%lld s%lld\n", p.slot.traffic.c_str(), p.slot.tensor.c_str(),
                p.slot.point.c_str(), static_cast<long long>(p.slot.batch),
                static_cast<long long>(p.slot.seq));
  std::printf("total             %.1f s\n", seconds);
}

int run(int argc, char** argv) {
  std::string profile = "quick";
  for (int i = 1; i + 1 < argc; ++i)  // the profile sets the defaults that the options below override
    if (std::string(argv[i]) == "--profile") profile = argv[i + 1];
  for (int i = 1; i < argc; ++i)
    if (const std::string a = argv[i]; a.rfind("--profile=", 0) == 0) profile = a.substr(10);
  CaptureRunOptions o = capture_preset(profile);

  CLI::App app("Trains a GPT on one device and stores the traffic that its parallel training would send", "capture_traffic");
  std::string text, shapes;
  bool profile_step = false, keep = false;
  int repetitions = 5;
  app.add_option("--profile", profile, "defaults: smoke, quick, standard, full")->capture_default_str();
  app.add_option("--out", o.out, "capture file to write (HDF5)");
  app.add_option("--text", text, "file or folder of text (default: the Python standard library's sources)");
  app.add_option("--hidden", o.model.hidden, "hidden size")->capture_default_str();
  app.add_option("--layers", o.model.layers, "Transformer blocks")->capture_default_str();
  app.add_option("--heads", o.model.heads, "attention heads")->capture_default_str();
  app.add_option("--dropout", o.model.dropout, "dropout rate")->capture_default_str();
  app.add_option("--seed", o.model.seed, "seed of weights, data order and dropout")->capture_default_str();
  app.add_option("--learning-rate", o.trainer.schedule.peak, "peak learning rate")->capture_default_str();
  app.add_option("--early-step", o.early_step, "training steps before the early point")
      ->capture_default_str();
  app.add_option("--late-step", o.late_step, "training steps before the late point")->capture_default_str();
  app.add_option("--tokens-per-step", o.tokens_per_step, "tokens of a plain training step")
      ->capture_default_str();
  app.add_option("--shapes", shapes,
                 "captured shapes BATCHxSEQ, comma separated; the first is the base shape");
  app.add_option("--base-steps", o.plan.base_steps,
                 "consecutive captured steps at the base shape, early and late")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--other-steps", o.plan.other_steps, "consecutive captured steps at each other shape")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--replicas", o.plan.replicas,
                 "micro-batches per step at the base shape, one per data-parallel replica")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--pipeline-micro", o.plan.pipeline_micro,
                 "micro-batches of the base shape whose boundary tensors are kept, of --replicas at most")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--tensor-ranks", o.plan.tensor_ranks,
                 "tensor-parallel ranks whose partial sums are kept, a set for each number")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--other-micro", o.plan.other_micro, "micro-batches per step at each other shape, all kept")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--loss-scale", o.plan.loss_scale, "factor on stored gradients")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--max-mib", o.plan.max_mib, "size cap of the capture")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--keep", keep, "leave a capture of the same configuration and text as it is");
  app.add_flag("--profile-step", profile_step,
               "only measure the share of a training step spent in matrix products");
  app.add_option("--repetitions", repetitions, "timed steps of --profile-step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (!shapes.empty()) o.plan.shapes = parse_capture_shapes(shapes);
  if (o.out.empty() && !profile_step) throw UsageError("Name the capture file to write: --out FILE.h5");

  const Stopwatch watch;
  const Corpus corpus = Corpus::open(text);
  if (profile_step) {
    print_profile(profile_steps(corpus, o.model, o.plan.shapes, repetitions));
    return 0;
  }
  if (keep && holds_capture(o.out, capture_configuration(o, corpus.hash()))) {
    std::printf("%s holds this capture already (same configuration and text)\n", o.out.c_str());
    return 0;
  }
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const auto progress = [&](std::int64_t step, std::int64_t total, double loss) {
    char line[120];
    std::snprintf(line, sizeof line, "step %lld of %lld  loss %.3f  %.0f s", static_cast<long long>(step),
                  static_cast<long long>(total), loss, watch.seconds());
    if (terminal)
      std::fprintf(stderr, "\r%s ", line);
    else if (step % 10 == 0)
      log_debug(line);  // THINWIRE_LOG=debug follows a run in a log file
  };
  const CaptureSummary summary = run_capture(corpus, o, progress);
  if (terminal) std::fprintf(stderr, "\n");
  print_summary(summary, corpus, watch.seconds());
  return 0;
}

}  // namespace
}  // namespace thinwire

int main(int argc, char** argv) {
  return thinwire::guarded_main(argc, argv, thinwire::run);
}
