#include "bench/common/device_bench.h"

#include <sstream>

#include "bench/common/error_metrics.h"
#include "bench/common/inputs.h"
#include "bench/common/timing.h"
#include "core/device_abi.h"
#include "core/formulas.h"
#include "core/statistics.h"
#include "kernels/codec/autoencoder.h"
#include "kernels/codec/device_codec.h"
#include "kernels/codec/device_kernels.h"

namespace thinwire::bench {
namespace {

/// One device, one stream, and memory for as long as a codec is measured.
class Device {
 public:
  explicit Device(int ordinal) : device_{DeviceKind::cuda, ordinal}, backend_(device_backend(DeviceKind::cuda)), stream_(backend_.create_stream(ordinal)) {
    begin_ = backend_.create_event(ordinal), end_ = backend_.create_event(ordinal);
  }
  ~Device() {
    backend_.destroy_event(begin_), backend_.destroy_event(end_);
    backend_.destroy_stream(stream_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void* allocate(std::size_t bytes) {
    memory_.emplace_back(std::max<std::size_t>(bytes, 16), device_);
    return memory_.back().data();
  }
  void copy(void* to, const void* from, std::size_t bytes) { backend_.copy(to, from, bytes, stream_); }
  void transfer(void* to, const void* from, std::size_t bytes) {
    copy(to, from, bytes);
    backend_.synchronize(stream_);
  }
  /// Microseconds of what `body` queues, on the device's clock.
  double timed_us(const std::function<void()>& body) {
    backend_.record(begin_, stream_);
    body();
    backend_.record(end_, stream_);
    backend_.synchronize(stream_);
    return backend_.elapsed_ms(begin_, end_) * 1e3;
  }
  DeviceSeam seam() {
    const auto text = reinterpret_cast<thinwire_cuda_error_text_fn*>(device_module_symbol("thinwire_cuda_error_text"));
    return {[](const std::string& name) { return device_module_symbol(name); }, [this](std::size_t bytes) { return allocate(bytes); },
            [this](void* to, const void* from, std::size_t bytes) { transfer(to, from, bytes); }, [text](int code) { return std::string(text(code)); },
            device_.ordinal, stream_.handle};
  }

 private:
  thinwire::Device device_;
  DeviceBackend& backend_;
  Stream stream_;
  Event begin_, end_;
  std::vector<Buffer> memory_;
};

/// The decoded tensor must be the host codec's: equal bits, or for products equal to rounding. Random orthonormal auto-encoders are compared
/// with the host's of the same weights.
void verify(const std::string& expression, ConstTensorView x, const MessageKey& key, std::span<const float> decoded) {
  const CodecExpression parsed = parse_codec(expression);
  const std::string& name = parsed.codec.name;
  std::unique_ptr<Codec> host;
  if (name == "autoencoder") {
    const Parameters& p = parsed.codec.parameters;
    AutoencoderOptions options;
    options.width = p.integer("width"), options.fraction = p.real("fraction");
    options.wire = parse_dtype(p.choice("wire"));
    options.start = AutoencoderOptions::Start::orthonormal;
    options.seed = static_cast<std::uint64_t>(p.integer("seed"));
    host = std::make_unique<Autoencoder>(options);
  } else {
    host = std::move(make_codec(parsed).codec);
  }
  std::vector<std::byte> payload(host->max_payload_bytes(x.shape()));
  payload.resize(host->encode(x, key, payload));
  std::vector<float> expected(static_cast<std::size_t>(x.elements()));
  host->decode(payload, key, {expected.data(), x.shape()});
  const bool products = name == "autoencoder" || name == "powersgd";
  const ErrorMetrics difference = error_metrics(decoded, std::span<const float>(expected));
  require_close(difference, products ? 1e-3 : 0.0, "the device's " + expression + " against the host's");
}

results::CellRow device_row(BenchContext& context, const CellParameters& p, const std::string& expression, const Tensor& x,
                            std::vector<results::SampleRow>& samples) {
  results::CellRow row;
  row.traffic = "codec";
  row.operation = "encode_decode";
  row.protocol = "point_to_point";
  row.compute = device_name({DeviceKind::cuda, static_cast<int>(p.integer("device"))});
  row.dtype = p.text("dense");
  row.codec = expression;
  row.source = "generated";
  row.hidden = x.shape().columns();
  row.dense_bytes = x.elements() * static_cast<std::int64_t>(size_of(parse_dtype(row.dtype)));

  Device device(static_cast<int>(p.integer("device")));
  DeviceCodec codec(expression, x.shape(), device.seam());
  auto* values = static_cast<float*>(device.allocate(x.bytes()));
  auto* out = static_cast<float*>(device.allocate(x.bytes()));
  void* payload = device.allocate(codec.payload_bytes());
  auto* status = static_cast<std::uint32_t*>(device.allocate(8));
  const std::uint32_t zeros[2] = {};
  device.transfer(values, x.view().data(), x.bytes());
  device.transfer(status, zeros, sizeof zeros);
  row.payload_bytes = static_cast<std::int64_t>(codec.payload_bytes());

  MessageKey key{.tensor = hash_name("bench")};
  codec.encode(values, key, payload, status);
  codec.decode(payload, key, out, false, status + 1);
  std::vector<float> decoded(static_cast<std::size_t>(x.elements()));
  device.transfer(decoded.data(), out, x.bytes());
  std::uint32_t found[2];
  device.transfer(found, status, sizeof found);
  if (found[0] != 0 || found[1] != 0)
    throw WrongResult(expression + " on the device reports status " + std::to_string(found[0]) + " of encode and " + std::to_string(found[1]) + " of decode");
  verify(expression, x.view(), key, decoded);
  error_metrics(decoded, x.as<float>()).fill(row);
  if (context.check_only) return row;

  // All that is compared takes turns. Copies go from `values` to `out`, far apart and larger than the caches at the sizes that count.
  std::vector<double> encode, decode, copy, total;
  for (RepetitionLoop loop(stop_rule(p)); loop.next();) {
    ++key.step;
    const double c = device.timed_us([&] { device.copy(out, values, x.bytes()); });
    const double e = device.timed_us([&] { codec.encode(values, key, payload, status); });
    const double d = device.timed_us([&] { codec.decode(payload, key, out, false, status + 1); });
    loop.add(e + d);
    if (loop.warming_up()) continue;
    copy.push_back(c), encode.push_back(e), decode.push_back(d), total.push_back(e + d);
    results::SampleRow sample;
    sample.traffic = row.traffic;
    sample.repetition = static_cast<std::int64_t>(encode.size()) - 1;
    sample.encode_us = e, sample.decode_us = d, sample.total_us = e + d;
    samples.push_back(sample);
  }
  const auto bytes = static_cast<double>(x.bytes()), sent = static_cast<double>(row.payload_bytes);
  row.encode_us = median(encode), row.decode_us = median(decode), row.total_us = median(total);
  row.total_iqr_us = summarize(total).interquartile_range;
  row.repetitions = static_cast<std::int64_t>(encode.size());
  row.memcpy_gbps = gigabytes_per_second(bytes, median(copy));
  row.encode_gbps = gigabytes_per_second(bytes, row.encode_us);
  row.decode_gbps = gigabytes_per_second(bytes, row.decode_us);
  row.bound_fraction_encode = bound_fraction(bytes, sent, row.memcpy_gbps, row.encode_us);
  row.bound_fraction_decode = bound_fraction(sent, bytes, row.memcpy_gbps, row.decode_us);
  row.break_even_gbps = break_even_gbps(static_cast<double>(row.dense_bytes), sent, row.encode_us + row.decode_us);
  row.ratio = static_cast<double>(row.dense_bytes) / sent;
  return row;
}

void run_group(BenchContext& context, std::span<const Cell> cells) {
  if (context.world.size() != 1) throw UsageError("bench_device measures one process; start it without mpirun (or with -n 1)");
  for (const Cell& cell : cells) {
    context.start(cell);
    const CellParameters& p = cell.parameters;
    guarded(context, cell, [&] {
      if (const std::string reason = why_unavailable(DeviceKind::cuda); !reason.empty()) throw EnvironmentError(reason);
      const Shape shape{p.integer("batch"), p.integer("seq"), p.integer("hidden")};
      const Tensor x = TrafficSource(p).find({}, 1, shape)->load(0, 0);
      Measured measured;
      std::istringstream words(p.text("codec"));
      for (std::string expression; words >> expression;) {
        try {
          measured.rows.push_back(device_row(context, p, expression, x, measured.samples));
        } catch (const WrongResult& error) {
          results::CellRow row;
          row.codec = expression, row.operation = "encode_decode", row.traffic = "codec";
          row.status = results::name_of(results::Status::wrong), row.reason = error.what();
          measured.rows.push_back(row);
        }
      }
      if (measured.rows.empty()) throw UsageError("--codec is empty; give one or more codec expressions");
      context.finish(cell, std::move(measured));
    });
  }
}

}  // namespace

BenchProgram device_bench() {
  BenchProgram program;
  program.name = "bench_device";
  program.summary = "Encode and decode speed of codecs on a CUDA device against its copy rate, verified against the host before it is timed";
  program.options = {{"codec", "none cast quantize:bits=8 quantize:bits=4 quantize:bits=2 topk randomk powersgd:rank=16 autoencoder:fraction=0.0625,init=orthonormal",
                      "one or more codec expressions with a device twin, separated by spaces"},
                     {"device", "0", "ordinal of the CUDA device"},
                     {"batch", "32", "batch x seq = rows"},
                     {"seq", "512", "batch x seq = rows"},
                     {"hidden", "1024", "columns; the default tensor has 64 MiB of f32"},
                     {"dense", "bf16", "wire type of the uncompressed twin, for ratio and break-even bandwidth: bf16, f16 or f32"}};
  for (const BenchOption& option : input_options()) program.options.push_back(option);
  program.run_group = run_group;
  return program;
}

}  // namespace thinwire::bench
