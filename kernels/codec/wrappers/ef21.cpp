// EF21 `ef21` (Richtarik, Sokolov, Fatkhullin, arXiv 2106.05203; docs/papers/gradient_compression.md, "The algorithms, as they are to be built"): both ends keep a
// tensor g, the change to it is what travels, and g is what is delivered.
//   sender: message = C(x - g);  g += decoded(message)        receiver: its own copy of g += decoded(message)
// In a sum over ranks every rank r has a g_r; all ranks keep the sum of the g_r, to which the sum of the decoded messages is added: one tensor more. Where the own
// contribution has no decoded form of its own (PowerSGD), all ranks share one g, the mean that was delivered. What a sum itself rounds (codes that add up in f16
// or bf16) no g knows of, and stays in the sum for ever.
// g of a sum or a message starts at zero: the first is C(x), where the authors send the first gradient in full, which no codec's payload has room for; warm-up steps do
// not count, they pass the codec by. g of an all-gather starts at the copy that all ranks hold, where they hold one (Channel::start_gathers_from): so around a codec of weight
// shards this is SDP4Bit's weight differences. An evaluation sees the codec alone.
#include "kernels/codec/registry.h"
#include "kernels/codec/wrapper_memory.h"
#include "kernels/codec/wrappers/tensor_memory.h"
#include "kernels/values.h"

namespace thinwire {
namespace {

class Ef21 final : public Wrapper, public KeepsElements {
 public:
  double bytes_per_element_sent() const override { return sizeof(float); }
  double bytes_per_element_delivered() const override { return sizeof(float); }
  bool needs_own_decoded() const override { return true; }
  bool remembers_results() const override { return true; }

  void start_from(ConstTensorView held, const MessageKey& key, bool own) override {
    if (key.pass != Pass::train) return;
    const auto [g, is_new] = (own ? sent_ : received_).at(key, held.shape());
    if (is_new) copy_values(g.view(), held);
  }
  void before_encode(TensorView x, const MessageKey& key) override {
    if (key.pass != Pass::train) return;
    if (const Tensor* g = sent_.find(key, x.shape())) add_values(x, g->view(), -1.0f);
  }
  void after_encode(ConstTensorView, ConstTensorView own_decoded, const MessageKey& key) override { add_to(sent_, own_decoded, key); }
  void after_decode(TensorView decoded, const MessageKey& key) override { add_and_show(received_, decoded, key); }
  void keep_own(TensorView decoded, const MessageKey& key) override {
    if (key.pass != Pass::train) return;
    if (const Tensor* g = sent_.find(key, decoded.shape())) copy_values(decoded, g->view());
  }
  void deliver(TensorView reduced, const MessageKey& key) override { add_and_show(sums_, reduced, key); }
  void after_reduce(ConstTensorView local, ConstTensorView own_decoded, ConstTensorView reduced_mean, const MessageKey& key) override {
    if (own_decoded.elements() > 0)
      add_to(sent_, own_decoded.reshaped(local.shape()), key);
    else if (key.pass == Pass::train)
      copy_values(sent_.at(key, local.shape()).tensor.view(), reduced_mean.reshaped(local.shape()));
  }

  void save_state(StateWriter& to) const override {
    for (const TensorMemory* memory : {&sent_, &received_, &sums_}) memory->save(to);
  }
  void load_state(StateReader& from) override {
    for (TensorMemory* memory : {&sent_, &received_, &sums_}) memory->load(from);
  }

 private:
  static void add_to(TensorMemory& memory, ConstTensorView decoded, const MessageKey& key) {
    if (key.pass != Pass::train) return;
    const auto [g, is_new] = memory.at(key, decoded.shape());
    if (is_new)
      copy_values(g.view(), decoded);
    else
      add_values(g.view(), decoded);
  }
  static void add_and_show(TensorMemory& memory, TensorView decoded, const MessageKey& key) {
    if (key.pass != Pass::train || decoded.elements() == 0) return;
    add_to(memory, decoded, key);
    copy_values(decoded, memory.find(key, decoded.shape())->view());
  }

  TensorMemory sent_{"ef21", "sent"}, received_{"ef21", "received"}, sums_{"ef21", "sum"};
};

const bool registered = register_wrapper(
    {.name = "ef21",
     .summary = "EF21: both ends keep what arrived so far, and the change to it is sent",
     .source = "Richtarik, Sokolov, Fatkhullin, NeurIPS 2021 (arXiv 2106.05203)",
     .wire = "what the codec sends of the change",
     .remembers_loss = true,
     .make = [](const Parameters&, const CodecTraits&) -> std::unique_ptr<Wrapper> { return std::make_unique<Ef21>(); }});

}  // namespace
}  // namespace thinwire
