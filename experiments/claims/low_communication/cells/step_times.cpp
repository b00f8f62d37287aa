#include "experiments/claims/low_communication/cells/step_times.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/claims/low_communication/cells/small_model.h"
#include "experiments/claims/sharded_compression/cells/sharded_run.h"
#include "kernels/codec/registry.h"

namespace thinwire::claims::low_communication {
namespace {

using sharded_compression::Settings;
using Kind = TimedMethod::Kind;

constexpr int layers = 4, fragments = 3, rank_of_factors = 4;
constexpr std::int64_t hidden = 512, seq = 16;
constexpr const char* sparse_codec = "chunk_topk:k=64,values=codebook2";

Settings settings_of(const TimedMethod& method) {
  const std::string round = "inner_steps=" + std::to_string(inner_steps);
  switch (method.kind) {
    case Kind::dense: return {};
    case Kind::low_rank: return {{"compress.dp_gradient", "powersgd:rank=" + std::to_string(rank_of_factors) + "+ef"}};
    case Kind::whole: return {{"optimizer", "adamw+diloco:" + round}};
    case Kind::fragments:
      return {{"optimizer", "adamw+streaming_diloco:" + round + ",fragments=" + std::to_string(fragments) +
                                ",overlap=" + std::to_string(method.overlap) + ",mixing=0.5"}};
    case Kind::sparse:
      return {{"optimizer", "adamw+local_sgd:" + round},
              {"compress.outer_gradient", std::string(sparse_codec) + "+ef:beta=0.95"}};
  }
  return {};
}

bool in_rounds(const TimedMethod& method) { return method.kind != Kind::dense && method.kind != Kind::low_rank; }

/// Of the model: matrices as [rows, columns], and the numbers in vectors, by hand.
struct Sizes {
  std::vector<std::pair<std::int64_t, std::int64_t>> of_layer = {
      {hidden, 3 * hidden}, {hidden, hidden}, {hidden, 4 * hidden}, {4 * hidden, hidden}};
  std::pair<std::int64_t, std::int64_t> table = {256, hidden}, positions = {seq, hidden};
  std::int64_t vectors = layers * 13 * hidden + 2 * hidden;  ///< biases 3 + 1 + 4 + 1, two layernorms of 2; the last layernorm

