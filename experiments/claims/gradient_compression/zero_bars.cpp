// gradient_compression.C18: ZeRO++'s published throughputs against what its traffic alone predicts. A step of a token's work takes
//   1 / T = c + v / b,     c: everything that does not cross nodes,  v: what crosses them (3 M in ZeRO, docs/papers/gradient_compression.md, "Claims"),  b: Gbit/s of a node
// Two baseline bars (b = 100 and 400) give c and v of each model and length; ZeRO++ sends v / 4. Nothing else is fitted.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "experiments/claims/published.h"

namespace thinwire::claims {
namespace {

constexpr const char *paper = "ZeRO++", *slow_figure = "blog Fig. 7", *fast_figure = "blog Fig. 6", *pairs_figure = "blog Fig. 8";
constexpr double slow_gbps = 100, fast_gbps = 400, shrunk = 4;

/// "18B, 1 x 100 Gbit/s, 1k tokens, 384 V100" of "18B" and "1k".
std::string row_of(const std::string& model, const std::string& tokens, const char* cards) { return model + ", " + cards + " x 100 Gbit/s, " + tokens + " tokens, 384 V100"; }

Finding measure(JudgeContext& context) {
  const Published published = Published::open(context, "gradient_compression.csv");
  Finding found;
  Table table{"ZeRO++'s bars", {"baseline (TFLOP/s)", "published (TFLOP/s)", "predicted (TFLOP/s)", "predicted over published"}, {}};
  double worst = 0;
  std::string texts;
  for (const char* tokens : {"1k", "2k"}) {
    double least = no_number, most = no_number;  // gains of the bars at 400 Gbit/s
    for (const char* model : {"18B", "49B", "91B", "138B"}) {
      const auto bar = [&](bool slow, const char* column) { return published.read(paper, slow ? slow_figure : fast_figure, row_of(model, tokens, slow ? "1" : "4"), column); };
      const double at_slow = bar(true, "baseline"), at_fast = bar(false, "baseline");
      const double v = (1 / at_slow - 1 / at_fast) / (1 / slow_gbps - 1 / fast_gbps), c = 1 / at_fast - v / fast_gbps;
      for (const bool slow : {true, false}) {
        const double predicted = 1 / (c + v / shrunk / (slow ? slow_gbps : fast_gbps)), measured = bar(slow, "ZeRO++");
        const std::string name = std::string(model) + ", " + tokens + " tokens, " + (slow ? "100" : "400") + " Gbit/s";
        table.rows.push_back({name, {slow ? at_slow : at_fast, measured, predicted, predicted / measured}});
        worst = std::max(worst, std::abs(predicted / measured - 1));
        if (slow) continue;
        least = std::fmin(least, measured / at_fast - 1), most = std::fmax(most, measured / at_fast - 1);
      }
    }
    const auto said = [&](const char* end) { return published.read(paper, "blog text", std::string("400 Gbit/s, ") + tokens + " tokens", end); };
    char text[160];
    std::snprintf(text, sizeof text, "at 400 Gbit/s and %s tokens the blog's text says %.0f to %.0f %%, its bars %.0f to %.0f %%; ", tokens, said("gain, low"), said("gain, high"), 100 * least, 100 * most);
    texts += text;
  }
  double farthest = 0;
  for (const char* model : {"18B", "138B"}) {
    const double with = published.read(paper, pairs_figure, std::string(model) + ", 200 Gbit/s, 2k tokens", "ZeRO++");
    const double without = published.read(paper, pairs_figure, std::string(model) + ", 800 Gbit/s, 2k tokens", "baseline");
    farthest = std::max(farthest, std::abs(without / with - 1));
    found.measures.push_back({std::string("ZeRO at 800 over ZeRO++ at 200 Gbit/s, ") + model, without / with, no_number, no_number, no_number, "ratio"});
  }
  found.measures.push_back({"prediction farthest from its bar", worst, no_number, no_number, no_number, "of the bar", "bars"});
  found.measures.push_back({"pair farthest from equal", farthest, no_number, no_number, no_number, "of ZeRO++ at 200", "pairs"});
  found.note = texts.substr(0, texts.size() - 2);
  found.tables.push_back(std::move(table));
  return found;
}

const bool registered = register_claim({.id = "gradient_compression.C18",
                                        .statement = "ZeRO++ gains most at low bandwidth, and at 200 Gbit/s equals ZeRO at 800.",
                                        .provenance = "read: DeepSpeed's blog, bar labels",
                                        .basis = Basis::published,
                                        .rule = {.settings = {{"model", "1/T = c + v/b; c and v of each model and length from the baseline's bars at 100 and 400 Gbit/s; ZeRO++ sends v/4"}},
                                                 .quantities = {{"bars", "distance of a predicted bar of ZeRO++ from the published one, of the published one, the largest of 16"},
                                                                {"pairs", "distance of ZeRO at 800 Gbit/s from ZeRO++ at 200, of the latter, the larger of two published pairs"}},
                                                 .constants = {{"near", 0.2, "of the bar"}, {"equal", 0.1, "of ZeRO++'s"}},
                                                 .clauses = {{Verdict::confirmed, "bars <= near && pairs <= equal"}, {Verdict::direction_only, "pairs <= equal"}},
                                                 .otherwise = Verdict::refuted},
                                        .measure = measure});

}  // namespace
}  // namespace thinwire::claims
