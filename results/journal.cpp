#include "results/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "results/files/files.h"

namespace thinwire::results {

namespace {

// True when the file's last byte is not a line end: a predecessor was killed in the middle of a line.
bool ends_torn(int file) {
  const off_t size = lseek(file, 0, SEEK_END);
  char last = '\n';
  return size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n';
}

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Journal::Journal(const std::string& path) : path_(path) {
  make_folder(std::filesystem::absolute(path).parent_path().string());
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0)
    throw EnvironmentError(path + ": cannot write the journal: " + std::strerror(errno) +
                           "; choose a folder that you may write to");
  if (ends_torn(file_) && write(file_, "\n", 1) != 1)
    throw RuntimeFailure(path + ": cannot write the journal: " + std::strerror(errno));
}

Journal::~Journal() {
  if (file_ >= 0) close(file_);
}

void Journal::append(const JournalEntry& entry) {
  nlohmann::ordered_json json;
  json["event"] = entry.event;
  if (!entry.cell_id.empty()) json["cell_id"] = entry.cell_id;
  if (!entry.reason.empty()) json["reason"] = entry.reason;
  json["time"] = seconds_since_epoch();
  json["elapsed"] = opened_.seconds();
  const std::string line = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  ssize_t written;
  do written = write(file_, line.data(), line.size());
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  const std::string why = written < 0 ? std::strerror(errno) : "the disk is full";
  throw RuntimeFailure(path_ + ": cannot write the journal: " + why +
                       "; free some space or choose another folder. Finished results are intact");
}

std::vector<JournalEntry> JournalReader::poll() {
  std::vector<JournalEntry> entries;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return entries;
  file.seekg(static_cast<std::streamoff>(offset_));
  std::string line;
  while (std::getline(file, line) && !file.eof()) {  // eof: the last line has no end yet
    offset_ += line.size() + 1;
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("event") || !json["event"].is_string()) {
      ++damaged_;
      continue;
    }
    const auto text = [&json](const char* key) {
      return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
    };
    const auto number = [&json](const char* key) { return json.contains(key) && json[key].is_number() ? json[key].get<double>() : 0.0; };
    entries.push_back({text("event"), text("cell_id"), text("reason"), number("time"), number("elapsed")});
  }
  return entries;
}

}  // namespace thinwire::results
