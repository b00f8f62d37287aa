#include "experiments/claims/attempts.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
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

std::string launch_of(const results::CellRecord& record) {
  return record.provenance.launch;
}

}  // namespace

double disturbance_of(const results::CellRecord& record) {
  const results::AttemptRow* row = counted_row(record);
  return row == nullptr ? results::not_measured : row->disturbance_cores;
}

bool set_aside_if_disturbed(const std::string& out, const std::string& cell_id) {
  const std::string path = results::record_path(out, cell_id);
  const results::RecordCheck check = results::check_record(path);
  if (check.state != results::RecordState::finished) return false;
  if (check.status != results::Status::ok && check.status != results::Status::mistrusted) return false;  // nothing was measured
  const results::CellRecord record = results::read_cell_record(path);

  std::vector<results::CellRecord> attempts;  // by number; this build's
  const std::vector<int> numbers = numbers_aside(out, cell_id);
  for (const int number : numbers) {
    const std::string aside = aside_path(out, cell_id, number);
    if (results::check_record(aside).code == check.code) attempts.push_back(results::read_cell_record(aside));
  }
  if (attempts.empty() && !is_disturbed(disturbance_of(record))) return false;
  // All attempts were made; OUT/attempts may have been left behind where the cells were copied from.
  if (attempts.empty() && record.training.attempts.size() >= attempts_allowed) return false;

  const bool known = std::any_of(attempts.begin(), attempts.end(), [&](const results::CellRecord& a) { return launch_of(a) == launch_of(record); });
  const std::string next = aside_path(out, cell_id, numbers.empty() ? 1 : numbers.back() + 1);
  if (!known) attempts.push_back(record);
  const auto best = std::min_element(attempts.begin(), attempts.end(), [](const results::CellRecord& a, const results::CellRecord& b) { return badness(a) < badness(b); });
  results::make_folder(out + "/attempts");
  if (is_disturbed(badness(*best)) && attempts.size() < attempts_allowed) {
    if (known)
      std::filesystem::remove(path);  // it lies there already
    else
      std::filesystem::rename(path, next);
    return true;
  }
  if (!known) results::write_file_atomically(next, results::read_file(path));
  if (record.training.attempts.size() == attempts.size() && launch_of(record) == launch_of(*best)) return false;  // written before
  results::CellRecord counts = *best;
  counts.training.attempts.clear();
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const results::AttemptRow* measured = counted_row(attempts[i]);
    results::AttemptRow row = measured != nullptr ? *measured : results::AttemptRow{};
    row.cell_id = cell_id;
    row.attempt = static_cast<std::int64_t>(i) + 1;
    row.used = launch_of(attempts[i]) == launch_of(*best);
    row.launch = launch_of(attempts[i]);
    counts.training.attempts.push_back(std::move(row));
  }
  results::write_cell_record(path, counts);
  return false;
}

}  // namespace thinwire::claims
