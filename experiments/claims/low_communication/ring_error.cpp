// low_communication.C9: an all-reduce in 8 bits whose ring codes partial sums again at every rank
// (INTELLECT-1's), against two shots, which code twice whatever the number of ranks; and the bias of a ring
// that truncates (PCCL's minimum-maximum code). Normal numbers, in one process.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::size_t elements = 1 << 18;
constexpr const char* codec_text = "codebook:bins=256,centre=zero";
const std::vector<int> rank_counts = {2, 4, 8, 16};

/// What a message of these numbers decodes to.
using Coder = std::function<Floats(const Floats&)>;

Coder code_book() {
  auto stack = std::make_shared<CodecStack>(make_codec(codec_text));
  return [stack](const Floats& x) {
    return send(*stack->codec, x, Shape{static_cast<std::int64_t>(x.size())}).decoded;
  };
}

/// As released: codes are cut off, not rounded, and the maximum begins at the smallest positive number.
Floats truncated(const Floats& x) {
  const float low = *std::ranges::min_element(x),
              high = std::max(*std::ranges::max_element(x), std::numeric_limits<float>::min());
  Floats decoded;
  for (const float v : x)
    decoded.push_back(low + std::trunc((v - low) / (high - low) * 255) / 255 * (high - low));
  return decoded;
}

Floats piece(const Floats& x, std::size_t chunk, std::size_t chunks) {
  const std::size_t n = x.size() / chunks;
  return {x.begin() + static_cast<std::ptrdiff_t>(chunk * n),
          x.begin() + static_cast<std::ptrdiff_t>((chunk + 1) * n)};
}
void add(Floats& to, const Floats& x) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += x[i];
}

/// 2 R chunks; each goes from rank to rank as a coded partial sum, and its owner codes the whole sum for all.
Floats ring(const std::vector<Floats>& inputs, const Coder& coded) {
  const std::size_t ranks = inputs.size(), chunks = 2 * ranks;
  Floats result;
  for (std::size_t c = 0; c < chunks; ++c) {
    Floats sum = piece(inputs[c % ranks], c, chunks);
    for (std::size_t hop = 1; hop < ranks; ++hop) {
      sum = coded(sum);
      add(sum, piece(inputs[(c + hop) % ranks], c, chunks));
    }
    const Floats arrived = coded(sum);
    result.insert(result.end(), arrived.begin(), arrived.end());
  }
  return result;
}

/// Each rank's pieces go to their owners, who code the sum.
Floats two_shot(const std::vector<Floats>& inputs, const Coder& coded) {
  const std::size_t ranks = inputs.size();
  Floats result;
  for (std::size_t c = 0; c < ranks; ++c) {
    Floats sum(elements / ranks, 0.0f);
    for (const Floats& x : inputs) add(sum, coded(piece(x, c, ranks)));
    const Floats arrived = coded(sum);
    result.insert(result.end(), arrived.begin(), arrived.end());
  }
  return result;
}

/// Mean error over the standard deviation of the exact sum.
double bias(const Floats& sum, const Doubles& exact) {
  double wrong = 0, squares = 0;
  for (std::size_t i = 0; i < sum.size(); ++i)
    wrong += double{sum[i]} - exact[i], squares += exact[i] * exact[i];
  return wrong / static_cast<double>(sum.size()) / std::sqrt(squares / static_cast<double>(sum.size()));
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("sums of 2 to 16 ranks in this process (a second)");
  const Coder book = code_book();
  Table table{"error of a sum of normal numbers, relative L2",
              {"ranks", "code book, ring", "code book, two shots", "truncated minimum-maximum, ring",
               "its bias (standard deviations)"},
              {}};
  for (const int ranks : rank_counts) {
    std::vector<Floats> inputs;
    for (int r = 0; r < ranks; ++r)
      inputs.push_back(normal_numbers(elements, static_cast<std::uint64_t>(r) + 1, "outer gradient"));
    const Doubles exact = sum_of(inputs);
    const Floats cut = ring(inputs, truncated);
    table.rows.push_back(
        {"",
         {static_cast<double>(ranks), relative_l2(ring(inputs, book), exact),
          relative_l2(two_shot(inputs, book), exact), relative_l2(cut, exact), bias(cut, exact)}});
  }
  const auto at = [&](std::size_t row, std::size_t column) { return table.rows[row].values[column]; };
  double spread = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row)
    spread = std::max(spread, std::abs(at(row, 2) / at(0, 2) - 1));
  Finding f;
  f.measures = {{"error of the code book's ring on 16 ranks over that on 2", at(3, 1) / at(0, 1), no_number,
                 no_number, 1.4, "x", "growth"},
                {"|error of two shots over that on 2 ranks - 1|, most", spread, no_number, no_number, 0.15,
                 "", "spread"},
                {"bias of the truncated ring on 8 ranks, downwards", -at(2, 4), no_number, no_number,
                 no_number, "standard deviations", "bias"}};
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "low_communication.C9",
     .statement =
         "The error of a ring that quantises again grows with the ranks, that of two shots does not.",
     .provenance = "derived",
     .basis = Basis::exact,
     .rule =
         {.settings =
              {{"numbers", "normal, 2^18 on each rank, independent"},
               {"ranks", "2, 4, 8, 16"},
               {"codec",
                std::string(codec_text) + " for each chunk: 2 R of them in the ring, R in two shots"},
               {"truncated",
                "minimum-maximum in 255 steps, cut off, the maximum not below the smallest positive number"}},
          .quantities =
              {{"growth", "relative L2 error of the code book's ring on 16 ranks over that on 2"},
               {"spread", "|relative L2 error of two shots over that on 2 ranks - 1|, the most of all ranks"},
               {"bias",
                "mean error of the truncated ring on 8 ranks, downwards, in standard deviations of the sum"}},
          .constants = {{"grows", 1.4, "x"},
                        {"flat", 0.15, "of the error on 2 ranks"},
                        {"least", 0.07, "standard deviations"},
                        {"most", 0.13, "standard deviations"}},
          .clauses = {{Verdict::pass, "growth >= grows && spread <= flat && bias >= least && bias <= most"}},
          .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
