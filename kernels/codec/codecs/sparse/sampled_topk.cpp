// Top-K by a threshold that a sample gives: deep gradient compression (Lin et al., arXiv 1712.01887; docs/papers/gradient_compression.md, "Deep gradient compression", has the rule).
//   target = fraction of the elements, at least 1;  kept = between 0.8 of the target and the target, as a rule: those of magnitude >= threshold
//   decoded = kept values at their positions, 0 elsewhere
// While training warms up the density falls to `fraction`, f: in stage s = 0 ... E - 1 of the first `ramp_steps` steps, E = ramp_stages, it is f^((s + 1) / (E + 1)).
// The start of the sample is drawn by the message's key, so equal messages give equal payloads. How many are kept depends on the values: topk keeps exactly k.
// Payload: kept i64; values [kept] in f16 (or f32), in order of position; positions (kernels/sparse/index_coding.h).
// Released form: up to 1.3 of the target the first in order of position are kept instead of the largest, so the tensor's end goes short; int64 positions.
// No mask for a backward pass: its size would have to travel.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "kernels/codec/payload/wire_values.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/registry.h"
#include "kernels/sparse/index_coding.h"
#include "kernels/sparse/positions.h"
#include "kernels/sparse/top_magnitudes.h"

namespace thinwire {
namespace {

struct Options {
  double fraction = 0.001;
  std::int64_t ramp_steps = 0, ramp_stages = 5;
  TopMagnitudes::Sampling sampling;
  IndexForm index = IndexForm::compact;
  DType values = DType::f16;
};

class SampledTopK final : public Codec {
 public:
  explicit SampledTopK(const Options& options) : options_(options) {
    traits_.fixed_size = false;
    traits_.encode_goal = traits_.decode_goal = 0.5;
  }

  const CodecTraits& traits() const override { return traits_; }
  /// Positions of all elements need no bytes, those of one less do.
  std::size_t max_payload_bytes(const Shape& shape) const override {
    const std::int64_t k = target(shape, 0);
    return std::max(bytes(shape, k), bytes(shape, std::max<std::int64_t>(0, k - 1)));
  }

 protected:
  std::size_t write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) override {
    // The number of an evaluation's round says nothing of how far training has come.
    selection_.select_sampled(x, target(x.shape(), key.pass == Pass::evaluate ? key.trained_steps : key.step), options_.sampling, key);
    const std::int64_t kept = selection_.kept();
    TW_ASSERT(payload.size() >= bytes(x.shape(), kept));
    std::memcpy(payload.data(), &kept, sizeof kept);
    if (!mover_.gather(selection_, x.as<float>(), 1, options_.values, payload.data() + sizeof kept))
      throw NotRepresentable("sampled_topk: " + text_of(key) + " has a value beyond f16 (65504); use values=f32, or scale the tensor");
    writer_.write(options_.index, selection_, payload.data() + sizeof kept + value_bytes(kept));
    return bytes(x.shape(), kept);
  }
  void read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, false); }
  void add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) override { expand(payload, key, out, true); }

 private:
  double density(std::int64_t step) const {
    if (step >= options_.ramp_steps) return options_.fraction;
    const std::int64_t stage = step * options_.ramp_stages / options_.ramp_steps;
    return std::pow(options_.fraction, static_cast<double>(stage + 1) / static_cast<double>(options_.ramp_stages + 1));
  }
  /// Never more than in step 0.
  std::int64_t target(const Shape& shape, std::int64_t step) const {
    const std::int64_t elements = shape.elements();
    return std::min(std::max<std::int64_t>(1, std::llround(density(step) * static_cast<double>(elements))), elements);
  }
  std::size_t value_bytes(std::int64_t kept) const { return static_cast<std::size_t>(kept) * size_of(options_.values); }
  std::size_t bytes(const Shape& shape, std::int64_t kept) const { return sizeof kept + value_bytes(kept) + index_bytes(options_.index, shape.elements(), kept); }

  void expand(std::span<const std::byte> payload, const MessageKey& key, TensorView out, bool add) {
    const Shape& shape = out.shape();
    std::int64_t kept = 0;
    if (payload.size() >= sizeof kept) std::memcpy(&kept, payload.data(), sizeof kept);
    if (kept < 0 || kept > target(shape, 0)) throw CorruptData("sampled_topk: " + text_of(key) + " is said to keep " + std::to_string(kept) + " elements: the payload is damaged");
    check_payload_size(payload.size(), bytes(shape, kept), "sampled_topk", shape, key);
    const auto list = payload.subspan(sizeof kept);
    reader_.open(options_.index, shape.elements(), kept, list.subspan(value_bytes(kept)), key);
    if (!mover_.scatter(reader_, list.data(), options_.values, 1, out.as<float>(), add))
      throw CorruptData("sampled_topk: the payload of " + text_of(key) + " holds NaN or infinity: it is damaged");
  }

  Options options_;
  CodecTraits traits_;
  TopMagnitudes selection_;
  SparseMover mover_;
  IndexWriter writer_;
  IndexReader reader_;
};

