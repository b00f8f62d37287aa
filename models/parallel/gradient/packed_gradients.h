// Gradients of several parameters under one another in one buffer, as they travel together.
#pragma once

#include "models/layout/parameter.h"

namespace thinwire {

template <typename T>
void pack_gradients(const ParameterList<T>& members, T* to) {
  for (Parameter<T>* p : members) {
    copy_bytes(to, p->g(), p->gradient.bytes());
    to += p->elements();
  }
}
template <typename T>
void unpack_gradients(const T* from, const ParameterList<T>& members) {
  for (Parameter<T>* p : members) {
    copy_bytes(p->g(), from, p->gradient.bytes());
    from += p->elements();
  }
}

}  // namespace thinwire
