// sharded_compression.C15: how much faster steps are with SDP4Bit's codecs than without, by the link between two nodes, and that the step model knows both. Dense and coded steps exchange in the same two
// steps (inside nodes, then across), so the gain is the codecs' alone; the dense exchange in one ring, which the authors compare with, stands beside them. A miniature of their set-up, ZeRO-1 of a GPT of
// 1.3 billion parameters and one sequence of 2048 per rank: 1/400 of its parameters, and passes of 35 and 70 ms stated (150 TFLOP/s per rank: derived). So 0.25 Gbit/s here take as long as 100 Gbit/s there.
// All of it is one layer, so that messages are few and long as a large model's are: what a message costs the processors of this machine, on which ranks take turns, no link model knows.
// The codecs' time is this machine's, as in gradient_compression.C8: where it is more or less than 1/400 of a GPU's for all parameters, so is what they cost; the table says how long they take.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr std::array rates = {0.1, 0.4, 2.0, 10.0};  ///< across, Gbit/s, the slowest first
constexpr std::array per_node = {2, 4};
constexpr int nodes = 2;
constexpr const char *weights = "group:bits=4,group=2048,round=stochastic+ef21", *inside = "group:bits=8,group=128+hadamard:block=32", *across = "group:bits=4,group=128+hadamard:block=32";

enum class Exchange { dense, coded, one_ring };
constexpr std::array names = {"dense", "SDP4Bit", "dense, one ring"};

std::string text(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

struct Cell {
  Exchange exchange;
  int ranks;    ///< of a node
  double gbps;  ///< across; 0: shared memory
  std::string place() const { return std::to_string(nodes) + " x " + std::to_string(ranks) + ", " + (gbps > 0 ? text(gbps) + " Gbit/s" : "shared memory"); }
};

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (const int l : per_node)
    for (const double gbps : rates)
      for (const Exchange exchange : {Exchange::dense, Exchange::coded}) all.push_back({exchange, l, gbps});
  for (const double gbps : rates) all.push_back({Exchange::one_ring, per_node[0], gbps});
  for (const Exchange exchange : {Exchange::dense, Exchange::coded}) all.push_back({exchange, per_node[0], 0});
  return all;
}

CellRequest request_of(const Cell& cell, int repetition) {
  const std::string all = std::to_string(nodes * cell.ranks), bf16 = "cast:to=bf16";
  Settings settings = {{"zero-stage", "1"}, {"layers", "1"}, {"hidden", "512"}, {"heads", "8"}, {"seq", "16"}, {"global-batch", all}, {"overlap", "false"}, {"compute", "timed"},
                       {"serial-steps", "1"}, {"steps", "6"}, {"stage-forward-us", "35000"}, {"stage-backward-us", "70000"}, {"plan", names[static_cast<std::size_t>(cell.exchange)]},
                       {"compress.param_all_gather", bf16}, {"seed", std::to_string(repetition + 1)}};
  if (cell.exchange != Exchange::one_ring) settings["dp-nodes"] = std::to_string(nodes), settings["compress.param_all_gather.inside"] = bf16;
  if (cell.exchange == Exchange::coded) {
    settings["compress.param_all_gather"] = settings["compress.param_all_gather.inside"] = weights;
    settings["compress.grad_reduce_scatter"] = across, settings["compress.grad_reduce_scatter.inside"] = inside;
  }
  CellRequest r = training(nodes * cell.ranks, settings);
  if (cell.gbps > 0) r.link = "emulated:" + text(cell.gbps) + "gbit,latency=50us,node=" + std::to_string(cell.ranks) + ",inside=100gbit";
  r.timed = true;
  return r;
}

/// A cell over all its repetitions.
struct Timed {
  Cell cell;
  std::vector<double> step_ms;
  double model_ms = no_number, codec_ms = 0;  ///< of a step, means over repetitions
  double across_bytes = 0;                    ///< of a step, all ranks, weights and gradients of matrices
  double typical_ms() const { return location_of(step_ms).mean; }
};

