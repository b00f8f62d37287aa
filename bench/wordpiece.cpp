// wordpiece: a vocabulary learnt from the user's text, and texts as its ids.
//   wordpiece learn --text FILE|FOLDER --size 30000 --out vocab.txt
//   wordpiece encode --vocab vocab.txt < TEXT
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "core/error.h"
#include "core/joined.h"
#include "core/process/command_line.h"
#include "core/process/main_guard.h"
#include "models/data/corpus.h"
#include "models/data/text/learn_vocabulary.h"
#include "models/data/text/wordpiece.h"

namespace {

using namespace thinwire;

struct Options {
  std::string text, out, vocabulary;
  text::LearningOptions learning;
  bool cased = false, pieces = false;
  text::Case letters() const { return cased ? text::Case::kept : text::Case::dropped; }
};

void learn(const Options& options) {
  const Corpus corpus = Corpus::from_path(options.text);
  text::WordCounts counts;
  // What a model will be judged on has no say in its vocabulary.
  text::count_words({reinterpret_cast<const char*>(corpus.training().data()), corpus.training().size()}, options.letters(), counts);
  const text::Vocabulary vocabulary(text::learn_vocabulary(counts, options.learning), options.text);
  vocabulary.write(options.out);
  std::printf("%d pieces of %zu different words, text sha256 %s, vocabulary sha256 %s\n", vocabulary.size(), counts.size(), corpus.hash().c_str(),
              vocabulary.hash().c_str());
  if (vocabulary.size() < options.learning.size)
    std::printf("fewer than the %lld asked for: no other pair of pieces occurs %lld times\n", static_cast<long long>(options.learning.size),
                static_cast<long long>(options.learning.least_count));
}

void encode(const Options& options) {
  const text::WordPiece wordpiece(text::Vocabulary::read(options.vocabulary), options.letters(), options.learning.longest_word);
  const auto shown = [&](const auto id) { return options.pieces ? wordpiece.vocabulary().piece(id) : std::to_string(id); };
  for (std::string line; std::getline(std::cin, line);) std::puts(joined(wordpiece.encode(line), " ", shown).c_str());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("WordPiece as BERT uses it: learns a vocabulary from a text, turns text into ids. docs/text.md", "wordpiece");
  app.require_subcommand(1);
  const auto common = [&](CLI::App* sub) {
    sub->add_flag("--cased", options.cased, "keep capitals and accents");
    sub->add_option("--longest-word", options.learning.longest_word, "characters; a longer word is [UNK]")->capture_default_str()->check(CLI::PositiveNumber);
  };
  CLI::App* learning = app.add_subcommand("learn", "learn a vocabulary");
  learning->add_option("--text", options.text, "file, or folder of files; its training part is read")->required();
  learning->add_option("--out", options.out, "where vocab.txt goes")->required();
  learning->add_option("--size", options.learning.size, "pieces, the special ones included")->capture_default_str()->check(CLI::PositiveNumber);
  learning->add_option("--least-count", options.learning.least_count, "a pair of pieces that occurs less often is not joined")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  learning->add_option("--most-characters", options.learning.most_characters, "different characters that are pieces")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  CLI::App* encoding = app.add_subcommand("encode", "standard input as ids, a line each");
  encoding->add_option("--vocab", options.vocabulary, "vocab.txt")->required();
  encoding->add_flag("--pieces", options.pieces, "the pieces themselves instead of their ids");
  common(learning);
  common(encoding);
  if (const auto helped = parse_command_line(app, argc, argv)) return *helped;
  if (learning->parsed())
    learn(options);
  else
    encode(options);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return guarded_main(argc, argv, run); }
