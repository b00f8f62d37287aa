// Spans of time for a timeline: what this rank did when. Off by default and then free but for one test of a flag. Used by one
// thread (the one that drives channels and model).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/clock.h"

namespace thinwire {

enum class TraceCategory : std::uint8_t { compute, encode, transfer, decode, wait };
const char* name_of(TraceCategory category);

struct TraceSpan {
  TraceCategory category = TraceCategory::compute;
  const char* name = "";  ///< a literal, or interned by Trace::intern
  int layer = -1, micro = -1;
  std::int64_t begin_ns = 0, end_ns = 0;  ///< CLOCK_MONOTONIC
};

class Trace {
 public:
  static void start();
  /// Ends recording and returns the spans in order of their end.
  static std::vector<TraceSpan> stop();
  /// `flush` is called at the beginning of stop(): it adds spans whose times become known late (those on devices).
  static void before_stop(void (*flush)());
  static bool on() { return on_; }
  static void add(TraceCategory category, const char* name, std::int64_t begin_ns, std::int64_t end_ns, int layer = -1, int micro = -1);

 private:
  static inline bool on_ = false;
};

}  // namespace thinwire
