#include "experiments/claims/attempts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "core/error.h"
#include "results/files/files.h"

namespace thinwire::claims {
namespace {

const results::AttemptRow* counted_row(const results::CellRecord& record) {
  for (const results::AttemptRow& row : record.training.attempts)
    if (row.used != 0) return &row;
  return nullptr;
}

std::string aside_path(const std::string& out, const std::string& cell_id, int number) {
  return out + "/attempts/" + cell_id + "." + std::to_string(number) + ".h5";
}

/// Numbers of the files OUT/attempts/ID.N.h5, ascending.
std::vector<int> numbers_aside(const std::string& out, const std::string& cell_id) {
  std::vector<int> numbers;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(out + "/attempts", error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(cell_id + ".") || !name.ends_with(".h5")) continue;
    const std::string middle = name.substr(cell_id.size() + 1, name.size() - cell_id.size() - 4);
    int number = 0;
    if (const auto end = std::from_chars(middle.data(), middle.data() + middle.size(), number); end.ec == std::errc() && end.ptr == middle.data() + middle.size())
      numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

/// For a choice between attempts: one of which nothing is known is worse than any other.
double badness(const results::CellRecord& record) {
  const double cores = disturbance_of(record);
  return std::isnan(cores) ? std::numeric_limits<double>::infinity() : cores;
}

/// Launches are counted in each folder, so that one which came with a record from elsewhere may have the name of one made here.
bool is_same(const results::CellRecord& a, const results::CellRecord& b) {
  return a.provenance.launch == b.provenance.launch && a.provenance.started == b.provenance.started;
}

/// A cell's record among its other attempts.
struct Tried {
  results::CellRecord record;
  std::vector<results::CellRecord> attempts;  ///< of the record's build, by number; the record's last, unless it is known
  bool known = false;                         ///< the record is one of those set aside before
  int next = 1;                               ///< number of the next file in OUT/attempts
  std::size_t best = 0;                       ///< the least disturbed of `attempts`
  bool again() const { return is_disturbed(badness(attempts[best])) && attempts.size() < attempts_allowed; }
};

/// Nothing where the record counts as it is.
std::optional<Tried> tried(const std::string& out, const std::string& cell_id) {
  const std::string path = results::record_path(out, cell_id);
  const results::RecordCheck check = results::check_record(path);
  if (check.state != results::RecordState::finished) return std::nullopt;
  if (check.status != results::Status::ok && check.status != results::Status::mistrusted) return std::nullopt;  // nothing was measured
  Tried t;
  t.record = results::read_cell_record(path);
  for (const int number : numbers_aside(out, cell_id)) {
    t.next = number + 1;
    const std::string aside = aside_path(out, cell_id, number);
    if (results::check_record(aside).code == check.code) t.attempts.push_back(results::read_cell_record(aside));
  }
  if (t.attempts.empty() && !is_disturbed(disturbance_of(t.record))) return std::nullopt;
  // All attempts were made; OUT/attempts may have been left behind where the cells were copied from.
  if (t.attempts.empty() && t.record.training.attempts.size() >= attempts_allowed) return std::nullopt;
  t.known = std::any_of(t.attempts.begin(), t.attempts.end(), [&](const results::CellRecord& a) { return is_same(a, t.record); });
  if (!t.known) t.attempts.push_back(t.record);
  const auto best = std::min_element(t.attempts.begin(), t.attempts.end(), [](const results::CellRecord& a, const results::CellRecord& b) { return badness(a) < badness(b); });
  t.best = static_cast<std::size_t>(best - t.attempts.begin());
  return t;
}

}  // namespace

double disturbance_of(const results::CellRecord& record) {
  const results::AttemptRow* row = counted_row(record);
  return row == nullptr ? results::not_measured : row->disturbance_cores;
}

bool is_to_be_repeated(const std::string& out, const std::string& cell_id) {
  const std::optional<Tried> t = tried(out, cell_id);
  return t && t->again();
}

bool set_aside_if_disturbed(const std::string& out, const std::string& cell_id) {
  const std::optional<Tried> t = tried(out, cell_id);
  if (!t) return false;
  const std::string path = results::record_path(out, cell_id), next = aside_path(out, cell_id, t->next);
  results::make_folder(out + "/attempts");
  if (t->again()) {
    if (t->known)
      std::filesystem::remove(path);  // it lies there already
    else
      std::filesystem::rename(path, next);
    return true;
  }
  if (!t->known) results::write_file_atomically(next, results::read_file(path));
  const results::CellRecord& best = t->attempts[t->best];
  if (t->record.training.attempts.size() == t->attempts.size() && is_same(t->record, best)) return false;  // written before
  results::CellRecord counts = best;
  counts.training.attempts.clear();
  for (std::size_t i = 0; i < t->attempts.size(); ++i) {
    const results::AttemptRow* measured = counted_row(t->attempts[i]);
    results::AttemptRow row = measured != nullptr ? *measured : results::AttemptRow{};
    row.cell_id = cell_id;
    row.attempt = static_cast<std::int64_t>(i) + 1;
    row.used = i == t->best;
    row.launch = t->attempts[i].provenance.launch;
    counts.training.attempts.push_back(std::move(row));
  }
  results::write_cell_record(path, counts);
  return false;
}

}  // namespace thinwire::claims
