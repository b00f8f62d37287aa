#include "kernels/codec/codecs/learned/autoencoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/random.h"
#include "core/tensor_names.h"
#include "kernels/codec/codecs/learned/autoencoder_fit.h"
#include "kernels/codec/reference_check.h"
#include "kernels/codec/state.h"
#include "kernels/convert.h"
#include "kernels/matrix/orthonormalise.h"
#include "kernels/matrix/principal.h"
#include "kernels/matrix/product.h"

namespace thinwire {

Autoencoder::Autoencoder(AutoencoderOptions options) : PayloadRounds(*this, options.wire), options_(options), wire_(options.wire) {
  traits_.needs_fit = options_.start == AutoencoderOptions::Start::principal || options_.steps > 0;
  traits_.encode_goal = traits_.decode_goal = 0.7;
  traits_.rounds = 1;
  traits_.rounds_per_shard = true;
  traits_.operators = {ReduceOp::sum};
  traits_.backward = BackwardRule::linear_map;
  traits_.reordered_sums = true;
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

// Equal on all ranks; a tensor's own weights differ from those of others.
Autoencoder::Weights Autoencoder::random_start(std::int64_t columns, std::uint64_t tensor) const {
  const std::int64_t e = width_for(columns);
  const auto stream = [&](const char* name) {
    return Random(options_.seed, tensor == 0 ? hash_name(name) : mix_stream(hash_name(name), tensor));
  };
  const Random encoder = stream("autoencoder.encoder"), decoder = stream("autoencoder.decoder");
  Weights w;
  w.encoder.resize(static_cast<std::size_t>(e * columns));
  w.decoder.resize(w.encoder.size());
  if (options_.start == AutoencoderOptions::Start::orthonormal) {
    for (std::size_t i = 0; i < w.decoder.size(); ++i) w.decoder[i] = static_cast<float>(decoder.normal(i));
    Orthonormaliser().apply(w.decoder.data(), columns, e);
    for (std::int64_t i = 0; i < e; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        w.encoder[static_cast<std::size_t>(i * columns + j)] = w.decoder[static_cast<std::size_t>(j * e + i)];
    return w;
  }
  if (options_.start == AutoencoderOptions::Start::residual) {
    for (std::int64_t i = 0; i < e; ++i) w.encoder[static_cast<std::size_t>(i * columns + i)] = w.decoder[static_cast<std::size_t>(i * e + i)] = 1;
    return w;
  }
  // Glorot and Bengio (2010): uniform in +-sqrt(6 / (fan_in + fan_out)).
  const float bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(columns + e)));
  for (std::size_t i = 0; i < w.encoder.size(); ++i) {
    w.encoder[i] = bound * (2 * encoder.uniform(i) - 1);
    w.decoder[i] = bound * (2 * decoder.uniform(i) - 1);
  }
  return w;
}

Autoencoder::Weights& Autoencoder::weights(std::int64_t columns, std::uint64_t tensor) {
  auto found = weights_.find({columns, tensor});
  if (found == weights_.end()) found = weights_.find({columns, 0});
  if (found != weights_.end()) return found->second;
  if (traits_.needs_fit)
    throw UsageError("autoencoder: no weights for tensors of " + std::to_string(columns) +
                     " columns; fit it on training samples first (Channel::fit), or use init=orthonormal,steps=0 to train it with the model");
  return weights_.emplace(std::pair(columns, std::uint64_t{0}), random_start(columns, 0)).first->second;
}

bool Autoencoder::trains(ConstTensorView x, const MessageKey& key) const {
  if (!remembers(key)) return false;
  const auto found = weights_.find({x.shape().columns(), key.tensor});
  return found != weights_.end() && !found->second.encoder_gradient.empty();
}

void Autoencoder::prepare_training(std::uint64_t tensor, std::int64_t columns) {
  if (tensor == 0) throw UsageError("autoencoder: a tensor whose weights are to be trained needs a name; key its messages by tensor_id");
  auto found = weights_.find({columns, tensor});
  if (found == weights_.end()) {
    const auto shared = weights_.find({columns, 0});
    const bool fitted = shared != weights_.end() && shared->second.fitted;
    Weights start = fitted || traits_.needs_fit ? weights(columns, 0) : random_start(columns, tensor);
    found = weights_.emplace(std::pair(columns, tensor), std::move(start)).first;
  }
  Weights& w = found->second;
  w.encoder_gradient.resize(w.encoder.size(), 0.0f);
  w.decoder_gradient.resize(w.decoder.size(), 0.0f);
}

std::vector<Autoencoder::Place> Autoencoder::places() {
  std::vector<Place> all;
  for (auto& [place, w] : weights_) all.push_back({place.first, place.second, w.encoder, w.decoder, !w.encoder_gradient.empty()});
  return all;
}

std::vector<CodecParameter> Autoencoder::trainable() {
  std::vector<CodecParameter> all;
  for (auto& [place, w] : weights_) {
    if (w.encoder_gradient.empty()) continue;
    const std::string name = tensor_label(place.second);
    all.push_back({"encoder of " + name, w.encoder, w.encoder_gradient, CodecParameter::Owner::sender});
    all.push_back({"decoder of " + name, w.decoder, w.decoder_gradient, CodecParameter::Owner::receiver});
  }
  return all;
}

void Autoencoder::save_state(StateWriter& to) const {
  for (const auto& [place, w] : weights_) {
    const auto [columns, tensor] = place;
    const std::int64_t e = static_cast<std::int64_t>(w.encoder.size()) / columns;
    to.put("encoder", tensor, Shape{e, columns}, w.encoder);
    to.put("decoder", tensor, Shape{columns, e}, w.decoder);
  }
}

// In place where the weights exist: whoever trains them holds spans.
void Autoencoder::load_state(StateReader& from) {
  const auto encoders = from.take("encoder", DType::f32), decoders = from.take("decoder", DType::f32);
  const auto refuse = [](const std::string& what) {
    throw CorruptData("autoencoder: " + what + "; use another checkpoint, or reset the codec's state");
  };
  if (encoders.size() != decoders.size()) refuse("the saved state has encoders without decoders");
  std::vector<std::pair<std::int64_t, std::uint64_t>> places;
  for (std::size_t i = 0; i < encoders.size(); ++i) {
    const StateEntry &e = *encoders[i], &d = *decoders[i];
    const bool fits = e.shape.rank() == 2 && e.shape[1] > 0 && e.shape[0] <= e.shape[1] && e.shape[0] == width_for(e.shape[1]) &&
                      d.shape == Shape{e.shape[1], e.shape[0]} && d.key == e.key;
    if (!fits) refuse("saved weights " + e.shape.to_string() + " and " + d.shape.to_string() + " are no encoder and decoder of this codec");
    places.emplace_back(e.shape[1], e.key);
  }
  std::erase_if(weights_, [&](const auto& entry) {
    return entry.second.encoder_gradient.empty() && std::find(places.begin(), places.end(), entry.first) == places.end();
  });
  for (const auto& [place, w] : weights_)
    if (std::find(places.begin(), places.end(), place) == places.end())
      refuse("the saved state has no weights of " + tensor_label(place.second));
  for (std::size_t i = 0; i < places.size(); ++i) {
    Weights& w = weights_[places[i]];
    const auto size = static_cast<std::size_t>(encoders[i]->shape.elements());
    w.encoder.resize(size);
    w.decoder.resize(size);
    std::memcpy(w.encoder.data(), encoders[i]->bytes.data(), size * sizeof(float));
    std::memcpy(w.decoder.data(), decoders[i]->bytes.data(), size * sizeof(float));
  }
}

void Autoencoder::set_weights(std::int64_t columns, std::span<const float> encoder, std::span<const float> decoder) {
  const auto size = static_cast<std::size_t>(width_for(columns) * columns);
  if (encoder.size() != size || decoder.size() != size)
    throw UsageError("autoencoder: weights for " + std::to_string(columns) + " columns have " + std::to_string(size) + " elements each, got " +
                     std::to_string(encoder.size()) + " and " + std::to_string(decoder.size()));
  Weights& w = weights_[{columns, 0}];
  w.encoder.assign(encoder.begin(), encoder.end());
  w.decoder.assign(decoder.begin(), decoder.end());
  w.fitted = true;
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
  if (options_.start == AutoencoderOptions::Start::principal) {
    constexpr std::int64_t widest = 16384;  // 2 GiB of covariances
    if (h > widest)
      throw UsageError("autoencoder: principal directions of " + std::to_string(h) + " columns would need their covariances, " + std::to_string(h * h >> 27) +
                       " GiB; at most " + std::to_string(widest) + " columns are taken. See the tensor with fewer columns, or use init=orthonormal");
    const std::vector<double> directions = leading_eigenvectors(gram_matrix(samples), h, e);
    w.encoder.assign(directions.begin(), directions.end());
    w.decoder.resize(w.encoder.size());
    for (std::int64_t i = 0; i < e; ++i)
      for (std::int64_t j = 0; j < h; ++j) w.decoder[static_cast<std::size_t>(j * e + i)] = w.encoder[static_cast<std::size_t>(i * h + j)];
  } else {
    const auto found = weights_.find({h, 0});
    w = found != weights_.end() ? found->second : random_start(h, 0);
  }
  if (options_.steps > 0) refine_autoencoder(samples, e, options_.steps, options_.seed, w.encoder, w.decoder);
  w.fitted = true;
  weights_[{h, 0}] = std::move(w);
}

std::size_t Autoencoder::max_payload_bytes(const Shape& shape) const {
  return shape.elements() == 0 ? 0 : wire_.bytes(shape.rows() * width_for(shape.columns()));
}

std::size_t Autoencoder::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  check_view(x);
  if (x.elements() == 0) return 0;
  const std::int64_t n = x.shape().rows(), h = x.shape().columns(), e = width_for(h);
  const std::size_t size = wire_.bytes(n * e);
  TW_ASSERT(payload.size() >= size);
  float* code = code_.as<float>(static_cast<std::size_t>(n * e));
  matrix_product(Op::plain, Op::transposed, n, e, h, x.as<float>().data(), weights(x, key).encoder.data(), code);
  wire_.write({code, static_cast<std::size_t>(n * e)}, payload.first(size), "autoencoder: the code", key, x);
  if (trains(x, key)) inputs_.remember(key, {static_cast<const std::byte*>(x.data()), x.bytes()});
  return size;
}

