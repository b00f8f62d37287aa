// The arithmetic of an outer step (docs/papers/low_communication.md, "Outer steps"), element by element, on the host. Of R replicas r with weights w_r, and global weights G:
//   d = mean over r of (G - w_r);   u = m u + d;   G = G - rate u          Nesterov: G = G - rate (d + m u)
//   w_r = (1 - a) G + a w_r                                                 mixing a; 0: all replicas take the global weights over
// Momentum has no dampening and the rate stands outside of it, as in torch.optim.SGD, which the codes use.
#pragma once

#include <cstdint>

namespace thinwire {

struct OuterStep {
  double rate = 1, momentum = 0;
  bool nesterov = false;
};

/// d = G - w_r.
template <typename T>
void pseudo_gradient(std::int64_t count, const T* global, const T* local, T* d);
/// `d`, the mean over replicas, is used up. `u` null: momentum is 0.
template <typename T>
void outer_step(const OuterStep& step, std::int64_t count, T* d, T* u, T* global);
/// What a replica goes on with.
template <typename T>
void take_over(double mixing, std::int64_t count, const T* global, T* local);

}  // namespace thinwire
