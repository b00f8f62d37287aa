#include "kernels/codec/transformed_codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/codec/payload/wire_values.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

// What went wrong in H x may be there because of x, which has the position that the caller knows: NaN spreads over a block. body(seen) leaves H x in `seen` where it made it.
template <class Body>
auto naming_the_input(ConstTensorView x, const MessageKey& key, const Body& body) {
  ConstTensorView seen;
  try {
    return body(seen);
  } catch (const RuntimeFailure&) {
    check_finite(x, text_of(key));
    if (seen.elements() > 0 && !all_finite(seen.as<float>())) throw NotRepresentable("what a transform made of " + text_of(key) + " is beyond f32; scale the tensor");
    throw;
  }
}

}  // namespace

TransformedCodec::TransformedCodec(const char* name, std::unique_ptr<Codec> inner) : inner_(std::move(inner)), traits_(inner_->traits()) {
  if (traits_.lossless)
    throw UsageError(std::string(name) + ": the codec inside loses nothing, so it gains nothing by a rotation; drop +" + name + " or choose a lossy codec");
  traits_.takes_bf16 = false;
  traits_.flat = false;  // what is mixed are neighbours of a row
  for (double* const goal : {&traits_.encode_goal, &traits_.decode_goal}) *goal = std::min(*goal, 0.5);
}

ConstTensorView TransformedCodec::transformed(ConstTensorView x, const MessageKey& key) {
  scratch_->reshape(x.shape());
  transform(x, key, scratch_->view());
  return std::as_const(scratch_.here()).view();
}

/// The codec inside, where it can take H stripe by stripe. Not as<Striped>(): that may be one further inside, with another codec's work between.
Striped* TransformedCodec::stripes_of(const Shape& shape) {
  auto* const striped = dynamic_cast<Striped*>(inner_.get());
  return striped != nullptr && shape.elements() > 0 && striped->has_stripes(shape, neighbours()) ? striped : nullptr;
}

std::size_t TransformedCodec::write_payload(ConstTensorView x, const MessageKey& key, std::span<std::byte> payload) {
  return naming_the_input(x, key, [&](ConstTensorView& seen) {
    if (Striped* const striped = stripes_of(x.shape())) return striped->encode_stripes(x, key, map_of(x.shape().columns(), key, false), payload);
    seen = transformed(x, key);
    return inner_->encode(seen, key, payload);
  });
}

void TransformedCodec::read_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (Striped* const striped = stripes_of(out.shape())) return striped->decode_stripes(payload, key, map_of(out.shape().columns(), key, true), false, out);
  inner_->decode(payload, key, out);
  restore(out, key, out);
}

void TransformedCodec::add_payload(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  if (Striped* const striped = stripes_of(out.shape())) return striped->decode_stripes(payload, key, map_of(out.shape().columns(), key, true), true, out);
  scratch_->reshape(out.shape());
  read_payload(payload, key, scratch_->view());
  add_values(out, std::as_const(scratch_.here()).view());
}

Round TransformedCodec::begin_round(int r, ConstTensorView x, const MessageKey& key, int world) {
  return naming_the_input(x, key, [&](ConstTensorView& seen) {
    seen = r == 0 ? transformed(x, key) : std::as_const(scratch_.here()).view();
    return inner_->as<Rounds>()->begin_round(r, seen, key, world);
  });
}

void TransformedCodec::end_rounds(const MessageKey& key, int world, TensorView sum) {
  inner_->as<Rounds>()->end_rounds(key, world, sum);
  restore(sum, key, sum);
}

void TransformedCodec::own_decoded(const MessageKey& key, TensorView out) {
  inner_->as<Rounds>()->own_decoded(key, out);
  restore(out, key, out);
}

bool TransformedCodec::keeps_apart() const {
  const auto* const rounds = std::as_const(*inner_).as<Rounds>();
  return rounds != nullptr && rounds->keeps_apart();
}

void TransformedCodec::use_place(int place) {
  scratch_.use(place);
  inner_->as<Rounds>()->use_place(place);
}

Shape TransformedCodec::travel_shape(const Shape& shape) const { return std::as_const(*inner_).as<Backward>()->travel_shape(shape); }

void TransformedCodec::decode_backward(ConstTensorView decoded_gradient, const MessageKey& key, TensorView travel) {
  inner_->as<Backward>()->decode_backward(transformed(decoded_gradient, key), key, travel);
}

void TransformedCodec::encode_backward(ConstTensorView travel, const MessageKey& key, TensorView input_gradient) {
  inner_->as<Backward>()->encode_backward(travel, key, input_gradient);
  restore(input_gradient, key, input_gradient);
}

void TransformedCodec::reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) {
  inner_->as<Backward>()->reduction_backward(transformed(gradient, key), key, input_gradient);
  restore(input_gradient, key, input_gradient);
}

void TransformedCodec::remember_messages(bool on) { inner_->as<Backward>()->remember_messages(on); }

void TransformedCodec::fit(std::span<const ConstTensorView> samples) {
  std::vector<Tensor> seen;
  std::vector<ConstTensorView> views;
  for (const ConstTensorView& sample : samples) {
    seen.emplace_back(sample.shape());
    transform(sample, {}, seen.back().view());
  }
  for (const Tensor& tensor : seen) views.push_back(tensor.view());
  inner_->as<Fit>()->fit(views);
}

}  // namespace thinwire
