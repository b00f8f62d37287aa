// Homomorphic sketches: lossless homomorphic compression (Li et al., arXiv 2402.07529), the sum over ranks in TAGC (Polyakov et al., EuroMLSys 2025, arXiv 2504.05638).
// docs/papers/gradient_compression.md, "Sketches", has the method and its limits.
//   kept    = about 1 - target of the elements, the largest (kept_elements.h)
//   index   = where a rank kept something, over ranks by OR;   counters = the sketch of what was kept (row_sketch.h), over ranks by SUM in f32
//   decoded = counters peeled along the index, medians for the rest: the sum of what was kept, up to rounding, while (share of the elements that any rank kept) x ratio
//             stays below about 0.75
// Two rounds, index then counters, of which neither depends on the other: row blocks are reduced independently (TAGC), or the whole message (LHC).
// As a message of one rank the two travel together. Payload, no header:
//   counters f32 [R][1024], R = ceil(K / ratio) for K = ceil(elements / 1024) rows;  index, `index_bits` per element (index_bits.h)
//   4096 R + ceil(elements index_bits / 8) bytes
// A message whose sketch would not be smaller, or has fewer than three rows for its three hashes, travels as it is, f32, nothing left out (index: no bytes); TAGC sends
// the tail of a shard that way, which here belongs to the last row.
// The residual of +ef is what was not kept (of a sum over ranks; as a message it is what the receiver does not see).
// Released form: TAGC's ladder of thresholds; the index added as bytes, where with one bit per element 1 + 1 carries into the neighbour; row_sketch.h has the rest.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/codec_parts.h"
#include "kernels/codec/codecs/sketch/index_bits.h"
#include "kernels/codec/codecs/sketch/kept_elements.h"
#include "kernels/codec/codecs/sketch/row_sketch.h"
#include "kernels/codec/joint_sum.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/registry.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

struct Options {
  double ratio = 2, target = 0.8;
  ThresholdRule threshold = ThresholdRule::quantile;
  int index_bits = 1;
  RowHash::Rule hash;
  Form form = Form::fair;
};

/// Of a message's two buffers.
struct Layout {
  std::int64_t elements = 0, buckets = 0;
  bool plain = true;  ///< the counters are the tensor itself, without an index
  std::size_t values = 0, index = 0;
  std::size_t value_bytes() const { return values * sizeof(float); }
};

