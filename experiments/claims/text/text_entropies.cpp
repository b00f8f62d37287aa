#include "experiments/claims/text/text_entropies.h"

#include <cmath>
#include <map>
#include <string>

#include "core/error.h"
#include "models/data/corpus.h"

namespace thinwire::claims {
namespace {

struct KnownText {
  std::string hash;
  TextEntropies entropies;
};

const KnownText& text_here() {
  static const KnownText here = [] {
    const Corpus corpus = Corpus::python_standard_library();
    return KnownText{corpus.hash(), {corpus.unigram_entropy(), corpus.bigram_entropy()}};
  }();
  return here;
}

/// Texts of cells in results/reference that were measured before 2026-11-26, when records began to hold these numbers. Computed by Corpus from Debian 12's libpython3.11-stdlib.
const KnownText earlier[] = {
    {"d0fa794cd596f4c33d3b0bbf83163f2dd359c9dbf454ca9c860491508a9086a8", {3.2456526897745803, 2.424800827547531}},  // 3.11.2-6+deb12u6
};

const std::string remedy = ": an update changed the Python library, which is the text unless --text names one. Measure all that is compared on one text, in a new folder (--out)";

}  // namespace

const TextEntropies& entropies_here() { return text_here().entropies; }
const std::string& hash_of_text_here() { return text_here().hash; }

void require_text_here(const std::string& corpus, const std::string& finished) {
  if (corpus != hash_of_text_here())
    throw UsageError(finished + " is of a text of SHA-256 " + corpus.substr(0, 12) + "..., and this machine's is " + hash_of_text_here().substr(0, 12) + "..." + remedy);
}

TextEntropies entropies_of_cells(const std::vector<std::vector<results::CellRecord>>& records) {
  std::map<std::string, int> cells;
  TextEntropies recorded;
  for (const std::vector<results::CellRecord>& of_arm : records)
    for (const results::CellRecord& record : of_arm) {
      const std::string corpus = corpus_of(record);
      if (corpus.empty()) continue;
      ++cells[corpus];
      const results::Provenance& from = record.provenance;  // of a collected cell that of its launch, whose other cells may have had another text
      if (from.corpus == corpus && std::isfinite(from.unigram_entropy)) recorded = {from.unigram_entropy, from.bigram_entropy};
    }
  if (cells.empty()) return entropies_here();
  if (cells.size() > 1) {
    std::string texts;
    for (const auto& [hash, count] : cells) texts += (texts.empty() ? "" : ", ") + hash.substr(0, 12) + "... (" + std::to_string(count) + " cells)";
    throw UsageError("cells of one comparison were trained on different texts, by SHA-256 " + texts + remedy);
  }
  if (std::isfinite(recorded.unigram)) return recorded;
  const std::string& hash = cells.begin()->first;
  if (hash == text_here().hash) return entropies_here();
  for (const KnownText& text : earlier)
    if (text.hash == hash) return text.entropies;
  throw UsageError("cells were trained on the text of SHA-256 " + hash.substr(0, 12) + "..., which this machine does not have, and recorded no entropies of it (they are older than 2026-11-26). Judge them where that text is");
}

}  // namespace thinwire::claims
