// WordPiece (Wu et al. 2016, section 4.1) as BERT's released code encodes with it: the words of words.h, each cut greedily from the left into the
// longest pieces of a vocabulary. A word that cannot be cut to its end, or is longer than `longest_word` characters, is [UNK] as a whole.
#pragma once

#include <string_view>
#include <vector>

#include "models/data/text/vocabulary.h"
#include "models/data/text/words.h"

namespace thinwire::text {

class WordPiece {
 public:
  /// Longest word by default: that of the transformers library; Google's own code has 200 (both recollected).
  explicit WordPiece(Vocabulary vocabulary, Case letters = Case::dropped, std::size_t longest_word = 100);

  const Vocabulary& vocabulary() const { return vocabulary_; }
  Case letters() const { return letters_; }
  /// Ids of a text, without [CLS] and [SEP]. A "[MASK]" in the text is text: five pieces or so, no mask.
  std::vector<Vocabulary::Id> encode(std::string_view text) const;
  /// Appends the ids of one word of words().
  void encode_word(std::string_view word, std::vector<Vocabulary::Id>& ids) const;

 private:
  Vocabulary vocabulary_;
  Case letters_;
  std::size_t longest_word_;
};

}  // namespace thinwire::text
