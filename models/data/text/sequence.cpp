#include "models/data/text/sequence.h"

#include <algorithm>

#include "core/error.h"

namespace thinwire::text {
namespace {

using Ids = std::vector<Vocabulary::Id>;

std::size_t room(std::size_t longest, std::size_t marks) {
  TW_ASSERT(longest >= marks, "a sequence has room for its marks");
  return longest - marks;
}

void append(Sequence& sequence, const Ids& ids, Vocabulary::Id separator, std::int32_t segment) {
  sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
  sequence.ids.push_back(separator);
  sequence.segments.resize(sequence.ids.size(), segment);
}

}  // namespace

Sequence sequence_of(const Vocabulary& vocabulary, Ids first, std::size_t longest) {
  first.resize(std::min(first.size(), room(longest, 2)));
  Sequence sequence{{vocabulary.begin()}, {0}};
  append(sequence, first, vocabulary.separator(), 0);
  return sequence;
}

Sequence sequence_of(const Vocabulary& vocabulary, Ids first, Ids second, std::size_t longest) {
  const std::size_t most = room(longest, 3);
  while (first.size() + second.size() > most) (first.size() > second.size() ? first : second).pop_back();
  Sequence sequence{{vocabulary.begin()}, {0}};
  append(sequence, first, vocabulary.separator(), 0);
  append(sequence, second, vocabulary.separator(), 1);
  return sequence;
}

}  // namespace thinwire::text
