// The grammar of codec expressions: text -> checked parameters -> canonical text.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/joined.h"
#include "kernels/codec/registry.h"

namespace thinwire {
namespace {

std::string text_of(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  std::erase(text, '+');  // 1e+20 -> 1e20: '+' separates wrappers
  return text;
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return " (did you mean '" + nearest_name(name, names.data(), names.data() + names.size()) + "'?)";
}

template <typename Number>
bool parse_whole(const std::string& text, Number& value) {
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

// The value in canonical spelling; UsageError with type and range when it does not fit the specification.
std::string normalised(const std::string& owner, const ParameterSpec& spec, const std::string& text) {
  const auto refuse = [&](const std::string& wanted) {
    return UsageError("'" + owner + ":" + spec.name + "=" + text + "': " + spec.name + " must be " + wanted);
  };
  switch (spec.kind) {
    case ParameterSpec::Kind::integer: {
      const auto wanted = [&] {
        return "an integer from " + text_of(spec.minimum) + " to " + text_of(spec.maximum);
      };
      std::int64_t value = 0;
      if (!parse_whole(text, value)) throw refuse(wanted());
      if (static_cast<double>(value) < spec.minimum || static_cast<double>(value) > spec.maximum)
        throw refuse(wanted());
      return std::to_string(value);
    }
    case ParameterSpec::Kind::real: {
      const auto wanted = [&] {
        return "a number from " + text_of(spec.minimum) + " to " + text_of(spec.maximum);
      };
      std::string digits = text;  // from_chars knows no '+' in front of an exponent
      if (const std::size_t plus = digits.find('+'); plus != std::string::npos && plus > 0 && (digits[plus - 1] == 'e' || digits[plus - 1] == 'E')) digits.erase(plus, 1);
      double value = 0;
      if (!parse_whole(digits, value) || !std::isfinite(value)) throw refuse(wanted());
      if (value < spec.minimum || value > spec.maximum) throw refuse(wanted());
      return text_of(value == 0 ? 0.0 : value);
    }
    case ParameterSpec::Kind::choice:
      if (std::find(spec.choices.begin(), spec.choices.end(), text) == spec.choices.end())
        throw refuse("one of: " + joined(spec.choices) + did_you_mean(text, spec.choices));
      return text;
    case ParameterSpec::Kind::flag:
      if (text == "true" || text == "1" || text == "on" || text == "yes") return "true";
      if (text == "false" || text == "0" || text == "off" || text == "no") return "false";
      throw refuse("true or false");
  }
  throw refuse("of a known kind");
}

// Cuts at `separator`; a '+' before a digit belongs to a number (1e+5).
std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> pieces(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool digit_follows = i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]));
    if (text[i] == separator && !(separator == '+' && digit_follows))
      pieces.emplace_back();
    else
      pieces.back() += text[i];
  }
  return pieces;
}

CodecExpression::Part parse_part(const std::string& owner, const std::vector<ParameterSpec>& specs,
                                 const std::string& assignments) {
  CodecExpression::Part part{owner, {}};
  for (const auto& spec : specs) part.parameters.set(spec.name, normalised(owner, spec, spec.default_value));
  std::vector<std::string> seen;
  for (const auto& assignment : cut(assignments, ',')) {
    const auto equals = assignment.find('=');
    const std::string key = assignment.substr(0, equals);
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& s) { return s.name == key; });
    if (spec == specs.end()) {
      std::vector<std::string> names;
      for (const auto& s : specs) names.push_back(s.name);
      throw UsageError("'" + owner + "' has no parameter '" + key + "'" + did_you_mean(key, names) +
                       (names.empty() ? "; it takes none" : "; its parameters are: " + joined(names)));
    }
    if (std::find(seen.begin(), seen.end(), key) != seen.end())
      throw UsageError("'" + owner + "': parameter '" + key + "' is given twice; give it once");
    seen.push_back(key);
    if (equals == std::string::npos && spec->kind != ParameterSpec::Kind::flag)
      throw UsageError("'" + owner + "': parameter '" + key + "' has no value; write " + key +
                       "=VALUE, e.g. " + key + "=" + spec->default_value);
    part.parameters.give(
        key, normalised(owner, *spec, equals == std::string::npos ? "true" : assignment.substr(equals + 1)));
  }
  return part;
}

