#include "models/data/text/learn_vocabulary.h"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "core/error.h"
#include "models/data/text/unicode.h"
#include "models/data/text/vocabulary.h"

namespace thinwire::text {
namespace {

using Id = Vocabulary::Id;

/// Two neighbouring pieces as one number, which hashes fast.
using Pair = std::uint64_t;
Pair pair_of(Id first, Id second) { return static_cast<Pair>(first) << 32 | static_cast<Pair>(second); }
Id first_of(Pair pair) { return static_cast<Id>(pair >> 32); }
Id second_of(Pair pair) { return static_cast<Id>(pair & 0xFFFFFFFF); }

struct Word {
  std::u32string characters;
  std::int64_t count = 0;
  std::vector<Id> pieces;
};

/// Sorted, so that nothing depends on the order of a hash table.
std::vector<Word> sorted_words(const WordCounts& counts, std::size_t longest) {
  std::vector<Word> found;
  for (const auto& [text, count] : counts)
    if (std::u32string characters = unicode::from_utf8(text); characters.size() <= longest) found.push_back({std::move(characters), count, {}});
  std::sort(found.begin(), found.end(), [](const Word& a, const Word& b) { return a.characters < b.characters; });
  return found;
}

/// The most frequent characters; value: whether it is ever part of a longer word.
std::map<char32_t, bool> alphabet(const std::vector<Word>& words, std::int64_t most) {
  std::map<char32_t, std::pair<std::int64_t, bool>> seen;
  for (const Word& word : words)
    for (const char32_t c : word.characters) {
      auto& [count, joins] = seen[c];
      count += word.count;
      joins = joins || word.characters.size() > 1;
    }
  std::vector<std::pair<std::int64_t, char32_t>> order;
  for (const auto& [c, what] : seen) order.emplace_back(-what.first, c);
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), static_cast<std::size_t>(most)));
  std::map<char32_t, bool> kept;
  for (const auto& [count, c] : order) kept[c] = seen[c].second;
  return kept;
}

class Learner {
 public:
  Learner(std::vector<Word> words, const LearningOptions& options) : words_(std::move(words)), options_(options), queue_(Later{&pieces_}) {
    for (const std::string_view special : special_pieces) add(std::string(special));
    add_characters();
    if (static_cast<std::int64_t>(pieces_.size()) > options.size)
      throw UsageError("a vocabulary of " + std::to_string(options.size) + " pieces has no room for the text's characters: it takes at least " +
                       std::to_string(pieces_.size()) + ", or fewer characters");
    for (std::size_t w = 0; w < words_.size(); ++w) change_counts(w, words_[w].count);
    push_touched();
  }

  std::vector<std::string> learn() {
    while (static_cast<std::int64_t>(pieces_.size()) < options_.size && !queue_.empty()) {
      const auto [count, pair] = queue_.top();
      queue_.pop();
      const auto now = counts_.find(pair);
      if (now == counts_.end() || now->second.count != count) continue;  // an entry of its new count is in the queue too
      if (count < options_.least_count) break;
      join(pair);
    }
    return std::move(pieces_);
  }

 private:
  struct Entry {
    std::int64_t count;
    Pair pair;
  };
  /// Of a queue whose top is the most frequent pair, the bytewise least among equals.
  struct Later {
    const std::vector<std::string>* pieces;
    bool operator()(const Entry& a, const Entry& b) const {
      const auto text = [this](Id id) -> const std::string& { return (*pieces)[static_cast<std::size_t>(id)]; };
      if (a.count != b.count) return a.count < b.count;
      return std::tie(text(first_of(a.pair)), text(second_of(a.pair))) > std::tie(text(first_of(b.pair)), text(second_of(b.pair)));
    }
  };
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  ///< perhaps twice, perhaps no longer
  };

  Id add(const std::string& piece) {
    const auto [at, added] = ids_.emplace(piece, static_cast<Id>(pieces_.size()));
    if (added) pieces_.push_back(piece);
    return at->second;
  }

  void add_characters() {
    const std::map<char32_t, bool> kept = alphabet(words_, options_.most_characters);
    const auto text = [](char32_t c) { return unicode::to_utf8(std::u32string_view(&c, 1)); };
    for (const auto& [c, joins] : kept) add(text(c));
    for (const auto& [c, joins] : kept)
      if (joins) add(std::string(continuation) + text(c));
    std::erase_if(words_, [&](const Word& word) {
      return std::any_of(word.characters.begin(), word.characters.end(), [&](char32_t c) { return !kept.contains(c); });
    });
    for (Word& word : words_)
      for (const char32_t c : word.characters) word.pieces.push_back(add((word.pieces.empty() ? "" : std::string(continuation)) + text(c)));
  }

  /// Adds `change` to the counts of all pairs of a word.
  void change_counts(std::size_t word, std::int64_t change) {
    const std::vector<Id>& pieces = words_[word].pieces;
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      const Pair pair = pair_of(pieces[i - 1], pieces[i]);
      Occurrences& found = counts_[pair];
      found.count += change;
      if (change > 0 && (found.words.empty() || found.words.back() != word)) found.words.push_back(word);
      touched_.push_back(pair);
    }
  }

  void push_touched() {
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    for (const Pair pair : touched_)
      if (const std::int64_t count = counts_[pair].count; count > 0)
        queue_.push({count, pair});
      else
        counts_.erase(pair);
    touched_.clear();
  }

  void join(Pair pair) {
    const auto text = [this](Id id) { return pieces_[static_cast<std::size_t>(id)]; };
    const Id left = first_of(pair), right = second_of(pair);
    const Id joined = add(text(left) + text(right).substr(continuation.size()));
    const std::vector<std::size_t> with = std::move(counts_[pair].words);
    for (const std::size_t w : with) {
      std::vector<Id>& pieces = words_[w].pieces;
      const auto holds = [&](std::size_t i) { return i + 1 < pieces.size() && pieces[i] == left && pieces[i + 1] == right; };
      std::vector<Id> shorter;
      for (std::size_t i = 0; i < pieces.size(); ++i) shorter.push_back(holds(i) ? (++i, joined) : pieces[i]);
      if (shorter.size() == pieces.size()) continue;
      change_counts(w, -words_[w].count);
      pieces = std::move(shorter);
      change_counts(w, words_[w].count);
    }
    push_touched();
  }

  std::vector<Word> words_;
  LearningOptions options_;
  std::vector<std::string> pieces_;
  std::unordered_map<std::string, Id> ids_;
  std::unordered_map<Pair, Occurrences> counts_;
  std::vector<Pair> touched_;  ///< pairs whose counts changed since the queue was told
  std::priority_queue<Entry, std::vector<Entry>, Later> queue_;
};

}  // namespace

void count_words(std::string_view text, Case letters, WordCounts& counts) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    for (std::string& word : words(text.substr(0, end), letters)) ++counts[std::move(word)];
    text.remove_prefix(end);
  }
}

std::vector<std::string> learn_vocabulary(const WordCounts& counts, const LearningOptions& options) {
  std::vector<Word> words = sorted_words(counts, options.longest_word);
  if (words.empty()) throw UsageError("there is no word to learn a vocabulary from");
  return Learner(std::move(words), options).learn();
}

}  // namespace thinwire::text
