#include "experiments/claims/cells.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "core/error.h"
#include "core/process/log.h"
#include "experiments/claims/attempts.h"
#include "experiments/claims/registry.h"
#include "experiments/claims/text/text_entropies.h"
#include "experiments/run/side_by_side.h"
#include "experiments/study/summary.h"
#include "models/data/dataset.h"
#include "models/optimizer/diverged.h"
#include "models/training/config/train_config.h"
#include "results/collect.h"
#include "results/files/files.h"
#include "results/provenance.h"

namespace thinwire::claims {
namespace {

sweep::PlannedCell planned(const CellRequest& request) {
  sweep::PlannedCell cell;
  cell.cell_id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
  cell.grid = "claims";
  cell.program = request.program;
  cell.link = request.link;
  cell.ranks = request.ranks;
  cell.timeout = request.timeout;
  cell.omp_threads = request.threads;
  cell.parameters = request.parameters;
  cell.tags = request.tags;
  return cell;
}

/// Each once: arms that several claims share are one cell.
std::vector<sweep::PlannedCell> distinct(std::span<const CellRequest> requests) {
  std::vector<sweep::PlannedCell> cells;
  std::set<std::string> seen;
  for (const CellRequest& request : requests)
    if (sweep::PlannedCell cell = planned(request); seen.insert(cell.cell_id).second) cells.push_back(std::move(cell));
  return cells;
}

/// Of the register under which a record was made; empty: of none.
std::string rules_of(const results::CellRecord& record) {
  const std::string key = "THINWIRE_RULES=", &text = record.provenance.environment;
  const std::size_t at = text.rfind(key, 0) == 0 ? 0 : text.find("\n" + key);
  if (at == std::string::npos) return "";
  const std::size_t begin = text.find('=', at) + 1;
  return text.substr(begin, text.find('\n', begin) - begin);
}

std::string rules_path(const std::string& out, const std::string& hash) {
  return out + "/rules/" + hash + ".lock";
}

/// Cells of which many may run at once: their numbers do not depend on what else the machine does.
std::set<std::string> may_share_machine(std::span<const CellRequest> requests) {
  std::set<std::string> ids;
  for (const CellRequest& r : requests)
    if (!r.timed && r.ranks == 1 && r.threads == 1) ids.insert(planned(r).cell_id);
  for (const CellRequest& r : requests)
    if (r.timed) ids.erase(planned(r).cell_id);  // another claim's times
  return ids;
}

bool is_bad(results::Status status) {
  return status == results::Status::failed || status == results::Status::timeout || status == results::Status::wrong;
}

bool says_divergence(const std::string& reason) { return reason.find(diverged_mark) != std::string::npos; }

bool diverged(results::Status worst, const std::string& reason) {
  return worst == results::Status::failed && says_divergence(reason);
}

bool diverged(const results::CellRecord& record) {
  return diverged(results::worst_status(record.rows), reason_of(record));
}

/// A training that diverged is a result of its arm, as numbers are: only another build makes it doubtful.
std::vector<sweep::CellState> states_as_results(std::span<const sweep::PlannedCell> cells, const std::string& out) {
  std::vector<sweep::CellState> states = sweep::states_of(cells, out);
  for (sweep::CellState& state : states)
    if (diverged(state.status, state.reason)) state.status = results::Status::ok;
  return states;
}

/// With a vocabulary the hash is of both.
bool on_default_text(const std::string& program, const results::Parameters& parameters) {
  return program == "train_gpt" && !parameters.has("text") && !parameters.has("vocabulary") && reads_default_text(parameters.has("data") ? parameters.text("data") : TrainConfig().data);
}

/// UsageError where trainings are to be run in a folder that holds finished ones of another text. The first such record speaks for the folder.
void require_one_text(std::span<const sweep::PlannedCell> to_run, const std::string& out) {
  std::set<std::string> anew;
  for (const sweep::PlannedCell& cell : to_run)
    if (on_default_text(cell.program, cell.parameters)) anew.insert(cell.cell_id);
  if (anew.empty()) return;
  for (const std::string& id : results::recorded_cells(out)) {
    const std::string path = results::record_path(out, id);
    if (anew.contains(id) || !results::is_finished(path)) continue;
    const results::CellRecord record = results::read_cell_record(path);
    const std::string corpus = corpus_of(record);
    if (!on_default_text(record.program, record.parameters) || corpus.empty()) continue;
    return require_text_here(corpus, "cell " + id.substr(0, 12) + " in " + out);
  }
}

/// What keeps cells from starting is no verdict on the claim that asks for them.
template <typename Step>
auto or_refuse(Step&& step) {
  try {
    return step();
  } catch (const Error& error) {
    throw Refused{error};
  }
}

}  // namespace

void CellRunner::measure_missing(std::span<const CellRequest> requests) {
  const std::vector<sweep::PlannedCell> cells = distinct(requests);
  sweep::RunOptions options;
  options.paths = paths_;
  options.choice.if_code_changed = if_code_changed_;
  options.is_answer = says_divergence;  // twenty arms that diverge one behind the other are twenty results
  std::vector<sweep::PlannedCell> rest = or_refuse([&] {
    sweep::check_programs(paths_, cells, /*must_exist=*/true);
    sweep::make_out(paths_);
    if (!lock_) lock_ = std::make_unique<sweep::FolderLock>(paths_.out);
    take_from_begun(requests);
    std::vector<sweep::PlannedCell> missing = sweep::cells_to_run(cells, states_as_results(cells, paths_.out), options.choice, paths_.bin, paths_.out);
    require_one_text(missing, paths_.out);
    return missing;
  });
  const auto end_if_over = [&](const sweep::RunReport& report) {
    if (report.signal != 0) throw Interrupted{report.signal};
    if (report.asked_to_stop) throw Interrupted{SIGUSR1};
    if (report.stopped) throw RuntimeFailure(paths_.out + ": too many cells failed in a row; see logs/ there");
  };
  const std::set<std::string> sharing = may_share_machine(requests);
  std::vector<sweep::PlannedCell> together;
  std::copy_if(rest.begin(), rest.end(), std::back_inserter(together), [&](const sweep::PlannedCell& cell) { return sharing.contains(cell.cell_id); });
  const int cores = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  if (together.size() > 1 && cores > 1) {
    end_if_over(sweep::run_side_by_side(together, options, cores));
    std::erase_if(rest, [&](const sweep::PlannedCell& cell) { return sharing.contains(cell.cell_id) && results::is_finished(results::record_path(paths_.out, cell.cell_id)); });
  }
  end_if_over(sweep::run_cells(rest, sweep::states_of(rest, paths_.out), options));
}

void CellRunner::repeat_disturbed(std::span<const CellRequest> requests) {
  // A cell that one claim asks for as timed and another does not, is timed.
  std::vector<CellRequest> timed;
  std::copy_if(requests.begin(), requests.end(), std::back_inserter(timed), [](const CellRequest& r) { return r.timed; });
  while (!timed.empty()) {
    std::vector<CellRequest> again;
    std::set<std::string> seen;
    for (const CellRequest& request : timed)
      if (const std::string id = planned(request).cell_id; seen.insert(id).second && set_aside_if_disturbed(paths_.out, id)) again.push_back(request);
    if (!again.empty()) {
      log_info(std::to_string(again.size()) + (again.size() == 1 ? " timed cell was" : " timed cells were") + " DISTURBED and measured again");
      measure_missing(again);
    }
    timed = std::move(again);
  }
}

results::CellRecord CellRunner::record_of(const CellRequest& request, const std::string& id) const {
  if (!archive_) return results::read_cell_record(results::record_path(paths_.out, id));
  const auto found = archive_->find(id);
  if (found == archive_->end())
    throw NotCollected("the collected file lacks cell " + id.substr(0, 12) + " (" + request.program + " on " + request.link + " with " + request.parameters.canonical_json() + ")");
  return found->second;
}

std::vector<results::CellRecord> CellRunner::run(std::span<const CellRequest> requests) {
  if (plan_) {
    plan(requests);
  } else if (!archive_) {
    measure_missing(requests);
    repeat_disturbed(requests);
  }
  std::vector<results::CellRecord> records;
  for (const CellRequest& request : requests) {
    const std::string id = results::cell_id(request.program, request.ranks, request.link, request.parameters);
    records.push_back(record_of(request, id));
    if (diverged(records.back())) {
      note_used(records.back(), request.timed);
      throw ArmDiverged("cell " + id.substr(0, 12) + " (" + request.program + " on " + request.link + "): " + reason_of(records.back()));
    }
    if (const results::Status status = results::worst_status(records.back().rows); is_bad(status))
      throw RuntimeFailure("cell " + id.substr(0, 12) + " (" + request.program + " on " + request.link + ") is " + std::string(results::name_of(status)) + ": " +
                           reason_of(records.back()));
    note_used(records.back(), request.timed);
  }
  return records;
}

void CellRunner::prepare(std::span<const CellRequest> requests) {
  if (plan_)
    plan(requests);
  else if (!archive_)
    measure_missing(requests);
}

void CellRunner::plan(std::span<const CellRequest> requests) {
  const std::vector<sweep::PlannedCell> cells = distinct(requests);
  sweep::Choice choice;
  choice.if_code_changed = if_code_changed_;
  const sweep::Selection selection = or_refuse([&] { return sweep::selection_of(cells, states_as_results(cells, paths_.out), choice, codes_); });
  if (if_code_changed_ == sweep::IfCodeChanged::error)
    for (const sweep::PlannedCell& cell : selection.other_build) plan_->other_build.insert(cell.cell_id);
  std::set<std::string> due;
  for (const sweep::PlannedCell& cell : selection.to_run) due.insert(cell.cell_id);
  for (const CellRequest& request : requests)
    if (const std::string id = planned(request).cell_id; request.timed && is_to_be_repeated(paths_.out, id)) due.insert(id);
  for (const CellRequest& request : requests)
    if (due.erase(planned(request).cell_id) > 0) plan_->cells.push_back(request);
  if (!plan_->cells.empty()) throw PlanEnds();
}

void CellRunner::about_to_calculate(const std::string& what) {
  if (!plan_) return;
  plan_->elsewhere.push_back(what);
  throw PlanEnds();
}

void CellRunner::about_to_compute(const std::string& what) {
  about_to_calculate(what);
  if (archive_) throw NotCollected(what + " has no kept result, and nothing is run here");
}

bool CellRunner::stands(const std::string& file, const std::string& then, const std::string& now) {
  if (then == now || archive_) return true;
  if (plan_ && if_code_changed_ == sweep::IfCodeChanged::error) return plan_->other_build.insert(file), true;
  const std::string what = file + " was computed by other sources than this program's";
  if (if_code_changed_ == sweep::IfCodeChanged::error)
    throw Refused{UsageError(what + "; compute it again with --if-code-changed redo, let it stand with --if-code-changed keep, or choose another folder with --out")};
  const bool keep = if_code_changed_ == sweep::IfCodeChanged::keep;
  if (!plan_ && keep) log_warning(what + " and stands (--if-code-changed keep)");
  if (!plan_ && !keep) log_info(what + "; it is computed again");
  return keep;
}

void CellRunner::answer_from(const std::string& collected) {
  answer_from(results::records_in(collected));
  archive_folders_.push_back(std::filesystem::absolute(collected).parent_path());
}

void CellRunner::answer_from(std::map<std::string, results::CellRecord> records) {
  if (archive_)
    archive_->merge(records);
  else
    archive_ = std::move(records);
}

std::set<std::string> CellRunner::archived_values(const std::string& option) const {
  std::set<std::string> values;
  const std::string flag = "--" + option + " ";
  if (archive_)
    for (const auto& [id, record] : *archive_)  // parameters are not collected
      for (const results::CellRow& row : record.rows)
        if (const std::size_t at = row.repro.find(flag); at != std::string::npos) {
          const std::string rest = row.repro.substr(at + flag.size());
          values.insert(rest.substr(0, rest.find(' ')));
        }
  return values;
}

void CellRunner::begin_with(const std::string& collected) {
  begun_ = results::records_in(collected);
  const std::filesystem::path rules = std::filesystem::absolute(collected).parent_path() / "rules";
  if (!std::filesystem::exists(rules)) return;
  std::filesystem::create_directories(paths_.out + "/rules");
  std::filesystem::copy(rules, paths_.out + "/rules", std::filesystem::copy_options::skip_existing | std::filesystem::copy_options::recursive);  // without the latter nothing is copied
}

void CellRunner::take_from_begun(std::span<const CellRequest> requests) {
  if (begun_.empty()) return;
  static const results::Provenance here = results::collect_provenance({});
  for (const CellRequest& request : requests) {
    const std::string id = planned(request).cell_id;
    const auto found = begun_.find(id);
    if (found == begun_.end() || results::is_finished(results::record_path(paths_.out, id))) continue;
    if (request.timed && time_anew_) continue;
    if (const results::Provenance& there = found->second.provenance; request.timed && (there.cpu != here.cpu || there.hostname_hash != here.hostname_hash)) {
      log_info("cell " + id.substr(0, 12) + " was timed on another machine (" + there.cpu + ") and is measured here");
      begun_.erase(found);
      continue;
    }
    results::CellRecord record = found->second;
    record.parameters = request.parameters;  // the id covers them
    results::write_cell_record(results::record_path(paths_.out, id), record);
    begun_.erase(found);  // given once: it does not come back in place of the attempt that follows where it is set aside as disturbed
  }
}

void CellRunner::not_from_begun(std::span<const CellRequest> requests) {
  for (const CellRequest& request : requests) begun_.erase(planned(request).cell_id);
}

void CellRunner::run_under(const Registry& registry) {
  const std::string path = rules_path(paths_.out, registry.hash);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  {
    const sweep::FolderGuard guard(paths_.out, ".claims.lock");  // another run may be about to write the same
    if (!std::filesystem::exists(path)) results::write_file_atomically(path, to_text(registry));
  }
  // Programs record it in their provenance.
  ::setenv("THINWIRE_RULES", registry.hash.c_str(), 1);
}

void CellRunner::note_used(const results::CellRecord& record, bool timed) {
  timed &= results::worst_status(record.rows) != results::Status::skipped;  // nothing was measured
  if (const auto known = std::find_if(used_.begin(), used_.end(), [&](const UsedCell& cell) { return cell.cell_id == record.cell_id; }); known != used_.end()) {
    known->timed |= timed;
    known->disturbance = disturbance_of(record), known->attempts = static_cast<int>(record.training.attempts.size());  // it may have been repeated since
    return;
  }
  UsedCell cell{record.cell_id, record.provenance.started, {}, timed, disturbance_of(record), static_cast<int>(record.training.attempts.size())};
  if (const std::string hash = rules_of(record); !hash.empty()) {
    std::string path = rules_path(paths_.out, hash);
    for (const std::string& folder : archive_folders_)
      if (const std::string beside = rules_path(folder, hash); std::filesystem::exists(beside)) path = beside;
    if (!std::filesystem::exists(path)) throw CorruptData(path + " is missing, the register of rules under which cell " + record.cell_id.substr(0, 12) + " was made");
    if (!rule_hashes_.contains(path)) {
      std::map<std::string, std::string> hashes;
      for (const auto& [id, rule] : registry_from(results::read_file(path), path).rules) hashes[id] = rule.hash;
      rule_hashes_[path] = std::move(hashes);
    }
    cell.rules = rule_hashes_[path];
  }
  used_.push_back(std::move(cell));
}

bool measured_well(const results::CellRecord& record) {
  const results::Status status = results::worst_status(record.rows);
  return status != results::Status::skipped && status != results::Status::mistrusted && !is_bad(status);
}

std::string reason_of(const results::CellRecord& record) {
  for (const results::CellRow& row : record.rows)
    if (!row.reason.empty()) return row.reason;
  return "";
}

}  // namespace thinwire::claims
