// Logging to stderr with the rank in front. Data goes to stdout or files, never through here.
#pragma once

#include <string>

namespace thinwire {

enum class LogLevel { debug, info, warning, error };

/// Rank shown in front of messages; -1 (default) = none. Level from THINWIRE_LOG (debug|info|warning|error).
void set_log_rank(int rank);
void log(LogLevel level, const std::string& message);
inline void log_debug(const std::string& m) { log(LogLevel::debug, m); }
inline void log_info(const std::string& m) { log(LogLevel::info, m); }
inline void log_warning(const std::string& m) { log(LogLevel::warning, m); }
inline void log_error(const std::string& m) { log(LogLevel::error, m); }

}  // namespace thinwire
