// optimus_cc.C5 on an emulated link and between namespaces: what compressing the epilogue's, or all, backward messages saves in a timed step.
#include <cstdio>

#include "experiments/claims/optimus_cc/cells/rule_arms.h"
#include "experiments/claims/optimus_cc/cells/timed_arms.h"

namespace thinwire::claims {
namespace {

using namespace optimus_cc;

constexpr int stages = 4;

/// One setting: a ratio of message to forward pass, and how a stage sends.
struct Setting {
  double share;
  bool blocking;
  TimedStep none, epilogue, all;
  double expected_ms = no_number;  ///< (P-1)(c-c'), with c' = bytes over the rate plus the codec's work
  /// "saving_01": of a quantity at this setting.
  std::string symbol(const char* quantity) const {
    std::string text = std::string(quantity) + (blocking ? "_blocking_" : "_") + digits(share);
    std::erase(text, '.');
    return text;
  }
  std::string name() const {
    char text[64];
    std::snprintf(text, sizeof text, "c/tf = %g%s", share, blocking ? ", blocking sends" : "");
    return text;
  }
  Interval saving() const { return shift_of(none.step_ms, epilogue.step_ms); }
  Interval saving_of_all() const { return shift_of(none.step_ms, all.step_ms); }
};

/// Which of them a claim asks about.
struct Asked {
  std::string kind;                ///< of the link
  std::vector<bool> blocking;
};

std::vector<Setting> all_settings(const Asked& asked) {
  std::vector<Setting> all;
  for (const bool blocking : asked.blocking)
    for (const double share : message_shares) all.push_back({share, blocking, {}, {}, {}});
  return all;
}

/// Three for each setting.
std::vector<TimedArm> all_arms(const Asked& asked) {
  std::vector<TimedArm> arms;
  for (const Setting& s : all_settings(asked))
    for (const Backward what : {Backward::none, Backward::epilogue, Backward::all}) arms.push_back(exposure_arm(s.share, what, s.blocking, asked.kind));
  return arms;
}

std::vector<Setting> settings(JudgeContext& context, const Asked& asked) {
  std::vector<Setting> all = all_settings(asked);
  const std::vector<TimedStep> steps = timed_steps(context, all_arms(asked), context.seeds());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].none = steps[3 * i];
    all[i].epilogue = steps[3 * i + 1];
    all[i].all = steps[3 * i + 2];
    const double raw_us = all[i].share * exposure_forward_us;
    const double sent_us = raw_us * 2 * (512 + 128) / (512.0 * 128);
    all[i].expected_ms = (stages - 1) * (raw_us - sent_us - all[i].epilogue.codec_us) * 1e-3;
  }
  return all;
}

Table table_of(const std::vector<Setting>& all) {
  Table t{"savings of backward compression", {"c/tf", "blocking", "step (ms)", "epilogue saves (ms)", "epilogue low", "epilogue high", "(P-1)(c-c') (ms)",
                                              "model, epilogue (ms)", "all saves (ms)", "all low", "all high", "model, all (ms)"}, {}};
  for (const Setting& s : all) {
    const Interval e = s.saving(), a = s.saving_of_all();
    t.rows.push_back({s.name(), {s.share, s.blocking ? 1.0 : 0.0, location_of(s.none.step_ms).mean, e.mean, e.low, e.high, s.expected_ms,
                                 s.none.predicted_ms - s.epilogue.predicted_ms, a.mean, a.low, a.high, s.none.predicted_ms - s.all.predicted_ms}});
  }
  return t;
}

Finding measure_saving(JudgeContext& context, const Rule& rule, const Asked& asked) {
  Finding f;
  const std::vector<Setting> all = settings(context, asked);
  for (const Setting& s : all) {
    Interval i = s.saving();
    for (double* v : {&i.mean, &i.low, &i.high}) *v /= s.expected_ms;
    f.measures.push_back(measure_of("saving over (P-1)(c-c') at " + s.name(), i, rule.constant("needed"), "ratio", s.symbol("saving")));
  }
  f.tables.push_back(table_of(all));
  return f;
}

