// Typed errors. Every error says what failed, where, and how to mend it; its type fixes the exit code.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace thinwire {

/// Process exit codes, documented in docs/exit-codes.md. Scripts rely on them.
enum class ExitCode : int {
  ok = 0,
  wrong_result = 1,     ///< a verification failed
  usage = 2,            ///< bad option, configuration, codec grammar, contradictory grid
  environment = 3,      ///< something is missing on the machine, or rights are
  timeout = 4,          ///< a watchdog fired
  runtime_failure = 6,  ///< rank lost, NaN, disk full, corrupt input
  stopped = 7,          ///< ended early because it was asked to; what it takes to go on is saved
};

/// Base of all errors of the project. `what()` is a complete sentence for the user.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, std::string message);
  ExitCode code() const noexcept { return code_; }
  int exit_status() const noexcept { return static_cast<int>(code_); }

 private:
  ExitCode code_;
};

/// The caller asked for something that cannot be: unknown name, bad value, contradictory request.
struct UsageError : Error {
  explicit UsageError(std::string message) : Error(ExitCode::usage, std::move(message)) {}
};
/// The machine lacks something: a library, a right, a device, a folder that can be written.
struct EnvironmentError : Error {
  explicit EnvironmentError(std::string message) : Error(ExitCode::environment, std::move(message)) {}
};
/// A computed result differs from its reference.
struct WrongResult : Error {
  explicit WrongResult(std::string message) : Error(ExitCode::wrong_result, std::move(message)) {}
};
/// Something did not finish in its time.
struct TimeoutError : Error {
  explicit TimeoutError(std::string message) : Error(ExitCode::timeout, std::move(message)) {}
};
/// A failure while running: lost rank, NaN, full disk, failed library call.
struct RuntimeFailure : Error {
  explicit RuntimeFailure(std::string message) : Error(ExitCode::runtime_failure, std::move(message)) {}
};
/// A tensor that is to be sent holds what its message cannot: NaN, infinity, a value beyond the type that travels. In a training that is no defect of the program
/// but a divergence (models/optimizer/diverged.h). Never of what arrived: that is CorruptData.
struct NotRepresentable : RuntimeFailure {
  using RuntimeFailure::RuntimeFailure;
};
/// Data from outside (payload, file, tensor) is malformed. Never read out of bounds: throw this.
struct CorruptData : RuntimeFailure {
  using RuntimeFailure::RuntimeFailure;
};
/// What arrived holds NaN or infinity. Damaged where it is a payload; where it is a sum of what ranks wrote, all of it finite, the sum overflowed, and whoever took it
/// says NotRepresentable instead.
struct NonFiniteData : CorruptData {
  using CorruptData::CorruptData;
};

namespace detail {
[[noreturn]] void throw_internal(const char* expression, const char* file, int line, const std::string& message);
}

/// "did you mean": what `name` is called today (core/renamed.h) where that is among `names`, a range of strings; else the entry nearest to it by
/// edit distance. Empty for no names.
std::string nearest_name(std::string_view name, const std::string* begin, const std::string* end);

}  // namespace thinwire

/// Internal invariant: a failure is a bug of thinwire. User errors throw UsageError and its like instead.
#define TW_ASSERT(expression, ...)                                                                    \
  do {                                                                                                \
    if (!(expression)) [[unlikely]]                                                                   \
      ::thinwire::detail::throw_internal(#expression, __FILE__, __LINE__, std::string{__VA_ARGS__});  \
  } while (false)
