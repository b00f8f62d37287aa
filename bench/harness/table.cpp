#include "bench/harness/table.h"

#include <cmath>

namespace thinwire::bench {
namespace {

// "-" for what was not measured.
std::string number(double value, int precision) {
  if (std::isnan(value)) return "-";
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", precision, value);
  return text;
}
std::string error(double value) {
  if (std::isnan(value)) return "-";
  char text[40];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

}  // namespace

// Rows of whole passes: what each is about stands in its operation.
void RowTable::print_pass(const results::CellRow& row) {
  if (kind_ != "pass") {
    kind_ = "pass";
    std::fprintf(to_, "# %-40s %-48s %12s %12s %12s %10s %10s %6s %9s  %s\n# %-40s %-48s %12s %12s %12s %10s %10s %6s %9s  %s\n", "operation", "method, codec",
                 "dense", "sent", "received", "total", "baseline", "baseline/", "error", "status", "", "", "(B)", "(B)", "(B)", "(us)", "(us)", "total", "rel. L2", "");
  }
  std::fprintf(to_, "  %-40s %-48s %12lld %12lld %12lld %10s %10s %6s %9s  %s", row.operation.c_str(), (row.method + ", " + row.codec).c_str(),
               static_cast<long long>(row.dense_bytes), static_cast<long long>(row.link_bytes), static_cast<long long>(row.received_bytes),
               number(row.total_us, 1).c_str(), number(row.baseline_us, 1).c_str(), number(row.speedup, 2).c_str(), error(row.relative_l2).c_str(), row.status.c_str());
  end(row);
}

void RowTable::end(const results::CellRow& row) {
  if (!row.reason.empty()) std::fprintf(to_, "  %s", row.reason.c_str());
  std::fputc('\n', to_);
  std::fflush(to_);
}

// A message, or an all-reduce modelled from it, with the share of the bound, the goal for that share, and the link below which it pays.
void RowTable::print_device_codec(const results::CellRow& row) {
  if (kind_ != "device codec") {
    kind_ = "device codec";
    std::fprintf(to_, "# %-44s %-22s %11s %11s %10s %10s %8s %7s %7s %5s %11s %9s  %s\n# %-44s %-22s %11s %11s %10s %10s %8s %7s %7s %5s %11s %9s  %s\n", "codec",
                 "protocol", "dense", "payload", "encode", "decode", "copy", "encode", "decode", "goal", "break-even", "error", "status", "", "", "(B)", "(B)",
                 "(us)", "(us)", "(GB/s)", "/bound", "/bound", "", "(Gbit/s)", "rel. L2", "");
  }
  const std::string protocol = row.operation == "all_reduce" ? row.protocol + " of " + std::to_string(row.dp) + ", modelled" : "message";
  std::fprintf(to_, "  %-44s %-22s %11lld %11lld %10s %10s %8s %7s %7s %5s %11s %9s  %s", row.codec.c_str(), protocol.c_str(),
               static_cast<long long>(row.dense_bytes), static_cast<long long>(row.payload_bytes), number(row.encode_us, 1).c_str(),
               number(row.decode_us, 1).c_str(), number(row.memcpy_gbps, 1).c_str(), number(row.bound_fraction_encode, 2).c_str(),
               number(row.bound_fraction_decode, 2).c_str(), number(row.target_fraction, 2).c_str(), number(row.break_even_gbps, 1).c_str(),
               error(row.relative_l2).c_str(), row.status.c_str());
  end(row);
}

void RowTable::print_device_kernel(const results::CellRow& row) {
  if (kind_ != "device kernel") {
    kind_ = "device kernel";
    std::fprintf(to_, "# %-28s %-5s %11s %9s %10s %8s %7s  %s\n# %-28s %-5s %11s %9s %10s %8s %7s  %s\n", "kernel", "type", "total", "spread", "rate", "copy",
                 "/bound", "status", "", "", "(us)", "(us)", "(TFLOP/s)", "(GB/s)", "", "");
  }
  std::fprintf(to_, "  %-28s %-5s %11s %9s %10s %8s %7s  %s", row.operation.c_str(), row.dtype.c_str(), number(row.total_us, 1).c_str(),
               number(row.total_iqr_us, 1).c_str(), number(row.gflops * 1e-3, 2).c_str(), number(row.memcpy_gbps, 1).c_str(),
               number(row.bound_fraction, 2).c_str(), row.status.c_str());
  end(row);
}

void RowTable::print(const results::CellRow& row) {
  if (!row.device.empty() && row.traffic == "codec") return print_device_codec(row);
  if (!row.device.empty() && row.traffic == "kernel") return print_device_kernel(row);
  if (row.program == "bench_tensor_parallel" && !row.operation.empty()) return print_pass(row);
  const bool codec_alone = row.operation == "encode_decode";
  const std::string kind = codec_alone ? "codec" : "transfer";
  if (kind != kind_) {
    kind_ = kind;
    if (codec_alone)
      std::fprintf(to_, "# %-34s %11s %11s %9s %9s %9s %7s %7s %9s  %s\n# %-34s %11s %11s %9s %9s %9s %7s %7s %9s  %s\n", "codec", "tensor", "payload",
                   "encode", "decode", "memcpy", "encode", "decode", "error", "status", "", "(B)", "(B)", "(GB/s)", "(GB/s)", "(GB/s)", "/bound", "/bound",
                   "rel. L2", "");
    else
      std::fprintf(to_, "# %-12s %-26s %-9s %10s %10s %10s %6s %9s %9s %9s %9s %9s %7s %7s %9s  %s\n# %-12s %-26s %-9s %10s %10s %10s %6s %9s %9s %9s %9s %9s %7s %7s %9s  %s\n",
                   "traffic", "codec", "protocol", "dense", "payload", "link", "ratio", "encode", "transfer", "decode", "total", "baseline", "algbw", "busbw", "error",
                   "status", "", "", "", "(B)", "(B)", "(B)", "", "(us)", "(us)", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "rel. L2", "");
  }
  const std::string name = row.method.empty() || row.codec.starts_with(row.method) ? row.codec : row.method + " " + row.codec;
  if (codec_alone)
    std::fprintf(to_, "  %-34s %11lld %11lld %9s %9s %9s %7s %7s %9s  %s", name.c_str(), static_cast<long long>(row.dense_bytes),
                 static_cast<long long>(row.payload_bytes), number(row.encode_gbps, 2).c_str(), number(row.decode_gbps, 2).c_str(),
                 number(row.memcpy_gbps, 2).c_str(), number(row.bound_fraction_encode, 2).c_str(), number(row.bound_fraction_decode, 2).c_str(),
                 error(row.relative_l2).c_str(), row.status.c_str());
  else
    std::fprintf(to_, "  %-12s %-26s %-9s %10lld %10lld %10lld %6s %9s %9s %9s %9s %9s %7s %7s %9s  %s", row.traffic.c_str(), name.c_str(), row.protocol.c_str(),
                 static_cast<long long>(row.dense_bytes), static_cast<long long>(row.payload_bytes), static_cast<long long>(row.link_bytes),
                 number(row.ratio, 2).c_str(), number(row.encode_us, 1).c_str(), number(row.transfer_us, 1).c_str(), number(row.decode_us, 1).c_str(),
                 number(row.total_us, 1).c_str(), number(row.baseline_us, 1).c_str(), number(row.algbw_gbps, 3).c_str(), number(row.busbw_gbps, 3).c_str(),
                 error(row.relative_l2).c_str(), row.status.c_str());
  end(row);
}

}  // namespace thinwire::bench
