#include "bench/training/timeline.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "core/error.h"

namespace thinwire::bench {

std::string to_text(const std::vector<TraceSpan>& spans) {
  std::ostringstream text;
  for (const TraceSpan& s : spans)
    text << name_of(s.category) << '\t' << s.name << (s.layer >= 0 ? " " + std::to_string(s.layer) : "")
         << '\t' << s.micro << '\t' << s.begin_ns << '\t' << s.end_ns << '\n';
  return text.str();
}

std::vector<results::TimelineRow> timeline_rows(const std::vector<std::string>& by_rank,
                                                const std::string& plan, const std::string& link) {
  struct Span {
    results::TimelineRow row;
    std::int64_t begin_ns, end_ns;
  };
  std::vector<Span> spans;
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    std::istringstream lines(by_rank[rank]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      Span span{};
      std::getline(fields, span.row.category, '\t');
      std::getline(fields, span.row.name, '\t');
      fields >> span.row.micro >> span.begin_ns >> span.end_ns;
      if (!fields)
        throw CorruptData("the timeline of rank " + std::to_string(rank) + " is damaged: '" + line + "'");
      span.row.rank = static_cast<std::int64_t>(rank);
      span.row.plan = plan;
      span.row.link = link;
      first = std::min(first, span.begin_ns);
      spans.push_back(std::move(span));
    }
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::tie(a.row.rank, a.begin_ns) < std::tie(b.row.rank, b.begin_ns);
  });
  std::vector<results::TimelineRow> rows;
  for (Span& span : spans) {
    span.row.start_us = static_cast<double>(span.begin_ns - first) * 1e-3;
    span.row.end_us = static_cast<double>(span.end_ns - first) * 1e-3;
    rows.push_back(std::move(span.row));
  }
  return rows;
}

std::string chrome_trace(const std::vector<results::TimelineRow>& rows, const MeshShape& mesh) {
  constexpr int work = 0, waiting = 1, transfers = 2;
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  const auto name_thread = [&](std::int64_t rank, int thread, const std::string& name) {
    events.push_back(
        {{"ph", "M"}, {"name", "thread_name"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}});
  };
  std::int64_t named = -1;
  std::vector<double> pairs;  // when each transfer pair of the current rank becomes free
  for (const results::TimelineRow& row : rows) {
    if (row.rank != named) {
      named = row.rank;
      pairs.clear();
      const MeshCoordinates at = mesh_coordinates(mesh, static_cast<int>(row.rank));
      events.push_back(
          {{"ph", "M"},
           {"name", "process_name"},
           {"pid", row.rank},
           {"args",
            {{"name", "rank " + std::to_string(row.rank) + " (tp " + std::to_string(at.tp) + ", pp " +
                          std::to_string(at.pp) + ", dp " + std::to_string(at.dp) + ")"}}}});
      name_thread(row.rank, work, "work");
      name_thread(row.rank, waiting, "wait");
    }
    int thread = row.category == "wait" ? waiting : work;
    if (row.category == "transfer") {
      auto pair = std::find_if(pairs.begin(), pairs.end(),
                               [&](double free_from) { return free_from <= row.start_us; });
      if (pair == pairs.end()) {
        pair = pairs.insert(pairs.end(), 0.0);
        name_thread(row.rank, transfers + static_cast<int>(pair - pairs.begin()),
                    "transfer " + std::to_string(pair - pairs.begin()));
      }
      *pair = row.end_us;
      thread = transfers + static_cast<int>(pair - pairs.begin());
    }
    nlohmann::ordered_json event = {{"ph", "X"},
                                    {"name", row.name},
                                    {"cat", row.category},
                                    {"pid", row.rank},
                                    {"tid", thread},
                                    {"ts", row.start_us},
                                    {"dur", row.end_us - row.start_us}};
    if (row.micro >= 0) event["args"] = {{"micro", row.micro}};
    events.push_back(std::move(event));
  }
  const nlohmann::ordered_json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  return trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace thinwire::bench
