#include "core/process/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

#include "core/process/environment.h"

namespace thinwire {
namespace {

spdlog::level::level_enum parse_level(const std::string& name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "warning") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  return spdlog::level::info;
}

// Leaked on purpose: destructors of static objects may still log.
spdlog::logger& logger() {
  static spdlog::logger* instance = [] {
    auto* made = new spdlog::logger("thinwire", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%H:%M:%S.%e %l %v");
    const std::string level = Environment::log_level();
    made->set_level(parse_level(level));
    made->flush_on(spdlog::level::debug);
    if (level != "debug" && level != "info" && level != "warning" && level != "error")
      made->warn("THINWIRE_LOG={} is not a level: using info (debug, info, warning, error exist)", level);
    return made;
  }();
  return *instance;
}

std::atomic<int> log_rank = -1;

}  // namespace

void set_log_rank(int rank) { log_rank = rank; }

void log(LogLevel level, const std::string& message) {
  static constexpr spdlog::level::level_enum levels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                                                         spdlog::level::err};
  const auto at = levels[static_cast<int>(level)];
  const int rank = log_rank;
  if (rank < 0)
    logger().log(at, message);  // a string, not a format: braces in messages are literal
  else
    logger().log(at, "[rank {}] {}", rank, message);
}

}  // namespace thinwire
