// activation_compression.C6: below which rate of a link Top-K and Random-K pay, if anywhere: bytes that the dense sum sends more, over the time of coding and decoding. Sums of two tensor-parallel
// ranks, at the paper's eight settings; codecs run alone on this machine's cores, so the rates are this machine's. In our form (C6a), and as released (C6b): positions of eight bytes, Random-K drawn
// one by one on the host.
#include <algorithm>
#include <cmath>

#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims {
namespace {

struct Method {
  std::string name, codec;
};
const std::vector<Method> methods = {{"T1", "topk:fraction=0.009765625"},    {"T2", "topk:fraction=0.01953125"},    {"T3", "topk:fraction=0.048828125"},    {"T4", "topk:fraction=0.09765625"},
                                     {"R1", "randomk:fraction=0.009765625"}, {"R2", "randomk:fraction=0.01953125"}, {"R3", "randomk:fraction=0.048828125"}, {"R4", "randomk:fraction=0.09765625"}};

CellRequest request(const std::string& form, const Method& method, int repetition) {
  CellRequest r{"bench_activation", 2, "shm", {}, 300, {"activation_compression", "break-even"}};
  for (const auto& [name, value] : std::map<std::string, std::int64_t>{{"tp", 2}, {"pp", 1}, {"batch", 8}, {"seq", 128}, {"hidden", 512}, {"repetitions", 9}, {"seed", repetition}})
    r.parameters.set(name, value);
  r.parameters.set("comm-dtype", "f16"), r.parameters.set("form", form), r.parameters.set("codec", method.codec), r.parameters.set("method", method.name);
  return r;
}

Finding measure(JudgeContext& context, const std::string& form) {
  std::vector<CellRequest> requests;
  for (int repetition = 1; repetition <= context.seeds(); ++repetition)
    for (const Method& m : methods) requests.push_back(request(form, m, repetition));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"rate below which it pays, " + form, {"Gbit/s", "low", "high", "coding (ms)", "dense over sent"}, {}};
  Interval most;
  for (std::size_t m = 0; m < methods.size(); ++m) {
    std::vector<double> rates, coding, ratio;
    for (std::size_t at = m; at < records.size(); at += methods.size()) {
      const auto row = std::ranges::find(records[at].rows, "tp_forward", &results::CellRow::traffic);
      if (row == records[at].rows.end()) throw RuntimeFailure("cell " + records[at].cell_id + " has no row of tp_forward");
      if (!measured_well(records[at])) found.note = "not all cells were measured well: " + reason_of(records[at]);
      const double dense = static_cast<double>(row->baseline_link_bytes), sent = static_cast<double>(row->link_bytes);
      coding.push_back(row->encode_us + row->decode_us), ratio.push_back(dense / sent);
      rates.push_back(8e-3 * (dense - sent) / coding.back());
    }
    const Interval rate = interval_of(rates);
    if (!(rate.mean <= most.mean)) most = rate;
    table.rows.push_back({methods[m].name, {rate.mean, rate.low, rate.high, interval_of(coding).mean * 1e-3, interval_of(ratio).mean}});
  }
  found.measures = {measure_of("rate of a link below which the best of Top-K and Random-K pays", most, 10, "Gbit/s", "most")};
  found.tables = {std::move(table)};
  return found;
}

bool judged(const std::string& part, const std::string& form, const std::string& statement) {
  std::vector<NamedRequest> arms;
  for (const Method& m : methods) arms.push_back({m.name, request(form, m, 1)});
  Rule rule = with_arms({.settings = {{"seed", "1, 2, ...: a repetition each"}}}, arms);
  rule.quantities = {
      {"most", "8 (bytes on the link of the dense sum in f16 - those of the codec) / (time of encoding and decoding), the largest of the arms, mean over repetitions with its 95 % interval, Gbit/s"}};
  rule.constants = {{"slow", 10, "Gbit/s: on links of data centres it then never pays"}, {"fast", 100, "Gbit/s"}, {"smallest", 0.1, "Gbit/s: the smallest difference worth naming"}};
  rule.clauses = {{Verdict::confirmed, "most.high < slow"}, {Verdict::not_reproduced, "most.low > fast"}};
  rule.smallest_effect = "smallest";
  return register_claim({.id = "activation_compression.C6" + part,
                         .statement = statement,
                         .provenance = "recollected (Bian)",
                         .basis = Basis::cost_model,
                         .from = Profile::standard,
                         .rule = std::move(rule),
                         .seeds = {3, 6},
                         .measure = [form](JudgeContext& context) { return measure(context, form); }});
}

const bool fair = judged("a", "fair", "Top-K and Random-K never pay in time, in our form.");
const bool released = judged("b", "released", "Top-K and Random-K never pay in time, as released.");

}  // namespace
}  // namespace thinwire::claims
