#include "core/trace.h"

#include <utility>

namespace thinwire {
namespace {
std::vector<TraceSpan>& spans() {
  static std::vector<TraceSpan> recorded;
  return recorded;
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

std::vector<TraceSpan> Trace::stop() {
  on_ = false;
  return std::exchange(spans(), {});
}

void Trace::add(TraceCategory category, const char* name, std::int64_t begin_ns, std::int64_t end_ns, int layer, int micro) {
  if (on_) spans().push_back({category, name, layer, micro, begin_ns, end_ns});
}

}  // namespace thinwire
