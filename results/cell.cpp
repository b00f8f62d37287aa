#include "results/cell.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/sha256.h"

namespace thinwire::results {

namespace {

// Whole numbers up to here are exact in float64, so an integer and an equal float are one value.
constexpr double exact_integers = 9007199254740992.0;  // 2^53

std::string number_text(double value) {
  if (!std::isfinite(value))
    throw UsageError("a parameter is " + std::to_string(value) + ": cells need finite numbers");
  if (value == std::trunc(value) && std::abs(value) <= exact_integers)
    return std::to_string(static_cast<std::int64_t>(value));
  char digits[40];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);  // shortest that reads back
  TW_ASSERT(error == std::errc());
  return {digits, end};
}

std::string json_text(std::string_view text) {
  // Invalid UTF-8 is refused: JSON cannot carry it and two spellings would meet.
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    throw UsageError("a parameter holds bytes that are not UTF-8 text");
  }
}

// The value that a text spells: true/false, an integer, a finite number, else the text itself.
ParameterValue typed(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, integer); error == std::errc() && at == end)
    return integer;
  double number = 0;
  if (const auto [at, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && at == end && std::isfinite(number))
    return number;
  return text;
}

ParameterValue typed(const ParameterValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? value : typed(*text);
}

const ParameterValue& find(const std::map<std::string, ParameterValue>& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) throw UsageError("parameter `" + name + "` is missing");
  return found->second;
}

[[noreturn]] void wrong_kind(const std::string& name, const ParameterValue& value, const char* wanted) {
  throw UsageError("parameter `" + name + "` is `" + to_text(value) + "` where " + wanted + " is needed");
}

}  // namespace

std::string to_text(const ParameterValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  return std::get<std::string>(value);
}

void Parameters::set(const std::string& name, ParameterValue value) {
  if (name.empty()) throw UsageError("a parameter needs a name");
  values_[name] = std::move(value);
}

std::string Parameters::text(const std::string& name) const {
  return to_text(find(values_, name));
}

std::int64_t Parameters::integer(const std::string& name) const {
  const ParameterValue value = typed(find(values_, name));
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value))
    if (*number == std::trunc(*number) && std::abs(*number) <= exact_integers)
      return static_cast<std::int64_t>(*number);
  wrong_kind(name, value, "a whole number");
}

double Parameters::number(const std::string& name) const {
  const ParameterValue value = typed(find(values_, name));
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  wrong_kind(name, value, "a number");
}

bool Parameters::flag(const std::string& name) const {
  const ParameterValue value = typed(find(values_, name));
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  wrong_kind(name, value, "true or false");
}

std::string Parameters::canonical_json() const {
  std::string json = "{";
  for (const auto& [name, given] : values_) {
    const ParameterValue value = typed(given);
    if (json.size() > 1) json += ',';
    json += json_text(name) + ":" +
            (std::holds_alternative<std::string>(value) ? json_text(to_text(value)) : to_text(value));
  }
  return json + "}";
}

Parameters Parameters::from_json(std::string_view json, const std::string& where) {
  const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw CorruptData(where + ": the parameters are not a JSON object");
  Parameters parameters;
  for (const auto& [name, value] : parsed.items()) {
    if (value.is_boolean())
      parameters.set(name, value.get<bool>());
    else if (value.is_number_integer() && !(value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}))
      parameters.set(name, value.get<std::int64_t>());
    else if (value.is_number())  // whole ones beyond 64 bits as well, which a text of those digits is, too
      parameters.set(name, value.get<double>());
    else if (value.is_string())
      parameters.set(name, value.get<std::string>());
    else
      throw CorruptData(where + ": parameter `" + name + "` is neither text nor number nor true/false");
  }
  return parameters;
}

std::string cell_id(std::string_view program, int ranks, std::string_view link,
                    const Parameters& parameters) {
  return sha256_hex("{\"link\":" + json_text(link) + ",\"parameters\":" + parameters.canonical_json() +
                    ",\"program\":" + json_text(program) + ",\"ranks\":" + std::to_string(ranks) + "}");
}

}  // namespace thinwire::results
