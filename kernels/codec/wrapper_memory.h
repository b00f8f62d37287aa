// How much a wrapper remembers: a capability, asked for by type, for closed forms of a run's memory.
#pragma once

namespace thinwire {

/// A wrapper that keeps something of every element of the tensors that pass it, from message to message.
class KeepsElements {
 public:
  virtual ~KeepsElements() = default;
  /// Bytes on a rank for each element of the tensors that it sends, its contributions to sums among them,
  virtual double bytes_per_element_sent() const = 0;
  /// and for each element that is delivered to it.
  virtual double bytes_per_element_delivered() const { return 0; }
};

}  // namespace thinwire
