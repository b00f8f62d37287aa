#include "kernels/codec/codec.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "kernels/values.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

void copy_f32(ConstTensorView from, TensorView to) {
  if (!placement().on_host()) return copy_values(to, from);
  const auto source = from.as<float>();
  const auto target = to.as<float>();
  TW_ASSERT(source.size() == target.size(), from.shape().to_string() + " against " + to.shape().to_string());
  if (source.empty() || source.data() == target.data()) return;
  parallel_for(static_cast<std::int64_t>(source.size()), [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(target.data() + begin, source.data() + begin,
                static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

[[noreturn]] void no_rounds() {
  TW_ASSERT(false, "this codec has no reduction by rounds; the channel must look at its traits first");
  std::abort();
}

}  // namespace

std::string name_of(Form form) {
  return form == Form::fair ? "fair" : "released";
}

Form parse_form(std::string_view name) {
  if (name == "fair") return Form::fair;
  if (name == "released") return Form::released;
  throw UsageError(
      "unknown form '" + std::string(name) +
      "'; forms are: fair (our best implementation), released (literally what the authors' code does)");
}

void Codec::decode_add(std::span<const std::byte> payload, const MessageKey& key, TensorView out) {
  scratch_.reshape(out.shape());
  decode(payload, key, scratch_.view());
  add_values(out, std::as_const(scratch_).view());
}

Round Codec::begin_round(int, ConstTensorView, const MessageKey&, int) {
  no_rounds();
}
void Codec::end_rounds(const MessageKey&, int, TensorView) {
  no_rounds();
}
void Codec::own_decoded(const MessageKey&, TensorView) {
  no_rounds();
}

void Codec::fit(std::span<const ConstTensorView>) {}

void Codec::decode_backward(ConstTensorView decoded_gradient, const MessageKey&, TensorView travel) {
  copy_f32(decoded_gradient, travel);
}
void Codec::encode_backward(ConstTensorView travel, const MessageKey&, TensorView input_gradient) {
  copy_f32(travel, input_gradient);
}

void Codec::reduction_backward(ConstTensorView gradient, const MessageKey& key, TensorView input_gradient) {
  if (traits().backward == BackwardRule::straight_through) return copy_f32(gradient, input_gradient);
  scratch_.reshape(travel_shape(gradient.shape()));
  decode_backward(gradient, key, scratch_.view());
  encode_backward(std::as_const(scratch_).view(), key, input_gradient);
}

void Codec::prepare_training(std::uint64_t, std::int64_t) {}
void Codec::save_state(StateWriter&) const {}
void Codec::load_state(StateReader&) {}

}  // namespace thinwire
