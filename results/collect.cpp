#include "results/collect.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "results/files/files.h"
#include "results/hdf5/hdf5.h"
#include "results/record.h"

namespace thinwire::results {

std::vector<std::string> recorded_cells(const std::string& out) {
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out + "/cells", error))
    if (entry.path().extension() == ".h5") ids.push_back(entry.path().stem().string());
  std::sort(ids.begin(), ids.end());
  return ids;
}

namespace {

/// From the first to the last that has a row; a resumed run does not begin at 0.
std::int64_t steps_of(const TrainingTables& training) {
  if (training.steps.empty()) return 0;
  const auto [first, last] = std::ranges::minmax_element(training.steps, {}, &TrainingStepRow::step);
  return last->step - first->step + 1;
}

// Results over different texts answer different questions; one table would invite to compare them.
void require_one_corpus(std::span<const CellRow> rows) {
  std::map<std::string, std::set<std::string>> cells;
  for (const CellRow& row : rows)
    if (!row.corpus.empty()) cells[row.corpus].insert(row.cell_id);
  if (cells.size() < 2) return;
  std::string list;
  for (const auto& [corpus, ids] : cells)
    list +=
        (list.empty() ? "" : ", ") + corpus.substr(0, 12) + "... (" + std::to_string(ids.size()) + " cells)";
  throw UsageError(
      "the cells stem from different corpora: " + list +
      "; collect each in a folder of its own, run the older ones again (sweep run --redo all), or say "
      "--allow-mixed-corpus and compare with care");
}

bool goes_on(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.'; }

/// A folder only where its name ends: /data/run is no part of /data/run2, nor of /more/data/run.
void say_words_for_folders(std::string& text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [folder, word] : words) {
    if (folder.size() < 2) continue;  // "/" is in every path
    for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos;) {
      const std::size_t end = at + folder.size();
      if ((at > 0 && goes_on(text[at - 1])) || (end < text.size() && goes_on(text[end]))) {
        at = end;
        continue;
      }
      text.replace(at, folder.size(), word);
      at += word.size();
    }
  }
}

template <typename Row>
void keep(std::vector<Row>& all, const std::vector<Row>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// The table of capture.h5 when it is there; a damaged capture is reported, not fatal.
template <typename Row>
std::vector<Row> from_capture(const std::optional<h5::File>& capture, const char* table,
                              std::span<const ColumnOf<Row>> columns) {
  if (!capture || !capture->has(table)) return {};
  return from_table(capture->read_table(table), columns, capture->file_name() + ": /" + table);
}

// Cells that share a calibration each carry it; it counts once.
class Links {
 public:
  void keep(const std::vector<LinkRow>& more) {
    for (const LinkRow& row : more)
      if (seen_.emplace(row.link, row.ranks, row.bytes, row.direction, std::bit_cast<std::uint64_t>(row.measured_gbps)).second) rows.push_back(row);
  }
  std::vector<LinkRow> rows;

 private:
  std::set<std::tuple<std::string, std::int64_t, std::int64_t, std::string, std::uint64_t>> seen_;  // bits: NaN has no order
};

struct Gathered {
  std::vector<SampleRow> samples;
  Links links;
  TrainingTables training;
  std::map<std::string, Provenance> launches;
  std::map<std::string, std::set<std::string>> builds;  ///< binary hashes by program, of rows that were measured

  /// Keeps it, and returns the name that it has here. Launches are counted in each folder: one that came with cells from another is no launch of this one, though it has its number.
  std::string keep(const Provenance& launch) {
    const auto is_it = [&](const Provenance& known) {
      return known.config_hash == launch.config_hash && known.binary_hash == launch.binary_hash && known.hostname_hash == launch.hostname_hash;
    };
    for (int number = 1;; ++number) {
      const std::string name = number == 1 ? launch.launch : launch.launch + "~" + std::to_string(number);
      const auto [at, is_new] = launches.try_emplace(name, launch);
      Provenance& known = at->second;
      if (!is_new && !is_it(known)) continue;
      known.launch = name;
      known.finished = std::max(known.finished, launch.finished);
      return name;
    }
  }
};

// Their launch is the file; its provenance is what the rows say of themselves.
void keep_rows_of_others(const std::string& out, CollectReport& report, std::map<std::string, Provenance>& launches) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out + "/rows", error))
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const std::string launch = "rows/" + file.stem().string();
    std::istringstream lines(read_file(file.string()));
    std::int64_t number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.empty()) continue;
      try {
        CellRow row = cell_row_from_json(line, file.string() + ", line " + std::to_string(number));
        parse_status(row.status);
        row.launch = launch;
        Provenance& known = launches[launch];
        known.launch = launch, known.program = row.program;
        if (!row.device.empty()) known.gpu = row.device;
        report.rows.push_back(std::move(row));
      } catch (const CorruptData& e) {
        report.damaged.push_back(e.what());
      }
    }
  }
}