void copy_floats(const void* from, void* to, std::size_t count) {
  parallel_for(static_cast<std::int64_t>(count), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<std::byte*>(to) + begin * 4, static_cast<const std::byte*>(from) + begin * 4, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

class Sketch final : public Codec, public Rounds, public Parts, public SumsAlone {
 public:
  explicit Sketch(const Options& options) : options_(options), sketch_(options.hash, options.form) {
    traits_.encode_goal = 0.2, traits_.decode_goal = 0.1;  // three scattered additions for each kept element; peeling
    traits_.rounds = 2;
    traits_.rounds_per_shard = true;
    traits_.operators = {ReduceOp::sum};
    if (index_operator() != ReduceOp::sum) traits_.operators.push_back(index_operator());
  }

  const CodecTraits& traits() const override { return traits_; }
  std::size_t max_payload_bytes(const Shape& shape) const override {
    const Layout of = layout(shape);
    return of.value_bytes() + of.index;
  }

  std::string by_sums_alone() const override {
    return index_operator() == ReduceOp::sum ? "" : "index_bits=4 (four times the index, at most " + std::to_string(most_counted_ranks) + " ranks)";
  }

  Round begin_round(int r, ConstTensorView x, const MessageKey& key, int world) override {
    const Layout of = layout(x.shape());
    if (r == 1) {
      held_->received_values.reserve(of.value_bytes());
      return {{held_->sent_values.data(), of.value_bytes()}, {held_->received_values.data(), of.value_bytes()}, DType::f32, ReduceOp::sum};
    }
    if (options_.form == Form::fair && options_.index_bits == 4 && world > most_counted_ranks)
      throw UsageError("sketch:index_bits=4 counts ranks in 4 bits: at most " + std::to_string(most_counted_ranks) + ", not " + std::to_string(world) + "; use index_bits=1");
    write(x, of, key);
    held_->received_index.reserve(of.index);
    return {{held_->sent_index.data(), of.index}, {held_->received_index.data(), of.index}, DType::u8, index_operator()};
  }
  void end_rounds(const MessageKey& key, int, TensorView sum) override { expand(held_->received_values, held_->received_index.data(), layout(sum.shape()), key, sum); }
  bool keeps_apart() const override { return true; }
  void use_place(int place) override { held_.use(place); }
  void own_decoded(const MessageKey&, TensorView out) override {
    if (const Layout of = layout(out.shape()); of.plain)
      copy_floats(held_->sent_values.data(), out.data(), of.values);
    else
      held_->kept.expand(out.as<float>());
  }

  // Counters are added to, and peeling takes back, three times for each element of the index, wherever they lie: 4 bytes read and 4 written each time. What peels reads the index and
  // writes all of the tensor.
  std::vector<CodecPart> parts(ConstTensorView x, TensorView out) override {
    const Layout of = layout(x.shape());
    if (of.plain) return {};
    const MessageKey key;
    write(x, of, key);
    const std::span<std::uint64_t> words = index_words(of);
    std::int64_t held = 0;
    for (const std::uint64_t word : words) held += std::popcount(word);
    const double dense = static_cast<double>(x.bytes()), bits = static_cast<double>(words.size_bytes()), index = static_cast<double>(of.index), scattered = 3.0 * sizeof(float) * static_cast<double>(held);
    float* const counters = held_->sent_values.as<float>(of.values);
    std::byte* const sent = held_->sent_index.data();
    return {{"selection", [=, this] { held_->kept.select(x, options_.threshold, options_.target, key, words); }, dense, bits},
            {"counters", [=, this] { sketch_.add_up(x.as<float>(), words, of.buckets, counters); }, dense + bits + scattered, scattered},
            {"index out", [=, this] { write_index(words, of.elements, options_.index_bits, sent); }, bits, index},
            {"index in", [=, this] { (void)read_index(sent, of.elements, options_.index_bits, words); }, index, bits},
            {"peeling", [=, this] { (void)sketch_.recover(counters, of.buckets, words, out.as<float>()); }, bits + scattered, scattered + dense}};
  }

 protected:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    const Layout of = layout(x.shape());
    TW_ASSERT(payload.size() >= of.value_bytes() + of.index);
    write(x, of, key);
    copy_floats(held_->sent_values.data(), payload.data(), of.values);
    if (of.index > 0) std::memcpy(payload.data() + of.value_bytes(), held_->sent_index.data(), of.index);
    return of.value_bytes() + of.index;
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override {
    const Layout of = layout(out.shape());
    check_payload_size(payload.size(), of.value_bytes() + of.index, "sketch", out.shape(), key);
    held_->received_values.reserve(of.value_bytes());
    copy_floats(payload.data(), held_->received_values.data(), of.values);
    expand(held_->received_values, payload.data() + of.value_bytes(), of, key, out);
  }

 private:
  ReduceOp index_operator() const { return options_.form == Form::fair && options_.index_bits == 1 ? ReduceOp::bit_or : ReduceOp::sum; }

  Layout layout(const Shape& shape) const {
    Layout of;
    of.elements = shape.elements();
    of.buckets = static_cast<std::int64_t>(std::ceil(static_cast<double>(RowSketch::rows_of(of.elements)) / options_.ratio));
    of.values = static_cast<std::size_t>(of.buckets * RowSketch::lanes);
    of.index = index_bytes(of.elements, options_.index_bits);
    const auto elements = static_cast<std::size_t>(of.elements);
    of.plain = of.buckets < RowHash::hashes || of.value_bytes() + of.index >= elements * sizeof(float);
    if (of.plain) of.values = elements, of.index = 0;
    return of;
  }

  void write(ConstTensorView x, const Layout& of, const MessageKey& key) {
    const auto values = x.as<float>();
    float* const to = held_->sent_values.as<float>(of.values);
    if (of.plain) {
      if (!all_finite(values)) check_finite(x, text_of(key));
      return copy_floats(values.data(), to, of.values);
    }
    const std::span<std::uint64_t> words = index_words(of);
    held_->kept.select(x, options_.threshold, options_.target, key, words);
    if (!sketch_.add_up(values, words, of.buckets, to)) throw NotRepresentable("sketch: a counter of " + text_of(key) + ", a sum of several values, overflows f32; scale the tensor");
    held_->sent_index.reserve(of.index);
    write_index(words, of.elements, options_.index_bits, held_->sent_index.data());
  }

  void expand(Buffer& values, const std::byte* index, const Layout& of, const MessageKey& key, TensorView out) {
    const float* const from = values.as<float>(of.values);
    bool finite = true;
    if (of.plain) {
      finite = all_finite({from, of.values});
      copy_floats(from, out.data(), of.values);
    } else {
      const std::span<std::uint64_t> words = index_words(of);
      // The released sum carries beyond the last element, too.
      if (!read_index(index, of.elements, options_.index_bits, words) && options_.form == Form::fair)
        throw CorruptData("sketch: the index of " + text_of(key) + " names elements behind the last one: the message is damaged");
      finite = sketch_.recover(from, of.buckets, words, out.as<float>()).finite;
    }
    if (!finite)
      throw NonFiniteData("sketch: " + text_of(key) + " arrived with, or adds up to, NaN or infinity: the message is damaged, or its sum over ranks overflowed f32 (then scale the tensor)");
  }

  std::span<std::uint64_t> index_words(const Layout& of) {
    const std::size_t count = RowSketch::index_words(of.elements);
    return {words_.as<std::uint64_t>(count), count};
  }

  Options options_;
  CodecTraits traits_;
  struct Held {
    KeptElements kept;
    Buffer sent_values, sent_index, received_values, received_index;
  };
  Places<Held> held_;
  RowSketch sketch_;
  Buffer words_;
};

using Kind = ParameterSpec::Kind;
const bool registered = register_codec(
    {.name = "sketch",
     .summary = "the largest elements in hashed counters, and where they are: both add up over ranks; decoded by peeling",
     .source = "Lossless homomorphic compression (arXiv 2402.07529); TAGC, EuroMLSys 2025 (arXiv 2504.05638)",
     .wire = "counters f32 [rows / ratio, 1024], added up over ranks, and index bits, joined by OR; the tensor where that would not be smaller",
     .parameters = {{"ratio", Kind::real, "2", 1, 1e6, {}, "elements per counter"},
                    {"target", Kind::real, "0.8", 0, 1, {}, "share of the elements that is left out"},
                    {"threshold", Kind::choice, "automatic", 0, 0, {"automatic", "quantile", "ladder"},
                     "what is left out: exactly the target, or less by TAGC's ladder of thresholds; automatic: quantile, but ladder in the released form"},
                    {"index_bits", Kind::choice, "1", 0, 0, {"1", "4"}, "of an element; 1 is reduced by OR, 4 by sums over at most 15 ranks (the released form sums both)"},
                    {"buckets", Kind::choice, "any", 0, 0, {"any", "thirds"}, "where the three hashes of a row may meet: as released, or each in a third of its own"},
                    {"lanes", Kind::choice, "turned", 0, 0, {"turned", "kept"},
                     "turned: by another number in every row, so that columns of a matrix spread over all counters of a row; the released form keeps them"}},
     .presets = {"ratio=10,target=0.95", "threshold=ladder"},
     .has_released_form = true,
     .make = [](const Parameters& p, Form form) -> std::unique_ptr<Codec> {
       Options o;
       o.ratio = p.real("ratio");
       o.target = p.real("target");
       const std::string& threshold = p.choice("threshold");
       o.threshold = threshold == "ladder" || (threshold == "automatic" && form == Form::released) ? ThresholdRule::ladder : ThresholdRule::quantile;
       o.index_bits = p.choice("index_bits") == "4" ? 4 : 1;
       o.hash.buckets = p.choice("buckets") == "thirds" ? RowHash::Buckets::thirds : RowHash::Buckets::any;
       o.hash.lanes = form == Form::released || p.choice("lanes") == "kept" ? RowHash::Lanes::kept : RowHash::Lanes::turned;
       o.form = form;
       return std::make_unique<Sketch>(o);
     }});

}  // namespace
}  // namespace thinwire
