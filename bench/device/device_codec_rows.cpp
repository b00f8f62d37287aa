#include "bench/device/device_codec_rows.h"

#include "bench/device/device_under_test.h"
#include "bench/harness/error_metrics.h"
#include "bench/codec/reduction_break_even.h"
#include "bench/harness/timing.h"
#include "core/formulas.h"
#include "kernels/codec/codecs/autoencoder.h"
#include "kernels/codec/cuda/device_kernels.h"
#include "kernels/nn/device/device_nn.h"

namespace thinwire::bench {
namespace {

/// The host's codec of the same maths. Random orthonormal auto-encoders are compared with the host's of the same weights.
std::unique_ptr<Codec> host_codec(const std::string& expression) {
  const CodecExpression parsed = parse_codec(expression);
  const Parameters& p = parsed.codec.parameters;
  if (parsed.codec.name != "autoencoder") return std::move(make_codec(parsed).codec);
  AutoencoderOptions options;
  options.width = p.integer("width"), options.fraction = p.real("fraction");
  options.wire = parse_dtype(p.choice("wire"));
  options.start = AutoencoderOptions::Start::orthonormal;
  options.seed = static_cast<std::uint64_t>(p.integer("seed"));
  return std::make_unique<Autoencoder>(options);
}

/// The decoded tensor must be the host codec's: equal bits, or for products equal to rounding.
void verify(const std::string& expression, ConstTensorView x, const MessageKey& key, std::span<const float> decoded) {
  const std::unique_ptr<Codec> host = host_codec(expression);
  std::vector<std::byte> payload(host->max_payload_bytes(x.shape()));
  payload.resize(host->encode(x, key, payload));
  std::vector<float> expected(static_cast<std::size_t>(x.elements()));
  host->decode(payload, key, {expected.data(), x.shape()});
  const std::string& name = parse_codec(expression).codec.name;
  const bool products = name == "autoencoder" || name == "powersgd";
  require_close(error_metrics(decoded, std::span<const float>(expected)), products ? 1e-3 : 0.0, "the device's " + expression + " against the host's");
}

/// The products inside a codec, run bare with the same shapes and types: what the device's own library would take.
class BareProducts {
 public:
  BareProducts(DeviceUnderTest& device, const std::string& expression, const Shape& shape, const float* x, float* out)
      : device_(device), n_(shape.rows()), h_(shape.columns()), x_(x), out_(out) {
    const CodecExpression parsed = parse_codec(expression);
    if (parsed.codec.name == "powersgd")
      width_ = std::min({n_, h_, parsed.codec.parameters.integer("rank")}), back_projects_ = true;
    else if (parsed.codec.name == "autoencoder")
      width_ = dynamic_cast<Autoencoder&>(*host_codec(expression)).width_for(h_);
    else
      return;
    left_ = static_cast<float*>(device.allocate(static_cast<std::size_t>(n_ * width_) * 4));
    right_ = static_cast<float*>(device.allocate(static_cast<std::size_t>(h_ * width_) * 4));
    device.copy(left_, x, static_cast<std::size_t>(std::min(n_ * width_, n_ * h_)) * 4);
    device.copy(right_, x, static_cast<std::size_t>(std::min(h_ * width_, n_ * h_)) * 4);
    workspace_ = device.allocate(product_workspace_bytes);
  }
  bool any() const { return width_ > 0; }
  void encode() {
    product(0, back_projects_ ? 0 : 1, n_, width_, h_, x_, h_, right_, back_projects_ ? width_ : h_, left_, width_);
    if (back_projects_) product(1, 0, h_, width_, n_, x_, h_, left_, width_, right_, width_);
  }
  void decode() { product(0, 1, n_, h_, width_, left_, width_, right_, width_, out_, h_); }

