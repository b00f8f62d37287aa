// labels: unit
// timeout: 300
// Words and ids are, bit for bit, those of BERT's algorithm as wordpiece_oracle.py has it with Python's unicodedata: of a corpus of what goes wrong
// (tricky_corpus.txt), of every character, and of drawn texts.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <random>
#include <set>

#include "core/error.h"
#include "models/data/text/encode_text.h"
#include "models/data/text/unicode.h"
#include "models/data/text/wordpiece.h"
#include "support/source_folder.h"
#include "support/temporary_folder.h"

namespace thinwire::text {
namespace {

const std::string here = testing::source_folder() + "/tests/models/data/text/";

/// A line of the corpus: \n, \t, \r and \xHH are bytes.
std::string unescaped(const std::string& line) {
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\') {
      out += line[i];
    } else if (line.at(++i) == 'x') {
      out += static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += line[i] == 'n' ? '\n' : line[i] == 't' ? '\t' : '\r';
    }
  }
  return out;
}

std::vector<std::string> tricky_corpus() {
  std::ifstream file(here + "tricky_corpus.txt");
  std::vector<std::string> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(unescaped(line));
  return cases;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += "0123456789abcdef"[static_cast<unsigned char>(byte) >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

/// Pieces that make ids tell something: beginnings, middles and ends of the cases' words, drawn.
std::vector<std::string> drawn_pieces(const std::vector<std::string>& cases, Case letters, std::mt19937_64& random) {
  std::vector<std::string> pieces(std::begin(special_pieces), std::end(special_pieces));
  std::set<std::string> have(pieces.begin(), pieces.end());
  for (const std::string& text : cases)
    for (const std::string& word : words(text, letters)) {
      const std::u32string characters = unicode::from_utf8(word);
      for (std::size_t at = 0; at < characters.size();) {
        const std::size_t length = 1 + random() % 4;
        const std::string piece = (at == 0 ? "" : "##") + unicode::to_utf8(std::u32string_view(characters).substr(at, length));
        if (random() % 8 != 0 && have.insert(piece).second) pieces.push_back(piece);
        at += length;
      }
    }
  return pieces;
}

/// What wordpiece_oracle.py prints, a line each.
std::vector<std::string> oracle(const std::string& arguments) {
  FILE* pipe = ::popen(("/usr/bin/python3 " + here + "wordpiece_oracle.py " + arguments).c_str(), "r");
  std::string all;
  char part[4096];
  for (std::size_t n = 0; (n = std::fread(part, 1, sizeof part, pipe)) > 0;) all.append(part, n);
  EXPECT_EQ(::pclose(pipe), 0) << "the oracle failed";
  std::istringstream in(all);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The same line of ours.
std::string ours(const WordPiece& wordpiece, const std::string& text, Case letters) {
  std::string line;
  for (const std::string& word : words(text, letters)) line += (line.empty() ? "" : ",") + hex(word);
  std::string ids;
  for (const auto id : wordpiece.encode(text)) ids += (ids.empty() ? "" : ",") + std::to_string(id);
  return line + " " + ids;
}

void compare(const std::vector<std::string>& cases, std::size_t longest) {
  const testing::TemporaryFolder folder;
  for (const Case letters : {Case::dropped, Case::kept}) {
    std::mt19937_64 random(1);
    Vocabulary vocabulary(drawn_pieces(cases, letters, random), "drawn");
    vocabulary.write(folder / "vocab.txt");
    const WordPiece wordpiece(std::move(vocabulary), letters, longest);
    std::string input;
    for (const std::string& text : cases) input += hex(text) + "\n";
    const std::string file = folder.write("cases", input);
    const auto expected =
        oracle((letters == Case::kept ? "CASED " : "UNCASED ") + (folder / "vocab.txt") + " " + std::to_string(longest) + " < " + file);
    ASSERT_EQ(expected.size(), cases.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < cases.size() && wrong < 5; ++i) {
      const std::string line = ours(wordpiece, cases[i], letters);
      EXPECT_EQ(line, expected[i]) << "case " << i << ", bytes " << hex(cases[i]);
      if (line != expected[i]) ++wrong;
    }
  }
}

bool same_unicode() { return oracle("version") == std::vector<std::string>{std::string(unicode::version_name())}; }
#define SKIP_FOR_ANOTHER_UNICODE() \
  if (!same_unicode()) GTEST_SKIP() << "Python's Unicode is not " << unicode::version_name()

}  // namespace

TEST(WordPiece, TheTrickyCorpusHasTheIdsOfTheReference) {
  const auto cases = tricky_corpus();
  ASSERT_GT(cases.size(), 30u);
  compare(cases, 100);
  compare(cases, 7);
}

TEST(WordPiece, EveryCharacterIsTreatedAsTheReferenceTreatsIt) {
  SKIP_FOR_ANOTHER_UNICODE();
  std::vector<std::string> cases;
  for (char32_t first = 0; first < 0x110000; first += 32) {
    if (first == 0x30000) first = 0xE0000;  // nothing is assigned between them
    if (first == 0xE1000) first = 0x10FF00;  // private use
    const bool much_alike = (first >= 0x3400 && first < 0xD7A0) || (first >= 0x20000 && first < 0x2F800);  // CJK ideographs, Hangul: some of each
    if (much_alike && first % 0x100 != 0) continue;
    std::string text;
    for (char32_t c = first; c < first + 32; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      for (const char32_t with : {U'A', c, U'\u0323', c, U'\u03A3', U' '}) unicode::append_utf8(text, with);
    }
    cases.push_back(text);
  }
  compare(cases, 100);
}

TEST(WordPiece, DrawnTextsHaveTheIdsOfTheReference) {
  SKIP_FOR_ANOTHER_UNICODE();
  const std::u32string telling = U"aAbBzZ.,'\"-#[]09 \t\n\r\u0000\u00A0\u00AD\u00C5\u00E9\u0130\u0131\u0301\u0307\u0323\u0345\u03A3\u03C3\u03C2\u0391\u03AC"
                                 U"\u0590\u0E33\u1100\u1161\u11A8\uAC01\u1E69\u1FB7\u2000\u2028\u200B\u200D\u212B\u302E\u3001\u4E00\uF900\uFEFF\uFFFD\U0001D15E\U0001F468";
  std::mt19937_64 random(20241123);
  std::vector<std::string> cases;
  for (int i = 0; i < 6000; ++i) {
    std::string text;
    for (std::uint64_t n = random() % 40; n > 0; --n) {
      const std::uint64_t kind = random() % 8;
      const char32_t any = static_cast<char32_t>(random() % 0x110000);
      if (kind == 0)
        text += static_cast<char>(random() % 256);  // most often no UTF-8
      else if (kind == 1 && (any < 0xD800 || any > 0xDFFF))
        unicode::append_utf8(text, any);
      else if (kind == 2)
        unicode::append_utf8(text, static_cast<char32_t>(random() % 0x2100));
      else
        unicode::append_utf8(text, telling[random() % telling.size()]);
    }
    cases.push_back(text);
  }
  compare(cases, 12);
}

TEST(WordPiece, CutsAWordIntoItsLongestPieces) {
  const WordPiece wordpiece(Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "unaff", "##a", "want"}, "here"));
  using Ids = std::vector<Vocabulary::Id>;
  EXPECT_EQ(wordpiece.encode("Unaffable wanta wants"), (Ids{8, 7, 10, 9, 1}));
  EXPECT_EQ(wordpiece.encode(""), Ids{});
  EXPECT_EQ(wordpiece.encode("[MASK]"), (Ids{1, 1, 1})) << "a text does not mask itself";
}

