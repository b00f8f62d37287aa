// Failures in a row: a machine that is out of order shall not be asked a thousand times.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace thinwire::sweep {

/// Whether the reason of a FAILED cell is its answer, which the next attempt would give again, and no sign of a machine that is out of order.
using IsAnswer = std::function<bool(const std::string& reason)>;

class FailureStreak {
 public:
  /// `limit` failures without a measured or answered cell between them are too many; 0: never.
  explicit FailureStreak(int limit, IsAnswer is_answer = {}) : limit_(limit), is_answer_(std::move(is_answer)) {}
  void failed(const std::string& reason) { is_answer_ && is_answer_(reason) ? count_ = 0 : ++count_; }
  void measured() { count_ = 0; }
  bool is_too_long() const { return limit_ > 0 && count_ >= limit_; }

 private:
  int limit_, count_ = 0;
  IsAnswer is_answer_;
};

}  // namespace thinwire::sweep