 private:
  void product(int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float* c,
               std::int64_t ldc) {
    device_.call<thinwire_cuda_gemm_fn>("thinwire_cuda_gemm", device_f32, device_f32, ta, tb, m, n, k, 1.0f, static_cast<const void*>(a), lda,
                                        static_cast<const void*>(b), ldb, 0.0f, static_cast<void*>(c), ldc, static_cast<const void*>(nullptr), workspace_);
  }
  DeviceUnderTest& device_;
  std::int64_t n_, h_, width_ = 0;
  bool back_projects_ = false;
  const float* x_;
  float *out_, *left_ = nullptr, *right_ = nullptr;
  void* workspace_ = nullptr;
};

/// Device memory of one codec and tensor.
struct Message {
  Message(DeviceUnderTest& d, const std::string& expression, const Tensor& x) : device(d), codec(expression, x.shape(), d.seam()), bytes(x.bytes()) {
    values = static_cast<float*>(d.allocate(bytes));
    out = static_cast<float*>(d.allocate(bytes));
    payload = d.allocate(codec.payload_bytes());
    status = static_cast<std::uint32_t*>(d.allocate(8));
    const std::uint32_t zeros[2] = {};
    d.transfer(values, x.view().data(), bytes);
    d.transfer(status, zeros, sizeof zeros);
  }
  void encode() { codec.encode(values, key, payload, status); }
  void decode() { codec.decode(payload, key, out, false, status + 1); }
  DeviceUnderTest& device;
  DeviceCodec codec;
  std::size_t bytes;
  float *values, *out;
  void* payload;
  std::uint32_t* status;
  MessageKey key{.tensor = hash_name("bench")};
};

void check(Message& message, const std::string& expression, const Tensor& x, results::CellRow& row) {
  message.encode();
  message.decode();
  std::vector<float> decoded(static_cast<std::size_t>(x.elements()));
  message.device.transfer(decoded.data(), message.out, message.bytes);
  std::uint32_t found[2];
  message.device.transfer(found, message.status, sizeof found);
  if (found[0] != 0 || found[1] != 0)
    throw WrongResult(expression + " on the device reports status " + std::to_string(found[0]) + " of encode and " + std::to_string(found[1]) + " of decode");
  verify(expression, x.view(), message.key, decoded);
  error_metrics(decoded, x.as<float>()).fill(row);
}

void time(const CellParameters& p, Message& message, const std::string& expression, const Shape& shape, results::CellRow& row,
          std::vector<results::SampleRow>& samples) {
  DeviceUnderTest& device = message.device;
  BareProducts bare(device, expression, shape, message.values, message.out);
  std::vector<double> encode, decode, copy, total, bare_encode, bare_decode;
  // All that is compared takes turns. Copies go from one tensor to the other, far apart and larger than the caches at the sizes that count.
  for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
    ++message.key.step;
    const double c = device.timed_us([&] { device.copy(message.out, message.values, message.bytes); });
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
  const auto bytes = static_cast<double>(message.bytes), sent = static_cast<double>(row.payload_bytes);
  const CodecTraffic traffic = codec_traffic(expression, shape.elements(), sent, message.codec.kept());
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
    row.traffic = message.traffic, row.codec = message.codec, row.dtype = message.dtype, row.tensor = message.tensor, row.source = message.source;
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

CodecTraffic codec_traffic(const std::string& expression, std::int64_t elements, double payload_bytes, std::int64_t kept) {
  const double dense = 4.0 * static_cast<double>(elements);
  CodecTraffic traffic{dense + payload_bytes, dense + payload_bytes};
  const std::string& name = parse_codec(expression).codec.name;
  if (name == "powersgd") traffic.encode += dense;
  if (name == "randomk") traffic.encode = std::min(dense, 32.0 * static_cast<double>(kept)) + payload_bytes;
  return traffic;
}

double codec_target(const std::string& name) {
  if (name == "none" || name == "cast" || name == "quantize") return 0.85;
  return name == "topk" ? 0.5 : results::not_measured;
}

void measure_device_codec(BenchContext& context, const CellParameters& p, const std::string& expression, const Series& series, const Tensor& x,
                          Measured& measured) {
  results::CellRow row;
  row.traffic = "codec", row.operation = "encode_decode", row.protocol = "point_to_point";
  row.dtype = p.text("dense");
  row.codec = expression;
  row.tensor = series.tensor, row.source = series.source;
  row.hidden = x.shape().columns();
  row.dense_bytes = x.elements() * static_cast<std::int64_t>(size_of(parse_dtype(row.dtype)));
  row.target_fraction = codec_target(parse_codec(expression).codec.name);
  try {
    DeviceUnderTest device(static_cast<int>(p.integer("device")), lead_bytes_for(x.bytes()));
    device.mark(row);
    Message message(device, expression, x);
    row.payload_bytes = static_cast<std::int64_t>(message.codec.payload_bytes());
    row.ratio = static_cast<double>(row.dense_bytes) / static_cast<double>(row.payload_bytes);
    check(message, expression, x, row);
    if (!context.check_only) time(p, message, expression, x.shape(), row, measured.samples);
  } catch (const WrongResult& error) {
    row.status = results::name_of(results::Status::wrong), row.reason = error.what();
  } catch (const EnvironmentError& error) {
    row.status = results::name_of(results::Status::skipped), row.reason = error.what();
  } catch (const RuntimeFailure& error) {
    row.status = results::name_of(results::Status::failed), row.reason = error.what();
  }
  const bool timed = row.repetitions > 0;
  measured.rows.push_back(row);
  if (timed && parse_codec(expression).codec.name != "none") add_reductions(row, expression, static_cast<int>(p.integer("replicas")), measured.rows);
}

}  // namespace thinwire::bench