TEST(WordPiece, AWordAsLongAsAllowedIsCutAndALongerOneIsUnknown) {
  const auto count = [](std::size_t letters) {
    const WordPiece wordpiece(Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "\u00DF", "##\u00DF"}, "here"));
    std::string word;
    for (std::size_t i = 0; i < letters; ++i) word += "\u00DF";  // two bytes, one character
    return wordpiece.encode(word).size();
  };
  EXPECT_EQ(count(100), 100u);
  EXPECT_EQ(count(101), 1u);
}

TEST(WordPiece, ALongTextHasTheIdsOfItsLines) {
  const std::vector<std::string> cases = tricky_corpus();
  std::mt19937_64 random(11);
  const WordPiece pieces(Vocabulary(drawn_pieces(cases, Case::dropped, random), "drawn"));
  std::string text = "\n\n";
  for (int again = 0; again < 2; ++again)
    for (const std::string& line : cases) text += line + "\n";
  text += "the last line has no end";
  std::vector<Vocabulary::Id> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const auto ids = pieces.encode(text.substr(at, end - at));
    lines.insert(lines.end(), ids.begin(), ids.end());
    at = end + 1;
  }
  EXPECT_EQ(encode_text(text, pieces), lines);
  EXPECT_EQ(encode_text(text, pieces), pieces.encode(text));
  EXPECT_TRUE(encode_text("", pieces).empty());
}

}  // namespace thinwire::text
