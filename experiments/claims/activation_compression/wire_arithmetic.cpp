// activation_compression.C11: bytes on the wire are those of the arithmetic (docs/papers/activation_compression.md, "Sizes"). C11a: payloads of the released forms at the page's shapes of hidden
// 1024, and the traffic of a sum over t ranks, by closed forms on those payloads: sparse and quantised ones are all-gathered, codes of an auto-encoder all-reduced. C11b: the same of t
// tensor-parallel ranks in training, by their counters.
#include <algorithm>
#include <cmath>

#include "collectives/communicator/cost_terms.h"
#include "experiments/claims/activation_compression/cells/sent.h"
#include "experiments/claims/arms.h"
#include "experiments/claims/context.h"

namespace thinwire::claims {
namespace {

/// The released form; an auto-encoder, whose codes add up, has one form only.
Form form_of(bool adds_up) { return adds_up ? Form::fair : Form::released; }

using namespace activation_compression;

constexpr std::int64_t hidden = 1024;

struct Method {
  std::string name, codec;
  std::int64_t payload = 0;  ///< bytes by the formula
  bool adds_up = false;      ///< codes that are all-reduced
};

/// Of N tokens. A kept element is 2 + 8 bytes, a code of the auto-encoder 2 bytes, a quantised message 2 bytes of scale per channel and B bits per element.
std::vector<Method> methods(std::int64_t tokens) {
  std::vector<Method> all;
  for (const auto& [name, width] : {std::pair{"A1", 50}, {"A2", 100}}) all.push_back({name, "autoencoder:init=xavier,width=" + std::to_string(width), 2 * tokens * width, true});
  for (const auto& [name, per_token] : {std::pair{"T1", 10}, {"T2", 20}, {"T3", 50}, {"T4", 100}}) {
    const std::int64_t kept = per_token * tokens / 1024 * 1000;  // as the authors round: 10 000 of 1024 x 1024
    all.push_back({name, "topk:count=" + std::to_string(kept), 10 * kept});
    all.push_back({"R" + std::string(name).substr(1), "randomk:count=" + std::to_string(kept), 10 * kept});
  }
  for (const auto& [name, bits] : {std::pair{"Q1", 2}, {"Q2", 4}, {"Q3", 8}}) all.push_back({name, "quantize:bits=" + std::to_string(bits), tokens * hidden * bits / 8 + 2 * hidden});
  return all;
}

/// Of one rank in a sum over t of them, against the dense f16 ring.
double traffic_ratio(const Method& method, std::int64_t payload, std::int64_t tokens, int t) {
  const double dense = static_cast<double>(ring_all_reduce_bytes(tokens * hidden, 2, 0, t).sent);
  if (method.adds_up) return static_cast<double>(ring_all_reduce_bytes(payload / 2, 2, 0, t).sent) / dense;
  const std::vector<std::int64_t> blocks(static_cast<std::size_t>(t), payload);
  return static_cast<double>(ring_all_gather_bytes(blocks, 0).sent) / dense;
}

Finding measure_payloads(JudgeContext&) {
  Finding found;
  Table payloads{"payload of a message (MB), hidden 1024", {"8 x 128", "8 x 512"}, {}}, traffic{"traffic of a sum over that of the dense one", {"t = 2", "t = 4", "t = 8"}, {}};
  std::int64_t largest = 0, compared = 0;
  double q3_at_4 = 0, q3_at_8 = 0, moved = 0;
  for (const std::int64_t tokens : {std::int64_t{1024}, std::int64_t{4096}}) {
    const Shape shape{tokens, hidden};
    const Floats x = normal_numbers(shape.elements(), "activation");
    const std::vector<Method> all = methods(tokens);
    for (std::size_t m = 0; m < all.size(); ++m) {
      const Method& method = all[m];
      const auto payload = static_cast<std::int64_t>(send(method.codec, x, shape, form_of(method.adds_up)).payload.size());
      ++compared;
      if (std::abs(payload - method.payload) > std::abs(largest)) largest = payload - method.payload;
      const double mb = static_cast<double>(payload) * 1e-6;
      if (tokens == 1024) {
        payloads.rows.push_back({method.name, {mb}});
        continue;
      }
      payloads.rows[m].values.push_back(mb);
      traffic.rows.push_back({method.name, {}});
      for (const int t : {2, 4, 8}) {
        const double ratio = traffic_ratio(method, payload, tokens, t), share = static_cast<double>(method.payload) / static_cast<double>(2 * shape.elements());
        traffic.rows.back().values.push_back(ratio);
        moved = std::max(moved, std::abs(ratio / (method.adds_up ? share : share * t / 2) - 1));
        if (method.name == "Q3" && t == 4) q3_at_4 = ratio;
        if (method.name == "Q3" && t == 8) q3_at_8 = ratio;
      }
    }
  }
  found.measures = {{"payload less the formula's, farthest from 0", static_cast<double>(largest), no_number, no_number, 0, "bytes", "largest"},
                    {"messages compared", static_cast<double>(compared), no_number, no_number, no_number, "", "compared"},
                    {"|traffic over (payload / dense) t / 2 - 1|, most", moved, no_number, no_number, no_number, "", "moved"},
                    {"traffic of 8 bits over the dense one, t = 4", q3_at_4, no_number, no_number, 1, "ratio", "at_4"},
                    {"traffic of 8 bits over the dense one, t = 8", q3_at_8, no_number, no_number, 2, "ratio", "at_8"}};
  found.tables = {std::move(payloads), std::move(traffic)};
  return found;
}

const bool payloads = register_claim({.id = "activation_compression.C11a",
                                      .statement = "Bytes of a message are those of the arithmetic; 8-bit codes by all-gather save nothing at t = 4 and double the traffic at t = 8.",
                                      .provenance = "derived",
                                      .basis = Basis::exact,
                                      .rule = {.settings = {{"shapes", "1024 and 4096 tokens of hidden size 1024"}, {"form", "released, of codecs that have one"}},
                                               .quantities = {{"largest", "payload of an encoded message less the formula's bytes, farthest from 0, over A1, A2, T1 to T4, R1 to R4, Q1 to Q3"},
                                                              {"compared", "messages compared"},
                                                              {"moved", "largest relative distance of the bytes that a rank sends, over those of the dense f16 ring, from (payload / dense) t / 2, of an "
                                                                        "auto-encoder from payload / dense; t = 2, 4, 8"},
                                                              {"at_4", "that ratio of 8 bits at t = 4"},
                                                              {"at_8", "that ratio of 8 bits at t = 8"}},
                                               .constants = {{"all", 26, "thirteen methods at two shapes"}, {"scales", 0.001, "two bytes of scale per channel, of 4096 tokens"}, {"rounding", 1e-9, ""}},
                                               .clauses = {{Verdict::pass, "largest == 0 && compared == all && moved <= rounding && abs(at_4 - 1) <= scales && abs(at_8 - 2) <= 2 * scales"}},
                                               .otherwise = Verdict::fail},
                                      .measure = measure_payloads});

// ---- counters ----

constexpr std::int64_t trained_hidden = 64, sequence = 16, micro_batches = 2, layers = 2, steps = 2;

CellRequest training(int ranks, const std::string& codec, bool adds_up) {
  CellRequest r{"train_gpt", ranks, "shm", {}, 300, {"activation_compression"}, /*timed=*/false};
  const std::map<std::string, std::int64_t> numbers = {{"tp", ranks}, {"layers", layers}, {"hidden", trained_hidden}, {"heads", 8}, {"seq", sequence}, {"micro-batch", 1},
                                                       {"global-batch", micro_batches}, {"steps", steps}, {"eval-sequences", 2}};
  for (const auto& [name, value] : numbers) r.parameters.set(name, value);
  r.parameters.set("comm-dtype", "f16");
  if (!codec.empty()) r.parameters.set("compress.tp_forward", codec), r.parameters.set("form", name_of(form_of(adds_up)));
  return r;
}

struct Counted {
  std::string name, codec;
  std::int64_t payload = 0;  ///< 0: dense
  bool adds_up = false;
};
std::vector<Counted> counted_methods() {
  const std::int64_t elements = sequence * trained_hidden;
  return {{"dense", "", 0, false},
          {"auto-encoder", "autoencoder:init=xavier,width=8", 2 * sequence * 8, true},
          {"Top-K", "topk:count=100", 1000, false},
          {"Random-K", "randomk:count=100", 1000, false},
          {"2 bits", "quantize:bits=2", elements / 4 + 2 * trained_hidden, false},
          {"8 bits", "quantize:bits=8", elements + 2 * trained_hidden, false}};
}
const int rank_counts[] = {2, 4, 8};

/// Of all ranks in a step: two sums in each layer and micro-batch.
std::int64_t formula(const Counted& method, int t) {
  const std::int64_t sums = 2 * layers * micro_batches, elements = sequence * trained_hidden;
  std::int64_t bytes = 0;
  for (int rank = 0; rank < t; ++rank) {
    const std::vector<std::int64_t> blocks(static_cast<std::size_t>(t), method.payload);
    bytes += method.payload == 0 ? ring_all_reduce_bytes(elements, 2, rank, t).sent : method.adds_up ? ring_all_reduce_bytes(method.payload / 2, 2, rank, t).sent : ring_all_gather_bytes(blocks, rank).sent;
  }
  return sums * bytes;
}

Finding measure_counters(JudgeContext& context) {
  std::vector<CellRequest> requests;
  for (const int t : rank_counts)
    for (const Counted& method : counted_methods()) requests.push_back(training(t, method.codec, method.adds_up));
  const std::vector<results::CellRecord> records = context.cells.run(requests);
  Finding found;
  Table table{"bytes of a step's forward sums over all ranks", {"counted", "formula", "over dense"}, {}};
  std::int64_t largest = 0, compared = 0;
  std::size_t next = 0;
  for (const int t : rank_counts) {
    double dense = 0;
    for (const Counted& method : counted_methods()) {
      const results::CellRecord& record = records[next++];
      for (std::int64_t step = 0; step < steps; ++step) {
        std::int64_t counted = 0;
        for (const results::TrainingStepRow& row : record.training.steps)
          if (row.traffic == "tp_forward" && row.step == step) counted += row.link_bytes;
        ++compared;
        if (std::abs(counted - formula(method, t)) > std::abs(largest)) largest = counted - formula(method, t);
        if (step > 0) continue;
        if (method.payload == 0) dense = static_cast<double>(counted);
        table.rows.push_back({method.name + ", " + std::to_string(t) + " ranks", {static_cast<double>(counted), static_cast<double>(formula(method, t)), static_cast<double>(counted) / dense}});
      }
    }
  }
  found.measures = {{"bytes of a step less the formula's, farthest from 0", static_cast<double>(largest), no_number, no_number, 0, "bytes", "largest"},
                    {"steps compared", static_cast<double>(compared), no_number, no_number, no_number, "", "compared"}};
  found.tables = {std::move(table)};
  return found;
}

Rule counters_rule() {
  std::vector<NamedRequest> arms;
  for (const int t : rank_counts)
    for (const Counted& method : counted_methods()) arms.push_back({method.name + ", " + std::to_string(t) + " ranks", training(t, method.codec, method.adds_up)});
  return with_arms({.quantities = {{"largest", "bytes that all ranks together sent in the forward sums of a step less those of the formulas, farthest from 0"}, {"compared", "steps compared"}},
                    .clauses = {{Verdict::pass, "largest == 0 && compared > 0"}},
                    .otherwise = Verdict::fail},
                   arms);
}

const bool counters = register_claim({.id = "activation_compression.C11b",
                                      .statement = "The counters of tensor-parallel ranks in training show the bytes of the arithmetic.",
                                      .provenance = "derived",
                                      .basis = Basis::exact,
                                      .from = Profile::standard,
                                      .rule = counters_rule(),
                                      .measure = measure_counters});

}  // namespace
}  // namespace thinwire::claims
