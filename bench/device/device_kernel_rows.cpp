#include "bench/device/device_kernel_rows.h"

#include <cmath>
#include <optional>

#include "bench/device/device_under_test.h"
#include "bench/harness/timing.h"
#include "core/formulas.h"
#include "core/half.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/nn/device/device_nn.h"
#include "models/data/generated/generators.h"

namespace thinwire::bench {
namespace {

using Bytes = std::size_t;

/// What is run, and what it must do at least.
struct Kernel {
  std::string operation;
  int type = device_f32;
  KernelWork work;
  std::function<void()> run;
  std::function<void()> verify;  ///< after one run; WrongResult
};

class Kernels {
 public:
  Kernels(DeviceUnderTest& device, const KernelShapes& shapes) : device_(device), s_(shapes), pool_(1 << 16) {
    generate(parse_generator("gaussian"), {static_cast<std::int64_t>(pool_.size())}, 7, 0, 0, pool_);
    workspace_ = device.allocate(std::max({product_workspace_bytes, column_sums_workspace_bytes(s_.rows(), s_.hidden, 2),
                                           attention_workspace_bytes(s_.batch, s_.seq, s_.heads), sum_of_squares_workspace_bytes(s_.parameters)}));
  }

  /// Random numbers, neither transposed, the result in the operands' type: as the peers measure theirs (bench/peers/gpu_training.py).
  Kernel peak(int type) { return gemm("gemm_peak", type, s_.peak, s_.peak, s_.peak, {.result = type}); }

  /// All kernels of one type; their operands are this object's until the next call.
  std::vector<Kernel> of_type(int type) {
    const std::int64_t t = s_.rows(), h = s_.hidden;
    std::vector<Kernel> all;
    // As models/layers/linear.cpp and embedding.cpp ask for them: weights lie as [in, out] and the table as [vocab, hidden]; results are f32.
    const Form forward{.bias = true}, input_gradient{.tb = 1}, weight_gradient{.ta = 1, .adds = true}, logits{.tb = 1};
    all.push_back(gemm("gemm_qkv", type, t, 3 * h, h, forward));
    all.push_back(gemm("gemm_projection", type, t, h, h, forward));
    all.push_back(gemm("gemm_up", type, t, 4 * h, h, forward));
    all.push_back(gemm("gemm_up_input_gradient", type, t, h, 4 * h, input_gradient));
    all.push_back(gemm("gemm_up_weight_gradient", type, h, 4 * h, t, weight_gradient));
    all.push_back(gemm("gemm_down", type, t, h, 4 * h, forward));
    all.push_back(gemm("gemm_head", type, t, s_.vocab, h, logits));
    attention(type, all);
    layernorm(type, all);
    gelu(type, all);
    cross_entropy(type, all);
    if (type == device_f32) optimizer(all);
    return all;
  }

 private:
  static Bytes size(int type) { return type == device_f32 ? 4 : 2; }

  /// Device memory of `count` numbers: the pool over and over, times `scale`.
  void* numbers(int type, std::int64_t count, float scale = 1) {
    const Bytes bytes = static_cast<Bytes>(count) * size(type);
    auto* to = static_cast<std::byte*>(device_.allocate(bytes));
    std::vector<std::byte> block(pool_.size() * size(type));
    for (Bytes i = 0; i < pool_.size(); ++i) {
      if (type == device_f32) reinterpret_cast<float*>(block.data())[i] = pool_[i] * scale;
      else reinterpret_cast<BFloat16*>(block.data())[i] = to_bfloat16(pool_[i] * scale);
    }
    device_.transfer(to, block.data(), std::min(bytes, block.size()));
    for (Bytes have = block.size(); have < bytes; have *= 2) device_.copy(to + have, to, std::min(have, bytes - have));
    return to;
  }
  float value(int type, Bytes index, float scale) const {
    const float x = pool_[index % pool_.size()] * scale;
    return type == device_f32 ? x : to_float(to_bfloat16(x));
  }
  std::vector<float> read(int type, const void* from, std::int64_t count) {
    std::vector<float> result(static_cast<Bytes>(count));
    if (type == device_f32) {
      device_.transfer(result.data(), from, result.size() * 4);
      return result;
    }
    std::vector<BFloat16> halves(result.size());
    device_.transfer(halves.data(), from, halves.size() * 2);
    for (Bytes i = 0; i < halves.size(); ++i) result[i] = to_float(halves[i]);
    return result;
  }
  /// The first and last numbers of an output are finite, and not all zero.
  std::function<void()> finite(const char* operation, int type, const void* out, std::int64_t count) {
    return [=, this] {
      const std::int64_t look = std::min<std::int64_t>(count, 1 << 20);
      bool zeros = true;
      for (const std::int64_t first : {std::int64_t{0}, count - look})
        for (const float x : read(type, static_cast<const std::byte*>(out) + static_cast<Bytes>(first) * size(type), look)) {
          if (!std::isfinite(x)) throw WrongResult(std::string(operation) + " on the device writes what is not finite");
          zeros = zeros && x == 0;
        }
      if (zeros) throw WrongResult(std::string(operation) + " on the device writes zeros only");
    };
  }