std::vector<Timed> measured(JudgeContext& context, std::string& untrusted) {
  const std::vector<Cell> all = cells();
  std::vector<CellRequest> requests;
  for (int repetition = 0; repetition < context.seeds(); ++repetition)  // in turn: what disturbs the machine for a while meets all
    for (const Cell& cell : all) requests.push_back(request_of(cell, repetition));
  const std::vector<results::CellRecord> records = run_measured(context, requests);
  std::vector<Timed> timed;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Timed& t = timed.emplace_back(all[i]);
    double model = 0;
    for (std::size_t at = i; at < records.size(); at += all.size()) {
      const results::CellRecord& record = records[at];
      if (!measured_well(record)) untrusted = all[i].place() + ": " + reason_of(record);
      for (const results::SampleRow& sample : record.samples)
        if (sample.traffic == "step") t.step_ms.push_back(sample.total_us * 1e-3);
      for (const results::TrainingTrafficRow& row : record.training.traffic)
        if (row.codec != "none") t.codec_ms += (row.encode_us + row.decode_us) * 1e-3 / context.seeds();
      for (const results::TrainingPredictionRow& row : record.training.prediction)
        if (row.part == "step") model += row.predicted_ms / context.seeds();
      t.across_bytes = static_cast<double>(sent(record, "param_all_gather.across", 0) + sent(record, "grad_reduce_scatter.across", 0));
    }
    if (t.step_ms.empty()) throw RuntimeFailure("steps on " + all[i].place() + " have no times");
    if (model > 0) t.model_ms = model;
    if (t.cell.exchange != Exchange::one_ring && t.across_bytes == 0) throw RuntimeFailure("steps on " + all[i].place() + " sent nothing across nodes");
  }
  return timed;
}

const Timed& find(const std::vector<Timed>& all, Exchange exchange, int ranks, double gbps) {
  return *std::ranges::find_if(all, [&](const Timed& t) { return t.cell.exchange == exchange && t.cell.ranks == ranks && t.cell.gbps == gbps; });
}

Finding measure(JudgeContext& context, const Rule& rule) {
  std::string untrusted;
  const std::vector<Timed> all = measured(context, untrusted);
  Finding f;
  Table table{"SDP4Bit's steps against dense ones",
              {"ranks", "link (Gbit/s)", "dense (ms)", "coded (ms)", "gain", "low", "high", "model, dense (ms)", "model, coded (ms)", "model's gain", "codecs (ms)", "bytes across, dense over coded", "dense, one ring (ms)"},
              {}};
  Interval best;
  double of_bytes = 0, drop = no_number;
  std::string best_at = "none";
  const auto add = [&](int l, double gbps) {
    const Timed &dense = find(all, Exchange::dense, l, gbps), &coded = find(all, Exchange::coded, l, gbps);
    const Interval gain = speedup_of(dense.step_ms, coded.step_ms);
    const double ratio = dense.across_bytes / coded.across_bytes;
    const double ring = l == per_node[0] && gbps > 0 ? find(all, Exchange::one_ring, l, gbps).typical_ms() : no_number;
    table.rows.push_back({dense.cell.place(), {static_cast<double>(nodes * l), gbps > 0 ? gbps : no_number, dense.typical_ms(), coded.typical_ms(), gain.mean, gain.low, gain.high, dense.model_ms, coded.model_ms,
                                               dense.model_ms / coded.model_ms, coded.codec_ms, ratio, ring}});
    of_bytes = std::fmax(of_bytes, gain.mean / ratio);
    return gain;
  };
  for (const int l : per_node) {
    double slower = no_number;
    for (const double gbps : rates) {
      const Interval gain = add(l, gbps);
      if (is_larger(gain, best)) best = gain, best_at = find(all, Exchange::dense, l, gbps).cell.place();
      drop = std::fmin(drop, slower - gain.mean);
      slower = gain.mean;
    }
  }
  const Interval in_memory = add(per_node[0], 0);
  double farthest = 0;
  for (const Timed& t : all)
    if (const double distance = t.model_ms / t.typical_ms() - 1; t.cell.gbps > 0 && (std::isnan(distance) || std::abs(distance) > std::abs(farthest))) farthest = distance;
  f.measures = {measure_of("largest gain, " + best_at, best, rule.constant("stated"), "x", "best"),
                {"least that a gain falls from a link to the next faster one", drop, no_number, no_number, rule.constant("smallest"), "x", "drop"},
                {"modelled over measured step - 1, farthest from 0", farthest, no_number, no_number, rule.constant("near"), "of the step", "model"},
                {"largest gain over the ratio of the bytes that cross nodes", of_bytes, no_number, no_number, 1, "", "of_bytes"},
                measure_of("control: gain in shared memory", in_memory, 1, "x", "shared")};
  if (!untrusted.empty()) f.note = "not all links were measured well: " + untrusted;
  f.tables = {std::move(table)};
  return f;
}

