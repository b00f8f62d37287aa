#include "core/process/trace.h"

#include <algorithm>
#include <utility>

namespace thinwire {
namespace {
std::vector<TraceSpan>& spans() {
  static std::vector<TraceSpan> recorded;
  return recorded;
}
std::vector<void (*)()>& flushes() {
  static std::vector<void (*)()> registered;
  return registered;
}
}  // namespace

const char* name_of(TraceCategory category) {
  const char* const names[] = {"compute", "encode", "transfer", "decode", "wait"};
  return names[static_cast<std::size_t>(category)];
}

void Trace::start() {
  spans().clear();
  spans().reserve(1 << 14);
  on_ = true;
}

void Trace::before_stop(void (*flush)()) { flushes().push_back(flush); }

std::vector<TraceSpan> Trace::stop() {
  for (const auto flush : flushes()) flush();
  on_ = false;
  std::vector<TraceSpan> all = std::exchange(spans(), {});
  std::stable_sort(all.begin(), all.end(), [](const TraceSpan& a, const TraceSpan& b) { return a.end_ns < b.end_ns; });
  return all;
}

void Trace::add(TraceCategory category, const char* name, std::int64_t begin_ns, std::int64_t end_ns, int layer, int micro) {
  if (on_) spans().push_back({category, name, layer, micro, begin_ns, end_ns});
}

}  // namespace thinwire
