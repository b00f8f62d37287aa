#include "bench/device/device_bench.h"

#include <algorithm>
#include <sstream>

#include "bench/device/device_codec_rows.h"
#include "bench/device/device_kernel_rows.h"
#include "core/device/device.h"
#include "models/gpt/gpt.h"

namespace thinwire::bench {
namespace {

KernelShapes kernel_shapes(const CellParameters& p) {
  KernelShapes s;
  s.batch = p.integer("micro-batch"), s.seq = p.integer("tokens"), s.hidden = p.integer("model-hidden"), s.heads = p.integer("heads");
  s.vocab = p.integer("vocab"), s.peak = p.integer("peak-size");
  for (const std::int64_t size : {s.batch, s.seq, s.hidden, s.heads, s.vocab, s.peak})
    if (size < 1) throw UsageError("bench_device --what kernels: micro-batch, tokens, model-hidden, heads, vocab and peak-size are at least 1");
  if (s.hidden % s.heads != 0) throw UsageError("--heads " + std::to_string(s.heads) + " does not divide --model-hidden " + std::to_string(s.hidden));
  GptConfig config;
  config.vocab = s.vocab, config.hidden = s.hidden, config.heads = s.heads, config.layers = p.integer("model-layers"), config.max_seq = s.seq;
  s.parameters = config.parameters();
  return s;
}

void measure_codecs(BenchContext& context, const CellParameters& p, Measured& measured) {
  const Shape shape{p.integer("batch"), p.integer("seq"), p.integer("hidden")};
  const std::unique_ptr<Series> series = TrafficSource(p).find({}, 1, shape);
  const Tensor x = series->load(0, 0);
  std::istringstream words(p.text("codec"));
  for (std::string expression; words >> expression;) measure_device_codec(context, p, expression, *series, x, measured);
  std::ranges::stable_partition(measured.rows, [](const results::CellRow& row) { return row.compute != "modelled"; });
  if (measured.rows.empty()) throw UsageError("--codec is empty; give one or more codec expressions");
}

void run_group(BenchContext& context, std::span<const Cell> cells) {
  if (context.world.size() != 1) throw UsageError("bench_device measures one process; start it without mpirun (or with -n 1)");
  for (const Cell& cell : cells) {
    context.start(cell);
    Cell told = cell;  // a list of codecs is no row's codec
    told.parameters.values.erase("codec");
    guarded(context, told, [&] {
      const std::string what = cell.parameters.text("what");
      if (what != "codecs" && what != "kernels") throw UsageError("--what " + what + ": codecs or kernels can be measured");
      if (const std::string reason = why_unavailable(DeviceKind::cuda); !reason.empty()) throw EnvironmentError(reason);
      Measured measured;
      if (what == "codecs")
        measure_codecs(context, cell.parameters, measured);
      else
        measure_device_kernels(context, cell.parameters, kernel_shapes(cell.parameters), measured);
      context.finish(told, std::move(measured));
    });
  }
}

}  // namespace

BenchProgram device_bench() {
  BenchProgram program;
  program.name = "bench_device";
  program.summary = "Speed of codecs and of the trainer's kernels on a CUDA device against its own copy and product rates, verified before it is timed";
  program.options = {{"what", "codecs", "codecs, or kernels of the trainer"},
                     {"codec", "none cast quantize:bits=8 quantize:bits=4 quantize:bits=2 topk randomk powersgd:rank=16 autoencoder:fraction=0.0625,init=orthonormal",
                      "one or more codec expressions with a CUDA implementation, separated by spaces"},
                     {"device", "0", "ordinal of the CUDA device"},
                     {"batch", "32", "codecs: batch x seq = rows"},
                     {"seq", "512", "codecs: batch x seq = rows"},
                     {"hidden", "1024", "codecs: columns; the default tensor has 64 MiB of f32"},
                     {"dense", "bf16", "codecs: wire type of the uncompressed baseline, for ratio and break-even bandwidth: bf16, f16 or f32"},
                     {"replicas", "8", "codecs: ranks of the modelled all-reduce (docs/device.md); 1: none"},
                     {"micro-batch", "8", "kernels: sequences"},
                     {"tokens", "1024", "kernels: tokens of a sequence"},
                     {"model-hidden", "768", "kernels: hidden size; the defaults are GPT-2 124M"},
                     {"heads", "12", "kernels: attention heads"},
                     {"model-layers", "12", "kernels: layers, for the number of parameters"},
                     {"vocab", "50304", "kernels: size of the vocabulary"},
                     {"peak-size", "8192", "kernels: rows, columns and depth of the product whose rate is the peak"}};
  for (const BenchOption& option : input_options()) program.options.push_back(option);
  program.run_group = run_group;
  return program;
}

}  // namespace thinwire::bench
