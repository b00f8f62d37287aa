#include "models/data/generated/generators.h"

#include <charconv>
#include <cmath>
#include <stdexcept>

#include "core/error.h"
#include "kernels/threads.h"

namespace thinwire {
namespace {

// Function-local so that it exists before the first registration, whatever the order of static objects.
std::map<std::string, GeneratorKind>& kinds() {
  static std::map<std::string, GeneratorKind> all;
  return all;
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

void check_range(const std::string& kind, const std::string& key, const GeneratorParameter& bounds, double value) {
  if (!(value >= bounds.low && value <= bounds.high))
    throw UsageError("Generator " + kind + ": " + key + "=" + number_text(value) + " is outside [" + number_text(bounds.low) + ", " + number_text(bounds.high) + "].");
  if (bounds.whole && value != std::floor(value)) throw UsageError("Generator " + kind + ": " + key + "=" + number_text(value) + " is not a whole number.");
}

std::string known_kinds() {
  std::string text;
  for (const auto& [name, kind] : kinds()) text += "\n  " + name + ": " + kind.summary;
  return text;
}

const GeneratorKind& kind_named(const std::string& name) {
  const auto known = kinds().find(name);
  if (known == kinds().end()) throw UsageError("Unknown generator '" + name + "'. There are:" + known_kinds());
  return known->second;
}

}  // namespace

bool register_generator(GeneratorKind kind) {
  const std::string name = kind.kind;
  if (!kinds().emplace(name, std::move(kind)).second) throw std::logic_error("generator " + name + " is registered twice");
  return true;
}

std::vector<const GeneratorKind*> generators() {
  std::vector<const GeneratorKind*> all;
  for (const auto& [name, kind] : kinds()) all.push_back(&kind);
  return all;
}

std::string Generator::to_string() const {
  std::string text = kind;
  for (char separator = ':'; const auto& [key, value] : parameters) {
    text += separator + key + "=" + number_text(value);
    separator = ',';
  }
  return text;
}

Generator parse_generator(std::string_view text) {
  const std::size_t colon = text.find(':');
  Generator g{std::string(text.substr(0, colon)), {}};
  const GeneratorKind& kind = kind_named(g.kind);
  for (const auto& [key, parameter] : kind.parameters) g.parameters[key] = parameter.otherwise;
  std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  if (colon != std::string_view::npos && rest.empty())
    throw UsageError("Generator '" + std::string(text) + "' has nothing behind its colon. Write KIND:key=value.");
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos || !g.parameters.count(key)) {
      std::string keys;
      for (const auto& [name, value] : g.parameters) keys += " " + name;
      throw UsageError("Generator " + g.kind + " has no parameter '" + key + "'. It has:" + (keys.empty() ? " none" : keys) + ".");
    }
    const std::string_view value = item.substr(equals + 1);
    double parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc{} || end != value.data() + value.size())
      throw UsageError("Generator " + g.kind + ": '" + std::string(value) + "' is no number for " + key + ".");
    g.parameters[key] = parsed;
  }
  for (const auto& [key, value] : g.parameters) check_range(g.kind, key, kind.parameters.at(key), value);
  return g;
}

void generate(const Generator& g, const Shape& shape, std::uint64_t seed, std::int64_t step, std::int64_t rank, std::span<float> to) {
  TW_ASSERT(static_cast<std::int64_t>(to.size()) == shape.elements());
  if (to.empty()) return;
  const std::uint64_t shared = mix_stream(hash_name(g.to_string()), static_cast<std::uint64_t>(step));
  kind_named(g.kind).generate(g, shape, {seed, mix_stream(shared, static_cast<std::uint64_t>(rank)), shared}, to);
}

Tensor generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step, std::int64_t rank) {
  Tensor out(shape);
  generate(generator, shape, seed, step, rank, out.as<float>());
  return out;
}

void fill_normal(const Random& random, std::span<float> to, double deviation) {
  parallel_for(static_cast<std::int64_t>(to.size()), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[static_cast<std::size_t>(i)] = static_cast<float>(deviation * random.normal(static_cast<std::uint64_t>(i)));
  });
}

}  // namespace thinwire
