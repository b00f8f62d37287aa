#include "bench/tables/table.h"

#include "bench/tables/text_columns.h"

namespace thinwire::bench {
namespace {

using Row = results::CellRow;
using Columns = std::vector<TextColumn<Row>>;
using Text = std::function<std::string(const Row&)>;

Text whole(std::int64_t Row::*member) {
  return [member](const Row& row) { return std::to_string(row.*member); };
}
Text fixed(double Row::*member, int precision) {
  return [member, precision](const Row& row) { return fixed_text(row.*member, precision); };
}
Text scientific(double Row::*member) {
  return [member](const Row& row) { return scientific_text(row.*member); };
}
Text word(std::string Row::*member) {
  return [member](const Row& row) { return row.*member; };
}

std::string codec_name(const Row& row) { return row.method.empty() || row.codec.starts_with(row.method) ? row.codec : row.method + " " + row.codec; }

/// `columns`, then how far the result is from the reference and how the row ended: what every table of results says.
Columns with_errors(Columns columns) {
  const Columns errors = {{"error", "rel. L2", 9, scientific(&Row::relative_l2)},
                          {"error", "vNMSE", 9, scientific(&Row::vnmse)},
                          {"cosine", "", 8, fixed(&Row::cosine, 5)},
                          {"bias", "slope", 9, scientific(&Row::slope_bias)}};
  columns.insert(columns.end(), errors.begin(), errors.end());
  return columns;
}
Columns with_status(Columns columns) {
  columns.push_back({" status", "", 0, [](const Row& row) { return " " + row.status; }});
  return columns;
}

/// A codec alone on the host, with the shares of its bound that it aims at.
const Columns& codec_columns() {
  const auto goals = [](const Row& row) { return fixed_text(row.target_fraction_encode, 2) + " " + fixed_text(row.target_fraction_decode, 2); };
  static const Columns columns = with_status(with_errors({{"codec", "", -34, codec_name},
                                                          {"tensor", "(B)", 11, whole(&Row::dense_bytes)},
                                                          {"payload", "(B)", 11, whole(&Row::payload_bytes)},
                                                          {"ratio", "", 7, fixed(&Row::ratio, 2)},
                                                          {"encode", "(GB/s)", 8, fixed(&Row::encode_gbps, 2)},
                                                          {"decode", "(GB/s)", 8, fixed(&Row::decode_gbps, 2)},
                                                          {"memcpy", "(GB/s)", 8, fixed(&Row::memcpy_gbps, 2)},
                                                          {"encode", "/bound", 7, fixed(&Row::bound_fraction_encode, 2)},
                                                          {"decode", "/bound", 7, fixed(&Row::bound_fraction_decode, 2)},
                                                          {"goals", "", 9, goals},
                                                          {"break-even", "(Gbit/s)", 10, fixed(&Row::break_even_gbps, 2)}}));
  return columns;
}

/// A message on a device, or an all-reduce modelled from it, with the share of the bound, the goal for that share, and the link below which it pays.
const Columns& device_codec_columns() {
  const auto protocol = [](const Row& row) { return row.operation == "all_reduce" ? row.protocol + " of " + std::to_string(row.dp) + ", modelled" : "message"; };
  static const Columns columns = with_status(with_errors({{"codec", "", -44, word(&Row::codec)},
                                                          {"protocol", "", -22, protocol},
                                                          {"dense", "(B)", 11, whole(&Row::dense_bytes)},
                                                          {"payload", "(B)", 11, whole(&Row::payload_bytes)},
                                                          {"ratio", "", 7, fixed(&Row::ratio, 2)},
                                                          {"encode", "(us)", 10, fixed(&Row::encode_us, 1)},
                                                          {"decode", "(us)", 10, fixed(&Row::decode_us, 1)},
                                                          {"copy", "(GB/s)", 8, fixed(&Row::memcpy_gbps, 1)},
                                                          {"encode", "/bound", 7, fixed(&Row::bound_fraction_encode, 2)},
                                                          {"decode", "/bound", 7, fixed(&Row::bound_fraction_decode, 2)},
                                                          {"goal", "", 5, fixed(&Row::target_fraction, 2)},
                                                          {"break-even", "(Gbit/s)", 11, fixed(&Row::break_even_gbps, 1)}}));
  return columns;
}

const Columns& device_kernel_columns() {
  static const Columns columns = with_status({{"kernel", "", -28, word(&Row::operation)},
                                              {"type", "", -5, word(&Row::dtype)},
                                              {"total", "(us)", 11, fixed(&Row::total_us, 1)},
                                              {"spread", "(us)", 9, fixed(&Row::total_iqr_us, 1)},
                                              {"rate", "(TFLOP/s)", 10, [](const Row& row) { return fixed_text(row.gflops * 1e-3, 2); }},
                                              {"copy", "(GB/s)", 8, fixed(&Row::memcpy_gbps, 1)},
                                              {"/bound", "", 7, fixed(&Row::bound_fraction, 2)}});
  return columns;
}

/// Whole passes, and what is checked of them; nothing that one protocol carries. What each is about stands in its operation.
const Columns& pass_columns() {
  static const Columns columns = with_status(with_errors({{"operation", "", -40, word(&Row::operation)},
                                                          {"method, codec", "", -48, [](const Row& row) { return row.method + (row.method.empty() || row.codec.empty() ? "" : ", ") + row.codec; }},
                                                          {"seq", "", 7, whole(&Row::seq)},
                                                          {"dense", "(B)", 12, whole(&Row::dense_bytes)},
                                                          {"sent", "(B)", 12, whole(&Row::link_bytes)},
                                                          {"received", "(B)", 12, whole(&Row::received_bytes)},
                                                          {"total", "(us)", 10, fixed(&Row::total_us, 1)},
                                                          {"baseline", "(us)", 10, fixed(&Row::baseline_us, 1)},
                                                          {"baseline/", "total", 9, fixed(&Row::speedup, 2)}}));
  return columns;
}

const Columns& transfer_columns() {
  static const Columns columns = with_status(with_errors({{"traffic", "", -12, word(&Row::traffic)},
                                                          {"codec", "", -26, codec_name},
                                                          {"protocol", "", -9, word(&Row::protocol)},
                                                          {"dense", "(B)", 10, whole(&Row::dense_bytes)},
                                                          {"payload", "(B)", 10, whole(&Row::payload_bytes)},
                                                          {"link", "(B)", 10, whole(&Row::link_bytes)},
                                                          {"ratio", "", 6, fixed(&Row::ratio, 2)},
                                                          {"encode", "(us)", 9, fixed(&Row::encode_us, 1)},
                                                          {"transfer", "(us)", 9, fixed(&Row::transfer_us, 1)},
                                                          {"decode", "(us)", 9, fixed(&Row::decode_us, 1)},
                                                          {"total", "(us)", 9, fixed(&Row::total_us, 1)},
                                                          {"baseline", "(us)", 9, fixed(&Row::baseline_us, 1)},
                                                          {"algbw", "(GB/s)", 7, fixed(&Row::algbw_gbps, 3)},
                                                          {"busbw", "(GB/s)", 7, fixed(&Row::busbw_gbps, 3)},
                                                          {"break-even", "(Gbit/s)", 10, fixed(&Row::break_even_gbps, 2)}}));
  return columns;
}

const Columns& columns_of(const Row& row) {
  if (!row.device.empty() && row.traffic == "codec") return device_codec_columns();
  if (!row.device.empty() && row.traffic == "kernel") return device_kernel_columns();
  if (row.protocol.empty() && !row.operation.empty() && row.operation != "encode_decode") return pass_columns();
  return row.operation == "encode_decode" ? codec_columns() : transfer_columns();
}

}  // namespace

void RowTable::print(const Row& row) {
  const Columns& columns = columns_of(row);
  if (kind_ != &columns) print_titles(to_, columns);
  kind_ = &columns;
  print_cells(to_, columns, row);
  if (!row.reason.empty()) std::fprintf(to_, "  %s", row.reason.c_str());
  std::fputc('\n', to_);
  std::fflush(to_);
}

}  // namespace thinwire::bench
