#include "models/data/masked_text.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/random.h"

namespace thinwire {
namespace {

constexpr std::int64_t specials = 3, shortest = 8;

/// Draws of one sample, in any order.
class SampleDraws {
 public:
  SampleDraws(std::uint64_t seed, std::uint64_t stream, std::uint64_t step, std::int64_t sample)
      : random_(seed, mix_stream(mix_stream(stream, step), static_cast<std::uint64_t>(sample))) {}
  std::int64_t below(std::uint64_t which, std::int64_t bound) const { return static_cast<std::int64_t>(random_.below(which, static_cast<std::uint64_t>(bound))); }
  /// Tokens of the sample.
  std::int64_t length(std::int64_t seq, double shorter) const { return random_.uniform(0) >= shorter ? seq : shortest + below(1, seq - shortest + 1); }

 private:
  Random random_;
};

enum : std::uint64_t { draw_begin = 8, draw_split, draw_pair, draw_elsewhere, draw_places = 16 };

}  // namespace

template <typename Token>
MaskedSegments<Token>::MaskedSegments(std::span<const Token> text, std::uint64_t seed, const char* stream, const Options& options, std::int64_t global_batch, const MaskedTokens& special)
    : text_(text), seed_(seed), stream_(hash_name(stream)), options_(options), global_batch_(global_batch), special_(special) {}

template <typename Token>
std::int64_t MaskedSegments<Token>::masks_of(std::int64_t length) const {
  const std::int64_t content = length - specials;
  return std::clamp<std::int64_t>(std::llround(options_.asked * static_cast<double>(content)), 1, content);
}

template <typename Token>
Batch MaskedSegments<Token>::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const {
  const auto available = static_cast<std::int64_t>(text_.size());
  if (seq < shortest) throw UsageError("Sequences of " + std::to_string(seq) + " tokens are too short for two segments and what stands between them; give --seq 8 or more.");
  if (available < seq)
    throw UsageError("The text has " + std::to_string(available) + (sizeof(Token) == 1 ? " bytes" : " pieces") + " here, fewer than a sequence of " + std::to_string(seq) +
                     " tokens may need. Name a longer text by --text.");
  Batch out(count, seq, first_sample);
  out.fields["labels"].per_token = false;
  std::vector<std::int32_t>&tokens = out.ints("tokens"), &types = out.ints("types"), &asked = out.ints("masked_labels"), &labels = out.ints("labels");
  std::vector<std::int64_t> places;
  for (std::int64_t b = 0; b < count; ++b) {
    const SampleDraws draw(seed_, stream_, step, first_sample + b);
    const std::int64_t length = draw.length(seq, options_.shorter), content = length - specials, split = 1 + draw.below(draw_split, content - 1);
    const std::int64_t begin = draw.below(draw_begin, available - content + 1), follows = begin + split;
    const bool other = draw.below(draw_pair, 2) == 1, exchanged = other && options_.pairs == PairQuestion::order;
    const std::int64_t of_a = exchanged ? content - split : split, from = static_cast<std::int64_t>(tokens.size());
    auto a = text_.begin() + begin, b_begin = text_.begin() + follows;
    if (exchanged) std::swap(a, b_begin);
    if (other && !exchanged) {
      const std::int64_t farthest = options_.within > 0 ? options_.within : available, last = available - (content - split);
      const std::int64_t low = std::max<std::int64_t>(0, follows - farthest), high = std::min(last, follows + farthest);
      const std::int64_t place = low + draw.below(draw_elsewhere, high - low);
      b_begin = text_.begin() + place + (place >= follows ? 1 : 0);  // each but that of the true one
    }
    tokens.push_back(special_.class_token);
    tokens.insert(tokens.end(), a, a + of_a);
    tokens.push_back(special_.separator);
    tokens.insert(tokens.end(), b_begin, b_begin + (content - of_a));
    tokens.push_back(special_.separator);
    tokens.resize(static_cast<std::size_t>(from + seq), special_.padding);
    types.resize(static_cast<std::size_t>(from + of_a + 2), 0);
    types.resize(static_cast<std::size_t>(from + length), 1);
    types.resize(static_cast<std::size_t>(from + seq), 0);
    asked.resize(static_cast<std::size_t>(from + seq), -1);
    labels.push_back(other ? 1 : 0);

    // The first of a random order of all positions with text.
    places.resize(static_cast<std::size_t>(content));
    for (std::int64_t i = 0; i < content; ++i) places[static_cast<std::size_t>(i)] = 1 + i + (i >= of_a ? 1 : 0);
    const std::int64_t masks = masks_of(length);
    for (std::int64_t m = 0; m < masks; ++m) {
      const auto which = draw_places + 3 * static_cast<std::uint64_t>(m);
      std::swap(places[static_cast<std::size_t>(m)], places[static_cast<std::size_t>(m + draw.below(which, content - m))]);
      const auto at = static_cast<std::size_t>(from + places[static_cast<std::size_t>(m)]);
      asked[at] = tokens[at];
      const std::int64_t shown = draw.below(which + 1, 10);
      if (shown < 8) tokens[at] = special_.mask;
      if (shown == 8) tokens[at] = static_cast<std::int32_t>(draw.below(which + 2, special_.drawn));
    }
    out.lengths.push_back(static_cast<std::int32_t>(length));
    out.sample_ids.push_back(static_cast<std::int64_t>(step) * global_batch_ + first_sample + b);
    out.weight += static_cast<double>(masks);
  }
  return out;
}

template <typename Token>
double MaskedSegments<Token>::weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const {
  std::int64_t masks = 0;
  for (std::int64_t s = 0; s < count; ++s) masks += masks_of(SampleDraws(seed_, stream_, step, s).length(seq, options_.shorter));
  return static_cast<double>(masks);
}

template class MaskedSegments<std::uint8_t>;
template class MaskedSegments<std::int32_t>;

}  // namespace thinwire