  /// What is transposed, what is added, and the type of the result.
  struct Form {
    int ta = 0, tb = 0;
    bool bias = false, adds = false;  ///< to what is there
    int result = device_f32;
  };

  Kernel gemm(const char* operation, int type, std::int64_t m, std::int64_t n, std::int64_t k, const Form& form) {
    const void *a = numbers(type, m * k), *b = numbers(type, k * n, 0.5f), *bias = form.bias ? numbers(form.result, n) : nullptr;
    void* c = form.adds ? numbers(form.result, m * n, 0) : device_.allocate(static_cast<Bytes>(m * n) * size(form.result));
    const std::int64_t lda = form.ta ? m : k, ldb = form.tb ? k : n;
    Kernel kernel{operation, type, gemm_work(m, n, k, static_cast<std::int64_t>(size(type)), static_cast<std::int64_t>(size(form.result))), {}, {}};
    kernel.run = [=, this] {
      device_.call<thinwire_cuda_gemm_fn>("thinwire_cuda_gemm", type, form.result, form.ta, form.tb, m, n, k, 1.0f, a, lda, b, ldb, form.adds ? 1.0f : 0.0f, c, n,
                                          bias, workspace_);
    };
    const std::string name = operation;
    kernel.verify = [=, this] {
      const std::pair<std::int64_t, std::int64_t> places[] = {{0, 0}, {m - 1, n - 1}, {m / 2, n / 3}, {m / 3, n - 1}, {m - 1, n / 7}};
      for (const auto& [i, j] : places) {
        double sum = form.bias ? value(form.result, static_cast<Bytes>(j), 1) : 0, length = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double x = value(type, static_cast<Bytes>(form.ta ? l * lda + i : i * lda + l), 1);
          const double y = value(type, static_cast<Bytes>(form.tb ? j * ldb + l : l * ldb + j), 0.5f);
          sum += x * y, length += x * x * y * y;
        }
        const float found = read(form.result, static_cast<const std::byte*>(c) + static_cast<Bytes>(i * n + j) * size(form.result), 1)[0];
        // f32 sums of k products, and one rounding to the type.
        const double allowed = 1e-5 * std::sqrt(length * static_cast<double>(k)) + (form.result == device_f32 ? 1e-6 : 4e-3) * std::abs(sum) + 1e-6;
        if (!(std::abs(found - sum) <= allowed))
          throw WrongResult(name + " on the device: element (" + std::to_string(i) + ", " + std::to_string(j) + ") is " + std::to_string(found) + ", not " + std::to_string(sum));
      }
    };
    return kernel;
  }

  void attention(int type, std::vector<Kernel>& all) {
    const std::int64_t t = s_.rows(), h = s_.hidden, d = h / s_.heads;
    const void *qkv = numbers(type, t * 3 * h), *gradient = numbers(type, t * h);
    void *context = numbers(type, t * h), *dqkv = device_.allocate(static_cast<Bytes>(t * 3 * h) * size(type));
    auto* lse = static_cast<float*>(numbers(device_f32, t * s_.heads));
    const auto bytes = static_cast<std::int64_t>(size(type));
    all.push_back({"attention_forward", type, attention_work(s_, false, bytes),
                   [=, this] {
                     device_.call<thinwire_cuda_attention_forward_fn>("thinwire_cuda_attention_forward", type, s_.batch, s_.seq, s_.heads, d, qkv, context, lse);
                   },
                   finite("attention_forward", type, context, t * h)});
    all.push_back({"attention_backward", type, attention_work(s_, true, bytes),
                   [=, this] {
                     device_.call<thinwire_cuda_attention_backward_fn>("thinwire_cuda_attention_backward", type, s_.batch, s_.seq, s_.heads, d, qkv,
                                                                       static_cast<const void*>(context), static_cast<const float*>(lse), gradient, dqkv, workspace_);
                   },
                   finite("attention_backward", type, dqkv, t * 3 * h)});
  }

