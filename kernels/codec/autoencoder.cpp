#include "kernels/codec/autoencoder.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "kernels/codec/autoencoder_fit.h"
#include "kernels/codec/registry.h"
#include "kernels/matrix/principal.h"
#include "kernels/matrix/product.h"

namespace thinwire {

Autoencoder::Autoencoder(AutoencoderOptions options) : options_(options), wire_(options.wire) {
  traits_.needs_fit = options_.start_from_pca || options_.steps > 0;
  traits_.rounds = 1;
  traits_.rounds_per_shard = true;
  traits_.operators = {ReduceOp::sum};
  traits_.backward = BackwardRule::linear_map;
}

std::int64_t Autoencoder::width_for(std::int64_t columns) const {
  const std::int64_t e = options_.width > 0 ? options_.width : std::max<std::int64_t>(1, std::llround(options_.fraction * static_cast<double>(columns)));
  if (e > columns)
    throw UsageError("autoencoder: a code of width " + std::to_string(e) + " is wider than the tensor's " + std::to_string(columns) +
                     " columns; use width <= columns, or fraction <= 1");
  return e;
}

void Autoencoder::check_view(ConstTensorView x) const {
  TW_ASSERT(x.dtype() == DType::f32 && x.device().kind == DeviceKind::host);
}

// Glorot and Bengio (2010): uniform in +-sqrt(6 / (fan_in + fan_out)), equal on all ranks.
Autoencoder::Weights Autoencoder::xavier(std::int64_t columns) const {
  const std::int64_t e = width_for(columns);
  const float bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(columns + e)));
  const Random encoder(options_.seed, "autoencoder.encoder"), decoder(options_.seed, "autoencoder.decoder");
  Weights w;
  w.encoder.resize(static_cast<std::size_t>(e * columns));
  w.decoder.resize(w.encoder.size());
  for (std::size_t i = 0; i < w.encoder.size(); ++i) {
    w.encoder[i] = bound * (2 * encoder.uniform(i) - 1);
    w.decoder[i] = bound * (2 * decoder.uniform(i) - 1);
  }
  return w;
}

Autoencoder::Weights& Autoencoder::weights(std::int64_t columns) {
  const auto found = weights_.find(columns);
  if (found != weights_.end()) return found->second;
  if (traits_.needs_fit)
    throw UsageError("autoencoder: no weights for tensors of " + std::to_string(columns) +
                     " columns; fit it on training samples first (Channel::fit), or use init=xavier,steps=0 to train it with the model");
  return weights_.emplace(columns, xavier(columns)).first->second;
}

void Autoencoder::set_weights(std::int64_t columns, std::span<const float> encoder, std::span<const float> decoder) {
  const auto size = static_cast<std::size_t>(width_for(columns) * columns);
  if (encoder.size() != size || decoder.size() != size)
    throw UsageError("autoencoder: weights for " + std::to_string(columns) + " columns have " + std::to_string(size) + " elements each, got " +
                     std::to_string(encoder.size()) + " and " + std::to_string(decoder.size()));
  weights_[columns] = {{encoder.begin(), encoder.end()}, {decoder.begin(), decoder.end()}};
}

void Autoencoder::fit(std::span<const ConstTensorView> samples) {
  std::int64_t rows = 0;
  for (const ConstTensorView& s : samples) {
    check_view(s);
    if (s.shape().columns() != samples[0].shape().columns())
      throw UsageError("autoencoder: samples have " + std::to_string(samples[0].shape().columns()) + " and " + std::to_string(s.shape().columns()) +
                       " columns; fit one auto-encoder per width of tensor");
    check_finite(s, "sample of the auto-encoder's fit");
    rows += s.shape().rows();
  }
  if (rows == 0) throw UsageError("autoencoder: no rows to fit on; pass captured training tensors");
  const std::int64_t h = samples[0].shape().columns(), e = width_for(h);
  Weights w;
  if (options_.start_from_pca) {
    const std::vector<double> directions = leading_eigenvectors(gram_matrix(samples), h, e);
    w.encoder.assign(directions.begin(), directions.end());
    w.decoder.resize(w.encoder.size());
    for (std::int64_t i = 0; i < e; ++i)
      for (std::int64_t j = 0; j < h; ++j) w.decoder[static_cast<std::size_t>(j * e + i)] = w.encoder[static_cast<std::size_t>(i * h + j)];
  } else {
    const auto found = weights_.find(h);
    w = found != weights_.end() ? found->second : xavier(h);
  }
  if (options_.steps > 0) refine_autoencoder(samples, e, options_.steps, options_.seed, w.encoder, w.decoder);
  weights_[h] = std::move(w);
}

std::size_t Autoencoder::max_payload_bytes(const Shape& shape) const {
  return shape.elements() == 0 ? 0 : wire_.bytes(shape.rows() * width_for(shape.columns()));
}

std::size_t Autoencoder::encode(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  check_view(x);
  if (x.elements() == 0) return 0;
  const std::int64_t n = x.shape().rows(), h = x.shape().columns(), e = width_for(h);
  const std::size_t size = wire_.bytes(n * e);
  TW_ASSERT(payload.size() >= size);
  float* code = code_.as<float>(static_cast<std::size_t>(n * e));
  matrix_product(Op::plain, Op::transposed, n, e, h, x.as<float>().data(), weights(h).encoder.data(), code);
  wire_.write({code, static_cast<std::size_t>(n * e)}, payload.first(size), "autoencoder: the code", key, x);
  return size;
}

