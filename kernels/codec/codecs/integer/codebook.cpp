// Code books of bin means (docs/papers/low_communication.md, "Code books"; the formula and its order of sums: kernels/codec/payload/code_book.h):
//   2 bits: SparseLoCo and MuLoCo (arXiv 2508.15706, 2505.23725), bins=4,centre=mean;  8 bits: INTELLECT-1's ring (2412.01152), bins=256,centre=zero
// A book belongs to the whole tensor, to a row, or to `group` neighbours of a row (the last of a row may be fewer).
// Payload: books of all blocks row by row, f32 [bins] each; codes of all blocks row by row, a block's end with their last byte.
// Released form: bins lie around the centre as the authors' codes have them, one more below than above (page, "Defects of the released code", 11), so zero is a bin's middle.
// A minimum-maximum code, as PCCL's, is group:range=minmax.
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/payload/code_book.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/simd/codes/uniform_codes.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

constexpr std::size_t stream_from_bytes = 8 << 20;  // larger outputs bypass the caches

enum class Scope { tensor, row, group };

struct Options {
  CodeBookRule rule;
  Scope scope = Scope::tensor;
  std::int64_t group = 4096;
};

/// Blocks that share a book.
struct Cut {
  std::int64_t rows, columns, block, blocks_of_row;
  std::size_t book_bytes, row_bytes;
  Cut(const Shape& shape, const Options& o)
      : rows(o.scope == Scope::tensor ? 1 : shape.rows()),
        columns(o.scope == Scope::tensor ? shape.elements() : shape.columns()),
        block(o.scope == Scope::group ? o.group : std::max<std::int64_t>(1, columns)),
        blocks_of_row((columns + block - 1) / block),
        book_bytes(o.rule.book_bytes()),
        row_bytes(o.rule.code_bytes(static_cast<std::size_t>(columns))) {}

  std::int64_t blocks() const { return rows * blocks_of_row; }
  std::size_t codes_at() const { return static_cast<std::size_t>(blocks()) * book_bytes; }
  std::size_t payload_bytes() const { return codes_at() + static_cast<std::size_t>(blocks() > 0 ? rows : 0) * row_bytes; }

  /// Calls body(first element, count, where the book begins, where the codes begin, thread).
  template <typename Body>
  void for_blocks(const CodeBookRule& rule, const Body& body) const {
    const auto one = [&](std::int64_t number, int thread) {
      const std::int64_t row = number / blocks_of_row, from = number % blocks_of_row * block;
      body(static_cast<std::size_t>(row * columns + from), static_cast<std::size_t>(std::min(block, columns - from)), static_cast<std::size_t>(number) * book_bytes,
           codes_at() + static_cast<std::size_t>(row) * row_bytes + rule.code_bytes(static_cast<std::size_t>(from)), thread);
    };
    if (blocks() == 1) return one(0, 0);  // outside of a parallel region: the block itself is worked on by all threads
    parallel_ranges(blocks(), std::max<std::int64_t>(1, default_grain / block), 1, [&](std::int64_t first, std::int64_t last, int thread) {
      for (std::int64_t number = first; number < last; ++number) one(number, thread);
    });
  }
};

class CodeBook final : public Codec {
 public:
  explicit CodeBook(const Options& options) : options_(options) {
    traits_.flat = options.scope != Scope::row;
    traits_.encode_goal = traits_.decode_goal = 0.4;
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override { return Cut(shape, options_).payload_bytes(); }
  /// Twice: moments, then codes and bins. A block that stays in the caches comes from memory once.
  double least_bytes_read(const Shape& shape) const override {
    return Codec::least_bytes_read(shape) * (4 * Cut(shape, options_).block > std::int64_t{1} << 20 ? 2 : 1);
  }

 protected:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const Cut cut(x.shape(), options_);
    TW_ASSERT(payload.size() >= cut.payload_bytes());
    const auto threads = static_cast<std::size_t>(omp_get_max_threads());
    if (writers_.size() < threads) writers_.resize(threads);
    const auto values = x.as<float>();
    cut.for_blocks(options_.rule, [&](std::size_t at, std::size_t count, std::size_t book, std::size_t codes, int thread) {
      if (!writers_[static_cast<std::size_t>(thread)].write(options_.rule, values.subspan(at, count), payload.data() + book, payload.data() + codes)) check_finite(x, text_of(key));
    });
    return cut.payload_bytes();
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

 private:
  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    const Cut cut(out.shape(), options_);
    check_payload_size(payload.size(), cut.payload_bytes(), "codebook", out.shape(), key);
    const auto values = out.as<float>();
    const bool stream = !add && out.bytes() >= stream_from_bytes;
    cut.for_blocks(options_.rule, [&](std::size_t at, std::size_t count, std::size_t book, std::size_t codes, int) {
      if (!read_code_book(options_.rule, payload.data() + book, payload.data() + codes, values.subspan(at, count), add, stream))
        throw CorruptData("codebook: a book of " + text_of(key) + " holds NaN or infinity: the payload is damaged");
    });
  }