// `accumulate`: one of several payloads that are added up, so their codes are, too.
void Autoencoder::expand(std::span<const float> code, const MessageKey& key, TensorView out, bool accumulate) {
  const std::int64_t n = out.shape().rows(), h = out.shape().columns(), e = width_for(h);
  matrix_product(Op::plain, Op::transposed, n, h, e, code.data(), weights(out, key).decoder.data(), out.as<float>().data(), accumulate);
  if (!trains(out, key)) return;
  std::span<std::byte> kept;
  if (accumulate && codes_.waiting(key) && codes_.find(key, kept) && kept.size() == code.size_bytes())
    thinwire::accumulate(std::span<float>(reinterpret_cast<float*>(kept.data()), code.size()), code);
  else
    codes_.remember(key, std::as_bytes(code));
}

void Autoencoder::read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  check_view(out);
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), "autoencoder", out.shape(), key);
  if (out.elements() > 0) expand(wire_.read(payload, "autoencoder: the code", key), key, out, false);
}

void Autoencoder::add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  check_view(out);
  check_payload_size(payload.size(), max_payload_bytes(out.shape()), "autoencoder", out.shape(), key);
  if (out.elements() > 0) expand(wire_.read(payload, "autoencoder: the code", key), key, out, true);
}

std::vector<CodecProduct> Autoencoder::encode_products(const Shape& shape) const {
  using Operand = CodecProduct::Operand;
  return {{false, true, shape.rows(), product_width(shape), shape.columns(), Operand::tensor, Operand::right, Operand::left}};
}

