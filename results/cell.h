// A cell: one configuration of one program on a number of ranks over a link, identified by the SHA-256 of its
// canonical parameters. The same configuration has the same identity wherever and in whatever order it was
// written.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

namespace thinwire::results {

using ParameterValue = std::variant<bool, std::int64_t, double, std::string>;

/// Named parameters, sorted by name. Names are the long options of the program without dashes in front.
class Parameters {
 public:
  void set(const std::string& name, ParameterValue value);
  /// Each kind by name: 0.5 must not become an int, nor text a bool, by an implicit conversion.
  template <typename T>
  void set(const std::string& name, const T& value) {
    if constexpr (std::is_same_v<T, bool>)
      set(name, ParameterValue(value));
    else if constexpr (std::is_integral_v<T>)
      set(name, ParameterValue(static_cast<std::int64_t>(value)));
    else if constexpr (std::is_floating_point_v<T>)
      set(name, ParameterValue(static_cast<double>(value)));
    else
      set(name, ParameterValue(std::string(value)));
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  void erase(const std::string& name) { values_.erase(name); }

  /// Typed access. Throws UsageError naming the parameter when it is missing or cannot be read as asked.
  /// Values convert through their text: 8, 8.0 and "8" are all the integer 8; anything is text.
  std::string text(const std::string& name) const;
  std::int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  bool flag(const std::string& name) const;

  /// Sorted keys, no spaces; numbers in their shortest exact form, whole ones as integers (1.0 is 1, 1e-1 is
  /// 0.1, -0 is 0): equal parameters give equal text. Text that spells a number or true/false is written as
  /// that value, so `batch = 8` in a study and `--batch 8` on a command line are one cell. NaN and infinities
  /// are refused with UsageError.
  std::string canonical_json() const;
  /// From a flat JSON object. Throws CorruptData (`where` names the file) on anything nested or malformed.
  static Parameters from_json(std::string_view json, const std::string& where);

  const std::map<std::string, ParameterValue>& values() const { return values_; }
  bool operator==(const Parameters& other) const { return canonical_json() == other.canonical_json(); }

 private:
  std::map<std::string, ParameterValue> values_;
};

/// A value as canonical_json writes it; text without quotes (for command lines and tables).
std::string to_text(const ParameterValue& value);

/// Lower-case hex SHA-256 of {"link":"...","parameters":CANONICAL,"program":"...","ranks":N}.
std::string cell_id(std::string_view program, int ranks, std::string_view link, const Parameters& parameters);

}  // namespace thinwire::results
