// gradient_compression.C2: a sparse message through the sketch as lossless homomorphic compression uses it: nothing left out (target=0), counters half as many as elements.
// The control is the same message at a load of 0.9, above the threshold of C1, which must lose.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "experiments/claims/context.h"
#include "experiments/claims/gradient_compression/local/local_ranks.h"
#include "kernels/codec/codecs/sketch/row_sketch.h"

namespace thinwire::claims {
namespace {

using namespace gradient_compression;

constexpr std::int64_t lanes = RowSketch::lanes, ratio = 2;
constexpr const char* codec = "sketch:ratio=2,target=0";

struct Setting {
  std::int64_t rows;
  double load;
  bool above = false;  ///< the control
};
const std::vector<Setting> settings = {{1152, 0.5}, {1152, 0.6}, {18864, 0.6}, {18864, 0.7}, {1152, 0.9, true}};

/// Normal numbers at a random share of the places.
Floats sparse_message(const Setting& s) {
  Floats x = normal_numbers(s.rows * lanes, 1, "values");
  const Random random(2, "support");
  const auto limit = static_cast<float>(s.load / ratio);
  for (std::size_t i = 0; i < x.size(); i += 4) {
    const auto four = random.block(i / 4);
    for (std::size_t k = 0; k < 4; ++k)
      if (static_cast<float>(four[k]) * 0x1p-32f >= limit) x[i + k] = 0;
  }
  return x;
}

/// What peeling leaves, asked of the codec's own sketch of this message.
std::int64_t unpeeled_of(const Floats& x) {
  const auto rows = static_cast<std::int64_t>(x.size()) / lanes, buckets = (rows + ratio - 1) / ratio;
  std::vector<std::uint64_t> words(RowSketch::index_words(rows * lanes), 0);
  for (std::size_t i = 0; i < x.size(); ++i) words[i / 64] |= std::uint64_t{x[i] != 0 ? 1u : 0u} << i % 64;
  Floats counters(static_cast<std::size_t>(buckets * lanes)), out(x.size());
  RowSketch sketch({}, Form::fair);
  sketch.add_up(x, words, buckets, counters.data());
  return sketch.recover(counters.data(), buckets, words, out).unpeeled;
}

struct Loss {
  std::int64_t unpeeled = 0, others = 0, kept = 0;  ///< elements: left to the median, not bit-equal, not 0
  double error = 0;
};
Loss through(const Floats& x, Form form) {
  CodecStack stack = make_codec(codec, form);
  const Sent sent = send(*stack.codec, x, Shape{static_cast<std::int64_t>(x.size()) / lanes, lanes});
  Loss loss;
  for (std::size_t i = 0; i < x.size(); ++i) {
    loss.kept += x[i] != 0;
    loss.others += std::bit_cast<std::uint32_t>(x[i]) != std::bit_cast<std::uint32_t>(sent.decoded[i]);
  }
  loss.error = relative_l2(sent.decoded, Doubles(x.begin(), x.end()));
  return loss;
}

Finding measure(JudgeContext& context) {
  context.cells.about_to_calculate("sketches of sparse messages in this process (seconds)");
  Finding f;
  Table table{"a sparse message through the sketch, c = 2", {"K", "load", "unpeeled share", "relative L2", "share not bit-equal", "relative L2, released", "share not bit-equal, released"}, {}};
  std::int64_t unpeeled = 0, unpeeled_above = 0;
  double error = 0, least_others = 1;
  for (const Setting& s : settings) {
    const Floats x = sparse_message(s);
    Loss fair = through(x, Form::fair);
    const Loss released = through(x, Form::released);
    fair.unpeeled = unpeeled_of(x);
    const auto share = [&](std::int64_t count) { return static_cast<double>(count) / static_cast<double>(fair.kept); };
    table.rows.push_back({s.above ? "control" : "", {static_cast<double>(s.rows), s.load, share(fair.unpeeled), fair.error, share(fair.others), released.error, share(released.others)}});
    (s.above ? unpeeled_above : unpeeled) += fair.unpeeled;
    if (s.above) continue;
    error = std::max(error, fair.error);
    least_others = std::min(least_others, share(fair.others));
  }
  f.measures = {{"elements left unpeeled", static_cast<double>(unpeeled), no_number, no_number, 0, "", "unpeeled"},
                {"relative L2 of a message, the largest", error, no_number, no_number, 1e-6, "", "error"},
                {"control: elements left unpeeled at load 0.9", static_cast<double>(unpeeled_above), no_number, no_number, 0, "", "above"},
                {"share of elements that are not bit-equal, the least of all messages", least_others, no_number, no_number, no_number, ""}};
  f.note = "lossless means up to the rounding of sums in f32, not bit by bit";
  f.tables = {std::move(table)};
  return f;
}

const bool registered = register_claim(
    {.id = "gradient_compression.C2",
     .statement = "Below the threshold lossless homomorphic compression is lossless.",
     .provenance = "read: title and abstract of 2402.07529; derived (loads)",
     .basis = Basis::exact,
     .from = Profile::quick,
     .rule = {.settings = {{"codec", codec}, {"(K, load)", "(1152, 0.5), (1152, 0.6), (18864, 0.6), (18864, 0.7)"}, {"values", "standard normal, at random places"}, {"control", "K = 1152 at load 0.9"}},
              .quantities = {{"unpeeled", "elements of all messages that peeling leaves to the median"},
                             {"error", "relative L2 of what a message decodes to, the largest, in float64"},
                             {"above", "elements that are left at load 0.9, where some must be"}},
              .constants = {{"rounding", 1e-6, "relative L2: sums in f32"}},
              .clauses = {{Verdict::invalid, "above == 0"}, {Verdict::pass, "unpeeled == 0 && error <= rounding"}},
              .otherwise = Verdict::fail},
     .measure = measure});

}  // namespace
}  // namespace thinwire::claims
