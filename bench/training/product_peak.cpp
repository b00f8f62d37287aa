#include "bench/training/product_peak.h"

#include <algorithm>
#include <charconv>

#include "core/clock.h"
#include "core/device/device_entry.h"
#include "core/error.h"
#include "core/half.h"
#include "core/statistics.h"
#include "core/device/tensor.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/nn/device/device_nn.h"
#include "models/data/generated/generators.h"

namespace thinwire::bench {
namespace {

/// 1e9 per second of this rank: the median of samples of at least a hundredth of a second.
double product_gflops(nn::ComputeType compute, std::int64_t n) {
  const bool host = placement().on_host(), bf16 = compute == nn::ComputeType::bf16;
  const auto count = static_cast<std::size_t>(n * n);
  const std::size_t element = bf16 && !host ? 2 : 4;
  Buffer a(count * element), b(count * element), c(count * element), workspace(host ? 64 : product_workspace_bytes);
  for (Buffer* operand : {&a, &b}) {
    const std::vector<float> values = peak_operand(n * n, operand == &a ? 0 : 1);
    std::vector<BFloat16> rounded(element == 2 ? count : 0);
    std::ranges::transform(std::span(values).first(rounded.size()), rounded.begin(), [](float x) { return to_bfloat16(x); });
    copy_and_wait(operand->data(), element == 2 ? static_cast<const void*>(rounded.data()) : values.data(), count * element);
  }
  const auto product = [&] {
    if (host) {
      nn::gemm(compute, nn::Transpose::no, nn::Transpose::yes, n, n, n, 1, a.as<float>(count), n, b.as<float>(count), n, 0, c.as<float>(count), n);
      return;
    }
    static constexpr DeviceEntry<thinwire_cuda_gemm_fn> gemm("thinwire_cuda_gemm");
    const int type = bf16 ? device_bf16 : device_f32;
    gemm(type, type, 0, 0, n, n, n, 1.0f, static_cast<const void*>(a.data()), n, static_cast<const void*>(b.data()), n, 0.0f, static_cast<void*>(c.data()), n,
         static_cast<const void*>(nullptr), static_cast<void*>(workspace.data()));
  };
  product();
  synchronize_placement();
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  std::vector<double> rates;
  const Stopwatch whole;
  while (rates.size() < 3 || (whole.seconds() < 0.4 && rates.size() < 50)) {
    const Stopwatch watch;
    int products = 0;
    do {
      product(), ++products;
      synchronize_placement();
    } while (watch.seconds() < 0.01);
    rates.push_back(flops * products / watch.seconds() * 1e-9);
  }
  return median(rates);
}

}  // namespace

std::vector<float> peak_operand(std::int64_t count, int which) {
  std::vector<float> values(static_cast<std::size_t>(count));
  const std::size_t own = std::min<std::size_t>(values.size(), std::size_t{1} << 20);  // then again: enough that no bit stands still
  generate(parse_generator("gaussian"), {static_cast<std::int64_t>(own)}, 11, 0, which, std::span(values).first(own));
  for (std::size_t i = own; i < values.size(); ++i) values[i] = values[i - own];
  return values;
}

ProductPeak measure_product_peak(Communicator& world, nn::ComputeType compute) {
  const Device device = placement().device;
  // Large enough that a product's edges do not count; an emulated device would take hours for that.
  const std::int64_t n = device.kind == DeviceKind::host ? 1024 : device_name(device).starts_with("emulated") ? 32 : 8192;
  world.barrier();
  const double mine = product_gflops(compute, n);
  double sum = 0;
  world.all_reduce(&mine, &sum, 1, DType::f64, ReduceOp::sum)->wait();
  return {sum, std::string("measured: ") + (compute == nn::ComputeType::bf16 ? "bf16" : "f32") + " product of " + std::to_string(n) + " on each rank"};
}

ProductPeak product_peak(Communicator& world, nn::ComputeType compute, const std::string& option) {
  if (option == "measure") return measure_product_peak(world, compute);
  double tflops = 0;
  const auto read = std::from_chars(option.data(), option.data() + option.size(), tflops);
  if (read.ec != std::errc() || read.ptr != option.data() + option.size() || !(tflops > 0) || tflops > 1e9)
    throw UsageError("--peak-tflops " + option + ": `measure`, or what the hardware of all ranks can do together in 1e12 operations per second");
  return {tflops * 1e3, "stated"};
}

}  // namespace thinwire::bench
