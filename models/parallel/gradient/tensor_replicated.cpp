#include "models/parallel/gradient/tensor_replicated.h"

#include <algorithm>

#include "core/tensor_names.h"
#include "models/parallel/gradient/packed_gradients.h"
#include "models/parallel/gradient/reduction_wait.h"

namespace thinwire {

template <typename T>
bool TensorReplicated<T>::add(Parameter<T>& p) {
  const auto& replicas = p.layout.replicas();
  if (!active_ || std::none_of(replicas.begin(), replicas.end(), [](const SplitGroup& g) { return g.name == "tensor"; })) return false;
  parameters_.push_back(&p);
  return true;
}

template <typename T>
void TensorReplicated<T>::sum(std::int64_t step, double& waited_us) {
  if (parameters_.empty()) return;
  std::int64_t elements = 0;
  for (Parameter<T>* p : parameters_) elements += p->elements();
  T* packed = shaped<T>(packed_, {elements});
  clock_.run("pack replicated gradients", -1, -1, [&] { pack_gradients(parameters_, packed); });
  MessageKey key;
  key.tensor = tensor_id("replicated gradients");
  key.step = step;
  Operation sum = channel_.all_reduce(packed_.view(), packed_.view(), key);
  wait_reduction(sum, waited_us);
  clock_.run("unpack replicated gradients", -1, -1, [&] { unpack_gradients<T>(packed, parameters_); });
}

template class TensorReplicated<float>;
template class TensorReplicated<double>;

}  // namespace thinwire