  void layernorm(int type, std::vector<Kernel>& all) {
    const std::int64_t t = s_.rows(), h = s_.hidden;
    const void *x = numbers(type, t * h), *dy = numbers(type, t * h);
    void *y = device_.allocate(static_cast<Bytes>(t * h) * size(type)), *dx = device_.allocate(static_cast<Bytes>(t * h) * size(type));
    const auto floats = [this](std::int64_t count) { return static_cast<float*>(numbers(device_f32, count)); };
    const float *gamma = floats(h), *beta = floats(h);
    float *mean = floats(t), *rstd = floats(t), *dgamma = floats(h), *dbeta = floats(h);
    const double tensor = static_cast<double>(t * h) * static_cast<double>(size(type)), statistics = 8.0 * static_cast<double>(t);
    all.push_back({"layernorm_forward", type, {0, 2 * tensor + statistics},
                   [=, this] {
                     device_.call<thinwire_cuda_normalise_fn>("thinwire_cuda_normalise", type, t, h, h, x, static_cast<const float*>(nullptr), gamma, beta, y, mean, rstd);
                   },
                   finite("layernorm_forward", type, y, t * h)});
    all.push_back({"layernorm_backward", type, {0, 3 * tensor + statistics},
                   [=, this] {
                     device_.call<thinwire_cuda_normalise_backward_fn>("thinwire_cuda_normalise_backward", type, t, h, h, x, dy, gamma, static_cast<const float*>(mean),
                                                                       static_cast<const float*>(rstd), static_cast<const float*>(nullptr), 0, dx, dgamma, dbeta, workspace_);
                   },
                   finite("layernorm_backward", type, dx, t * h)});
  }

  void gelu(int type, std::vector<Kernel>& all) {
    const std::int64_t count = s_.rows() * 4 * s_.hidden;
    const void *x = numbers(type, count), *dy = numbers(type, count);
    void* y = device_.allocate(static_cast<Bytes>(count) * size(type));
    const double tensor = static_cast<double>(count) * static_cast<double>(size(type));
    all.push_back({"gelu_forward", type, {0, 2 * tensor}, [=, this] { device_.call<thinwire_cuda_gelu_forward_fn>("thinwire_cuda_gelu_forward", type, count, x, y); },
                   finite("gelu_forward", type, y, count)});
    all.push_back({"gelu_backward", type, {0, 3 * tensor}, [=, this] { device_.call<thinwire_cuda_gelu_backward_fn>("thinwire_cuda_gelu_backward", type, count, x, dy, y); },
                   finite("gelu_backward", type, y, count)});
  }

  /// Logits turn into their gradients in place: repeated, it works on those, at the same cost.
  void cross_entropy(int type, std::vector<Kernel>& all) {
    const std::int64_t t = s_.rows();
    void* logits = numbers(type, t * s_.vocab);
    std::vector<std::int32_t> chosen(static_cast<Bytes>(t));
    for (Bytes i = 0; i < chosen.size(); ++i) chosen[i] = static_cast<std::int32_t>(i * 7919 % static_cast<Bytes>(s_.vocab));
    auto* targets = static_cast<std::int32_t*>(device_.allocate(chosen.size() * 4));
    device_.transfer(targets, chosen.data(), chosen.size() * 4);
    auto* losses = static_cast<float*>(device_.allocate(chosen.size() * 4));
    auto* status = static_cast<std::uint32_t*>(device_.allocate(4));
    const std::uint32_t clear = 0;
    device_.transfer(status, &clear, 4);
    all.push_back({"cross_entropy", type, {0, 2.0 * static_cast<double>(t * s_.vocab) * static_cast<double>(size(type))},
                   [=, this] {
                     device_.call<thinwire_cuda_cross_entropy_fn>("thinwire_cuda_cross_entropy", type, t, s_.vocab, logits, static_cast<const std::int32_t*>(targets), 1.0f,
                                                                  losses, status);
                   },
                   finite("cross_entropy", device_f32, losses, t)});
  }

  /// Clipping by a norm on the device, f32 weights and moments, a bf16 copy of the weights: 4 tensors read, 3 1/2 written.
  void optimizer(std::vector<Kernel>& all) {
    const std::int64_t n = s_.parameters;
    const auto floats = [&](float scale) { return static_cast<float*>(numbers(device_f32, n, scale)); };
    const float* gradient = floats(1e-3f);
    float *weight = floats(0.02f), *m = floats(0), *v = floats(0);
    void* copy = device_.allocate(static_cast<Bytes>(n) * 2);
    auto* squares = static_cast<double*>(device_.allocate(8));
    all.push_back({"sum_of_squares", device_f32, {0, 4.0 * static_cast<double>(n)},
                   [=, this] { device_.call<thinwire_cuda_sum_of_squares_fn>("thinwire_cuda_sum_of_squares", n, gradient, squares, 0, workspace_); }, {}});
    const thinwire_cuda_adamw_factors factors{0.9f, 0.95f, 1, 1, 1e-8f, 1e-4f, 1 - 1e-5f, 1, 1};
    all.push_back({"adamw", device_f32, {0, 30.0 * static_cast<double>(n)},
                   [=, this] {
                     device_.call<thinwire_cuda_adamw_step_fn>("thinwire_cuda_adamw_step", &factors, n, gradient, weight, m, v, copy, static_cast<const double*>(squares));
                   },
                   finite("adamw", device_f32, weight, n)});
  }

