#include "tests/fuzz/targets/codec_message.h"

#include <charconv>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "models/data/tensor_file_formats.h"
#include "tests/support/codec_expressions.h"

namespace thinwire::fuzz {
namespace {

constexpr std::int64_t most_elements = 1 << 17;  // more than a block of positions (kernels/sparse)

std::vector<float> normal_numbers(std::int64_t count, std::uint64_t stream) {
  const Random random(5, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

std::optional<Shape> shape_of(const std::vector<std::int64_t>& e) {
  if (e.empty() || e.size() > 4) return std::nullopt;
  std::int64_t elements = 1;
  for (const std::int64_t extent : e) {
    if (extent < 0 || extent > most_elements) return std::nullopt;
    elements *= extent;
    if (elements > most_elements) return std::nullopt;
  }
  return detail::merged_shape(e);
}

}  // namespace

std::string CodecMessage::line() const {
  std::string text = codec + " " + name_of(form) + " " + std::to_string(step);
  for (int i = 0; i < shape.rank(); ++i) text += " " + std::to_string(shape[i]);
  return text + "\n";
}

std::optional<CodecMessage> CodecMessage::parse(std::string_view line) {
  std::istringstream words{std::string(line)};
  CodecMessage message;
  std::string form;
  if (!(words >> message.codec >> form >> message.step) || message.step < 0 || message.step > 3) return std::nullopt;
  message.form = parse_form(form);
  std::vector<std::int64_t> extents;
  for (std::int64_t extent = 0; words >> extent;) extents.push_back(extent);
  const std::optional<Shape> shape = shape_of(extents);
  if (!shape) return std::nullopt;
  message.shape = *shape;
  return message;
}

MessageKey CodecMessage::key(std::int64_t of_step) const {
  samples_.resize(static_cast<std::size_t>(shape.rank() > 0 ? shape[0] : 1));
  std::iota(samples_.begin(), samples_.end(), 100);
  tokens_.resize(static_cast<std::size_t>(shape.rows()));
  for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<std::int32_t>(i * 7 % 256);
  MessageKey key;
  key.tensor = hash_name("fuzz");
  key.step = of_step;
  key.samples = samples_, key.tokens = tokens_;
  return key;
}

std::vector<float> CodecMessage::tensor(std::int64_t of_step) const {
  return normal_numbers(shape.elements(), 100 + static_cast<std::uint64_t>(of_step));
}

CodecStack CodecMessage::stack() const {
  CodecStack stack = make_codec(codec, form);
  stack.codec->check_message(shape);
  if (stack.codec->traits().needs_fit && shape.columns() > 0) {
    const std::vector<float> sample = normal_numbers(16 * shape.columns(), 1);
    const ConstTensorView view(sample.data(), Shape{16, shape.columns()});
    stack.codec->as<Fit>()->fit({&view, 1});
  }
  if (!stack.codec->traits().gather) return stack;
  std::vector<std::byte> payload(stack.codec->max_payload_bytes(shape));
  std::vector<float> out(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t s = 0; s < step; ++s) {
    const std::vector<float> x = tensor(s);
    const std::size_t bytes = stack.codec->encode(ConstTensorView(x.data(), shape), key(s), payload);
    stack.codec->decode(std::span(payload).first(bytes), key(s), TensorView(out.data(), shape));
  }
  return stack;
}

namespace {

std::vector<CodecMessage> make_messages() {
  std::vector<CodecMessage> messages;
  const std::vector<Shape> small = {{7, 13}, {3, 5, 17}, {16, 64}};
  std::size_t turn = 0;
  const auto add_message = [&](const std::string& codec, Form form, const Shape& shape) {
    CodecMessage message;
    message.codec = codec, message.form = form, message.shape = shape;
    try {
      CodecStack stack = make_codec(codec, form);
      stack.codec->check_message(shape);
      if (stack.codec->max_payload_bytes(shape) > 8192) return;  // of large tensors, what is sparse
      messages.push_back(message);
      if (!stack.codec->traits().stateful || !stack.codec->traits().gather) return;
      message.step = 1;
      message.stack();
      messages.push_back(message);
    } catch (const Error&) {
      // no message of this codec
    }
  };
  // Each by itself on one of the small shapes: all of them on all are what tests of codecs are for.
  const auto add = [&](const std::string& codec, Form form) {
    add_message(codec, form, small[turn++ % small.size()]);
    add_message(codec, form, {300, 300});
  };
  for (const testing::CodecCase& c : testing::codec_cases()) add(c.codec, c.form);
  for (const WrapperInfo* wrapper : all_wrappers())
    for (const char* codec : {"quantize:bits=4", "topk:fraction=0.1"}) {
      add(std::string(codec) + "+" + wrapper->name, Form::fair);
      for (const ParameterSpec& p : wrapper->parameters)
        for (const std::string& value : testing::values_to_test(p)) add(std::string(codec) + "+" + wrapper->name + ":" + p.name + "=" + value, Form::fair);
    }
  return messages;
}

}  // namespace

const std::vector<CodecMessage>& codec_messages() {
  static const std::vector<CodecMessage> messages = make_messages();
  return messages;
}

}  // namespace thinwire::fuzz
