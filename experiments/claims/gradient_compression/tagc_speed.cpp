// gradient_compression.C6 and C8: what TAGC saves of the synchronisation of gradients, and on which links a step gains, in a miniature of the authors' set-up (cells/tagc.h).
#include <cstdio>

#include "experiments/claims/gradient_compression/cells/tagc.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

std::string text(double x) {
  char number[24];
  std::snprintf(number, sizeof number, "%g", x);
  return number;
}

bool judged(const char* id, const char* statement, const char* provenance, const Rule& rule, Finding (*finding)(const TagcSteps&, const Rule&)) {
  return register_claim({.id = id, .statement = statement, .provenance = provenance, .basis = Basis::emulated_link, .from = Profile::standard, .rule = rule, .seeds = {3, 5},
                         .measure = [rule, finding](JudgeContext& context) {
                           const TagcSteps s = tagc_steps(context);
                           Finding f = finding(s, rule);
                           f.tables = tables_of(s);
                           if (!s.untrusted.empty()) f.note += (f.note.empty() ? "" : "; ") + std::string("not all links were measured well: ") + s.untrusted;
                           return f;
                         },
                         .figure = "tagc_links"});
}

bool synchronisation() {
  Rule rule = tagc_steps_rule();
  rule.quantities = {{"saved", "of what the synchronisation of gradients adds to a step of FSDP (step less that with gradients omitted, typical steps), the part that the release setting (MLP, c = 2, 1 bit) does not add, at 10 Gbit/s; one value per repetition, 95 % interval of their mean"}};
  rule.constants = {{"stated", 0.3, "of FSDP's"}, {"none", 0, "nothing saved"}, {"smallest", 0.02, "of FSDP's: the smallest saving worth naming"}};
  rule.clauses = {{Verdict::confirmed, "saved.low >= stated"}, {Verdict::direction_only, "saved.high < stated && saved.low >= none + smallest"}, {Verdict::not_reproduced, "saved.high < none + smallest"}};
  rule.smallest_effect = "smallest";
  return judged("gradient_compression.C6", "Synchronisation time falls by more than 30 %.", "read: abstract page (its machine-written part)", rule, [](const TagcSteps& s, const Rule& r) {
    const std::vector<TimedArm>& here = s.at(10);
    Finding f;
    const std::size_t release = s.arm(tagc_release);
    f.measures = {measure_of("saved of the exposed synchronisation, release setting, 10 Gbit/s", saved_of(here, release), r.constant("stated"), "of FSDP's", "saved")};
    for (std::size_t a = release + 1; a + 1 < here.size(); ++a) f.measures.push_back(measure_of("the same, " + s.arms[a].name, saved_of(here, a), no_number, "of FSDP's", ""));
    return f;
  });
}

bool bandwidth() {
  Rule rule = tagc_steps_rule();
  for (const double gbps : {1.0, 10.0, 25.0, 100.0})
    rule.quantities.push_back({"gain_" + text(gbps), "T(FSDP) / T(release setting) - 1 at " + text(gbps) + " Gbit/s, 95 % interval by Mann and Whitney's ranks"});
  rule.constants = {{"none", 0, "no gain"}, {"smallest", 0.01, "of the step: the smallest difference worth naming"}};
  rule.clauses = {{Verdict::confirmed, "gain_10 >= gain_25 + smallest && gain_25 >= gain_100 && gain_1.low > none && gain_100.high < none"}, {Verdict::direction_only, "gain_10 > gain_25 && gain_25 >= gain_100"}, {Verdict::not_reproduced, "gain_10.high < gain_25.low || gain_25.high < gain_100.low"}};
  rule.smallest_effect = "smallest";
  return judged("gradient_compression.C8", "TAGC's gain shrinks with bandwidth.", "derived", rule, [](const TagcSteps& s, const Rule&) {
    Finding f;
    for (std::size_t l = 0; l < s.gbps.size(); ++l) {
      const bool asked = s.gbps[l] == 1 || s.gbps[l] >= 10;
      f.measures.push_back(measure_of("T(FSDP) / T - 1, release setting, " + text(s.gbps[l]) + " Gbit/s", gain_of(s.of[l][0], s.of[l][s.arm(tagc_release)]), 0, "", asked ? "gain_" + text(s.gbps[l]) : ""));
    }
    return f;
  });
}

const bool registered = synchronisation() & bandwidth();

}  // namespace
}  // namespace thinwire::claims
