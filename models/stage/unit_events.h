// What the instructions of a lowered schedule ask of parameter store and update policy: the executor calls them where the instruction stands.
// A unit is named by its layer (Unit::layer), which no two units of a rank share.
#pragma once

namespace thinwire {

/// A store that holds shards of parameters.
class UnitGathers {
 public:
  virtual ~UnitGathers() = default;
  /// Starts to gather the unit's parameters.
  virtual void unshard(int unit) = 0;
  /// Returns when they are there: the unit's pass comes next.
  virtual void wait_unshard(int unit) = 0;
  /// The unit's passes are over until the next unshard.
  virtual void reshard(int unit) = 0;
};

/// Whoever reduces gradients over replicas.
class UnitReductions {
 public:
  virtual ~UnitReductions() = default;
  /// A backward pass of the unit comes next: on return its gradients may be added to.
  virtual void expect(int unit) = 0;
  /// Micro-batch `micro` has added its share to the unit's gradient; `last`: no other will in this step. Starts what can travel; waits for nothing.
  virtual void reduce(int unit, int micro, bool last) = 0;
};

}  // namespace thinwire