Finding measure_share(JudgeContext& context, const Rule& rule, const Asked& asked) {
  Finding f;
  const std::vector<Setting> all = settings(context, asked);
  for (const Setting& s : all) {
    const Interval x = quotient_of(s.saving(), s.saving_of_all());
    f.measures.push_back(measure_of("share at " + s.name(), x, rule.constant("most"), "", s.symbol("share")));
  }
  f.tables.push_back(table_of(all));
  f.note = "0.214 is expected";
  return f;
}

constexpr const char* how = "steps of all repetitions, Hodges-Lehmann shift with the 95 % interval of Mann and Whitney's ranks";

Rule saving_rule(const Asked& asked) {
  Rule rule;
  add_timed_arms(rule, all_arms(asked));
  std::vector<std::string> symbols;
  for (const Setting& s : all_settings(asked)) {
    symbols.push_back(s.symbol("saving"));
    rule.quantities.push_back({symbols.back(), "what the arm epilogue saves against none over (P-1)(c-c') at " + s.name() + ", c' with the codec's work; " + how});
    rule.scatter.push_back({symbols.back(), "needed", "resolution"});
  }
  rule.constants = {{"needed", 0.8, "of (P-1)(c-c'): the smallest saving that is called it"}, {"resolution", 0.2, "of (P-1)(c-c'): as far as M1 lets the model be off a saving"}};
  rule.clauses = {{Verdict::confirmed, of_each("min", symbols) + " >= needed"}, {Verdict::not_reproduced, of_each("min", symbols, ".high") + " < needed"}};
  rule.smallest_effect = "needed";
  return rule;
}

Rule share_rule(const Asked& asked) {
  Rule rule;
  add_timed_arms(rule, all_arms(asked));
  std::vector<std::string> symbols;
  for (const Setting& s : all_settings(asked)) {
    symbols.push_back(s.symbol("share"));
    rule.quantities.push_back({symbols.back(), "what the arm epilogue saves over what the arm all saves at " + s.name() + "; " + how + ", both at their unfavourable ends"});
    rule.scatter.push_back({symbols.back(), "most", "resolution"});
  }
  rule.constants = {{"most", 0.8, "the smallest share that is called all of it"}, {"half", 0.5, "of what the arm all saves"}, {"resolution", 0.15, "half of what lies between most and half"}};
  rule.clauses = {{Verdict::confirmed, of_each("min", symbols, ".low") + " >= most"}, {Verdict::not_reproduced, of_each("max", symbols, ".high") + " <= half"}};
  rule.smallest_effect = "most";
  return rule;
}

using Measure = Finding (*)(JudgeContext&, const Rule&, const Asked&);

bool judged(const char* id, const char* statement, const char* provenance, const Asked& asked, Rule (*make_rule)(const Asked&), Measure measure, std::vector<PastChange> past = {}) {
  const Rule rule = make_rule(asked);
  past.insert(past.begin(), one_control());
  return register_claim({.id = id,
                         .statement = statement,
                         .provenance = provenance,
                         .basis = asked.kind == "netns" ? Basis::namespaces : Basis::emulated_link,
                         .from = Profile::standard,
                         .rule = rule,
                         .seeds = {2, 4},
                         .measure = [rule, measure, asked](JudgeContext& context) { return measure(context, rule, asked); },
                         .past = past,
                         .figure = "optimus_cc_exposure"});
}

const bool saving = judged("optimus_cc.C5c", "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c'), measured.", "derived", {"emulated", {false}}, saving_rule, measure_saving,
                           {{"2026-11-23", "blocking sends are a claim of their own (C5e); they stood beside this one without a verdict", "the closed form is that of sends that leave while the stage computes on"}});
const bool share = judged("optimus_cc.C5d", "Only the epilogue's backward traffic is exposed, measured.", "recollected", {"emulated", {false, true}}, share_rule, measure_share);
const bool blocking = judged("optimus_cc.C5e", "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c') where a stage waits for its sends, measured.", "derived", {"emulated", {true}},
                             saving_rule, measure_saving);
const bool physical_saving = judged("optimus_cc.C5f", "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c'), measured between namespaces.", "derived", {"netns", {false}}, saving_rule,
                                    measure_saving);
const bool physical_share = judged("optimus_cc.C5g", "Only the epilogue's backward traffic is exposed, measured between namespaces.", "recollected", {"netns", {false}}, share_rule, measure_share);

}  // namespace
}  // namespace thinwire::claims
