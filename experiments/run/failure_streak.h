// Failures in a row: a machine that is out of order shall not be asked a thousand times.
#pragma once

namespace thinwire::sweep {

class FailureStreak {
 public:
  /// `limit` failures without a measured cell between them are too many; 0: never.
  explicit FailureStreak(int limit) : limit_(limit) {}
  void failed() { ++count_; }
  void measured() { count_ = 0; }
  bool is_too_long() const { return limit_ > 0 && count_ >= limit_; }

 private:
  int limit_, count_ = 0;
};

}  // namespace thinwire::sweep
