#include "kernels/nn/gemm/product_library.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "kernels/nn/gemm/onednn_product.h"

namespace thinwire::nn {
namespace {

ProductLibrary chosen;

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw UsageError("product library `" + text + "`: " + what + "; write it as openblas:kernels=NAME,CLASS=onednn, or let `doctor --tune FILE` write it");
}

bool is_onednn(const std::string& text, const std::string& word) {
  if (word == "onednn") return true;
  if (word == "openblas") return false;
  refuse(text, "there is no library `" + word + "`; there are: openblas, onednn");
}

}  // namespace

int product_class(Transpose trans_a, Transpose trans_b, std::int64_t m, std::int64_t n, std::int64_t k) {
  const bool ta = trans_a == Transpose::yes, tb = trans_b == Transpose::yes;
  if ((ta && tb) || m <= 0 || n <= 0 || k <= 0) return -1;
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const int size = operations < 0x1p26 ? 0 : operations < 0x1p30 ? 1 : 2;
  return 3 * size + (ta ? 2 : tb ? 1 : 0);
}

std::string ProductLibrary::text() const {
  const bool most = std::count(onednn.begin(), onednn.end(), true) > 4;
  std::string text = most ? "onednn" : "openblas";
  char separator = ':';
  const auto add = [&](const std::string& key, const std::string& value) {
    text += separator + key + "=" + value;
    separator = ',';
  };
  if (!kernels.empty()) add("kernels", kernels);
  for (std::size_t i = 0; i < onednn.size(); ++i)
    if (onednn[i] != most) add(product_classes[i], most ? "openblas" : "onednn");
  return text;
}

ProductLibrary parse_product_library(const std::string& text) {
  ProductLibrary choice;
  if (text.empty()) return choice;
  const std::size_t colon = text.find(':');
  choice.onednn.fill(is_onednn(text, text.substr(0, colon)));
  std::vector<std::string> keys(product_classes.begin(), product_classes.end()), given;
  keys.push_back("kernels");
  for (std::size_t at = colon; at != std::string::npos;) {
    const std::size_t end = text.find(',', at + 1);
    const std::string entry = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    at = end;
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals), value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    if (value.empty()) refuse(text, "`" + entry + "` is not key=value");
    const auto known = std::find(keys.begin(), keys.end(), key);
    if (known == keys.end()) refuse(text, "there is no key `" + key + "`; did you mean `" + nearest_name(key, keys.data(), keys.data() + keys.size()) + "`?");
    if (std::find(given.begin(), given.end(), key) != given.end()) refuse(text, "`" + key + "` is given twice");
    given.push_back(key);
    if (key == "kernels")
      choice.kernels = value;
    else
      choice.onednn[static_cast<std::size_t>(known - keys.begin())] = is_onednn(text, value);
  }
  if (choice.kernels.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != std::string::npos)
    refuse(text, "`" + choice.kernels + "` names no kernels");
  return choice;
}

std::string why_not(const ProductLibrary& choice) {
  if (std::find(choice.onednn.begin(), choice.onednn.end(), true) == choice.onednn.end() || detail::onednn_is_here()) return {};
  return "oneDNN is not here (packaging/stand_in.sh took its place in this bundle)";
}

void set_product_library(const ProductLibrary& choice) { chosen = choice; }
const ProductLibrary& product_library() { return chosen; }

}  // namespace thinwire::nn
