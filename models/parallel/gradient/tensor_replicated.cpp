#include "models/parallel/gradient/tensor_replicated.h"

#include <algorithm>

#include "core/tensor_names.h"
#include "models/parallel/gradient/reduction_wait.h"

namespace thinwire {

template <typename T>
bool TensorReplicated<T>::add(Parameter<T>& p, const std::optional<TensorView>& part) {
  const auto& replicas = p.layout.replicas();
  if (!active_ || std::none_of(replicas.begin(), replicas.end(), [](const SplitGroup& g) { return g.name == "tensor"; })) return false;
  all_.push_back({&p, part});
  return true;
}

template <typename T>
void TensorReplicated<T>::sum(std::int64_t step, double& waited_us) {
  if (all_.empty()) return;
  std::int64_t elements = 0;
  for (const Summed& one : all_) elements += one.view().elements();
  shaped<T>(packed_, {elements});
  const auto each = [&](const auto& copy) {
    std::int64_t first = 0;
    for (const Summed& one : all_) {
      const TensorView gradient = one.view(), packed = packed_.view().flat_slice(first, gradient.elements());
      copy(gradient, packed);
      first += gradient.elements();
    }
  };
  clock_.run("pack replicated gradients", -1, -1, [&] { each([](TensorView gradient, TensorView packed) { copy_bytes(packed.data(), gradient.data(), packed.bytes()); }); });
  MessageKey key;
  key.tensor = tensor_id(name_);
  key.step = step;
  Operation sum = channel_.all_reduce(packed_.view(), packed_.view(), key);
  wait_reduction(sum, waited_us);
  clock_.run("unpack replicated gradients", -1, -1, [&] { each([](TensorView gradient, TensorView packed) { copy_bytes(gradient.data(), packed.data(), packed.bytes()); }); });
}

template class TensorReplicated<float>;
template class TensorReplicated<double>;

}  // namespace thinwire
