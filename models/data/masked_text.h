// Pairs of segments of a text with positions to be filled in: what BERT is pretrained on (Devlin et al. 2018, arXiv 1810.04805, section 3.1 and appendix A;
// masks as in Google's create_pretraining_data.py, drawn anew each time a sample is seen, as in RoBERTa), and a question about the pair: BERT's, whether B
// follows A, or that of ALBERT (Lan et al. 2019, arXiv 1909.11942), which of two neighbours comes first.
//   [CLS] A [SEP] B [SEP] padding
#pragma once

#include <span>

#include "models/data/corpus.h"
#include "models/data/dataset.h"

namespace thinwire {

/// What stands around and instead of a text's tokens.
struct MaskedTokens {
  std::int32_t class_token, separator, mask, padding;
  std::int64_t drawn;  ///< a token that stands for another one at random is below it
};

/// Bytes are their own tokens; behind them the special ones.
inline constexpr std::int32_t masked_text_class = 256, masked_text_separator = 257, masked_text_mask = 258;
inline constexpr std::int64_t masked_text_vocabulary = 259;
inline constexpr MaskedTokens masked_bytes{masked_text_class, masked_text_separator, masked_text_mask, 0, byte_vocabulary};

/// What is asked of a pair, label 1 of half of them.
enum class PairQuestion {
  order,  ///< A and B are neighbours; 1: exchanged
  next,   ///< 1: B is from another place in the text, 0: it follows A
};

/// What is asked of a sample, and how long samples are.
struct MaskedOptions {
  double asked = 0.15;   ///< of a sample's text, one position at least: 8 of 10 show the mask, 1 some token, 1 themselves
  double shorter = 0.1;  ///< of the samples: any length from 8 to seq
  PairQuestion pairs = PairQuestion::order;
  std::int64_t within = 0;  ///< tokens from where B would follow A to where another one begins, at most; 0: any number
};

/// Fields "tokens", "types" (0 up to the first separator, then 1, padding 0), "masked_labels" [batch, seq] (-1: not asked) and "labels" [batch]
/// (PairQuestion); lengths: some samples are shorter than seq. A batch weighs its masked positions. Token: a byte, or the id of a piece of a word.
template <typename Token>
class MaskedSegments final : public Dataset {
 public:
  using Options = MaskedOptions;
  /// `text` outlives the dataset.
  MaskedSegments(std::span<const Token> text, std::uint64_t seed, const char* stream, const Options& options, std::int64_t global_batch, const MaskedTokens& special = masked_bytes);
  /// UsageError when seq is below 8, or the text shorter than it.
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override;
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override;
  std::int64_t samples() const override { return 0; }

 private:
  std::int64_t masks_of(std::int64_t length) const;
  std::span<const Token> text_;
  std::uint64_t seed_, stream_;
  Options options_;
  std::int64_t global_batch_;
  MaskedTokens special_;
};

using MaskedText = MaskedSegments<std::uint8_t>;
using MaskedPieces = MaskedSegments<std::int32_t>;

}  // namespace thinwire
