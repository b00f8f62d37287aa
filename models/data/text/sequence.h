// One text or a pair of texts as the sequence that BERT reads (Devlin et al. 2019, figure 2):
//   [CLS] first [SEP]      or      [CLS] first [SEP] second [SEP]
#pragma once

#include <cstdint>
#include <vector>

#include "models/data/text/vocabulary.h"

namespace thinwire::text {

struct Sequence {
  std::vector<Vocabulary::Id> ids;
  std::vector<std::int32_t> segments;  ///< 0 up to the first [SEP], 1 after it
};

/// At most `longest` ids: what is too much is cut from the ends, of a pair always one id of the longer text, of the second when both are as long, as
/// the released code does it (recollected). Not padded.
Sequence sequence_of(const Vocabulary& vocabulary, std::vector<Vocabulary::Id> first, std::size_t longest);
Sequence sequence_of(const Vocabulary& vocabulary, std::vector<Vocabulary::Id> first, std::vector<Vocabulary::Id> second, std::size_t longest);

}  // namespace thinwire::text
