#include "results/files/tuned_products.h"

#include <cstdio>
#include <fstream>
#include <toml++/toml.h>

#include "core/error.h"
#include "core/process/environment.h"
#include "results/files/files.h"

namespace thinwire::results {
namespace {

constexpr const char* mend = "; take [products] out of the file and let `doctor --tune FILE` write it";

}  // namespace

std::optional<TunedProducts> read_tuned_products(const std::string& path) {
  const auto refuse = [&](const std::string& what) -> void { throw UsageError(path + ": " + what + mend); };
  toml::table file;
  try {
    file = toml::parse(read_file(path), path);
  } catch (const toml::parse_error& error) {
    refuse(std::string(error.description()));
  }
  const toml::node* section = file.get("products");
  if (section == nullptr) return std::nullopt;
  if (!section->is_table()) refuse("`products` is no table");
  TunedProducts products;
  for (const auto& [key, value] : *section->as_table()) {
    const std::string name(key.str());
    if (name == "threads") {
      const auto* number = value.as_integer();
      if (number == nullptr || number->get() < 1) refuse("[products]: `threads` is no whole number of 1 or more");
      products.threads = number->get();
      continue;
    }
    std::string* field = name == "library" ? &products.library : name == "processor" ? &products.processor : name == "versions" ? &products.versions : nullptr;
    if (field == nullptr) refuse("[products]: unknown key `" + name + "`");
    const auto* text = value.as_string();
    if (text == nullptr || text->get().empty()) refuse("[products]: `" + name + "` is no text");
    *field = text->get();
  }
  if (products.library.empty()) refuse("[products] has no `library`");
  if (products.processor.empty()) refuse("[products] has no `processor`");
  return products;
}

std::string toml_quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (all += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      all += code;
    } else {
      all += c;
    }
  }
  return all + "\"";
}

std::string to_toml(const TunedProducts& products) {
  std::string text = "[products]\nlibrary = " + toml_quoted(products.library) + "\nprocessor = " + toml_quoted(products.processor) + "\n";
  if (!products.versions.empty()) text += "versions = " + toml_quoted(products.versions) + "\n";
  if (products.threads > 0) text += "threads = " + std::to_string(products.threads) + "\n";
  return text;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, model = "unknown processor", family, number;
  while (std::getline(file, line) && !line.empty()) {  // the first processor's lines
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1), value = line.substr(colon + 2);
    if (name == "model name") model = value;
    if (name == "cpu family") family = value;
    if (name == "model") number = value;
  }
  if (!family.empty()) model += ", family " + family;
  if (!number.empty()) model += ", model " + number;
  return model;
}

std::string tuned_library_of_this_machine() {
  const auto path = Environment::get("THINWIRE_MACHINE");
  if (!path) return {};
  const auto products = read_tuned_products(*path);
  const std::string mended = "; run `doctor --tune " + *path + "` on this machine, or unset THINWIRE_MACHINE";
  if (!products) throw UsageError("THINWIRE_MACHINE=" + *path + ": the file has no [products]" + mended);
  if (products->processor != processor_name())
    throw UsageError("THINWIRE_MACHINE=" + *path + ": its products were tuned on `" + products->processor + "`, and this is `" + processor_name() + "`" + mended);
  return products->library;
}

}  // namespace thinwire::results
