#include "models/data/masked_text.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "core/random.h"
#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

constexpr std::int64_t specials = 3, shortest = 8;

/// Draws of one sample, in any order.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t stream, std::uint64_t step, std::int64_t sample)
      : random_(seed, mix_stream(mix_stream(stream, step), static_cast<std::uint64_t>(sample))) {}
  std::int64_t below(std::uint64_t which, std::int64_t bound) const { return static_cast<std::int64_t>(random_.below(which, static_cast<std::uint64_t>(bound))); }
  /// Tokens of the sample.
  std::int64_t length(std::int64_t seq, double shorter) const { return random_.uniform(0) >= shorter ? seq : shortest + below(1, seq - shortest + 1); }

 private:
  Random random_;
};

enum : std::uint64_t { draw_begin = 8, draw_split, draw_order, draw_places = 16 };

}  // namespace

MaskedText::MaskedText(std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream, const Rates& rates, std::int64_t global_batch)
    : text_(text), seed_(seed), stream_(hash_name(stream)), rates_(rates), global_batch_(global_batch) {}

std::int64_t MaskedText::masks_of(std::int64_t length) const {
  const std::int64_t content = length - specials;
  return std::clamp<std::int64_t>(std::llround(rates_.asked * static_cast<double>(content)), 1, content);
}

Batch MaskedText::batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const {
  const auto bytes = static_cast<std::int64_t>(text_.size());
  if (seq < shortest) throw UsageError("Sequences of " + std::to_string(seq) + " tokens are too short for two segments and what stands between them; give --seq 8 or more.");
  if (bytes < seq)
    throw UsageError("The text has " + std::to_string(bytes) + " bytes here, fewer than a sequence of " + std::to_string(seq) + " tokens may need. Name a longer text by --text.");
  Batch out(count, seq, first_sample);
  out.fields["labels"].per_token = false;
  std::vector<std::int32_t>&tokens = out.ints("tokens"), &types = out.ints("types"), &asked = out.ints("masked_labels"), &labels = out.ints("labels");
  std::vector<std::int64_t> places;
  for (std::int64_t b = 0; b < count; ++b) {
    const Draws draw(seed_, stream_, step, first_sample + b);
    const std::int64_t length = draw.length(seq, rates_.shorter), content = length - specials, split = 1 + draw.below(draw_split, content - 1);
    const auto window = text_.begin() + draw.below(draw_begin, bytes - content + 1);
    const bool exchanged = draw.below(draw_order, 2) == 1;
    const std::int64_t of_a = exchanged ? content - split : split, from = static_cast<std::int64_t>(tokens.size());
    const auto a = exchanged ? window + split : window, b_begin = exchanged ? window : window + split;
    tokens.push_back(masked_text_class);
    tokens.insert(tokens.end(), a, a + of_a);
    tokens.push_back(masked_text_separator);
    tokens.insert(tokens.end(), b_begin, b_begin + (content - of_a));
    tokens.push_back(masked_text_separator);
    tokens.resize(static_cast<std::size_t>(from + seq), 0);
    types.resize(static_cast<std::size_t>(from + of_a + 2), 0);
    types.resize(static_cast<std::size_t>(from + length), 1);
    types.resize(static_cast<std::size_t>(from + seq), 0);
    asked.resize(static_cast<std::size_t>(from + seq), -1);
    labels.push_back(exchanged ? 1 : 0);

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
      if (shown < 8) tokens[at] = masked_text_mask;
      if (shown == 8) tokens[at] = static_cast<std::int32_t>(draw.below(which + 2, byte_vocabulary));
    }
    out.lengths.push_back(static_cast<std::int32_t>(length));
    out.sample_ids.push_back(static_cast<std::int64_t>(step) * global_batch_ + first_sample + b);
    out.weight += static_cast<double>(masks);
  }
  return out;
}

double MaskedText::weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const {
  std::int64_t masks = 0;
  for (std::int64_t s = 0; s < count; ++s) masks += masks_of(Draws(seed_, stream_, step, s).length(seq, rates_.shorter));
  return static_cast<double>(masks);
}

namespace {

/// A half of a corpus that goes with it.
class OwningMaskedText final : public Dataset {
 public:
  OwningMaskedText(std::shared_ptr<const Corpus> corpus, MaskedText samples) : corpus_(std::move(corpus)), samples_(std::move(samples)) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override { return samples_.batch(step, first_sample, count, seq); }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return samples_.weight(step, count, seq); }
  std::int64_t samples() const override { return samples_.samples(); }

 private:
  std::shared_ptr<const Corpus> corpus_;
  MaskedText samples_;
};

const NamedSchema schema{"masked_text",
                         {{.name = "rate", .default_value = "0.15", .minimum = 1e-6, .maximum = 1}, {.name = "shorter", .default_value = "0.1", .minimum = 0, .maximum = 1}}};

const RegisterData masked_text({"masked_text",
                                "pairs of segments of a text (--text), bytes of which are to be filled in: rate=0.15 of them; shorter=0.1 of the samples are shorter than --seq; 259 "
                                "tokens (--vocab 259)",
                                [](const DataRequest& request) {
                                  const Parameters given = parse_named(request.options.empty() ? "masked_text" : "masked_text:" + request.options, {schema}, "data").parameters;
                                  const MaskedText::Rates rates{given.real("rate"), given.real("shorter")};
                                  const auto corpus = std::make_shared<const Corpus>(Corpus::open(request.path));
                                  const auto half = [&](std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream) {
                                    return std::make_unique<OwningMaskedText>(corpus, MaskedText(text, seed, stream, rates, request.global_batch));
                                  };
                                  DataSource source;
                                  source.training = half(corpus->training(), request.seed, "masked.training");
                                  source.validation = half(corpus->validation(), validation_seed, "masked.validation");
                                  source.hash = corpus->hash();
                                  return source;
                                }});

}  // namespace

}  // namespace thinwire
