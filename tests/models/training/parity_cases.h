// The configurations over which a training run must follow the single-rank loss: the full product, and a pairwise cover of it.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/training/config/train_config.h"

namespace thinwire::testing {

inline constexpr std::int64_t parity_layers = 16, parity_heads = 8, parity_global_batch = 8, parity_seq = 16;

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

/// Every valid combination of mesh (products 1, 2, 4, 8) x schedule x micro-batch x sequence parallelism x recomputation x zero stage
/// x scattered boundaries x embedding synchronisation x overlap.
inline std::vector<ParityCase> all_parity_cases() {
  std::vector<ParityCase> cases;
  const TrainConfig base = parity_config();
  const auto powers = {1, 2, 4, 8};
  for (int tp : powers)
    for (int pp : powers)
      for (int dp : powers)
        for (const char* order : {"tp-pp-dp", "dp-tp-pp"})
          for (const char* schedule : {"gpipe", "1f1b", "interleaved"})
            for (int micro : {1, 2, 4, 8})
              for (unsigned bits = 0; bits < 128; ++bits) {
                const bool fits = tp * pp * dp <= 8 && dp * micro <= parity_global_batch;
                if (!fits) continue;
                TrainConfig c = base;
                c.mesh = {tp, pp, dp, order};
                c.schedule = schedule;
                c.virtual_stages = c.schedule == "interleaved" ? 2 : 1;
                c.micro_batch = micro;
                c.sequence_parallel = bits & 1;
                c.recompute = bits & 2;
                c.overlap = bits & 4;
                c.scatter_gather = bits & 8;
                c.embedding_sync = bits & 16 ? "fused" : "two_step";
                c.zero_stage = static_cast<int>(bits / 32);
                // Combinations that say nothing new: a switch without the group that it acts on.
                if ((c.sequence_parallel || c.scatter_gather) && tp == 1) continue;
                if (c.scatter_gather && (pp == 1 || c.sequence_parallel)) continue;
                if (c.zero_stage > 0 && dp == 1) continue;
                if ((bits & 16) && (pp == 1 || dp == 1)) continue;
                if (!c.overlap && dp == 1) continue;
                if (c.schedule == "gpipe" && pp == 1) continue;
                if (std::string(order) == "dp-tp-pp" && (tp * pp * dp == 1)) continue;
                try {
                  c.check();
                } catch (const UsageError&) {
                  continue;
                }
                const std::string mesh = "tp" + std::to_string(tp) + " pp" + std::to_string(pp) + " dp" + std::to_string(dp);
                std::vector<std::string> choices = {mesh,
                                                    schedule,
                                                    "micro " + std::to_string(micro),
                                                    "order " + std::string(order),
                                                    c.sequence_parallel ? "sequence parallel" : "no sequence parallelism",
                                                    c.recompute ? "recompute" : "no recompute",
                                                    "zero " + std::to_string(c.zero_stage),
                                                    c.scatter_gather ? "scattered" : "not scattered",
                                                    c.embedding_sync,
                                                    c.overlap ? "overlap" : "no overlap"};
                std::string name;
                for (const std::string& choice : choices) name += (name.empty() ? "" : ", ") + choice;
                cases.push_back({c, name, choices});
              }
  return cases;
}

/// A subset in which every pair of choices that occurs at all occurs (greedy).
inline std::vector<ParityCase> pairwise_cover(const std::vector<ParityCase>& all) {
  std::map<std::string, std::size_t> number;  // of a choice
  std::vector<std::vector<std::size_t>> choices;
  for (const ParityCase& c : all) {
    choices.emplace_back();
    for (const std::string& choice : c.choices) choices.back().push_back(number.emplace(choice, number.size()).first->second);
  }
  const std::size_t n = number.size();
  std::vector<char> open(n * n, 0);
  std::size_t left = 0;
  const auto for_pairs = [&](const std::vector<std::size_t>& c, const auto& body) {
    for (std::size_t a = 0; a < c.size(); ++a)
      for (std::size_t b = a + 1; b < c.size(); ++b) body(open[c[a] * n + c[b]]);
  };
  for (const auto& c : choices) for_pairs(c, [&](char& pair) { left += !std::exchange(pair, 1); });
  std::vector<ParityCase> cover;
  while (left > 0) {
    std::size_t best = 0, most = 0;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      std::size_t fresh = 0;
      for_pairs(choices[i], [&](char& pair) { fresh += pair != 0; });
      if (fresh > most) most = fresh, best = i;
    }
    cover.push_back(all[best]);
    for_pairs(choices[best], [&](char& pair) { left -= std::exchange(pair, 0); });
  }
  return cover;
}

}  // namespace thinwire::testing