Rule make_rule() {
  std::vector<NamedRequest> arms;
  for (const Exchange exchange : {Exchange::dense, Exchange::coded, Exchange::one_ring}) arms.push_back({names[static_cast<std::size_t>(exchange)], request_of({exchange, per_node[0], rates[0]}, 0)});
  std::string links;
  for (const double gbps : rates) links += (links.empty() ? "" : ", ") + text(gbps);
  Rule rule = with_arms({.settings = {{"seed", "1, 2, ...: another order of the data each"},
                                      {"ranks", "2 x 2 and 2 x 4, replicas all; one ring on 2 x 2 alone"},
                                      {"dp", "the ranks"},
                                      {"global-batch", "the ranks"},
                                      {"link", "emulated, " + links + " Gbit/s across, latency 50 us, 100 Gbit/s inside; dense and SDP4Bit on 2 x 2 in shared memory, too"}}},
                        arms);
  rule.quantities = {{"best", "T(dense) / T(SDP4Bit), both in two steps, at the link and mesh where it is largest, 95 % interval by Mann and Whitney's ranks"},
                     {"drop", "gain at a link less that at the next faster one, least of both meshes"},
                     {"model", "modelled over measured step - 1, farthest from 0 of all steps on emulated links"},
                     {"of_bytes", "gain over the ratio of the bytes that cross nodes, dense over coded, the largest"},
                     {"shared", "gain on 2 x 2 in shared memory"}};
  rule.constants = {{"stated", 3, "x: near the paper's 4.08, as the page's rule has it"}, {"none", 1, "no gain"}, {"near", 0.15, "of the step: as far as the model may be off"}, {"smallest", 0.02, "the smallest gain worth naming"},
                    {"resolution", 0.1, "x: as well as the largest gain must be known"}};
  rule.scatter = {{"best", "stated", "resolution"}};
  rule.clauses = {{Verdict::invalid, "of_bytes > none || shared >= none"},
                  {Verdict::confirmed, "drop >= smallest && abs(model) <= near && best.low >= stated"},
                  {Verdict::direction_only, "drop >= smallest && best.low >= none + smallest"}};
  rule.otherwise = Verdict::not_reproduced;
  rule.smallest_effect = "smallest";
  return rule;
}

bool judged() {
  const Rule rule = make_rule();
  return register_claim({.id = "sharded_compression.C15",
                         .statement = "SDP4Bit gains up to 4.08x, the more the slower the link.",
                         .provenance = "read: abstract of 2410.15526",
                         .basis = Basis::emulated_link,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {2, 4},
                         .measure = [rule](JudgeContext& context) { return measure(context, rule); },
                         .figure = "sdp4bit_links"});
}

const bool registered = judged();

}  // namespace
}  // namespace thinwire::claims
