// gradient_compression.C20b and C20c: whether the blog's speed-ups of 1-bit Adam go together. A run whose compressed part is g times as fast after a warm-up w is
// 1/(w + (1 - w)/g) times as fast.
#include <algorithm>
#include <cmath>

#include "experiments/claims/published.h"

namespace thinwire::claims {
namespace {

constexpr double near = 0.05;

double end_to_end(double warm_up, double stage) { return 1 / (warm_up + (1 - warm_up) / stage); }

struct Pair {
  std::string stage, whole;  ///< rows of the compressed stage's and of the end-to-end speed-up
  double warm_up;
};
const Pair bert{"BERT-Large, 40 Gbit/s Ethernet", "BERT-Large pre-training", 0.15}, squad{"SQuAD, 40 Gbit/s Ethernet", "SQuAD", 0.25};
/// The blog's other sentence gives SQuAD's number to BERT-Large on InfiniBand.
const Pair infiniband{"BERT-Large, InfiniBand QDR", "SQuAD", 0.15};

Finding compare(const JudgeContext& context, const std::vector<Pair>& pairs) {
  const Published published = Published::open(context, "gradient_compression.csv");
  const std::string paper = "1-bit Adam";
  Finding f;
  Table table{"end-to-end speed-up", {"warm-up", "compressed stage (x)", "1/(w + (1 - w)/g) (x)", "published (x)"}, {}};
  double off = 0;
  for (const Pair& p : pairs) {
    const double stage = published.read(paper, "blog", p.stage, "compressed-stage speed-up"), said = published.read(paper, "blog", p.whole, "end-to-end speed-up"), follows = end_to_end(p.warm_up, stage);
    off = std::max(off, std::abs(follows / said - 1));
    table.rows.push_back({p.stage, {p.warm_up, stage, follows, said}});
    f.measures.push_back({"end to end from the stage's speed-up, " + p.stage, follows, no_number, no_number, said, "x"});
  }
  f.measures.push_back({"distance from the published speed-up, the largest", off, no_number, no_number, near, "of it", "off"});
  f.tables = {std::move(table)};
  return f;
}

Claim claim(const std::string& id, const std::string& statement, const std::string& settings, std::vector<Pair> pairs) {
  return {.id = id,
          .statement = statement,
          .provenance = "read: DeepSpeed's blog; derived (formula)",
          .basis = Basis::published,
          .rule = {.settings = {{"pairs", settings}},
                   .quantities = {{"off", "1/(w + (1 - w)/g) over the published end-to-end speed-up, distance from 1, the largest of the pairs"}},
                   .constants = {{"near", near, "of the published number"}},
                   .clauses = {{Verdict::confirmed, "off <= near"}},
                   .otherwise = Verdict::refuted},
          .measure = [pairs = std::move(pairs)](JudgeContext& context) { return compare(context, pairs); }};
}

const bool ethernet = register_claim(claim("gradient_compression.C20b", "1-bit Adam's end-to-end speed-ups of 3.5x and 2.7x follow from those of its compressed stage, 6.6x and 6.2x.",
                                           "BERT-Large on Ethernet: w = 0.15; SQuAD on Ethernet: w = 0.25", {bert, squad}));
const bool other_sentence = register_claim(claim("gradient_compression.C20c", "1-bit Adam's end-to-end speed-up of 2.7x follows from a compressed stage that is 2x as fast (BERT-Large on InfiniBand).", "BERT-Large on InfiniBand: w = 0.15", {infiniband}));

}  // namespace
}  // namespace thinwire::claims