  DeviceUnderTest& device_;
  KernelShapes s_;
  std::vector<float> pool_;
  void* workspace_ = nullptr;
};

/// Device memory that copies are timed between.
struct CopyRate {
  explicit CopyRate(DeviceUnderTest& d, std::size_t size) : device(d), bytes(size), from(d.allocate(size)), to(d.allocate(size)) {}
  double time_us() const {
    return device.timed_us([&] { device.copy(to, from, bytes); });
  }
  DeviceUnderTest& device;
  std::size_t bytes;
  void *from, *to;
};

results::CellRow kernel_row(BenchContext& context, const CellParameters& p, DeviceUnderTest& device, const KernelShapes& shapes, const Kernel& kernel,
                            const CopyRate& rate, std::optional<double> peak, std::vector<results::SampleRow>& samples) {
  results::CellRow row;
  row.traffic = "kernel", row.operation = kernel.operation, row.source = "generated";
  row.dtype = kernel.type == device_f32 ? "f32" : "bf16";
  row.batch = shapes.batch, row.seq = shapes.seq, row.hidden = shapes.hidden;
  device.mark(row);
  try {
    kernel.run();
    if (kernel.verify) kernel.verify();
    if (context.check_only) return row;
    std::vector<double> times, copies;
    for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
      const double c = rate.time_us(), t = device.timed_us(kernel.run);
      loop.add(t);
      if (loop.warming_up()) continue;
      copies.push_back(c), times.push_back(t);
      results::SampleRow sample;
      sample.traffic = row.traffic;
      sample.repetition = static_cast<std::int64_t>(times.size()) - 1;
      sample.total_us = t;
      samples.push_back(sample);
    }
    row.total_us = median(times), row.total_iqr_us = summarize(times).interquartile_range;
    row.repetitions = static_cast<std::int64_t>(times.size());
    row.memcpy_gbps = gigabytes_per_second(static_cast<double>(rate.bytes), median(copies));
    if (kernel.work.flops > 0) {
      row.gflops = kernel.work.flops / (row.total_us * 1e3);
      row.peak_gflops = peak.value_or(row.gflops);
      row.bound_fraction = row.gflops / row.peak_gflops;
    } else {
      row.bound_fraction = bound_fraction(kernel.work.bytes, 0, row.memcpy_gbps, row.total_us);
    }
    device.judge(row);
  } catch (const WrongResult& error) {
    row.status = results::name_of(results::Status::wrong), row.reason = error.what();
  } catch (const EnvironmentError& error) {
    row.status = results::name_of(results::Status::skipped), row.reason = error.what();
  } catch (const RuntimeFailure& error) {
    row.status = results::name_of(results::Status::failed), row.reason = error.what();
  }
  return row;
}

}  // namespace

KernelWork gemm_work(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t operand_bytes, std::int64_t result_bytes) {
  return {2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k), static_cast<double>((m * k + k * n) * operand_bytes + m * n * result_bytes)};
}

KernelWork attention_work(const KernelShapes& s, bool backward, std::int64_t element_bytes) {
  const double products = backward ? 5 : 2, pairs = static_cast<double>(s.seq) * static_cast<double>(s.seq) / 2;
  const double tensors = backward ? 8 : 4;  // in units of [rows, hidden]: qkv and context; their gradients too
  return {products * 2 * static_cast<double>(s.batch) * static_cast<double>(s.hidden) * pairs,
          tensors * static_cast<double>(s.rows() * s.hidden) * static_cast<double>(element_bytes)};
}

void measure_device_kernels(BenchContext& context, const CellParameters& p, const KernelShapes& shapes, Measured& measured) {
  const int ordinal = static_cast<int>(p.integer("device"));
  const auto tensor_bytes = static_cast<std::size_t>(shapes.rows() * shapes.hidden) * 4;
  for (const int type : {device_f32, device_bf16}) {
    std::optional<double> peak;
    {
      DeviceUnderTest device(ordinal);
      Kernels kernels(device, shapes);
      const CopyRate rate(device, tensor_bytes);
      measured.rows.push_back(kernel_row(context, p, device, shapes, kernels.peak(type), rate, {}, measured.samples));
      if (!std::isnan(measured.rows.back().gflops)) peak = measured.rows.back().gflops;
    }
    DeviceUnderTest device(ordinal);
    Kernels kernels(device, shapes);
    const CopyRate rate(device, tensor_bytes * 4);
    for (const Kernel& kernel : kernels.of_type(type)) measured.rows.push_back(kernel_row(context, p, device, shapes, kernel, rate, peak, measured.samples));
  }
}

}  // namespace thinwire::bench
