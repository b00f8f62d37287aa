// Entropies of the text that cells were trained on. The default text is the machine's Python library, which a security update changes: what the judging machine has is not what the cells saw.
#pragma once

#include <string>
#include <vector>

#include "results/record.h"

namespace thinwire::claims {

struct TextEntropies {
  double unigram = results::not_measured, bigram = results::not_measured;  ///< of its training part's single bytes; of a byte given the one before it; nats
};

/// Of the text of these cells, by arm and seed: as they recorded it, and for cells that recorded its hash alone where it is this machine's text or one of the texts of the committed references. Cells without any
/// text have this machine's. UsageError where cells are of different texts or nobody knows the entropies of theirs.
TextEntropies entropies_of_cells(const std::vector<std::vector<results::CellRecord>>& records);
/// Of this machine's text (models/data/corpus.h), and its SHA-256.
const TextEntropies& entropies_here();
const std::string& hash_of_text_here();

/// Before more is measured beside `finished`, whose text has this hash: UsageError unless it is the text of this machine.
void require_text_here(const std::string& corpus, const std::string& finished);

}  // namespace thinwire::claims
