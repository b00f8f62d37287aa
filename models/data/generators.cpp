#include "models/data/generators.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/random.h"
#include "kernels/nn/gemm/gemm.h"
#include "kernels/threads.h"

// LAPACK inside OpenBLAS: orthonormal factors by Householder QR.
extern "C" {
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* tau, float* work,
             const int* work_size, int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda, const float* tau,
             float* work, const int* work_size, int* info);
}

namespace thinwire {
namespace {

using nn::Transpose;

void fill_normal(const Random& random, std::span<float> to, double deviation = 1.0) {
  parallel_for(static_cast<std::int64_t>(to.size()), 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      to[static_cast<std::size_t>(i)] =
          static_cast<float>(deviation * random.normal(static_cast<std::uint64_t>(i)));
  });
}

/// Column-major [rows, k] with orthonormal columns, k <= rows, uniformly distributed up to signs.
std::vector<float> orthonormal_columns(std::int64_t rows, std::int64_t k, const Random& random) {
  std::vector<float> q(static_cast<std::size_t>(rows * k)), tau(static_cast<std::size_t>(k));
  fill_normal(random, q);
  const int m = static_cast<int>(rows), n = static_cast<int>(k), query = -1;
  int info = 0;
  float size1 = 0, size2 = 0;
  sgeqrf_(&m, &n, q.data(), &m, tau.data(), &size1, &query, &info);
  sorgqr_(&m, &n, &n, q.data(), &m, tau.data(), &size2, &query, &info);
  const int size = static_cast<int>(std::max(size1, size2));
  std::vector<float> work(static_cast<std::size_t>(size));
  sgeqrf_(&m, &n, q.data(), &m, tau.data(), work.data(), &size, &info);
  TW_ASSERT(info == 0);
  sorgqr_(&m, &n, &n, q.data(), &m, tau.data(), work.data(), &size, &info);
  TW_ASSERT(info == 0);
  return q;
}

/// to = U diag(sigma) V^T.
void with_spectrum(std::int64_t rows, std::int64_t columns, const std::vector<double>& sigma,
                   std::uint64_t seed, std::uint64_t stream, std::span<float> to) {
  const auto k = static_cast<std::int64_t>(sigma.size());
  std::vector<float> u = orthonormal_columns(rows, k, Random(seed, mix_stream(stream, 1)));
  const std::vector<float> v = orthonormal_columns(columns, k, Random(seed, mix_stream(stream, 2)));
  for (std::int64_t j = 0; j < k; ++j)
    for (std::int64_t r = 0; r < rows; ++r)
      u[static_cast<std::size_t>(j * rows + r)] *= static_cast<float>(sigma[static_cast<std::size_t>(j)]);
  // Column-major [rows, k] is row-major [k, rows].
  nn::gemm<float>(Transpose::yes, Transpose::no, rows, columns, k, 1.0f, u.data(), rows, v.data(), columns,
                  0.0f, to.data(), columns);
}

std::string number_text(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

void check_range(const Generator& g) {
  const auto require = [&](const char* key, double low, double high) {
    const double value = g.parameters.at(key);
    if (!(value >= low && value <= high))
      throw UsageError("Generator " + g.kind + ": " + key + "=" + number_text(value) + " is outside [" +
                       number_text(low) + ", " + number_text(high) + "].");
  };
  if (g.kind == "power_law") require("exponent", 0, 20);
  if (g.kind == "low_rank") require("rank", 1, 1e6), require("noise", 0, 1e6);
  if (g.kind == "sparse") require("zeros", 0, 1);
  if (g.kind == "log_normal") require("sigma", 0, 5);  // beyond, exp(sigma * normal) leaves f16
  if (g.kind == "integers") {
    require("largest", 1, 32768);  // sums over 512 ranks stay below 2^24
    if (g.parameters.at("largest") != std::floor(g.parameters.at("largest")))
      throw UsageError("Generator integers: largest=" + number_text(g.parameters.at("largest")) + " is not a whole number.");
  }
}

std::string known_kinds() {
  std::string text;
  for (const GeneratorDescription& d : generators()) text += "\n  " + d.kind + ": " + d.summary;
  return text;
}

}  // namespace

const std::vector<GeneratorDescription>& generators() {
  static const std::vector<GeneratorDescription> all = {
      {"gaussian", "independent standard normal", {}},
      {"power_law",
       "singular values i^-exponent, random orthonormal factors, root mean square 1",
       {{"exponent", 1.0}}},
      {"low_rank",
       "signal of rank `rank` and root mean square 1, plus normal noise of deviation `noise`",
       {{"rank", 16}, {"noise", 0.01}}},
      {"sparse", "a fraction `zeros` of exact zeros, the others standard normal", {{"zeros", 0.99}}},
      {"log_normal", "random sign times exp(sigma * normal)", {{"sigma", 2.0}}},
      {"integers", "whole numbers from -largest to largest, equally likely: their sums are exact in f32", {{"largest", 8}}},
  };
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
  const auto& all = generators();
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const GeneratorDescription& d) { return d.kind == g.kind; });
  if (known == all.end()) throw UsageError("Unknown generator '" + g.kind + "'. There are:" + known_kinds());
  g.parameters = known->defaults;
  std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  if (colon != std::string_view::npos && rest.empty())
    throw UsageError("Generator '" + std::string(text) +
                     "' has nothing behind its colon. Write KIND:key=value.");
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const std::size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (equals == std::string_view::npos || !g.parameters.count(key)) {
      std::string keys;
      for (const auto& [name, value] : g.parameters) keys += " " + name;
      throw UsageError("Generator " + g.kind + " has no parameter '" + key +
                       "'. It has:" + (keys.empty() ? " none" : keys) + ".");
    }
    const std::string_view value = item.substr(equals + 1);
    double parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error != std::errc{} || end != value.data() + value.size())
      throw UsageError("Generator " + g.kind + ": '" + std::string(value) + "' is no number for " + key +
                       ".");
    g.parameters[key] = parsed;
  }
  check_range(g);
  return g;
}

