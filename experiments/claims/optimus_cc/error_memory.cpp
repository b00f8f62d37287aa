// optimus_cc.C12: what lazy error propagation costs in traffic and in memory, and the data of the paper's Fig. 12.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "experiments/claims/optimus_cc/cells/arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;
constexpr std::int64_t chunk = seq * micro_batch * hidden * 4;  ///< bytes of one boundary gradient, f32
constexpr std::int64_t alignment = 512;

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
  return {"train_gpt", stages, "shm", p, 300, {"optimus_cc", "memory"}};
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

Outcome judge(JudgeContext& context) {
  Outcome o;
  const std::vector<bool> modes = {true, false};  // epilogue-only, as the paper's Fig. 12; all messages
  std::vector<Arm> arms = {dense()};
  for (const bool epilogue_only : modes)
    for (const Lep lep : {Lep::off, Lep::carry}) arms.push_back(backward(boundary_rank, lep, epilogue_only));
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

  bool holds = true;
  for (std::size_t mode = 0; mode < modes.size(); ++mode) {
    const Records without = of_arm(1 + 2 * mode), with = of_arm(2 + 2 * mode);
    const std::string name = modes[mode] ? "epilogue-only" : "all messages";
    const std::int64_t extra_bytes = backward_bytes(with) - backward_bytes(without);
    o.measures.push_back({name + ": backward bytes with LEP - without", static_cast<double>(extra_bytes), no_number, no_number, 0, "bytes"});
    holds = holds && extra_bytes == 0 && backward_bytes(with) > 0;
    const std::vector<std::int64_t> a = peaks(without), b = peaks(with);
    for (int s = 0; s < stages; ++s) {
      const std::int64_t extra = b[static_cast<std::size_t>(s)] - a[static_cast<std::size_t>(s)], expected = s == 0 ? 0 : chunk;  // stage 0 sends no gradient on
      o.measures.push_back({name + ": peak of stage " + std::to_string(s) + " with LEP - without", static_cast<double>(extra), no_number, no_number, static_cast<double>(expected), "bytes"});
      holds = holds && std::abs(extra - expected) <= alignment;
    }
  }
  o.verdict = holds ? Verdict::pass : Verdict::fail;
  o.because = holds ? "equal bytes, and one chunk of " + std::to_string(chunk) + " bytes on every stage that sends" : "bytes differ, or a peak by something else than one chunk: see the measures";
  return o;
}

const bool registered = register_claim({.id = "optimus_cc.C12",
                                        .statement = "Lazy error propagation costs no traffic and one chunk of memory.",
                                        .provenance = "recollected",
                                        .rule = "byte counters and the allocator's peak on each rank, P = 4, with and without LEP, epilogue-only and all messages, blocking sends: PASS if bytes "
                                                "are equal and the peak (most of five runs) differs by one chunk (alignment up to 512 bytes) on the stages that send gradients and by nothing on stage 0",
                                        .basis = Basis::exact,
                                        .from = Profile::quick,
                                        .judge = judge});

}  // namespace
}  // namespace thinwire::claims