void Autoencoder::expand(std::span<const float> code, TensorView out, bool accumulate) {
  const std::int64_t n = out.shape().rows(), h = out.shape().columns(), e = width_for(h);
  matrix_product(Op::plain, Op::transposed, n, h, e, code.data(), weights(h).decoder.data(), out.as<float>().data(), accumulate);
}

void Autoencoder::decode(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  check_view(out);
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), "autoencoder", out.shape(), key);
  if (out.elements() > 0) expand(wire_.read(payload, "autoencoder: the code", key), out, false);
}

void Autoencoder::decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  check_view(out);
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), "autoencoder", out.shape(), key);
  if (out.elements() > 0) expand(wire_.read(payload, "autoencoder: the code", key), out, true);
}

Round Autoencoder::begin_round(int r, ConstTensorView x, const MessageKey& key, int) {
  TW_ASSERT(r == 0);
  const std::size_t size = max_payload_bytes(x.shape());
  send_.reserve(size);
  receive_.reserve(size);
  round_shape_ = x.shape();
  encode(x, key, {send_.data(), size});
  return {{send_.data(), size}, {receive_.data(), size}, wire_.type(), ReduceOp::sum};
}

void Autoencoder::end_rounds(const MessageKey& key, int, TensorView sum) {
  decode({receive_.data(), max_payload_bytes(round_shape_)}, key, sum);
}

void Autoencoder::own_decoded(const MessageKey& key, TensorView out) { decode({send_.data(), max_payload_bytes(round_shape_)}, key, out); }

Shape Autoencoder::travel_shape(const Shape& shape) const { return {shape.rows(), width_for(shape.columns())}; }

void Autoencoder::decode_backward(ConstTensorView decoded_gradient, const MessageKey&, TensorView travel) {
  check_view(decoded_gradient);
  const std::int64_t n = decoded_gradient.shape().rows(), h = decoded_gradient.shape().columns(), e = width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  matrix_product(Op::plain, Op::plain, n, e, h, decoded_gradient.as<float>().data(), weights(h).decoder.data(), travel.as<float>().data());
}

void Autoencoder::encode_backward(ConstTensorView travel, const MessageKey&, TensorView input_gradient) {
  check_view(travel);
  const std::int64_t n = input_gradient.shape().rows(), h = input_gradient.shape().columns(), e = width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  matrix_product(Op::plain, Op::plain, n, h, e, travel.as<float>().data(), weights(h).encoder.data(), input_gradient.as<float>().data());
}

void Autoencoder::encoder_gradient(ConstTensorView x, ConstTensorView travel, std::span<float> gradient) const {
  const std::int64_t n = x.shape().rows(), h = x.shape().columns(), e = width_for(h);
  TW_ASSERT(travel.elements() == n * e && static_cast<std::int64_t>(gradient.size()) == e * h);
  matrix_product(Op::transposed, Op::plain, e, h, n, travel.as<float>().data(), x.as<float>().data(), gradient.data(), true);
}

void Autoencoder::decoder_gradient(ConstTensorView decoded_gradient, ConstTensorView code, std::span<float> gradient) const {
  const std::int64_t n = decoded_gradient.shape().rows(), h = decoded_gradient.shape().columns(), e = width_for(h);
  TW_ASSERT(code.elements() == n * e && static_cast<std::int64_t>(gradient.size()) == e * h);
  matrix_product(Op::transposed, Op::plain, h, e, n, decoded_gradient.as<float>().data(), code.as<float>().data(), gradient.data(), true);
}

namespace {
using Kind = ParameterSpec::Kind;
const bool registered = register_codec(
    {.name = "autoencoder",
     .summary = "trained linear code: X E^T sent, (X E^T) D^T decoded; codes add up over ranks",
     .source = "Bian et al., arXiv 2301.02654; Xavier start: Glorot and Bengio 2010; PCA optimum: Eckart and Young 1936",
     .parameters = {{"width", Kind::integer, "0", 0, 1 << 20, {}, "columns of the code; 0: from fraction"},
                    {"fraction", Kind::real, "0.05", 1e-6, 1, {}, "width as a fraction of the tensor's columns"},
                    {"wire", Kind::choice, "f16", 0, 0, {"f16", "f32"}, "type of the code on the wire"},
                    {"init", Kind::choice, "pca", 0, 0, {"pca", "xavier"}, "start: principal directions of training samples, or random (trains with the model)"},
                    {"steps", Kind::integer, "0", 0, 1'000'000, {}, "Adam steps on the reconstruction error in a fit"},
                    {"seed", Kind::integer, "0", 0, 2147483647, {}, "of the random start"}},
     .has_released_form = false,
     .make = [](const Parameters& p, Form) -> std::unique_ptr<Codec> {
       AutoencoderOptions o;
       o.width = p.integer("width");
       o.fraction = p.real("fraction");
       o.wire = parse_dtype(p.choice("wire"));
       o.start_from_pca = p.choice("init") == "pca";
       o.steps = p.integer("steps");
       o.seed = static_cast<std::uint64_t>(p.integer("seed"));
       return std::make_unique<Autoencoder>(o);
     }});
}  // namespace

}  // namespace thinwire
