#include "bench/harness/recorder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bench/harness/gather_texts.h"
#include "core/device/device_module.h"
#include "core/process/environment.h"
#include "core/process/main_guard.h"
#include "kernels/codec/registry.h"
#include "results/cell_command.h"
#include "results/link_kind.h"
#include "results/provenance.h"
#include "results/record.h"

namespace thinwire::bench {
namespace {

// "launch" ids of single cells: time and process make them unique on one machine.
std::string made_up_launch(const std::string& program) { return program + "-" + results::timestamp_now() + "-" + std::to_string(::getpid()); }

std::string file_name_of(std::string launch) {
  for (char& c : launch)
    if (c == '/' || c == ':') c = '-';
  return launch;
}

/// "0-3:HOST,4:OTHER": neighbours in rank order on one host are a range.
std::string rank_map(const std::vector<std::string>& hosts) {
  std::string text;
  for (std::size_t first = 0, end = 0; first < hosts.size(); first = end) {
    while (end < hosts.size() && hosts[end] == hosts[first]) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : "") + ":" + hosts[first];
  }
  return text;
}

bool kernel_carries(const std::string& link) {
  const results::LinkKind* kind = results::kind_of_link(link);
  if (kind == nullptr) throw UsageError("--link " + link + " is no link: " + results::link_forms() + " exist; the network between your own nodes is fabric");
  return kind->by_kernel;
}

}  // namespace

Recorder::Recorder(RecorderOptions options, Communicator& world) : options_(std::move(options)), world_(world) {
  if (options_.launch.empty()) options_.launch = made_up_launch(options_.program);
  rank_map_ = rank_map(gather_texts(world_, results::hashed_hostname()));
  const bool by_kernel = kernel_carries(options_.link);
  if (!options_.out.empty()) {
    journal_path_ = options_.out + "/journal/" + file_name_of(options_.launch) + ".jsonl";
    meter_.emplace(world_.host_side(), by_kernel, options_.read_cpu);
  }
  if (world_.rank() == 0) {
    if (!journal_path_.empty()) journal_ = std::make_unique<results::Journal>(journal_path_);
    if (options_.json == "-")
      json_ = stdout;
    else if (!options_.json.empty() && (json_ = std::fopen(options_.json.c_str(), "w")) == nullptr)
      throw EnvironmentError("--json: " + options_.json + " cannot be written (" + std::strerror(errno) + "); choose another path");
    table_ = std::make_unique<RowTable>(json_ == stdout ? stderr : stdout);
  }
  hook_ = add_failure_hook(0, [this](int, const std::string& message) {
    if (journal_path_.empty() || running_.empty()) return;
    const std::string reason = "rank " + std::to_string(world_.rank()) + ": " + message;
    if (journal_)
      journal_->cell_failed(running_, reason);
    else  // a failing rank blames the cell itself: rank 0 will only see the abort
      results::Journal(journal_path_).cell_failed(running_, reason);
  });
}

Recorder::~Recorder() {
  remove_failure_hook(hook_);
  if (json_ != nullptr && json_ != stdout) std::fclose(json_);
}

void Recorder::declare(const std::string& cell_id, results::Parameters parameters) { parameters_[cell_id] = std::move(parameters); }

void Recorder::launch_started() {
  if (journal_) journal_->append({"launch_started", "", std::to_string(parameters_.size()) + " cells", 0});
}

void Recorder::launch_finished() {
  running_.clear();
  if (journal_) journal_->append({"launch_finished", "", "", 0});
}

void Recorder::start(const Cell& cell) {
  running_ = cell.cell_id;
  if (journal_) journal_->cell_started(cell.cell_id);
  if (meter_) meter_->start(cell.cell_id);
}

void Recorder::note(const Cell& cell, const std::string& text) {
  if (journal_) journal_->append({"message", cell.cell_id, text, 0});
}

