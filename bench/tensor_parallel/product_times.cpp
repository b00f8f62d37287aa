#include "bench/tensor_parallel/product_times.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "collectives/process/node_info.h"
#include "core/clock.h"
#include "kernels/nn/gemm/gemm.h"

namespace thinwire::bench {
namespace {

/// Lowers the time of each product to what it took now, where that is less.
void run_bare(const std::vector<nn::GemmShape>& shapes, std::vector<double>& fastest_us) {
  const MachineLock alone;
  std::vector<float> operands;
  fastest_us.resize(shapes.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const nn::GemmShape& s = shapes[i];
    const std::int64_t a = s.m * s.k, b = s.k * s.n;
    operands.resize(static_cast<std::size_t>(a + b + s.m * s.n), 0.5f);
    const Stopwatch watch;
    nn::gemm<float>(s.trans_a, s.trans_b, s.m, s.n, s.k, 1, operands.data(), s.trans_a == nn::Transpose::yes ? s.m : s.k, operands.data() + a,
                    s.trans_b == nn::Transpose::yes ? s.k : s.n, s.adds ? 1.0f : 0.0f, operands.data() + a + b, s.n);
    fastest_us[i] = std::min(fastest_us[i], static_cast<double>(watch.elapsed_ns()) * 1e-3);
  }
}

}  // namespace

ProductTimes product_times(int repetitions, const std::function<void()>& body) {
  ProductTimes fastest{std::numeric_limits<double>::infinity(), 0};
  std::vector<double> bare;
  for (int i = 0; i < repetitions; ++i) {
    nn::start_gemm_profile(true);
    body();
    const nn::GemmProfile profile = nn::stop_gemm_profile();
    fastest.us = std::min(fastest.us, profile.seconds * 1e6);
    run_bare(profile.shapes, bare);
  }
  fastest.bare_us = std::accumulate(bare.begin(), bare.end(), 0.0);
  return fastest;
}

}  // namespace thinwire::bench