// A race ranks cells of its own; its tables join the file as they are.
std::map<std::string, Table> tables_of_race(const std::string& out, CollectReport& report) {
  const std::string path = out + "/race/race.h5";
  std::map<std::string, Table> tables;
  if (std::filesystem::exists(path)) try {
      const h5::File file = h5::File::open_read(path);
      require_schema(file);
      for (const std::string& name : file.names())
        if (name.starts_with("race") && file.info(name).is_table) tables[name] = file.read_table(name);
    } catch (const CorruptData& e) {
      report.damaged.push_back(e.what());
      tables.clear();
    }
  return tables;
}

bool is_validated(const TrainingCurveRow& row) { return !std::isnan(row.validation_loss); }

}  // namespace

CollectReport collect(const std::string& out, const CollectOptions& options) {
  if (!std::filesystem::is_directory(out))
    throw EnvironmentError(out + ": no such folder; run the sweep first, or check --out");
  CollectReport report;
  report.path = out + "/collected.h5";
  Gathered gathered;
  std::set<std::string> seen;
  for (const std::string& id : options.cell_ids.empty() ? recorded_cells(out) : options.cell_ids) {
    if (!seen.insert(id).second) continue;
    const std::string path = record_path(out, id);
    if (!std::filesystem::exists(path)) {
      report.missing.push_back(id);
      continue;
    }
    try {
      CellRecord record = read_cell_record(path);
      if (record.cell_id != id || cell_id(record.program, record.ranks, record.link, record.parameters) != id)
        throw CorruptData(path + ": its content belongs to another cell (" + record.cell_id +
                          "); was it renamed?");
      const std::string launch = gathered.keep(record.provenance);
      for (CellRow& row : record.rows) row.launch = launch;
      for (AttemptRow& attempt : record.training.attempts)
        if (attempt.launch == record.provenance.launch) attempt.launch = launch;
      keep(report.rows, record.rows);
      keep(gathered.samples, record.samples);
      gathered.links.keep(record.links);
      if (std::ssize(record.training.curve) > options.losses_of_at_most && std::ranges::any_of(record.training.curve, is_validated))
        std::erase_if(record.training.curve, std::not_fn(is_validated));
      keep(gathered.training.curve, record.training.curve);
      keep(gathered.training.metrics, record.training.metrics);
      keep(gathered.training.time, record.training.time);
      keep(gathered.training.traffic, record.training.traffic);
      if (steps_of(record.training) <= options.steps_of_at_most) keep(gathered.training.steps, record.training.steps);
      keep(gathered.training.memory, record.training.memory);
      keep(gathered.training.prediction, record.training.prediction);
      keep(gathered.training.timeline, record.training.timeline);
      keep(gathered.training.attempts, record.training.attempts);
      // The sweep's own verdicts (FAILED, SKIPPED) name the sweep as their program.
      if (record.provenance.program == record.program) gathered.builds[record.program].insert(record.provenance.binary_hash);
    } catch (const CorruptData& e) {
      report.damaged.push_back(e.what());
    }
  }
  if (options.cell_ids.empty()) keep_rows_of_others(out, report, gathered.launches);
  if (!options.allow_mixed_corpus) require_one_corpus(report.rows);
  report.samples = gathered.samples.size();
  for (const auto& [program, hashes] : gathered.builds)
    if (hashes.size() > 1) report.mixed.push_back(program);

  std::optional<h5::File> capture;
  std::vector<SpectrumRow> spectra;
  std::vector<MagnitudeRow> magnitudes;
  std::vector<TrainingRow> training;
  const std::string capture_path = out + "/capture.h5";
  if (std::filesystem::exists(capture_path)) try {
      capture = h5::File::open_read(capture_path);
      require_schema(*capture);
      spectra = from_capture(capture, "spectra", spectrum_columns());
      magnitudes = from_capture(capture, "magnitudes", magnitude_columns());
      training = from_capture(capture, "training", training_columns());
    } catch (const CorruptData& e) {
      report.damaged.push_back(e.what());
    }

  const std::map<std::string, Table> race = options.cell_ids.empty() ? tables_of_race(out, report) : std::map<std::string, Table>();
  std::vector<Provenance> launches;
  for (const auto& [id, launch] : gathered.launches) launches.push_back(launch);
  for (Provenance& launch : launches) say_words_for_folders(launch.command, options.words_for_folders);
  for (CellRow& row : report.rows) say_words_for_folders(row.reason, options.words_for_folders);
  write_h5_atomically(report.path, [&](h5::File& file) {
    file.write_table("cells", to_table(std::span<const CellRow>(report.rows), cell_columns()));
    file.write_table("samples", to_table(std::span<const SampleRow>(gathered.samples), sample_columns()));
    file.write_table("provenance", to_table(std::span<const Provenance>(launches), provenance_columns()));
    file.write_table("links", to_table(std::span<const LinkRow>(gathered.links.rows), link_columns()));
    file.write_table("spectra", to_table(std::span<const SpectrumRow>(spectra), spectrum_columns()));
    file.write_table("magnitudes", to_table(std::span<const MagnitudeRow>(magnitudes), magnitude_columns()));
    for_each_training_table(gathered.training, [&]<typename Row>(const char* name, std::vector<Row>& rows, std::span<const ColumnOf<Row>> columns) {
      file.write_table(name, to_table(std::span<const Row>(rows), columns));
    });
    file.write_table("training", to_table(std::span<const TrainingRow>(training), training_columns()));
    for (const auto& [name, table] : race) file.write_table(name, table);
    for (const char* entropy :
         {"unigram_entropy", "bigram_entropy"})  // of the training text, for the loss curve
      for (const char* object : {"", "training"})
        if (!training.empty() && capture->has_attribute(object, entropy))
          file.set_attribute("training", entropy, capture->float_attribute(object, entropy));
  });
  return report;
}