// Identity columns that the bench left empty, from the cell's parameters.
void Recorder::complete(const Cell& cell, results::CellRow& row) const {
  const auto text = [&](const char* name, std::string& column) {
    if (column.empty() && cell.parameters.has(name)) column = cell.parameters.text(name);
  };
  const auto integer = [&](const char* name, std::int64_t& column, std::int64_t unset) {
    if (column == unset && cell.parameters.has(name) && !cell.parameters.text(name).empty()) column = cell.parameters.integer(name);
  };
  row.cell_id = cell.cell_id;
  row.program = options_.program;
  row.launch = options_.launch;
  if (row.link.empty()) row.link = options_.link;
  row.ranks = world_.size();
  text("traffic", row.traffic);
  text("codec", row.codec);
  text("method", row.method);
  text("protocol", row.protocol);
  text("dtype", row.dtype);
  if (row.form.empty() || row.form == "fair") {
    row.form.clear();
    text("form", row.form);
    if (row.form.empty()) row.form = "fair";
  }
  if (!row.codec.empty()) {
    try {
      const CodecExpression expression = parse_codec(row.codec);
      row.codec = expression.canonical();
      if (row.method.empty()) row.method = expression.codec.name;
    } catch (const UsageError&) {  // the row says FAILED for this very reason; keep what was asked for
    }
  }
  integer("tp", row.tp, 1);
  integer("pp", row.pp, 1);
  integer("dp", row.dp, 1);
  integer("layers", row.layers, 0);
  integer("batch", row.batch, 0);
  integer("seq", row.seq, 0);
  integer("hidden", row.hidden, 0);
  integer("seed", row.seed, 0);
  const auto declared = parameters_.find(cell.cell_id);
  if (row.repro.empty() && declared != parameters_.end()) row.repro = results::command_of_cell(options_.program, world_.size(), options_.link, declared->second);
}

void Recorder::finish(const Cell& cell, Measured measured) {
  running_ = cell.cell_id;
  std::optional<results::AttemptRow> attempt = meter_ ? meter_->finish(cell.cell_id) : std::nullopt;
  TW_ASSERT(!measured.rows.empty(), "a cell without rows");
  const results::Status worst = [&] {
    for (results::CellRow& row : measured.rows) complete(cell, row);
    return results::worst_status(measured.rows);
  }();
  if (worst == results::Status::wrong) exit_status_ = static_cast<int>(ExitCode::wrong_result);
  if (worst == results::Status::failed && exit_status_ == 0 && options_.config_hash.empty()) exit_status_ = static_cast<int>(ExitCode::usage);
  if (world_.rank() != 0) {
    running_.clear();
    return;
  }
  if (attempt && (worst == results::Status::ok || worst == results::Status::mistrusted)) {
    attempt->launch = options_.launch;
    measured.training.attempts = {*attempt};
  }
  for (results::SampleRow& sample : measured.samples) sample.cell_id = cell.cell_id;
  results::for_each_training_table(measured.training, [&](const char*, auto& rows, const auto&) {
    for (auto& row : rows) row.cell_id = cell.cell_id;
  });
  for (const results::CellRow& row : measured.rows) {
    table_->print(row);
    if (json_ != nullptr) {
      const std::string line = results::to_json(row) + "\n";
      if (std::fputs(line.c_str(), json_) < 0 || std::fflush(json_) != 0)
        throw RuntimeFailure("--json: writing to " + options_.json + " failed (" + std::strerror(errno) + "); is the disk full?");
    }
  }
  if (!options_.out.empty()) {
    results::CellRecord record;
    record.cell_id = cell.cell_id;
    record.program = options_.program;
    record.ranks = world_.size();
    record.link = options_.link;
    record.parameters = parameters_.at(cell.cell_id);
    results::ProvenanceInput input;
    input.launch = options_.launch;
    input.program = options_.program;
    input.command = options_.command;
    input.config_hash = options_.config_hash;
    input.seed = measured.rows.front().seed;
    for (const results::CellRow& row : measured.rows)
      if (!row.corpus.empty()) input.corpus = row.corpus;
    input.rank_map = rank_map_;
    input.gpu = device_in_use();
    input.versions["mpi"] = MpiEnvironment::library_version();
    record.provenance = results::collect_provenance(input);
    record.provenance.unigram_entropy = measured.unigram_entropy, record.provenance.bigram_entropy = measured.bigram_entropy;
    record.provenance.finished = results::timestamp_now();
    record.rows = std::move(measured.rows);
    record.samples = std::move(measured.samples);
    record.links = std::move(measured.links);
    record.training = std::move(measured.training);
    results::write_cell_record(results::record_path(options_.out, cell.cell_id), record);
    if (worst == results::Status::failed || worst == results::Status::wrong)
      journal_->cell_failed(cell.cell_id, record.rows.front().reason);
    else
      journal_->cell_finished(cell.cell_id);
  }
  running_.clear();
}

}  // namespace thinwire::bench
