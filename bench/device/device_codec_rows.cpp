#include "bench/device/device_codec_rows.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bench/device/device_under_test.h"
#include "bench/harness/error_metrics.h"
#include "bench/codec/reduction_break_even.h"
#include "bench/harness/timing.h"
#include "core/device/placement.h"
#include "core/formulas.h"
#include "kernels/codec/registry.h"
#include "kernels/cuda/kernel_abi.h"
#include "kernels/nn/device/device_nn.h"

namespace thinwire::bench {
namespace {

/// The codec of an expression where the thread computes, fitted on the tensor's first rows where it must be.
std::unique_ptr<Codec> codec_here(const std::string& expression, const Tensor& x) {
  CodecStack stack = make_codec(expression);
  if (!stack.wrappers.empty()) throw UsageError("--codec " + expression + ": bench_device measures codecs without wrappers");
  if (stack.codec->traits().needs_fit) {
    const Shape whole{x.shape().rows(), x.shape().columns()};
    const std::int64_t rows = std::min<std::int64_t>(whole.rows(), 4096);
    const ConstTensorView sample = x.view().flat_slice(0, rows * whole.columns()).reshaped({rows, whole.columns()});
    stack.codec->as<Fit>()->fit({&sample, 1});
  }
  return std::move(stack.codec);
}

/// The decoded tensor must be the host codec's: equal bits, or for products equal to rounding.
void verify(const std::string& expression, const Tensor& x, const MessageKey& key, std::span<const float> decoded) {
  const PlacementScope on_the_host{Device{}};
  const std::unique_ptr<Codec> host = codec_here(expression, x);
  std::vector<std::byte> payload(host->max_payload_bytes(x.shape()));
  payload.resize(host->encode(x.view(), key, payload));
  std::vector<float> expected(static_cast<std::size_t>(x.elements()));
  host->decode(payload, key, {expected.data(), x.shape()});
  require_close(error_metrics(decoded, std::span<const float>(expected)), host->traits().reordered_sums ? 1e-3 : 0.0,
                "the device's " + expression + " against the host's");
}

/// The products inside a codec, run bare with the same shapes and types: what the device's own library would take.
class BareProducts {
 public:
  BareProducts(DeviceUnderTest& device, const std::string& expression, const Shape& shape, const float* x, float* out) : device_(device), x_(x), out_(out) {
    const CodecStack host = [&] {
      const PlacementScope on_the_host{Device{}};
      return make_codec(expression);
    }();
    const auto* products = host.codec->as<Products>();
    if (products == nullptr) return;
    encode_ = products->encode_products(shape), decode_ = products->decode_products(shape);
    const std::int64_t n = shape.rows(), h = shape.columns(), width = products->product_width(shape);
    left_ = static_cast<float*>(device.allocate(static_cast<std::size_t>(n * width) * 4));
    right_ = static_cast<float*>(device.allocate(static_cast<std::size_t>(h * width) * 4));
    device.copy(left_, x, static_cast<std::size_t>(std::min(n * width, n * h)) * 4);
    device.copy(right_, x, static_cast<std::size_t>(std::min(h * width, n * h)) * 4);
    workspace_ = device.allocate(product_workspace_bytes);
  }
  bool any() const { return !encode_.empty(); }
  void encode() { run(encode_); }
  void decode() { run(decode_); }

