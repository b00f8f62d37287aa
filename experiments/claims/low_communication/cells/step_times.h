// Steps of methods that hardly communicate, and of dense ones, on emulated links: timed cells of four replicas
// of the page's large model (4 layers, hidden 512), and the page's time model of them (docs/papers/low_communication.md, "Cost"). Passes of a step are stated.
#pragma once

#include <string>
#include <vector>

#include "experiments/claims/cells.h"

namespace thinwire::claims::low_communication {

inline constexpr int timed_replicas = 4;
inline constexpr double passes_s = 0.2;        ///< forward and backward of a step, stated
inline constexpr double link_latency_s = 50e-6;

struct TimedMethod {
  enum class Kind { dense, low_rank, whole, fragments, sparse } kind;
  std::string name;
  int overlap = 0;  ///< of fragments: inner steps beside which one travels
};
const TimedMethod& dense_steps();
/// Dense, PowerSGD, DiLoCo, Streaming DiLoCo with an overlap of 0, 1 and 2 steps, SparseLoCo.
const std::vector<TimedMethod>& timed_methods();
/// UsageError for a name that is none of theirs.
const TimedMethod& timed_method(const std::string& name);

/// A round of steps, or five of a method without rounds. `gbps` 0: the exchange is left out, on shared memory. `overlapped`: gradients travel beside the backward pass.
CellRequest timed_cell(const TimedMethod& method, double gbps, bool overlapped = false, int repetition = 0);

/// Seconds of a step, the mean over its cell's, and of them in codecs.
struct StepTime {
  double seconds = no_number, codecs = 0;
};
StepTime step_time(const results::CellRecord& record);

/// Mean seconds of a step that its messages take and nothing hides:
///   AR(S) = 2 (R - 1) (S / (R W) + L),   AG(s) = (R - 1) (s / W + L)     per message
///   dense AR(4 N); low rank AR of both factors; whole AR(4 N) / H; fragments (1 / H) sum of max(0, AR(4 N_p)
///   - overlap x inner); sparse AG(payload) / H
/// A message is a matrix where a codec takes it; dense, all of a round's weights are one, or all of a
/// fragment's. `inner`: seconds of an inner step.
double modelled_exchange(const TimedMethod& method, double gbps, double inner);
/// RuntimeFailure unless the model has the sizes of what the cells train. (They are written down, since rules are made before anything else is.)
void require_model_of_cells();
/// Gbit/s at which the model says that fragments which travel beside `overlap` steps lengthen a step by `part` of `inner`.
double rate_for(const TimedMethod& fragments, double part, double inner);

}  // namespace thinwire::claims::low_communication