Options options_of(const Parameters& p, Form form) {
  Options o;
  o.fraction = p.real("fraction");
  o.ramp_steps = p.integer("ramp_steps"), o.ramp_stages = p.integer("ramp_stages");
  if (o.ramp_steps == 0 && p.given("ramp_stages")) throw UsageError("'sampled_topk:ramp_stages=" + std::to_string(o.ramp_stages) + "' are stages of ramp_steps, of which there are none; give ramp_steps");
  o.sampling = {.share = p.real("sample"), .in_order = form == Form::released};
  const std::string& index = p.choice("index");
  o.index = form == Form::released || index == "int64" ? IndexForm::int64 : index == "int32" ? IndexForm::int32 : IndexForm::compact;
  o.values = parse_dtype(p.choice("values"));
  return o;
}

const bool registered =
    register_codec({.name = "sampled_topk",
                    .summary = "the elements above a threshold that a sample gives",
                    .source = "Deep gradient compression (arXiv 1712.01887)",
                    .wire = "number kept int64, values in f16 or f32, then positions (compact: Elias-Fano); released: int64 positions",
                    .parameters = {{.name = "fraction", .kind = ParameterSpec::Kind::real, .default_value = "0.001", .minimum = 0, .maximum = 1, .help = "largest kept share of the elements of a message"},
                                   {.name = "ramp_steps",
                                    .kind = ParameterSpec::Kind::integer,
                                    .default_value = "0",
                                    .minimum = 0,
                                    .maximum = 1e9,
                                    .help = "first steps of training in which more is kept, less in each stage of them; 0: none"},
                                   {.name = "ramp_stages", .kind = ParameterSpec::Kind::integer, .default_value = "5", .minimum = 1, .maximum = 1000, .help = "stages of those steps: epochs, as published"},
                                   {.name = "sample", .kind = ParameterSpec::Kind::real, .default_value = "0.01", .minimum = 0.0001, .maximum = 1, .help = "least share of the elements that the threshold is taken from"},
                                   {.name = "index",
                                    .kind = ParameterSpec::Kind::choice,
                                    .default_value = "compact",
                                    .choices = {"compact", "int32", "int64"},
                                    .help = "how positions are sent; the released form sends int64"},
                                   {.name = "values", .kind = ParameterSpec::Kind::choice, .default_value = "f16", .choices = {"f16", "f32"}, .help = "element type of the kept values"}},
                    .has_released_form = true,
                    .make = [](const Parameters& p, Form form) { return std::make_unique<SampledTopK>(options_of(p, form)); },
                    .check = [](const CodecStack&, ConstTensorView x, std::span<const float> decoded) -> std::string {
                      require_kept_values(x.as<float>(), decoded, false);
                      return "kept values";
                    }});

}  // namespace
}  // namespace thinwire