 private:
  using Operand = CodecProduct::Operand;
  float* written(Operand which) const { return which == Operand::left ? left_ : which == Operand::right ? right_ : out_; }
  const float* read(Operand which) const { return which == Operand::tensor ? x_ : written(which); }
  void run(const std::vector<CodecProduct>& products) {
    for (const CodecProduct& p : products)
      device_.call<thinwire_cuda_gemm_fn>("thinwire_cuda_gemm", device_f32, device_f32, p.transpose_a ? 1 : 0, p.transpose_b ? 1 : 0, p.m, p.n, p.k, 1.0f,
                                          static_cast<const void*>(read(p.a)), p.transpose_a ? p.m : p.k, static_cast<const void*>(read(p.b)),
                                          p.transpose_b ? p.k : p.n, 0.0f, static_cast<void*>(written(p.c)), p.n, static_cast<const void*>(nullptr), workspace_);
  }
  DeviceUnderTest& device_;
  std::vector<CodecProduct> encode_, decode_;
  const float* x_;
  float *out_, *left_ = nullptr, *right_ = nullptr;
  void* workspace_ = nullptr;
};

/// One codec and tensor on the device; in the placement of `device`.
struct Message {
  Message(DeviceUnderTest& d, const std::string& expression, const Tensor& x)
      : device(d), values(x.shape()), out(x.shape()), codec(codec_here(expression, x)), payload_bytes(codec->max_payload_bytes(x.shape())), payload(payload_bytes) {
    d.transfer(values.view().data(), x.view().data(), x.bytes());
  }
  void encode() { codec->encode(std::as_const(values).view(), key, {payload.data(), payload_bytes}); }
  void decode() { codec->decode({payload.data(), payload_bytes}, key, out.view()); }
  const float* x() { return static_cast<const float*>(values.view().data()); }
  float* y() { return static_cast<float*>(out.view().data()); }
  DeviceUnderTest& device;
  Tensor values, out;
  std::unique_ptr<Codec> codec;
  std::size_t payload_bytes;
  Buffer payload;
  MessageKey key{.tensor = hash_name("bench")};
};

void check(Message& message, const std::string& expression, const Tensor& x, results::CellRow& row) {
  message.encode();
  message.decode();
  std::vector<float> decoded(static_cast<std::size_t>(x.elements()));
  message.device.transfer(decoded.data(), message.y(), x.bytes());
  if (auto* half = message.codec->as<DeviceHalf>()) {
    std::array<std::uint32_t, 2> found{};
    message.device.transfer(found.data(), half->status_words(), sizeof found);
    if (found[0] != 0 || found[1] != 0)
      throw WrongResult(expression + " on the device reports status " + std::to_string(found[0]) + " of encode and " + std::to_string(found[1]) + " of decode");
  }
  verify(expression, x, message.key, decoded);
  error_metrics(decoded, x.as<float>()).fill(row);
}

void time(const CellParameters& p, Message& message, const std::string& expression, const Shape& shape, results::CellRow& row,
          std::vector<results::SampleRow>& samples) {
  DeviceUnderTest& device = message.device;
  const std::size_t tensor_bytes = message.values.bytes();
  BareProducts bare(device, expression, shape, message.x(), message.y());
  std::vector<double> encode, decode, copy, total, bare_encode, bare_decode;
  // All that is compared takes turns. Copies go from one tensor to the other, far apart and larger than the caches at the sizes that count.
  for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
    ++message.key.step;
    const double c = device.timed_us([&] { device.copy(message.y(), message.x(), tensor_bytes); });
    const double e = device.timed_us([&] { message.encode(); });
    const double d = device.timed_us([&] { message.decode(); });
    const double be = bare.any() ? device.timed_us([&] { bare.encode(); }) : 0, bd = bare.any() ? device.timed_us([&] { bare.decode(); }) : 0;
    loop.add(e + d);
    if (loop.warming_up()) continue;
    copy.push_back(c), encode.push_back(e), decode.push_back(d), total.push_back(e + d);
    bare_encode.push_back(be), bare_decode.push_back(bd);
    results::SampleRow sample;
    sample.traffic = row.traffic;
    sample.repetition = static_cast<std::int64_t>(encode.size()) - 1;
    sample.encode_us = e, sample.decode_us = d, sample.total_us = e + d;
    samples.push_back(sample);
  }
  const auto bytes = static_cast<double>(tensor_bytes), sent = static_cast<double>(row.payload_bytes);
  const CodecTraffic traffic = codec_traffic(*message.codec, shape, sent);
  row.encode_us = median(encode), row.decode_us = median(decode), row.total_us = median(total);
  row.total_iqr_us = summarize(total).interquartile_range;
  row.repetitions = static_cast<std::int64_t>(encode.size());
  row.memcpy_gbps = gigabytes_per_second(bytes, median(copy));
  row.encode_gbps = gigabytes_per_second(bytes, row.encode_us);
  row.decode_gbps = gigabytes_per_second(bytes, row.decode_us);
  row.bound_fraction_encode = bound_fraction(traffic.encode, 0, row.memcpy_gbps, row.encode_us);
  row.bound_fraction_decode = bound_fraction(traffic.decode, 0, row.memcpy_gbps, row.decode_us);
  if (bare.any()) {
    row.blas_fraction_encode = median(bare_encode) / row.encode_us;
    row.blas_fraction_decode = median(bare_decode) / row.decode_us;
  }
  row.break_even_gbps = break_even_gbps(static_cast<double>(row.dense_bytes), sent, row.encode_us + row.decode_us);
}

/// The same codec in an all-reduce over `replicas` ranks, by arithmetic.
void add_reductions(const results::CellRow& message, const std::string& expression, int replicas, std::vector<results::CellRow>& rows) {
  const CodecStack stack = make_codec(expression);
  for (const ReductionCost& cost : reduction_costs(stack.codec->traits(), replicas, static_cast<double>(message.dense_bytes),
                                                   static_cast<double>(message.payload_bytes), message.encode_us, message.decode_us)) {
    results::CellRow row;
    row.traffic = message.traffic, row.codec = message.codec, row.dtype = message.dtype, row.tensor = message.tensor, row.tensor_class = message.tensor_class, row.source = message.source;
    row.hidden = message.hidden, row.dense_bytes = message.dense_bytes, row.payload_bytes = message.payload_bytes, row.device = message.device;
    row.status = message.status, row.reason = message.reason, row.memcpy_gbps = message.memcpy_gbps;
    row.operation = "all_reduce", row.protocol = cost.protocol, row.compute = "modelled", row.baseline = "ring", row.dp = replicas;
    row.link_bytes = row.link_bytes_max = row.received_bytes = static_cast<std::int64_t>(cost.link_bytes);
    row.baseline_link_bytes = static_cast<std::int64_t>(cost.dense_link_bytes);
    row.ratio = cost.dense_link_bytes / cost.link_bytes;
    row.encode_us = cost.encode_us, row.decode_us = cost.decode_us;
    row.break_even_gbps = cost.break_even_gbps;
    rows.push_back(row);
  }
}

}  // namespace

