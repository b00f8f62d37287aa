// sharded_compression.C19: a reduce-scatter in bf16. A ring rounds a partial sum at every rank; pieces that are sent to their owner, summed there in f32 and rounded once
// are rounded twice each, whatever the number of ranks. Both send W - 1 blocks of every W.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "experiments/claims/context.h"
#include "experiments/claims/sharded_compression/cells/messages.h"
#include "kernels/convert.h"

namespace thinwire::claims {
namespace {

using namespace sharded_compression;

constexpr const char* codec = "cast:to=bf16";
constexpr std::size_t block = 4096;

struct Form {
  double error = 0;
  std::size_t bytes = 0;  ///< sent by all ranks
};

/// As sent: the codec's payload is an array of its type.
std::vector<BFloat16> sent(Wire& wire, std::span<const float> x, std::size_t& bytes) {
  (void)wire.arrives(x, {});
  std::vector<BFloat16> values(x.size());
  TW_ASSERT(wire.payload().size() == values.size() * sizeof(BFloat16));
  std::memcpy(values.data(), wire.payload().data(), wire.payload().size());
  bytes += wire.payload().size();
  return values;
}

std::span<const float> piece(const Values& x, std::size_t owner) { return std::span<const float>(x).subspan(owner * block, block); }

/// The block of rank o begins at rank o + 1 and goes round, each rank adding its own.
Form ring(const std::vector<Values>& gradients, const std::vector<double>& exact) {
  Wire wire(codec);
  Form form;
  Values result(exact.size());
  const std::size_t ranks = gradients.size();
  std::size_t own = 0;  // what a rank adds itself does not travel
  for (std::size_t o = 0; o < ranks; ++o) {
    std::vector<BFloat16> sum = sent(wire, piece(gradients[(o + 1) % ranks], o), form.bytes);
    for (std::size_t hop = 2; hop <= ranks; ++hop) {
      accumulate(std::span<BFloat16>(sum), std::span<const BFloat16>(sent(wire, piece(gradients[(o + hop) % ranks], o), own)));
      if (hop < ranks) form.bytes += sum.size() * sizeof(BFloat16);
    }
    convert(std::span<const BFloat16>(sum), std::span<float>(result).subspan(o * block, block));
  }
  form.error = relative_error(result, exact);
  return form;
}

Form all_to_all(const std::vector<Values>& gradients, const std::vector<double>& exact) {
  Wire wire(codec);
  Form form;
  Values result(exact.size());
  const std::size_t ranks = gradients.size();
  for (std::size_t o = 0; o < ranks; ++o) {
    Values sum(block, 0);
    for (std::size_t r = 0; r < ranks; ++r) {
      const Values arrived = wire.arrives(piece(gradients[r], o), {});
      if (r != o) form.bytes += wire.payload().size();
      for (std::size_t i = 0; i < block; ++i) sum[i] += arrived[i];
    }
    std::ranges::copy(wire.arrives(sum, {}), result.begin() + static_cast<std::ptrdiff_t>(o * block));
  }
  form.error = relative_error(result, exact);
  return form;
}

Finding measure(JudgeContext&) {
  Finding found;
  Table table{"relative error (1e-3)", {"ranks", "ring", "all-to-all, f32 sum"}, {}};
  double at_four = 0, spread = 0, last = 0, apart = 0;
  for (const int ranks : {2, 4, 8, 16}) {
    std::vector<Values> gradients;
    for (int r = 0; r < ranks; ++r) gradients.push_back(normal_values(static_cast<std::size_t>(ranks) * block, "rank " + std::to_string(r)));
    const std::vector<double> exact = exact_sum(gradients);
    const Form around = ring(gradients, exact), direct = all_to_all(gradients, exact);
    table.rows.push_back({std::to_string(ranks) + " ranks", {static_cast<double>(ranks), 1e3 * around.error, 1e3 * direct.error}});
    if (ranks == 4) at_four = direct.error;
    if (ranks >= 4) spread = std::max(spread, std::abs(direct.error / at_four - 1));
    last = around.error / direct.error;
    apart = std::max(apart, std::abs(static_cast<double>(around.bytes) - static_cast<double>(direct.bytes)));
  }
  found.measures = {{"error of the ring over that of all-to-all on 16 ranks", last, no_number, no_number, 2, "ratio", "last"},
                    {"|error of all-to-all over that on 4 ranks - 1|, from 4 ranks on, most", spread, no_number, no_number, 0.03, "", "spread"},
                    {"bytes of the ring less those of all-to-all", apart, no_number, no_number, 0, "bytes", "apart"}};
  found.tables = {std::move(table)};
  return found;
}

const bool registered = register_claim(
    {.id = "sharded_compression.C19",
     .statement = "Rounding inside a ring grows with the ranks.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule = {.settings = {{"ranks", "2, 4, 8, 16"}, {"numbers", "normal, independent on every rank, " + std::to_string(block) + " to an owner"}, {"wire", codec}},
              .quantities = {{"last", "relative L2 error of the sum over ranks, ring over all-to-all with f32 sums rounded once, on 16 ranks"},
                             {"spread", "|error of all-to-all over that on 4 ranks - 1|, from 4 ranks on, the most"},
                             {"apart", "bytes that all ranks send, ring less all-to-all, the most"}},
              .constants = {{"twice", 2, "ratio"}, {"flat", 0.03, "of the error on 4 ranks"}},
              .clauses = {{Verdict::pass, "last >= twice && spread <= flat && apart == 0"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