  Options options_;
  CodecTraits traits_;
  std::vector<CodeBookWriter> writers_;  // by thread
};

const std::vector<ParameterSpec>& schema() {
  static const std::vector<ParameterSpec> specs = {
      {.name = "bins", .kind = ParameterSpec::Kind::choice, .default_value = "256", .choices = {"4", "16", "256"}, .help = "bins of a book: 2, 4 or 8 bits per element"},
      {.name = "sigmas", .kind = ParameterSpec::Kind::real, .default_value = "6", .minimum = 0.01, .maximum = 1000, .help = "standard deviations that the bins cover in all"},
      {.name = "centre", .kind = ParameterSpec::Kind::choice, .default_value = "mean", .choices = {"mean", "zero"}, .help = "around what the bins lie"},
      {.name = "scope", .kind = ParameterSpec::Kind::choice, .default_value = "tensor", .choices = {"tensor", "row", "group"}, .help = "elements that share a book"},
      {.name = "group", .kind = ParameterSpec::Kind::integer, .default_value = "4096", .minimum = 64, .maximum = 1 << 20, .help = "with scope=group: neighbours of a row that share a book; a multiple of 16"}};
  return specs;
}

Options options_of(const Parameters& p, Form form) {
  Options o;
  const std::string &bins = p.choice("bins"), &scope = p.choice("scope");
  o.rule.bits = bins == "4" ? 2 : bins == "16" ? 4 : 8;
  o.rule.width = p.real("sigmas");
  o.rule.centred = p.choice("centre") == "mean";
  o.rule.half_shift = form == Form::fair;
  o.scope = scope == "tensor" ? Scope::tensor : scope == "row" ? Scope::row : Scope::group;
  o.group = p.integer("group");
  if (o.group % 16 != 0) throw UsageError("'codebook:group=" + std::to_string(o.group) + "': a group is a multiple of 16");
  if (o.scope != Scope::group && !p.has_default(schema()[4])) throw UsageError("'codebook:group=" + std::to_string(o.group) + "' needs scope=group");
  return o;
}

// The formula in float64, element by element. Elements at a bin's border may fall on its other side in f32, and move both means a little.
std::string check_formula(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  const Options o = options_of(stack.expression.codec.parameters, stack.form);
  const std::span<const float> x = tensor.as<float>();
  const Cut cut(tensor.shape(), o);
  const double half = static_cast<double>(o.rule.bins()) / 2;
  std::vector<double> out(x.size());
  for (std::int64_t number = 0; number < cut.blocks(); ++number) {
    const std::int64_t from = number % cut.blocks_of_row * cut.block;
    const auto begin = static_cast<std::size_t>(number / cut.blocks_of_row * cut.columns + from), count = static_cast<std::size_t>(std::min(cut.block, cut.columns - from));
    const std::span<const float> block = x.subspan(begin, count);
    double mean = 0, spread = 0;
    for (const float v : block) mean += o.rule.centred ? double{v} / static_cast<double>(count) : 0;
    for (const float v : block) spread += (v - mean) * (v - mean);
    const double step = o.rule.width * std::sqrt(spread / std::max(1.0, static_cast<double>(count) - 1)) / (2 * half);
    std::vector<double> sums(o.rule.bins(), 0), counts(o.rule.bins(), 0);
    std::vector<std::size_t> bin(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double y = step == 0 ? 0 : std::nearbyint((block[i] - mean) / step - (o.rule.half_shift ? 0.5 : 0));
      bin[i] = static_cast<std::size_t>(std::clamp(y, -half, half - 1) + half);
      sums[bin[i]] += block[i], counts[bin[i]] += 1;
    }
    for (std::size_t i = 0; i < count; ++i) out[begin + i] = sums[bin[i]] / counts[bin[i]];
  }
  require_near_reference(decoded, out, 1e-2);
  return "scalar formula in float64";
}

const bool registered = register_codec({.name = "codebook",
                                        .summary = "codes of 2, 4 or 8 bits and the mean of every bin (minimum-maximum codes: group:range=minmax)",
                                        .source = "INTELLECT-1 (arXiv 2412.01152), SparseLoCo (2508.15706), MuLoCo (2505.23725)",
                                        .wire = "books f32 [bins], row by row, then codes of 2, 4 or 8 bits",
                                        .parameters = schema(),
                                        .presets = {"bins=4", "bins=16"},
                                        .has_released_form = true,
                                        .make = [](const Parameters& p, Form form) { return std::make_unique<CodeBook>(options_of(p, form)); },
                                        .check = check_formula});

}  // namespace
}  // namespace thinwire
