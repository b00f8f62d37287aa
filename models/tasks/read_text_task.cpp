#include <algorithm>

#include "core/error.h"
#include "core/joined.h"
#include "core/sha256.h"
#include "models/data/text/unicode.h"
#include "models/tasks/text_task.h"
#include "results/files/files.h"

namespace thinwire {
namespace {

/// A line of a file as fields, and the complaint about one of them.
class Row {
 public:
  Row(const std::string& file, std::size_t line, std::string_view text) : file_(file), line_(line), text_(text) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\t', at), text.size());
      fields_.push_back(text.substr(at, end - at));
      at = end + 1;
    }
  }
  std::size_t size() const { return fields_.size(); }
  std::string_view operator[](std::size_t field) const { return fields_[field]; }

  /// About a place in the line; `place` points into it.
  [[noreturn]] void refuse(const char* place, const std::string& what) const {
    throw CorruptData(file_ + ":" + std::to_string(line_) + ":" + std::to_string(place - text_.data() + 1) + ": " + what);
  }

 private:
  const std::string& file_;
  std::size_t line_;
  std::string_view text_;
  std::vector<std::string_view> fields_;
};

/// The lines of a text without their ends. Only line feeds part lines: other separators occur inside sentences.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// Where the columns that a task reads are in a file.
struct Places {
  std::size_t label = 0, count = 0;
  std::vector<std::size_t> texts;
};

Places places(const TextTask& task, const std::vector<std::string>& columns, const Row& header) {
  const auto place = [&](const std::string& name) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    if (found == columns.end()) header.refuse(header[0].data(), "the column '" + name + "' is missing; there is " + joined(columns));
    return static_cast<std::size_t>(found - columns.begin());
  };
  Places found;
  found.count = columns.size();
  found.label = place(task.label);
  for (const std::string& name : task.texts) found.texts.push_back(place(name));
  return found;
}

std::string text_of(const Row& row, std::size_t field, const std::string& column) {
  std::string text(row[field]);
  const std::string kept = unicode::to_utf8(unicode::from_utf8(text));
  if (kept != text) {
    const auto at = std::mismatch(text.begin(), text.end(), kept.begin(), kept.end()).first - text.begin();
    row.refuse(row[field].data() + at, "this byte of the column '" + column + "' is no UTF-8");
  }
  return text;
}

Example example_of(const TextTask& task, const Places& at, const Row& row) {
  const auto label = task.labels.value(row[at.label]);
  if (!label)
    row.refuse(row[at.label].data(), "the label '" + std::string(row[at.label]) + "' of the column '" + task.label + "' is not " + task.labels.wanted);
  return {text_of(row, at.texts[0], task.texts[0]), at.texts.size() > 1 ? text_of(row, at.texts[1], task.texts[1]) : "", *label};
}

TaskFile read_task_file(const TextTask& task, const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + task.folder + "/" + name;
  const std::string content = results::read_file(path);
  std::string_view text = content;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark: MRPC's files have one
  const std::vector<std::string_view> lines = lines_of(text);
  const auto end_without_row = [&] {
    const char* end = text.data() + text.size();
    Row(path, lines.size() + 1, {end, 0}).refuse(end, "the file ends without a row");
  };
  if (lines.empty()) end_without_row();
  const bool has_header = task.columns.empty();
  const Row header(path, 1, lines[0]);
  std::vector<std::string> columns = task.columns;
  if (has_header)
    for (std::size_t i = 0; i < header.size(); ++i) columns.emplace_back(header[i]);
  const Places at = places(task, columns, header);

  TaskFile file{name, {}, 0, sha256_hex(content)};
  for (std::size_t i = has_header ? 1 : 0; i < lines.size(); ++i) {
    const Row row(path, i + 1, lines[i]);
    if (row.size() == at.count) {
      file.examples.push_back(example_of(task, at, row));
    } else if (task.has_broken_rows) {
      ++file.broken_rows;
    } else {
      const std::size_t last = std::min(row.size(), at.count + 1) - 1;
      row.refuse(row[last].data(), std::to_string(row.size()) + " fields where there are " + std::to_string(at.count) + " columns: " + joined(columns));
    }
  }
  if (file.examples.empty()) end_without_row();
  return file;
}

}  // namespace

TaskData read_text_task(const TextTask& task, const std::string& folder) {
  TaskData data{read_task_file(task, folder, "train.tsv"), {}};
  for (const std::string& name : task.judged) data.judged.push_back(read_task_file(task, folder, name));
  return data;
}

}  // namespace thinwire
