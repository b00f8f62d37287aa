// optimus_cc.C5 on an emulated link: what compressing the epilogue's, or all, backward messages saves in a timed step.
#include <algorithm>
#include <cstdio>

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
  std::string name() const {
    char text[64];
    std::snprintf(text, sizeof text, "c/tf = %g%s", share, blocking ? ", blocking sends" : "");
    return text;
  }
  Interval saving() const { return shift_of(none.step_ms, epilogue.step_ms); }
  Interval saving_of_all() const { return shift_of(none.step_ms, all.step_ms); }
};

std::vector<Setting> settings(JudgeContext& context) {
  std::vector<Setting> all;
  std::vector<TimedArm> arms;
  for (const bool blocking : {false, true})
    for (const double share : message_shares) {
      all.push_back({share, blocking, {}, {}, {}});
      for (const Backward what : {Backward::none, Backward::epilogue, Backward::all}) arms.push_back(exposure_arm(share, what, blocking));
    }
  const std::vector<TimedStep> steps = timed_steps(context, arms, repetitions_of(context));
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
  Table t{"savings of backward compression", {"c/tf", "blocking", "step (ms)", "epilogue saves (ms)", "low", "high", "(P-1)(c-c') (ms)", "model, epilogue (ms)",
                                              "all saves (ms)", "low", "high", "model, all (ms)"}, {}};
  for (const Setting& s : all) {
    const Interval e = s.saving(), a = s.saving_of_all();
    t.rows.push_back({s.name(), {s.share, s.blocking ? 1.0 : 0.0, location_of(s.none.step_ms).mean, e.mean, e.low, e.high, s.expected_ms,
                                 s.none.predicted_ms - s.epilogue.predicted_ms, a.mean, a.low, a.high, s.none.predicted_ms - s.all.predicted_ms}});
  }
  return t;
}

Outcome judge_saving(JudgeContext& context) {
  Outcome o;
  const std::vector<Setting> all = settings(context);
  double least = 1e9, least_high = 1e9;
  for (const Setting& s : all) {
    Interval i = s.saving();
    for (double* v : {&i.mean, &i.low, &i.high}) *v /= s.expected_ms;
    o.measures.push_back(measure_of("saving over (P-1)(c-c') at " + s.name(), i, 0.8, "ratio"));
    if (s.blocking) continue;  // the closed form is that of sends that leave while the stage computes on
    least = std::min(least, i.mean);
    least_high = std::min(least_high, std::isnan(i.high) ? i.mean : i.high);
  }
  o.tables.push_back(table_of(all));
  o.verdict = least >= 0.8 ? Verdict::pass : least_high < 0.8 ? Verdict::fail : Verdict::inconclusive;
  char text[200];
  std::snprintf(text, sizeof text, "with overlapped sends the least saving is %.2f of (P-1)(c-c') (0.8 needed); with blocking sends, reported only, the step is another", least);
  o.because = text;
  return o;
}

Outcome judge_share(JudgeContext& context) {
  Outcome o;
  double least_low = 1e9, most_high = -1e9;
  const std::vector<Setting> all = settings(context);
  for (const Setting& s : all) {
    const Interval e = s.saving(), a = s.saving_of_all();
    // Both intervals at their unfavourable ends: wider than 95 %.
    Interval x;
    x.mean = e.mean / a.mean;
    x.low = e.low / (e.low > 0 ? a.high : a.low);
    x.high = e.high / a.low;
    o.measures.push_back(measure_of("share at " + s.name(), x, 0.8, ""));
    least_low = std::min(least_low, x.low);
    most_high = std::max(most_high, x.high);
  }
  o.tables.push_back(table_of(all));
  o.verdict = least_low >= 0.8 ? Verdict::confirmed : most_high <= 0.5 ? Verdict::refuted : Verdict::inconclusive;
  char text[200];
  std::snprintf(text, sizeof text, "the epilogue's share of what compressing all backward messages saves lies between %.2f and %.2f (expected 0.214): %s", least_low, most_high,
                o.verdict == Verdict::refuted ? "most of the exposed traffic lies in the steady state" : "see the rule");
  o.because = text;
  return o;
}

const bool saving = register_claim(
    {.id = "optimus_cc.C5c",
     .statement = "Epilogue-only compression shortens a strict 1F1B step by (P-1)(c-c'), measured.",
     .provenance = "derived",
     .rule = "PASS if it saves at least 0.8 of that at c/tf in {0.1, 0.3, 1} with overlapped sends, P = 4, M = 16, c' with the codec's work; FAIL if an interval lies below "
             "0.8. Blocking sends (a stage computes on when what it sent has left) are reported",
     .basis = Basis::emulated_link,
     .from = Profile::standard,
     .judge = judge_saving});
const bool share = register_claim({.id = "optimus_cc.C5d",
                                   .statement = "Only the epilogue's backward traffic is exposed, measured.",
                                   .provenance = "recollected",
                                   .rule = "share x = (T_none - T_epilogue)/(T_none - T_all), overlapped and blocking sends, c/tf in {0.1, 0.3, 1}: CONFIRMED if every "
                                           "lower bound is 0.8 or more, REFUTED if every upper bound is 0.5 or less",
                                   .basis = Basis::emulated_link,
                                   .from = Profile::standard,
                                   .judge = judge_share});

}  // namespace
}  // namespace thinwire::claims
