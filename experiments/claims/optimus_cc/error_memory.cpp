// optimus_cc.C12: what lazy error propagation costs in traffic and in memory, and the data of the paper's Fig. 12.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/error.h"
#include "experiments/claims/optimus_cc/cells/arms.h"
#include "experiments/claims/optimus_cc/cells/rule_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;
constexpr std::int64_t chunk = seq * micro_batch * hidden * 4;  ///< bytes of one boundary gradient, f32

constexpr std::int64_t coded_message = boundary_rank * (seq * micro_batch + hidden) * 4;  ///< bytes of both factors of one message

/// A message that is still on its way holds its buffers, so a peak depends on how fast the receiver was. Blocking sends leave room for one such
/// message (a few KiB, coded); what a rank needs is then the most over several runs (seeds change no size).
constexpr int runs = 5;

/// Four ranks, no replicas; few steps, as buffers only grow: every one is there after the second.
CellRequest request_of(const Arm& arm, int seed) {
  results::Parameters p;
  p.set("pp", stages);
  p.set("layers", layers);
  p.set("hidden", hidden);
  p.set("heads", 4);
  p.set("seq", seq);
  p.set("micro-batch", micro_batch);
  p.set("global-batch", micro_batch * 8);
  p.set("comm-dtype", "f32");
  p.set("steps", 3);
  p.set("eval-sequences", micro_batch * 8);
  p.set("seed", seed);
  p.set("plan", arm.name);
  p.set("sends", "blocking");
  for (const auto& [name, value] : arm.settings) p.set(name, value);
  return {"train_gpt", stages, "shm", p, 300, {"optimus_cc", "memory"}, /*timed=*/false};
}

using Records = std::span<const results::CellRecord>;

/// By stage, the most of the runs.
std::vector<std::int64_t> peaks(Records records) {
  std::vector<std::int64_t> by_stage(stages, 0);
  for (const results::CellRecord& record : records) {
    if (record.training.memory.size() != stages) throw RuntimeFailure("cell " + record.cell_id + " says nothing about the memory of its ranks");
    for (const results::TrainingMemoryRow& row : record.training.memory) {
      std::int64_t& most = by_stage[static_cast<std::size_t>(row.stage)];
      most = std::max(most, row.peak_bytes);
    }
  }
  return by_stage;
}

std::int64_t backward_bytes(Records records) {
  std::int64_t bytes = 0;
  for (const results::CellRecord& record : records)
    for (const results::TrainingStepRow& row : record.training.steps)
      if (row.traffic == "pp_backward") bytes += row.link_bytes;
  return bytes;
}

const std::vector<bool> modes = {true, false};  // epilogue-only, as the paper's Fig. 12; all messages

/// Arms: dense, then without and with LEP for each mode.
Rule make_rule() {
  std::vector<Arm> arms = {dense()};
  for (const bool epilogue_only : modes)
    for (const Lep lep : {Lep::off, Lep::carry}) arms.push_back(backward(boundary_rank, lep, epilogue_only));
  Rule rule;
  rule.settings = settings_of(request_of(dense(), 1));
  rule.settings["runs"] = std::to_string(runs) + " seeds, the most of which is a rank's peak";
  rule.arms = arms;
  rule.quantities = {{"extra", "bytes of backward messages with LEP less those without, of both modes the one farther from 0"},
                     {"sent", "bytes of backward messages with LEP, of both modes the fewer"},
                     {"off", "bytes: peak of the allocator with LEP less that without, less one chunk on the stages that send gradients on (all but stage 0); of modes and stages the one farthest from 0"}};
  rule.constants = {{"alignment", 512, "bytes: what an allocation is rounded up to"},
                    {"message", static_cast<double>(coded_message), "bytes: one coded message, which may be under way at the peak of one arm and not of the other"}};
  rule.clauses = {{Verdict::pass, "extra == 0 && sent > 0 && abs(off) <= message + alignment"}};
  rule.otherwise = Verdict::fail;
  return rule;
}

Finding measure(JudgeContext& context, const Rule& rule) {
  Finding o;
  const std::vector<Arm>& arms = rule.arms;
  std::vector<CellRequest> requests;
  for (const Arm& arm : arms)
    for (int seed = 1; seed <= runs; ++seed) requests.push_back(request_of(arm, seed));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  const auto of_arm = [&](std::size_t arm) { return Records(records).subspan(arm * runs, runs); };

  Table figure{"peak memory", {}, {}};
  for (int s = 0; s < stages; ++s) figure.columns.push_back("stage " + std::to_string(s) + " (MiB)");
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    figure.rows.push_back({arms[arm].name, {}});
    for (const std::int64_t bytes : peaks(of_arm(arm))) figure.rows.back().values.push_back(static_cast<double>(bytes) / (1 << 20));
  }
  o.tables = {figure};

  const auto farther = [](std::int64_t& of, std::int64_t than) { of = std::abs(than) > std::abs(of) ? than : of; };
  std::int64_t most_extra = 0, most_off = 0, fewest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t mode = 0; mode < modes.size(); ++mode) {
    const Records without = of_arm(1 + 2 * mode), with = of_arm(2 + 2 * mode);
    const std::string name = modes[mode] ? "epilogue-only" : "all messages";
    const std::int64_t extra_bytes = backward_bytes(with) - backward_bytes(without);
    o.measures.push_back({name + ": backward bytes with LEP - without", static_cast<double>(extra_bytes), no_number, no_number, 0, "bytes"});
    farther(most_extra, extra_bytes);
    fewest = std::min(fewest, backward_bytes(with));
    const std::vector<std::int64_t> a = peaks(without), b = peaks(with);
    for (int s = 0; s < stages; ++s) {
      const std::int64_t extra = b[static_cast<std::size_t>(s)] - a[static_cast<std::size_t>(s)], expected = s == 0 ? 0 : chunk;  // stage 0 sends no gradient on
      o.measures.push_back({name + ": peak of stage " + std::to_string(s) + " with LEP - without", static_cast<double>(extra), no_number, no_number, static_cast<double>(expected), "bytes"});
      farther(most_off, extra - expected);
    }
  }
  o.measures.push_back({"backward bytes with LEP - without, farthest from 0", static_cast<double>(most_extra), no_number, no_number, 0, "bytes", "extra"});
  o.measures.push_back({"backward bytes with LEP, fewest", static_cast<double>(fewest), no_number, no_number, no_number, "bytes", "sent"});
  o.measures.push_back({"peak with LEP - without - one chunk, farthest from 0", static_cast<double>(most_off), no_number, no_number, rule.constant("message") + rule.constant("alignment"), "bytes", "off"});
  o.note = "a chunk has " + std::to_string(chunk) + " bytes";
  return o;
}

Claim claim() {
  const Rule rule = make_rule();
  return {.id = "optimus_cc.C12",
          .statement = "Lazy error propagation costs no traffic and one chunk of memory.",
          .provenance = "recollected",
          .basis = Basis::exact,
          .from = Profile::quick,
          .rule = rule,
          .measure = [rule](JudgeContext& context) { return measure(context, rule); },
          .past = {{"2026-11-21", "sends are blocking, and a peak is the most of five runs, no longer the least", "a message that is still under way holds its buffers, and decided the peak"},
                   {"2026-11-22", "the peak may be off by one coded message (5,120 bytes)", "on a busy machine five runs with LEP had a message under way at the peak and five without had none: FAIL by exactly these bytes"}},
          .figure = "optimus_cc_memory"};
}

const bool registered = register_claim(claim());

}  // namespace
}  // namespace thinwire::claims
