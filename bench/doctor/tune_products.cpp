#include "bench/doctor/tune_products.h"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/doctor/limited_process.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/process/blas_kernels.h"
#include "kernels/nn/gemm/onednn_product.h"
#include "models/cost_model/machine_file.h"
#include "results/files/files.h"
#include "results/provenance.h"

namespace thinwire::bench {
namespace {

constexpr const char* tag = "\x1ethinwire-rates ";

/// Layers that stand for a size: rows of a micro-batch, in and out.
struct LayerSize {
  std::int64_t rows, in, out;
};
constexpr LayerSize sizes[] = {{256, 128, 384}, {512, 320, 1280}, {1024, 512, 2048}};

struct Trial {
  nn::Transpose trans_a, trans_b;
  std::int64_t m, n, k;
  float beta;
};

/// One product of each class, in the order of nn::product_classes.
std::vector<Trial> trials() {
  using nn::Transpose;
  std::vector<Trial> all;
  for (const LayerSize& s : sizes) {
    all.push_back({Transpose::no, Transpose::no, s.rows, s.out, s.in, 0});
    all.push_back({Transpose::no, Transpose::yes, s.rows, s.in, s.out, 0});
    all.push_back({Transpose::yes, Transpose::no, s.in, s.out, s.rows, 1});
  }
  return all;
}

float value(std::int64_t i) { return static_cast<float>(std::sin(0.37 * static_cast<double>(i % 9973)) * 0.5); }

/// 1e9 operations per second of the fastest of several; 0 where an element differs from its sum in f64.
double rate_of(const Trial& t, nn::ComputeType compute, bool quick) {
  const bool ta = t.trans_a == nn::Transpose::yes, tb = t.trans_b == nn::Transpose::yes;
  const std::int64_t lda = ta ? t.m : t.k, ldb = tb ? t.k : t.n;
  std::vector<float> a(static_cast<std::size_t>(t.m * t.k)), b(static_cast<std::size_t>(t.k * t.n)), c(static_cast<std::size_t>(t.m * t.n));
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = value(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = value(static_cast<std::int64_t>(i) + 31);
  const auto multiply = [&] { nn::gemm(compute, t.trans_a, t.trans_b, t.m, t.n, t.k, 1.0f, a.data(), lda, b.data(), ldb, t.beta, c.data(), t.n); };
  multiply();  // also makes primitives and threads
  for (const auto& [i, j] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {t.m / 2, t.n / 3}, {t.m - 1, t.n - 1}}) {
    double sum = 0, size = 0;
    for (std::int64_t p = 0; p < t.k; ++p) {
      const double term = double{a[static_cast<std::size_t>(ta ? p * lda + i : i * lda + p)]} * b[static_cast<std::size_t>(tb ? j * ldb + p : p * ldb + j)];
      sum += term;
      size += std::abs(term);
    }
    const double bound = compute == nn::ComputeType::bf16 ? 0x1p-7 : 0x1p-18;  // roundings of both operands; sums in f32 of up to 2048 terms
    if (!(std::abs(sum - c[static_cast<std::size_t>(i * t.n + j)]) <= bound * size)) return 0;
  }
  const double least_s = quick ? 0.002 : 0.06;
  double best = 1e9;
  const Stopwatch all;
  for (int i = 0; i < (quick ? 1 : 3) || all.seconds() < least_s; ++i) {
    const Stopwatch one;
    multiply();
    best = std::min(best, one.seconds());
  }
  return 2e-9 * static_cast<double>(t.m) * static_cast<double>(t.n) * static_cast<double>(t.k) / best;
}

/// What a child printed. `kernels` empty: those that OpenBLAS takes by itself.
nlohmann::json measured(const std::string& library, const std::string& kernels, const DoctorContext& context) {
  constexpr double limit_s = 120;
  const ProcessResult child = run_limited(
      [&]() -> int {
        if (kernels.empty())
          unsetenv("OPENBLAS_CORETYPE");
        else
          setenv("OPENBLAS_CORETYPE", kernels.c_str(), 1);
        execl(context.program.c_str(), "doctor", "--tune-child", library.c_str(), context.quick ? "--quick" : nullptr, nullptr);
        return 127;
      },
      limit_s);
  const std::size_t at = child.output.rfind(tag), begin = at + std::string(tag).size();
  const auto rates = at == std::string::npos ? nlohmann::json() : nlohmann::json::parse(child.output.substr(begin, child.output.find('\n', begin) - begin), nullptr, false);
  if (!child.succeeded() || !rates.is_object())
    throw EnvironmentError("the products of " + library + (kernels.empty() ? "" : " with kernels " + kernels) + " could not be measured: the process " + child.ending() +
                           "; see what else runs on the machine (doctor --only blas)");
  return rates;
}

constexpr double wrong = -1;

/// Who multiplied wrongly once is out.
void keep_best(std::map<std::string, double>& best, const nlohmann::json& rates) {
  for (const auto& [name, value] : rates.at("gflops").items()) {
    double& kept = best[name];
    const double rate = value.get<double>();
    kept = kept == wrong || !(rate > 0) ? wrong : std::max(kept, rate);
  }
}
void forget_wrong(ProductRates& rates) {
  std::erase_if(rates.gflops, [](const auto& entry) { return entry.second == wrong; });
}

void print(std::FILE* table, const std::string& name, const std::map<std::string, double>& gflops, const char* prefix) {
  std::fprintf(table, "%-24s", name.c_str());
  for (const char* product : nn::product_classes) {
    const auto found = gflops.find(prefix + std::string(product));
    if (found == gflops.end())
      std::fprintf(table, " %9s", "-");
    else
      std::fprintf(table, " %9.1f", found->second);
  }
  std::fprintf(table, "\n");
}

}  // namespace

nn::ProductLibrary choose_products(std::span<const ProductRates> openblas, const ProductRates& onednn, const std::string& own) {
  const auto time_of = [](const ProductRates& rates) {
    double time = 0;
    for (const char* name : nn::product_classes) {
      const auto found = rates.gflops.find(name);
      time += found == rates.gflops.end() ? INFINITY : 1 / found->second;
    }
    return time;
  };
  const ProductRates* best = nullptr;
  for (const ProductRates& rates : openblas)
    if (rates.kernels == own && std::isfinite(time_of(rates))) best = &rates;
  for (const ProductRates& rates : openblas) {
    if (!std::isfinite(time_of(rates))) continue;
    const double needed = best != nullptr && best->kernels == own ? least_gain : 1;
    if (best == nullptr || time_of(rates) * needed < time_of(*best)) best = &rates;
  }
  if (best == nullptr) throw UsageError("no kernels of OpenBLAS multiplied all classes of products rightly; look at the library: doctor --only blas");
  nn::ProductLibrary choice;
  choice.kernels = best->kernels;
  for (std::size_t i = 0; i < nn::product_classes.size(); ++i) {
    const auto found = onednn.gflops.find(nn::product_classes[i]);
    choice.onednn[i] = found != onednn.gflops.end() && found->second > least_gain * best->gflops.at(nn::product_classes[i]);
  }
  return choice;
}

int tune_child(const std::string& library, bool quick) {
  nn::ProductLibrary choice;
  if (library == "onednn") choice.onednn.fill(true);
  nlohmann::json gflops = nlohmann::json::object();
  const std::vector<Trial> all = trials();
  if (nn::why_not(choice).empty()) {
    nn::set_product_library(choice);
    for (std::size_t i = 0; i < all.size(); ++i) {
      gflops[nn::product_classes[i]] = rate_of(all[i], nn::ComputeType::f32, quick);
      if (library == "onednn" && nn::why_no_bf16_gemm().empty()) gflops[std::string("bf16 ") + nn::product_classes[i]] = rate_of(all[i], nn::ComputeType::bf16, quick);
    }
  }
  std::printf("%s%s\n", tag, nlohmann::json{{"kernels", blas_kernels_in_use()}, {"threads", omp_get_max_threads()}, {"gflops", gflops}}.dump().c_str());
  return 0;
}

int tune_products(const std::string& path, const DoctorContext& context, std::FILE* table) {
  MachineFile file = MachineFile::read(path);  // before the work: a damaged file ends it
  std::string own;
  std::int64_t threads = 0;
  std::vector<ProductRates> openblas;
  ProductRates onednn;
  // Contenders take turns, so that what disturbs the machine for a while does not hit one of them alone.
  for (int round = 0; round < (context.quick ? 1 : 3); ++round) {
    const nlohmann::json by_itself = measured("openblas", "", context);
    own = by_itself.at("kernels"), threads = by_itself.at("threads");
    if (round == 0) {
      openblas.push_back({own, {}});
      for (const std::string& kernels : tunable_blas_kernels(features_of_this_processor()))
        if (kernels != own) openblas.push_back({kernels, {}});
    }
    keep_best(openblas.front().gflops, by_itself);
    // A name that the library does not have leaves it with other kernels: no contender.
    for (std::size_t i = 1; i < openblas.size();) {
      const nlohmann::json rates = measured("openblas", openblas[i].kernels, context);
      if (rates.at("kernels") != openblas[i].kernels) {
        openblas.erase(openblas.begin() + static_cast<std::ptrdiff_t>(i));
        continue;
      }
      keep_best(openblas[i++].gflops, rates);
    }
    keep_best(onednn.gflops, measured("onednn", "", context));
  }
  for (ProductRates& rates : openblas) forget_wrong(rates);
  forget_wrong(onednn);
  std::fprintf(table, "# 1e9 operations per second, the fastest of several; %lld threads\n%-24s", static_cast<long long>(threads), "#");
  for (const char* name : nn::product_classes) std::fprintf(table, " %9s", name);
  std::fprintf(table, "\n");
  for (const ProductRates& rates : openblas) print(table, "OpenBLAS " + rates.kernels, rates.gflops, "");
  print(table, "oneDNN", onednn.gflops, "");
  if (nn::why_no_bf16_gemm().empty())
    print(table, "oneDNN bf16", onednn.gflops, "bf16 ");
  else
    std::fprintf(table, "%-24s SKIPPED: %s\n", "oneDNN bf16", nn::why_no_bf16_gemm().c_str());
  const nn::ProductLibrary choice = choose_products(openblas, onednn, own);
  file.products = {choice.text(), results::processor_name(), results::loaded_blas() + "; oneDNN " + nn::detail::onednn_version(), threads};
  results::write_file_atomically(path, file.to_toml());
  const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  std::fprintf(table, "%s\n%s has it. Programs and sweeps use it, under identities of their own, where the variable names the file:\n  export THINWIRE_MACHINE=%s\n",
               choice.text().c_str(), path.c_str(), results::shell_quoted(absolute).c_str());
  return 0;
}

}  // namespace thinwire::bench
