// `--data masked_text`: the halves of a corpus as masked pairs of segments, in bytes or in the pieces of a vocabulary.
#include <memory>

#include "core/error.h"
#include "core/sha256.h"
#include "kernels/codec/registry.h"
#include "models/data/masked_text.h"
#include "models/data/text/encode_text.h"

namespace thinwire {
namespace {

using Kind = ParameterSpec::Kind;

const NamedSchema schema{"masked_text",
                         {{.name = "rate", .default_value = "0.15", .minimum = 1e-6, .maximum = 1},
                          {.name = "shorter", .default_value = "0.1", .minimum = 0, .maximum = 1},
                          {.name = "pairs", .kind = Kind::choice, .default_value = "order", .choices = {"order", "next"}},
                          {.name = "within", .kind = Kind::integer, .default_value = "0", .minimum = 0, .maximum = 1e12},
                          {.name = "tokens", .kind = Kind::choice, .default_value = "bytes", .choices = {"bytes", "pieces"}},
                          {.name = "case", .kind = Kind::choice, .default_value = "dropped", .choices = {"dropped", "kept"}}}};

/// Samples, and the text that they are of.
template <typename Token, typename Text>
class OwningSegments final : public Dataset {
 public:
  OwningSegments(std::shared_ptr<const Text> text, MaskedSegments<Token> samples) : text_(std::move(text)), samples_(std::move(samples)) {}
  Batch batch(std::uint64_t step, std::int64_t first_sample, std::int64_t count, std::int64_t seq) const override { return samples_.batch(step, first_sample, count, seq); }
  double weight(std::uint64_t step, std::int64_t count, std::int64_t seq) const override { return samples_.weight(step, count, seq); }
  std::int64_t samples() const override { return samples_.samples(); }

 private:
  std::shared_ptr<const Text> text_;
  MaskedSegments<Token> samples_;
};

constexpr const char *training_stream = "masked.training", *validation_stream = "masked.validation";

DataSource in_bytes(const DataRequest& request, const MaskedOptions& options) {
  const auto corpus = std::make_shared<const Corpus>(Corpus::open(request.path));
  const auto half = [&](std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream) {
    return std::make_unique<OwningSegments<std::uint8_t, Corpus>>(corpus, MaskedText(text, seed, stream, options, request.global_batch));
  };
  DataSource source;
  source.training = half(corpus->training(), request.seed, training_stream);
  source.validation = half(corpus->validation(), validation_seed, validation_stream);
  source.hash = corpus->hash();
  source.vocabulary = masked_text_vocabulary;
  source.unigram_entropy = corpus->unigram_entropy(), source.bigram_entropy = corpus->bigram_entropy();
  return source;
}

DataSource in_pieces(const DataRequest& request, const MaskedOptions& options, const std::string& letters) {
  if (request.vocabulary.empty()) throw UsageError("--data masked_text:" + request.options + ": a text is cut into the pieces of a vocabulary; name it by --vocabulary vocab.txt");
  const Corpus corpus = Corpus::open(request.path);
  const text::WordPiece pieces(text::Vocabulary::read(request.vocabulary), letters == "kept" ? text::Case::kept : text::Case::dropped);
  const text::Vocabulary& vocabulary = pieces.vocabulary();
  // A random token is any of the vocabulary, as in Google's code.
  const MaskedTokens special{vocabulary.begin(), vocabulary.separator(), vocabulary.mask(), vocabulary.pad(), vocabulary.size()};
  using Ids = std::vector<text::Vocabulary::Id>;
  const auto half = [&](std::span<const std::uint8_t> text, std::uint64_t seed, const char* stream) {
    const auto ids = std::make_shared<const Ids>(text::encode_text({reinterpret_cast<const char*>(text.data()), text.size()}, pieces));
    return std::make_unique<OwningSegments<std::int32_t, Ids>>(ids, MaskedPieces(*ids, seed, stream, options, request.global_batch, special));
  };
  DataSource source;
  source.training = half(corpus.training(), request.seed, training_stream);
  source.validation = half(corpus.validation(), validation_seed, validation_stream);
  source.vocabulary = vocabulary.size();
  source.unigram_entropy = corpus.unigram_entropy(), source.bigram_entropy = corpus.bigram_entropy();
  source.hash = sha256_hex(corpus.hash() + "\n" + vocabulary.hash() + "\n" + letters + "\n");
  return source;
}

const RegisterData registered_masked_text({"masked_text",
                                "pairs of segments of a text (--text), tokens of which are to be filled in: rate=0.15 of them; shorter=0.1 of the samples are shorter than --seq; "
                                "pairs=order: which of two neighbours comes first, or next: whether the second follows the first or is from another place, at most within=0 tokens away (0: anywhere); "
                                "tokens=bytes (--vocab 259), or pieces of the words of --vocabulary, case=dropped or kept",
                                [](const DataRequest& request) {
                                  const Parameters given = parse_named(request.options.empty() ? "masked_text" : "masked_text:" + request.options, {schema}, "data").parameters;
                                  if (given.integer("within") > 0 && given.choice("pairs") == "order")
                                    throw UsageError("--data masked_text:" + request.options + ": within says how far away the second segments of pairs=next are; of pairs=order both are neighbours");
                                  const MaskedOptions options{given.real("rate"), given.real("shorter"), given.choice("pairs") == "next" ? PairQuestion::next : PairQuestion::order, given.integer("within")};
                                  return given.choice("tokens") == "pieces" ? in_pieces(request, options, given.choice("case")) : in_bytes(request, options);
                                },
                                true});

}  // namespace
}  // namespace thinwire
