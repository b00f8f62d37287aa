// Which part of a model a pipeline position holds.
#pragma once

namespace thinwire {

/// Layers first_layer .. first_layer + layers - 1 (-1: all that follow), and whether the embedding and the head are with them. The part with
/// the embedding reads the batch, the part with the head yields the loss.
struct ModelPart {
  int first_layer = 0, layers = -1;
  bool embedding = true, head = true;
  bool whole() const { return embedding && head; }
  /// The layer behind the part: number of the boundary at its end.
  int end_layer() const { return first_layer + layers; }
};

}  // namespace thinwire
