// Timed steps of a GPT on emulated links, without codecs and with: what claims about the gain of coded activations compare. Compute and codecs take what they take on this machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/claims/activation_compression/cells/pipelines.h"
#include "experiments/claims/interval.h"

namespace thinwire::claims::activation_compression {

/// "0.1", "2400".
std::string to_words(double x);

struct Point {
  std::string name;
  int ranks;
  double gbps;
  Settings settings;  ///< of both arms
};

/// Two arms at some points.
struct Timing {
  Settings shared, coded;
  std::vector<Point> points;

  CellRequest request(const Point& point, bool with_codec, int repetition) const;
};

/// Milliseconds of typical steps, by point and repetition, and how many times as fast the coded ones are.
struct Gains {
  std::vector<std::vector<double>> dense, coded, by_point;
  Table table{"speed-up by coded activations", {"ranks", "link (Gbit/s)", "dense (ms)", "coded (ms)", "speed-up", "low", "high"}, {}};
  std::string untrusted;
  Interval at(std::size_t point) const { return interval_of(by_point[point]); }
};

Gains gains(JudgeContext& context, const Timing& timing);

/// A claim on them, of the profile standard: 3, then 6 repetitions. `own` has the rule's quantities, constants, scatter, clauses and otherwise; its smallest effect is named "smallest". `finding`
/// fills in measures, and tables besides that of the gains.
bool register_timing(const std::string& id, const std::string& statement, const std::string& provenance, const Timing& timing, Rule own, const std::function<void(const Gains&, Finding&)>& finding,
                     Basis basis = Basis::emulated_link, const std::string& not_validated = "", std::source_location where = std::source_location::current());

inline const Constant smallest_gain{"smallest", 0.01, "the smallest speed-up worth naming is 1.01"};
inline const Settings timed_step = {{"compute", "timed"}, {"serial-steps", "2"}, {"steps", "8"}, {"layers", "4"}, {"heads", "4"}, {"overlap", "false"}, {"comm-dtype", "f16"}};
/// The paper's: sums of tensor-parallel ranks in the last half of the layers, codes of 5 % of the width.
inline const Settings encoder_of_late_layers = {{"compress.tp_forward", "autoencoder:fraction=0.05,init=xavier"}, {"compress.tp_forward.layers", "2-3"}};

}  // namespace thinwire::claims::activation_compression