Shape Autoencoder::travel_shape(const Shape& shape) const { return {shape.rows(), width_for(shape.columns())}; }

namespace {
[[noreturn]] void not_remembered(const char* what, const MessageKey& key) {
  throw RuntimeFailure("autoencoder: the " + std::string(what) + " of " + text_of(key) +
                       " is not remembered, so its weights have no gradient; prepare_training must precede the forward message, which "
                       "must go through this codec as one message and not in evaluation");
}
}  // namespace

void Autoencoder::decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) {
  check_view(decoded_gradient);
  const std::int64_t n = decoded_gradient.shape().rows(), h = decoded_gradient.shape().columns(), e = width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  Weights& w = weights(decoded_gradient, key);
  matrix_product(Op::plain, Op::plain, n, e, h, decoded_gradient.as<float>().data(), w.decoder.data(), travel.as<float>().data());
  if (w.decoder_gradient.empty() || n == 0) return;
  std::span<std::byte> code;
  if (!codes_.find(key, code) || code.size() != travel.bytes()) not_remembered("code", key);
  decoder_gradient(decoded_gradient, ConstTensorView(code.data(), DType::f32, Shape{n, e}), w.decoder_gradient);
  codes_.release(key);
}

void Autoencoder::encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) {
  check_view(travel);
  const std::int64_t n = input_gradient.shape().rows(), h = input_gradient.shape().columns(), e = width_for(h);
  TW_ASSERT(travel.elements() == n * e);
  Weights& w = weights(input_gradient, key);
  matrix_product(Op::plain, Op::plain, n, h, e, travel.as<float>().data(), w.encoder.data(), input_gradient.as<float>().data());
  if (w.encoder_gradient.empty() || n == 0) return;
  std::span<std::byte> x;
  if (!inputs_.find(key, x) || x.size() != input_gradient.bytes()) not_remembered("input", key);
  encoder_gradient(ConstTensorView(x.data(), DType::f32, Shape{n, h}), travel, w.encoder_gradient);
  inputs_.release(key);
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

// Scalar products of a sample of rows, in float64: all of them would take longer than a whole bench.
std::string check_products(const CodecStack& stack, ConstTensorView tensor, std::span<const float> decoded) {
  auto& codec = dynamic_cast<Autoencoder&>(*stack.codec);
  const std::span<const float> x = tensor.as<float>();
  const std::int64_t columns = tensor.shape().columns(), rows = tensor.shape().rows(), width = codec.width_for(columns);
  const auto encoder = codec.encoder(columns), decoder = codec.decoder(columns);
  std::vector<double> out(x.size(), std::nan(""));
  const std::int64_t step = std::max<std::int64_t>(1, rows / 64);
  std::vector<double> code(static_cast<std::size_t>(width));
  for (std::int64_t r = 0; r < rows; r += step) {
    const float* row = x.data() + r * columns;
    for (std::int64_t k = 0; k < width; ++k) {
      double sum = 0;
      for (std::int64_t j = 0; j < columns; ++j) sum += double{row[j]} * encoder[static_cast<std::size_t>(k * columns + j)];
      code[static_cast<std::size_t>(k)] = sum;
    }
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < width; ++k) sum += code[static_cast<std::size_t>(k)] * decoder[static_cast<std::size_t>(j * width + k)];
      out[static_cast<std::size_t>(r * columns + j)] = sum;
    }
  }
  require_near_reference(decoded, out, stack.expression.codec.parameters.choice("wire") == "f16" ? 2e-3 : 1e-4);
  return "float64 products";
}