CodecTraffic codec_traffic(const Codec& codec, const Shape& shape, double payload_bytes) {
  const double dense = 4.0 * static_cast<double>(shape.elements());
  return {codec.least_bytes_read(shape) + payload_bytes, dense + payload_bytes};
}

void measure_device_codec(BenchContext& context, const CellParameters& p, const std::string& expression, const Series& series, const Tensor& x,
                          Measured& measured) {
  results::CellRow row;
  row.traffic = "codec", row.operation = "encode_decode", row.protocol = "point_to_point";
  row.dtype = p.text("dense");
  row.codec = expression;
  row.tensor = series.tensor, row.tensor_class = series.traffic, row.source = series.source;
  row.hidden = x.shape().columns();
  row.dense_bytes = x.elements() * static_cast<std::int64_t>(size_of(parse_dtype(row.dtype)));
  try {
    DeviceUnderTest device(static_cast<int>(p.integer("device")));
    device.mark(row);
    const PlacementScope here(device.placement());
    Message message(device, expression, x);
    row.payload_bytes = static_cast<std::int64_t>(message.payload_bytes);
    if (const double goal = message.codec->traits().device_goal; goal > 0) row.target_fraction = goal;
    row.ratio = static_cast<double>(row.dense_bytes) / static_cast<double>(row.payload_bytes);
    check(message, expression, x, row);
    if (!context.check_only) time(p, message, expression, x.shape(), row, measured.samples);
    device.judge(row);
  } catch (const WrongResult& error) {
    row.status = results::name_of(results::Status::wrong), row.reason = error.what();
  } catch (const EnvironmentError& error) {
    row.status = results::name_of(results::Status::skipped), row.reason = error.what();
  } catch (const RuntimeFailure& error) {
    row.status = results::name_of(results::Status::failed), row.reason = error.what();
  }
  const bool timed = row.repetitions > 0;
  measured.rows.push_back(row);
  if (timed && compresses(expression)) add_reductions(row, expression, static_cast<int>(p.integer("replicas")), measured.rows);
}

}  // namespace thinwire::bench
