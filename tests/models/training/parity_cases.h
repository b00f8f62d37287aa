// The configurations over which a training run must follow the single-rank loss: the full product, and a pairwise cover of it.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/training/config/train_config.h"

namespace thinwire::testing {

inline constexpr std::int64_t parity_layers = 16, parity_heads = 8, parity_global_batch = 8, parity_seq = 16;

/// Two layers in every part of a pipeline, 4 at least and 16 at most: the fewest that tell a layer from its part. On two cores each further one is paid for.
inline std::int64_t layers_enough_for(const TrainConfig& c) {
  return std::clamp<std::int64_t>(2 * c.mesh.pp * c.virtual_stages, 4, parity_layers);
}

/// 53 different bytes, so that a vocabulary split over 2, 4 or 8 ranks is padded.
inline std::string parity_text() {
  const Random random(77, "parity text");
  std::string text;
  for (std::uint64_t i = 0; i < 6000; ++i) text += static_cast<char>(random.below(2 * i, 53) * random.below(2 * i + 1, 53) % 53);
  return text;
}

inline TrainConfig parity_config() {
  TrainConfig c;
  c.model.vocab = 53, c.model.hidden = 32, c.model.layers = parity_layers, c.model.heads = parity_heads;
  c.model.max_seq = parity_seq, c.model.dropout = 0.1, c.model.seed = 5;
  c.global_batch = parity_global_batch, c.micro_batch = 1, c.seq = parity_seq;
  c.steps = 8;  // of a schedule of twenty: four of warm-up, four behind it
  c.trainer.schedule = {3e-3, 3e-4, 4, 20};
  c.trainer.max_norm = 0.5;
  c.eval_sequences = 8;
  c.dtype = DType::f64;
  c.comm_dtype = DType::f32;
  c.bucket_cap_mb = 0.02;  // several buckets and several messages of their own
  return c;
}

struct ParityCase {
  TrainConfig config;
  std::string name;
  std::vector<std::string> choices;  ///< one per factor
};

/// The product of meshes (products 1, 2, 4, 8), orders of ranks, schedules, micro-batches and seven bits of switches: case `index` of it, where that is
/// valid and says something new.
inline constexpr std::int64_t parity_product = 4 * 4 * 4 * 2 * 3 * 4 * 128;
inline std::optional<ParityCase> parity_case(std::int64_t index) {
  const auto next = [&](std::int64_t choices) { return static_cast<int>(std::exchange(index, index / choices) % choices); };
  const int bits = next(128), micro = 1 << next(4);
  const char* const schedule = std::array{"gpipe", "1f1b", "interleaved"}[static_cast<std::size_t>(next(3))];
  const std::string order = next(2) == 0 ? "tp-pp-dp" : "dp-tp-pp";
  const int dp = 1 << next(4), pp = 1 << next(4), tp = 1 << next(4);
  if (tp * pp * dp > 8 || dp * micro > parity_global_batch) return std::nullopt;
  const bool sequence_parallel = bits & 1, overlap = bits & 4, scatter_gather = bits & 8, fused = bits & 16;
  const int zero_stage = bits / 32;
  // Combinations that say nothing new: a switch without the group that it acts on.
  if ((sequence_parallel || scatter_gather) && tp == 1) return std::nullopt;
  if (scatter_gather && (pp == 1 || sequence_parallel)) return std::nullopt;
  if (zero_stage > 0 && dp == 1) return std::nullopt;
  if (fused && (pp == 1 || dp == 1)) return std::nullopt;
  if (!overlap && dp == 1) return std::nullopt;
  if (std::string(schedule) == "gpipe" && pp == 1) return std::nullopt;
  if (order == "dp-tp-pp" && tp * pp * dp == 1) return std::nullopt;
  ParityCase made{parity_config(), "", {}};
  TrainConfig& c = made.config;
  c.mesh = {tp, pp, dp, order};
  c.schedule = schedule;
  c.virtual_stages = c.schedule == "interleaved" ? 2 : 1;
  c.micro_batch = micro;
  c.sequence_parallel = sequence_parallel;
  c.recompute = bits & 2;
  c.overlap = overlap;
  c.scatter_gather = scatter_gather;
  c.embedding_sync = fused ? "fused" : "two_step";
  c.zero_stage = zero_stage;
  try {
    c.check();
  } catch (const UsageError&) {
    return std::nullopt;
  }
  made.choices = {"tp" + std::to_string(tp) + " pp" + std::to_string(pp) + " dp" + std::to_string(dp),
                  schedule,
                  "micro " + std::to_string(micro),
                  "order " + order,
                  c.sequence_parallel ? "sequence parallel" : "no sequence parallelism",
                  c.recompute ? "recompute" : "no recompute",
                  "zero " + std::to_string(c.zero_stage),
                  c.scatter_gather ? "scattered" : "not scattered",
                  c.embedding_sync,
                  c.overlap ? "overlap" : "no overlap"};
  for (const std::string& choice : made.choices) made.name += (made.name.empty() ? "" : ", ") + choice;
  return made;
}

/// The valid cases of the product, each with its index in it.
inline std::vector<std::pair<std::int64_t, ParityCase>> all_parity_cases() {
  std::vector<std::pair<std::int64_t, ParityCase>> cases;
  for (std::int64_t i = 0; i < parity_product; ++i)
    if (std::optional<ParityCase> made = parity_case(i)) cases.emplace_back(i, std::move(*made));
  return cases;
}

/// Of cases, given by their choices, the numbers of a subset in which every pair of choices that occurs at all occurs (greedy).
inline std::vector<std::size_t> pairwise_cover(const std::vector<std::vector<std::string>>& all) {
  std::map<std::string, std::size_t> number;  // of a choice
  std::vector<std::vector<std::size_t>> choices;
  for (const auto& names : all) {
    choices.emplace_back();
    for (const std::string& choice : names) choices.back().push_back(number.emplace(choice, number.size()).first->second);
  }
  const std::size_t n = number.size();
  std::vector<char> open(n * n, 0);
  std::size_t left = 0;
  const auto for_pairs = [&](const std::vector<std::size_t>& c, const auto& body) {
    for (std::size_t a = 0; a < c.size(); ++a)
      for (std::size_t b = a + 1; b < c.size(); ++b) body(open[c[a] * n + c[b]]);
  };
  for (const auto& c : choices) for_pairs(c, [&](char& pair) { left += !std::exchange(pair, 1); });
  std::vector<std::size_t> cover;
  while (left > 0) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      std::size_t fresh = 0;
      for_pairs(choices[i], [&](char& pair) { fresh += pair != 0; });
      if (fresh > most) most = fresh, best = i;
    }
    cover.push_back(best);
    for_pairs(choices[best], [&](char& pair) { left -= std::exchange(pair, 0); });
  }
  return cover;
}

}  // namespace thinwire::testing