using Kind = ParameterSpec::Kind;
const bool registered = register_codec(
    {.name = "autoencoder",
     .summary = "trained linear code: X E^T sent, (X E^T) D^T decoded; codes add up over ranks",
     .source = "Bian et al., arXiv 2301.02654; Xavier start: Glorot and Bengio 2010; PCA optimum: Eckart and Young 1936",
     .wire = "the code [rows, width] in f16 (wire=f32: f32), no header; adds up over ranks",
     .parameters = {{"width", Kind::integer, "0", 0, 1 << 20, {}, "columns of the code; 0: from fraction"},
                    {"fraction", Kind::real, "0.05", 1e-6, 1, {}, "width as a fraction of the tensor's columns"},
                    {"wire", Kind::choice, "f16", 0, 0, {"f16", "f32"}, "type of the code on the wire"},
                    {"init", Kind::choice, "pca", 0, 0, {"pca", "xavier", "orthonormal", "residual"},
                     "start: principal directions of training samples; random; or the first channels. All but pca train with the model"},
                    {"steps", Kind::integer, "0", 0, 1'000'000, {}, "Adam steps on the reconstruction error in a fit"},
                    {"seed", Kind::integer, "0", 0, 2147483647, {}, "of the random start; in a training the run's unless given", true}},
     .presets = {"fraction=0.25"},
     .has_released_form = false,
     .make = [](const Parameters& p, Form) -> std::unique_ptr<Codec> {
       AutoencoderOptions o;
       o.width = p.integer("width");
       o.fraction = p.real("fraction");
       if (o.width > 0 && p.given("fraction")) throw UsageError("'autoencoder:width=" + std::to_string(o.width) + "' is what fraction would say; drop one of them");
       o.wire = parse_dtype(p.choice("wire"));
       using Start = AutoencoderOptions::Start;
       const std::string& init = p.choice("init");
       o.start = init == "pca" ? Start::principal : init == "xavier" ? Start::xavier : init == "residual" ? Start::residual : Start::orthonormal;
       o.steps = p.integer("steps");
       o.seed = static_cast<std::uint64_t>(p.integer("seed"));
       return std::make_unique<Autoencoder>(o);
     },
     .check = check_products});
}  // namespace

}  // namespace thinwire
