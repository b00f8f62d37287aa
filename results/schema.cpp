#include "results/schema.h"

#include <fnmatch.h>

#include "results/row.h"

namespace thinwire::results {
namespace {

std::string unit_of(const std::string& column) {
  for (const UnitRule& rule : unit_rules()) {
    const std::string patterns = rule.columns;
    for (std::size_t from = 0; from < patterns.size();) {
      const std::size_t end = std::min(patterns.find(", ", from), patterns.size());
      if (fnmatch(patterns.substr(from, end - from).c_str(), column.c_str(), 0) == 0) return rule.unit;
      from = end + 2;
    }
  }
  return "";
}

template <typename Row>
TableSchema schema_of(const char* name, std::span<const ColumnOf<Row>> columns) {
  TableSchema table{name, {}};
  for (const auto& column : columns) {
    const std::string type = type_name(column);
    table.columns.push_back({column.name, type, type == "string" ? "" : unit_of(column.name), column.help});
  }
  return table;
}

}  // namespace

const std::vector<UnitRule>& unit_rules() {
  static const std::vector<UnitRule> rules = {
      {"*_us", "microseconds"},
      {"*_ms", "milliseconds"},
      {"*_s", "seconds"},
      {"*_cores", "cores"},
      {"bytes, *_bytes, *_bytes_max", "bytes"},
      {"link_gbps, break_even_gbps, nominal_gbps, measured_gbps", "Gbit/s (1e9 bits per second)"},
      {"*_gbps", "1e9 bytes per second"},
      {"tokens_per_second", "tokens per second"},
      {"gflops, peak_gflops", "1e9 floating-point operations per second"},
      {"loss, validation_loss", "nats per token"},
      {"unigram_entropy, bigram_entropy", "nats"},
      {"oversubscription", "ranks per core"},
      {"ranks, tp, pp, dp, layers, batch, seq, hidden, threads, repetitions, steps, operations, count", "count"},
      {"exponent", "power of two"},
      {"rank, stage, repetition, step, index, micro, attempt, seed, schema_version", "number, not an amount"},
      {"baseline, trusted, centred, used", "0 or 1"},
      {"ratio, speedup, communication_share, compute_scale, bound_fraction*, blas_fraction_*, target_fraction*, zero_fraction, mfu",
       "quotient, no unit"},
      {"relative_l2, vnmse, relative_error, cosine, bias, slope_bias, singular_value, learning_rate, grad_norm, value", "no unit"},
  };
  return rules;
}

const std::vector<TableSchema>& all_tables() {
  static const std::vector<TableSchema> tables = [] {
    std::vector<TableSchema> all = {schema_of("cells", cell_columns()),
                                    schema_of("samples", sample_columns()),
                                    schema_of("provenance", provenance_columns()),
                                    schema_of("links", link_columns()),
                                    schema_of("spectra", spectrum_columns()),
                                    schema_of("magnitudes", magnitude_columns()),
                                    schema_of("training", training_columns())};
    TrainingTables none;
    for_each_training_table(
        none, [&]<typename Row>(const char* name, std::vector<Row>&, std::span<const ColumnOf<Row>> columns) {
          all.push_back(schema_of(name, columns));
        });
    return all;
  }();
  return tables;
}

}  // namespace thinwire::results
