// Gradient descent with momentum (Polyak 1964; Nesterov's form as in Sutskever et al., ICML 2013) in the pieces that update policies put together. On the host.
#pragma once

#include <cstdint>

namespace thinwire::nn {

/// u[i] = momentum u[i] + scale gradient[i].
template <typename T>
void add_momentum(double momentum, double scale, std::int64_t count, const T* gradient, T* u);
/// to[i] = scale gradient[i] + momentum u[i]: Nesterov's direction, with u as add_momentum has left it. `to` may be `gradient`.
template <typename T>
void look_ahead(double momentum, double scale, std::int64_t count, const T* gradient, const T* u, T* to);
/// to[i] = 1, -1 or 0, as direction[i] is. `to` may be `direction`.
template <typename T>
void signs_of(std::int64_t count, const T* direction, T* to);
/// w[i] -= learning_rate (direction[i] + decay w[i]): the decay stands apart from the gradient, as in AdamW's paper (SGDW).
template <typename T>
void descend(double learning_rate, double decay, std::int64_t count, const T* direction, T* w);

}  // namespace thinwire::nn
