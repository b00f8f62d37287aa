// The grammar of codecs: an expression is refused with words, or means what its canonical text means.
#include "core/error.h"
#include "kernels/codec/registry.h"
#include "tests/fuzz/target.h"
#include "tests/support/codec_expressions.h"

namespace thinwire::fuzz {
namespace {

void read(std::string_view input) {
  const std::string text(input);
  const CodecExpression expression = parse_codec(text);
  const std::string canonical = expression.canonical();
  if (parse_codec(canonical).canonical() != canonical) throw Finding("canonical text is read as another expression: " + canonical);
  compresses(text);
  for (const Form form : {Form::fair, Form::released}) {
    try {
      const CodecStack stack = make_codec(expression, form);
      // Sizes of a codec with parameters at their ends are numbers that a caller can add up.
      for (const Shape& shape : {Shape{0, 8}, Shape{1}, Shape{7, 13}}) try {
          stack.codec->check_message(shape);
          if (stack.codec->max_payload_bytes(shape) > std::size_t{1} << 30) throw Finding("claims " + std::to_string(stack.codec->max_payload_bytes(shape)) + " bytes for " + shape.to_string());
        } catch (const UsageError&) {
        }
    } catch (const UsageError&) {
    }
  }
}

std::vector<std::string> seeds() {
  std::vector<std::string> all = preset_expressions();
  for (const testing::CodecCase& c : testing::codec_cases()) all.push_back(c.codec);
  for (const WrapperInfo* wrapper : all_wrappers())
    for (const char* codec : {"topk:fraction=0.1", "quantize:bits=4", "powersgd:rank=2"}) {
      const std::string text = std::string(codec) + "+" + wrapper->name;
      try {
        parse_codec(text);
        all.push_back(text);
      } catch (const UsageError&) {
      }
    }
  return all;
}

const bool registered = register_target({"codec_expression", "NAME:key=value+WRAPPER, as options and studies give it", 180'000, read, seeds});

}  // namespace
}  // namespace thinwire::fuzz
