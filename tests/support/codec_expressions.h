// Expressions of every registered codec, made from its own parameters: tests iterate these, so that a new codec is tested by being there.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "kernels/codec/registry.h"

namespace thinwire::testing {

/// A codec of the registry with some of its settings, in one form.
struct CodecCase {
  std::string codec;
  Form form = Form::fair;
  std::string text() const { return codec + " (" + name_of(form) + ")"; }
};

/// Values of a parameter worth a test: all choices, both flags, every number of a small range, and some shares for `fraction`.
inline std::vector<std::string> values_to_test(const ParameterSpec& p) {
  std::vector<std::string> values = p.choices;
  if (p.kind == ParameterSpec::Kind::flag) values = {"true", "false"};
  if (p.kind == ParameterSpec::Kind::integer && p.maximum - p.minimum < 16)
    for (auto v = static_cast<int>(p.minimum); v <= static_cast<int>(p.maximum); ++v) values.push_back(std::to_string(v));
  if (p.name == "fraction") values.insert(values.end(), {"0.3", "1"});
  return values;
}

/// The defaults, and each value of each parameter; with `pairs` also two parameters at a time. THINWIRE_TEST_CODEC limits them to one codec.
inline std::vector<CodecCase> codec_cases(bool pairs = false) {
  std::vector<CodecCase> cases;
  const char* only = std::getenv("THINWIRE_TEST_CODEC");
  for (const CodecInfo* info : all_codecs()) {
    if (only != nullptr && info->name != only) continue;
    std::vector<std::string> expressions = {info->name};
    for (std::size_t i = 0; i < info->parameters.size(); ++i)
      for (const std::string& value : values_to_test(info->parameters[i])) {
        const std::string one = info->name + ":" + info->parameters[i].name + "=" + value;
        expressions.push_back(one);
        for (std::size_t j = i + 1; pairs && j < info->parameters.size(); ++j)
          for (const std::string& other : values_to_test(info->parameters[j])) expressions.push_back(one + "," + info->parameters[j].name + "=" + other);
      }
    for (const std::string& expression : expressions) {
      try {
        parse_codec(expression);
      } catch (const UsageError&) {
        continue;  // choices that contradict each other or a default
      }
      cases.push_back({expression, Form::fair});
      if (info->has_released_form) cases.push_back({expression, Form::released});
    }
  }
  return cases;
}

/// Those that have a CUDA implementation.
inline std::vector<CodecCase> cuda_codec_cases(bool pairs = false) {
  std::vector<CodecCase> cases = codec_cases(pairs);
  std::erase_if(cases, [](const CodecCase& c) { return !has_cuda(parse_codec(c.codec).codec.name); });
  return cases;
}

}  // namespace thinwire::testing