void generate(const Generator& g, const Shape& shape, std::uint64_t seed, std::int64_t step,
              std::int64_t rank, std::span<float> to) {
  TW_ASSERT(static_cast<std::int64_t>(to.size()) == shape.elements());
  if (to.empty()) return;
  const std::uint64_t stream =
      mix_stream(mix_stream(hash_name(g.to_string()), static_cast<std::uint64_t>(step)),
                 static_cast<std::uint64_t>(rank));
  const Random random(seed, stream), choice(seed, mix_stream(stream, 3));
  const std::int64_t rows = shape.rows(), columns = shape.columns(), shorter = std::min(rows, columns);
  if (g.kind == "gaussian") {
    fill_normal(random, to);
  } else if (g.kind == "power_law" || g.kind == "low_rank") {
    const std::int64_t k = g.kind == "low_rank"
                               ? std::min(shorter, static_cast<std::int64_t>(g.parameters.at("rank")))
                               : shorter;
    std::vector<double> sigma(static_cast<std::size_t>(k), 1.0);
    double squares = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      if (g.kind == "power_law")
        sigma[static_cast<std::size_t>(i)] =
            std::pow(static_cast<double>(i + 1), -g.parameters.at("exponent"));
      squares += sigma[static_cast<std::size_t>(i)] * sigma[static_cast<std::size_t>(i)];
    }
    for (double& s : sigma)
      s *= std::sqrt(static_cast<double>(rows * columns) / squares);  // root mean square 1
    with_spectrum(rows, columns, sigma, seed, stream, to);
    if (g.kind == "low_rank" && g.parameters.at("noise") > 0) {
      std::vector<float> noise(to.size());
      fill_normal(random, noise, g.parameters.at("noise"));
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += noise[i];
    }
  } else if (g.kind == "sparse") {
    fill_normal(random, to);
    const auto zeros = static_cast<float>(g.parameters.at("zeros"));
    for (std::size_t i = 0; i < to.size(); ++i)
      if (choice.uniform(i) < zeros) to[i] = 0;
  } else if (g.kind == "integers") {
    const auto largest = static_cast<std::int64_t>(g.parameters.at("largest"));
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(static_cast<std::int64_t>(choice.uniform(i) * static_cast<double>(2 * largest + 1)) - largest);
  } else {
    TW_ASSERT(g.kind == "log_normal", g.kind);
    fill_normal(random, to, g.parameters.at("sigma"));
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = (choice.bits32(i) & 1u ? -1.0f : 1.0f) * std::exp(to[i]);
  }
}

Tensor generate(const Generator& generator, const Shape& shape, std::uint64_t seed, std::int64_t step,
                std::int64_t rank) {
  Tensor out(shape);
  generate(generator, shape, seed, step, rank, out.as<float>());
  return out;
}

}  // namespace thinwire
