#include "bench/tensor_parallel/split_bench.h"

#include <optional>

#include "bench/harness/link_trust.h"
#include "bench/tensor_parallel/mode_run.h"
#include "bench/tensor_parallel/split_memory.h"

namespace thinwire::bench {
namespace {

/// --codec, and what a class says of itself.
std::map<TrafficClass, CompressRule> rules_of(const CellParameters& p) {
  std::map<TrafficClass, CompressRule> rules;
  for (const TrafficClass traffic : coded_classes) {
    const std::string name = "compress." + name_of(traffic), own = p.text(name);
    CompressRule rule;
    const CodecStack stack = make_codec(own.empty() ? p.text("codec") : own);
    rule.codec = stack.expression.canonical();
    if (stack.codec->traits().needs_fit)
      throw UsageError((own.empty() ? "--codec " : "--" + name + " ") + rule.codec + ": must be fitted on traffic first; measure it in train_gpt, or choose another codec");
    // A sum over ranks: pieces are sent to their owner, summed in fp32, and coded once more, so that bytes do not grow with the ranks; where a
    // gradient goes back through the codec, or there is no payload to send, as the channel chooses.
    const CodecTraits& traits = stack.codec->traits();
    const bool two_shot = traits.gather && traits.backward == BackwardRule::straight_through;
    rule.protocol = !p.text("protocol").empty() ? parse_protocol(p.text("protocol")) : two_shot ? Protocol::two_shot : Protocol::automatic;
    if (rule.active()) rules[traffic] = rule;
  }
  return rules;
}

}  // namespace

void run_split_cell(BenchContext& context, const Cell& cell) {
  const CellParameters& p = cell.parameters;
  SplitSizes s;
  s.unit = p.text("unit");
  if (s.unit != "linear" && s.unit != "mlp" && s.unit != "layer") throw UsageError("--unit " + s.unit + ": linear, mlp or layer");
  s.batch = p.integer("batch"), s.seq = p.integer("seq"), s.hidden = p.integer("hidden"), s.heads = p.integer("heads");
  for (const auto& [name, value] : {std::pair{"batch", s.batch}, {"seq", s.seq}, {"hidden", s.hidden}, {"heads", s.heads}})
    if (value < 1) throw UsageError(std::string("--") + name + " is " + std::to_string(value) + "; it must be at least 1");
  if (s.hidden % s.heads != 0) throw UsageError("--hidden " + std::to_string(s.hidden) + " is no multiple of --heads " + std::to_string(s.heads));
  s.seed = static_cast<std::uint64_t>(p.integer("seed"));
  s.comm_dtype = parse_dtype(p.text("comm-dtype"));
  s.gather = parse_gather_policy(p.text("gather"));
  s.compress = rules_of(p);
  const std::string mode = p.text("mode");
  const std::vector<GridShape> shapes = mode == "all" ? grids_of(context.world.size()) : std::vector{parse_grid(mode, context.world.size())};
  const double limit_mib = p.real("memory-mib");
  if (!(limit_mib >= 0)) throw UsageError("--memory-mib " + p.text("memory-mib") + ": MiB per rank, or 0");
  const auto limit = static_cast<std::int64_t>(limit_mib * (1 << 20));
  std::optional<SplitReference> reference;
  std::int64_t batch_of_reference = 0;
  Measured measured;
  const std::unique_ptr<LinkDrain> drain = LinkDrain::open(context.link);
  for (const GridShape& shape : shapes) {
    std::string reason;
    if (limit > 0) {
      std::int64_t smallest = 1;
      s.batch = 0;  // each mode divides its own
      reason = mode == "all" ? why_not(shape, s) : "";
      if (reason.empty()) s.batch = largest_batch(context.world, shape, s, limit, smallest);
      if (reason.empty() && s.batch == 0) {
        s.batch = smallest;
        reason = "a batch of " + std::to_string(smallest) + ", the smallest that " + shape.describe() + " divides, needs more than --memory-mib " +
                 p.text("memory-mib") + " per rank";
      }
    } else {
      reason = mode == "all" ? why_not(shape, s) : "";
    }
    ModeRun run(context, cell, shape, s);
    if (!reason.empty()) {
      measured.rows.push_back(run.skipped(reason));
      continue;
    }
    if (s.batch != batch_of_reference) reference.emplace(context.world, s), batch_of_reference = s.batch;
    run.run(*reference, drain.get(), measured);
  }
  LinkTrust(context).judge(measured);
  context.finish(cell, std::move(measured));
}

}  // namespace thinwire::bench