std::map<std::string, CellRecord> records_in(const std::string& collected) {
  const h5::File file = h5::File::open_read(collected);
  require_schema(file);
  const auto rows_of = [&]<typename Row>(const char* name, std::span<const ColumnOf<Row>> columns) {
    return file.has(name) ? from_table(file.read_table(name), columns, collected + ": /" + name) : std::vector<Row>();
  };
  std::map<std::string, Provenance> launches;
  for (const Provenance& p : rows_of("provenance", provenance_columns())) launches[p.launch] = p;
  std::map<std::string, CellRecord> records;
  for (const CellRow& row : rows_of("cells", cell_columns())) {
    CellRecord& record = records[row.cell_id];
    record.cell_id = row.cell_id, record.program = row.program, record.link = row.link;
    record.ranks = static_cast<int>(row.ranks);
    record.provenance = launches[row.launch];
    record.rows.push_back(row);
  }
  for (const SampleRow& sample : rows_of("samples", sample_columns()))
    if (const auto at = records.find(sample.cell_id); at != records.end()) at->second.samples.push_back(sample);
  TrainingTables all;
  for_each_training_table(all, [&]<typename Row>(const char* name, std::vector<Row>& rows, std::span<const ColumnOf<Row>> columns) { rows = rows_of(name, columns); });
  const auto share = [&](auto member) {
    for (auto& row : all.*member)
      if (const auto at = records.find(row.cell_id); at != records.end()) (at->second.training.*member).push_back(row);
  };
  share(&TrainingTables::curve), share(&TrainingTables::metrics), share(&TrainingTables::time), share(&TrainingTables::traffic);
  share(&TrainingTables::steps), share(&TrainingTables::memory), share(&TrainingTables::prediction), share(&TrainingTables::timeline), share(&TrainingTables::attempts);
  return records;
}

}  // namespace thinwire::results