template <typename Info>
CodecExpression::Part parse_one(const std::string& text, const std::vector<const Info*>& infos,
                                const char* kind, const char* grammar = "NAME[:key=value,...][+WRAPPER[:key=value,...]]...") {
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon);
  std::vector<std::string> names;
  for (const Info* info : infos) {
    names.push_back(info->name);
    if (info->name != name) continue;
    if (colon == std::string::npos) {
      CodecExpression::Part part{name, {}};
      for (const auto& spec : info->parameters)
        part.parameters.set(spec.name, normalised(name, spec, spec.default_value));
      return part;
    }
    return parse_part(name, info->parameters, text.substr(colon + 1));
  }
  throw UsageError("unknown " + std::string(kind) + " '" + name + "'" + did_you_mean(name, names) + "; " +
                   kind + "s are: " + joined(names) +
                   "; the grammar is " + grammar);
}

std::string canonical_part(const CodecExpression::Part& part, const std::vector<ParameterSpec>& specs) {
  std::string text;
  for (const auto& [name, value] : part.parameters.values()) {  // a map: sorted by name
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const ParameterSpec& s) { return s.name == name; });
    if (spec != specs.end() && part.parameters.has_default(*spec) && !(spec->seed_of_run && part.parameters.given(name))) continue;
    text += (text.empty() ? ":" : ",") + name + "=" + value;
  }
  return part.name + text;
}

const std::string& value_of(const std::map<std::string, std::string>& values, const std::string& name) {
  const auto found = values.find(name);
  TW_ASSERT(found != values.end(), "parameter '" + name + "' is not in the schema");
  return found->second;
}

template <typename Info>
const std::vector<ParameterSpec>& schema_of(const std::string& name, const std::vector<const Info*>& infos) {
  for (const Info* info : infos)
    if (info->name == name) return info->parameters;
  throw UsageError("unknown codec or wrapper '" + name + "'");
}

}  // namespace

std::int64_t Parameters::integer(const std::string& name) const {
  std::int64_t value = 0;
  TW_ASSERT(parse_whole(value_of(values_, name), value), name + " is no integer");
  return value;
}
double Parameters::real(const std::string& name) const {
  double value = 0;
  TW_ASSERT(parse_whole(value_of(values_, name), value), name + " is no number");
  return value;
}
const std::string& Parameters::choice(const std::string& name) const {
  return value_of(values_, name);
}
bool Parameters::flag(const std::string& name) const {
  return value_of(values_, name) == "true";
}
std::uint64_t Parameters::seed_in_run(const std::string& name, std::uint64_t run_seed) const {
  return given(name) ? static_cast<std::uint64_t>(integer(name)) : run_seed & 0x7fffffff;
}
bool Parameters::has_default(const ParameterSpec& spec) const {
  const auto found = values_.find(spec.name);
  return found == values_.end() || found->second == normalised("", spec, spec.default_value);
}

std::string CodecExpression::canonical() const {
  std::string text = canonical_part(codec, schema_of(codec.name, all_codecs()));
  for (const auto& wrapper : wrappers)
    text += "+" + canonical_part(wrapper, schema_of(wrapper.name, all_wrappers()));
  return text;
}

CodecExpression::Part parse_named(const std::string& text, const std::vector<NamedSchema>& known, const std::string& kind) {
  std::vector<const NamedSchema*> infos;
  for (const NamedSchema& schema : known) infos.push_back(&schema);
  return parse_one(text, infos, kind.c_str(), "NAME[:key=value,...]");
}

CodecExpression parse_codec(const std::string& text) {
  const std::vector<std::string> parts = cut(text, '+');
  CodecExpression expression;
  expression.codec = parse_one(parts[0], all_codecs(), "codec");
  for (std::size_t i = 1; i < parts.size(); ++i)
    expression.wrappers.push_back(parse_one(parts[i], all_wrappers(), "wrapper"));
  // Contradictions between parameters are the codec's to know: make it once, so that they are refused here,
  // where the configuration is read. On the host, whatever the thread computes on: an expression is none of a device.
  const PlacementScope on_the_host{Device{}};
  make_codec(expression);
  return expression;
}

}  // namespace thinwire
