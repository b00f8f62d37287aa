// Learns the pieces of a WordPiece vocabulary from a text's words.
//
// The rule: begin with single characters, then join, again and again, the pair of neighbouring pieces that occurs most often, and make it a piece (byte-pair
// encoding, Sennrich et al. 2016, with "##" before what goes on with a word). Not Schuster and Nakajima's (2012), which joins what raises a language
// model's likelihood most, about count(ab) / (count(a) count(b)): BERT's own trainer was never released, the trainer that people use in its place (that
// of the tokenizers library) counts pairs (both recollected), and the quotient begins with the rarest pairs, which on a user's text are its misprints.
//
// Nothing depends on chance or on the order of the words: of pairs that occur equally often, the bytewise least is joined first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/data/text/words.h"

namespace thinwire::text {

/// How often each word of words() occurs.
using WordCounts = std::unordered_map<std::string, std::int64_t>;
/// Adds those of a text, line by line.
void count_words(std::string_view text, Case letters, WordCounts& counts);

struct LearningOptions {
  std::int64_t size = 30000;           ///< pieces, special ones included
  std::int64_t least_count = 2;        ///< of a pair that is joined
  std::int64_t most_characters = 1000; ///< the most frequent ones are pieces; words with others are left out, as they will be [UNK]
  std::size_t longest_word = 100;      ///< in characters; longer words are left out, as they will be [UNK]
};

/// Pieces by their ids: the special ones, single characters (in the order of their bytes, those that occur inside words also with "##"), then the joined
/// ones in the order of joining. Fewer than `size` when no pair occurs often enough. UsageError when there is no word or `size` has no room for the characters.
std::vector<std::string> learn_vocabulary(const WordCounts& counts, const LearningOptions& options);

}  // namespace thinwire::text
