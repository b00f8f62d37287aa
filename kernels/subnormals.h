// Numbers below the smallest normal one (1.2e-38 of f32): kept, or flushed to zero.
#pragma once

namespace thinwire {

/// While it lives, numbers smaller than the smallest normal one count as zero, as operands and as results of floating-point arithmetic in this thread and in those of parallel_for (FTZ and DAZ of x86, which TensorFlow
/// sets, too, and PyTorch leaves off). An Intel Xeon multiplies matrices of subnormal numbers 80 times as slowly (docs/known-limits.md). Scopes nest; each ends as it found things.
/// EnvironmentError on a processor for which it is not written.
class SubnormalsFlushed {
 public:
  /// Nothing where `flush` is false.
  explicit SubnormalsFlushed(bool flush = true);
  ~SubnormalsFlushed();
  SubnormalsFlushed(const SubnormalsFlushed&) = delete;
  SubnormalsFlushed& operator=(const SubnormalsFlushed&) = delete;

 private:
  bool flush_;
  unsigned before_ = 0;
};

}  // namespace thinwire