  std::int64_t layer() const {
    std::int64_t sum = 0;
    for (const auto& [rows, columns] : of_layer) sum += rows * columns;
    return sum;
  }
  template <typename Body>
  void for_matrices(const Body& body) const {
    body(table.first, table.second), body(positions.first, positions.second);
    for (int l = 0; l < layers; ++l)
      for (const auto& [rows, columns] : of_layer) body(rows, columns);
  }
};
const Sizes& sizes() {
  static const Sizes all;
  return all;
}

/// But for its name.
CellRequest untold_cell(const TimedMethod& method, double gbps, bool overlapped, int repetition) {
  const std::string ranks = std::to_string(timed_replicas);
  Settings s = {{"layers", std::to_string(layers)},
                {"hidden", std::to_string(hidden)},
                {"heads", "8"},
                {"seq", std::to_string(seq)},
                {"micro-batch", "1"},
                {"global-batch", ranks},
                {"steps", std::to_string(in_rounds(method) ? inner_steps : 5)},
                {"serial-steps", "1"},
                {"compute", "timed"},
                {"stage-forward-us", results::to_text(std::round(passes_s / 3 * 1e6))},
                {"stage-backward-us", results::to_text(std::round(passes_s * 2 / 3 * 1e6))},
                {"overlap", overlapped ? "true" : "false"},
                {"seed", std::to_string(repetition + 1)}};
  if (in_rounds(method)) s["dp-replicas"] = ranks;
  if (gbps == 0) s["omit"] = in_rounds(method) ? "outer_gradient" : "dp_gradient";
  for (const auto& [name, value] : settings_of(method)) s.insert_or_assign(name, value);
  CellRequest r = sharded_compression::training(timed_replicas, s);
  if (gbps > 0)
    r.link = "emulated:" + results::to_text(gbps * 1e3) +
             "mbit,latency=" + results::to_text(link_latency_s * 1e6) + "us";
  r.timed = true;
  r.tags = {"low_communication", "times"};
  return r;
}

double bytes_per_second(double gbps) { return gbps * 1e9 / 8; }
double ring_sum(double bytes, double gbps, double messages) {
  constexpr double r = timed_replicas;
  return 2 * (r - 1) * (bytes / (r * bytes_per_second(gbps)) + messages * link_latency_s);
}

/// Numbers of each fragment, which are one message: layers in runs of neighbours, tables (and vectors, next
/// to nothing) with the first.
std::vector<double> all_fragments() {
  std::vector<double> all(fragments);
  const Sizes& s = sizes();
  for (int l = 0; l < layers; ++l)
    all[static_cast<std::size_t>(l * fragments / layers)] += static_cast<double>(s.layer());
  all[0] += static_cast<double>(s.table.first * hidden + s.positions.first * hidden + s.vectors);
  return all;
}

}  // namespace

const TimedMethod& dense_steps() { return timed_methods().front(); }

const std::vector<TimedMethod>& timed_methods() {
  static const std::vector<TimedMethod> all = {{Kind::dense, "dense"},
                                               {Kind::low_rank, "PowerSGD, rank 4"},
                                               {Kind::whole, "DiLoCo"},
                                               {Kind::fragments, "Streaming DiLoCo, overlap 0", 0},
                                               {Kind::fragments, "Streaming DiLoCo", 1},
                                               {Kind::fragments, "Streaming DiLoCo, overlap 2", 2},
                                               {Kind::sparse, "SparseLoCo"}};
  return all;
}

const TimedMethod& timed_method(const std::string& name) {
  const auto found = std::ranges::find(timed_methods(), name, &TimedMethod::name);
  if (found == timed_methods().end()) throw UsageError("no timed method is called " + name);
  return *found;
}

CellRequest timed_cell(const TimedMethod& method, double gbps, bool overlapped, int repetition) {
  CellRequest r = untold_cell(method, gbps, overlapped, repetition);
  r.parameters.set("plan", method.name);
  return r;
}

StepTime step_time(const results::CellRecord& record) {
  StepTime t;
  double sum = 0;
  int steps = 0;
  for (const results::SampleRow& sample : record.samples)
    if (sample.traffic == "step") sum += sample.total_us * 1e-6, ++steps;
  if (steps > 0) t.seconds = sum / steps;
  for (const results::TrainingTrafficRow& row : record.training.traffic)
    if (row.codec != "none") t.codecs += (row.encode_us + row.decode_us) * 1e-6;
  return t;
}

double modelled_exchange(const TimedMethod& method, double gbps, double inner) {
  const Sizes& s = sizes();
  double numbers = static_cast<double>(s.vectors), matrices = 0, factors = 0, payload = 0;
  s.for_matrices([&](std::int64_t rows, std::int64_t columns) {
    numbers += static_cast<double>(rows * columns), ++matrices;
    factors += static_cast<double>(rank_of_factors * (rows + columns));
    if (method.kind == Kind::sparse)
      payload += static_cast<double>(make_codec(sparse_codec).codec->max_payload_bytes({rows, columns}));
  });
  const auto vectors = static_cast<double>(s.vectors);
  switch (method.kind) {
    case Kind::dense: return ring_sum(4 * numbers, gbps, 1);
    case Kind::low_rank: return ring_sum(4 * (factors + vectors), gbps, 2 * matrices + 1);
    case Kind::whole:
      return ring_sum(4 * numbers, gbps, 1) / inner_steps;
    case Kind::fragments: {
      double exposed = 0;
      for (const double n : all_fragments())
        exposed += std::max(0.0, ring_sum(4 * n, gbps, 1) - method.overlap * inner);
      return exposed / inner_steps;
    }
    case Kind::sparse:
      return ((timed_replicas - 1) * (payload / bytes_per_second(gbps) + matrices * link_latency_s) +
              ring_sum(4 * vectors, gbps, 1)) /
             inner_steps;
  }
  return no_number;
}

void require_model_of_cells() {
  const TrainConfig config = sharded_compression::config_of(untold_cell(dense_steps(), 0, false, 0));
  std::int64_t matrices = 0;
  sizes().for_matrices([&](std::int64_t rows, std::int64_t columns) { matrices += rows * columns; });
  if (matrices != sharded_compression::matrices_of(config).all() || sizes().vectors != sharded_compression::vector_elements(config))
    throw RuntimeFailure("the time model has other sizes than the model that its cells train");
}

double rate_for(const TimedMethod& method, double part, double inner) {
  double slow = 1e-3, fast = 1e3;  // Gbit/s; what is exposed falls with the rate
  for (int i = 0; i < 100; ++i) {
    const double middle = std::sqrt(slow * fast);
    (modelled_exchange(method, middle, inner) > part * inner ? slow : fast) = middle;
  }
  return fast;
}

}  // namespace thinwire::claims::low_communication
