// low_bandwidth_pipeline.C4: what a token costs on a boundary, both directions: 4096.0 bytes in bf16 at width
// 1024; with the subspace codec 640.0, and with the slot for a token's id that the contest's messages have
// each way 644.0. Counted in training steps of two stages; and the bytes of the cost table for other codecs.
// The 8 bytes that the contest's meter bills per message are no part of them.
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {
namespace {

constexpr double width = 1024;
constexpr int micro_batches = 2, micro_batch = 2, seq = 32;

struct Arm {
  std::string name, forward, backward;  ///< codecs; "none": bf16
  double bytes;                         ///< of a token, both directions
  double per_message = 0;
};
const std::vector<Arm> arms = {{"bf16", "none", "none", 4 * width},
                               {"subspace of 160, bf16", "cast:to=bf16+subspace:k=160", "none", 4 * 160},
                               {"subspace of 40, bf16", "cast:to=bf16+subspace:k=40", "none", 4 * 40},
                               {"MXFP8", "mx:element=e4m3", "mx:element=e4m3", 2 * 1.03125 * width},
                               {"MXFP6", "mx:element=e2m3", "mx:element=e2m3", 2 * 0.78125 * width},
                               {"MXFP4", "mx:element=e2m1", "mx:element=e2m1", 2 * 0.53125 * width},
                               {"NVFP4", "nvfp4", "nvfp4", 2 * 0.5625 * width, 4}};

CellRequest request_of(const Arm& arm) {
  CellRequest r{"train_gpt", 2, "shm", {}, 300, {"low_bandwidth_pipeline"}, /*timed=*/false};
  results::Parameters& p = r.parameters;
  p.set("pp", 2), p.set("layers", 2), p.set("hidden", static_cast<int>(width)), p.set("heads", 8),
      p.set("seq", seq), p.set("micro-batch", micro_batch);
  p.set("global-batch", micro_batches * micro_batch), p.set("steps", 1),
      p.set("eval-sequences", micro_batches * micro_batch), p.set("comm-dtype", "bf16");
  if (arm.forward != "none") p.set("compress.pp_forward", arm.forward);
  if (arm.backward != "none") p.set("compress.pp_backward", arm.backward);
  return r;
}

std::vector<NamedRequest> requests() {
  std::vector<NamedRequest> all;
  for (const Arm& arm : arms) all.push_back({arm.name, request_of(arm)});
  return all;
}

Finding measure(JudgeContext& context) {
  std::vector<CellRequest> cells;
  for (const NamedRequest& r : requests()) cells.push_back(r.request);
  const std::vector<results::CellRecord> records = context.cells.run(cells);
  constexpr double tokens = micro_batches * micro_batch * seq;
  Table table{
      "bytes of a token on a boundary, both directions", {"counted", "formula", "dense over it (x)"}, {}};
  double off = 0;
  std::vector<double> per_token;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    double counted = 0;
    for (const results::TrainingTrafficRow& row : records[i].training.traffic)
      if (row.traffic == "pp_forward" || row.traffic == "pp_backward")
        counted += static_cast<double>(row.link_bytes);
    const double formula = tokens * arms[i].bytes + 2 * micro_batches * arms[i].per_message;
    off = std::max(off, std::abs(counted - formula));
    per_token.push_back(counted / tokens);
    table.rows.push_back({arms[i].name, {per_token[i], formula / tokens, per_token[0] / per_token[i]}});
  }
  Finding f;
  f.measures = {{"counted bytes of a step from the formula, the largest distance", off, no_number, no_number,
                 0, "bytes", "off"},
                {"bf16, of a token", per_token[0], no_number, no_number, 4096, "bytes", "dense"},
                {"subspace of 160, of a token, with the contest's two slots for an id", per_token[1] + 4,
                 no_number, no_number, 644, "bytes", "subspace"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_bandwidth_pipeline.C4",
     .statement = "Dense bf16 sends 4096.0 and the subspace codec 644.0 bytes per token.",
     .provenance = "read: records of the speedrun; derived",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = with_arms(
         {.quantities =
              {{"off",
                "bytes of both directions that a step of two stages sends, counted, less tokens x those of "
                "the cost table (two more messages' scales of 4 bytes for NVFP4), the largest distance"},
               {"dense", "bytes per token in bf16, counted"},
               {"subspace",
                "bytes per token of the subspace of 160 columns in bf16, counted, plus 2 each way for the "
                "contest's slot of a token's id, which ours does not send"}},
          .clauses = {{Verdict::pass, "off == 0 && dense == 4096 && subspace == 644"}},
          .otherwise = Verdict::fail},
         requests()),
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
