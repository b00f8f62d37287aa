// Zero stage 0: every data-parallel rank holds all values, gradients and optimizer state of its part of the model.
#include "collectives/communicator/process_mesh.h"
#include "models/store/parameter_store.h"
#include "models/store/rounded_values.h"

namespace thinwire {
namespace {

template <typename T>
class WholeStore final : public ParameterStore<T> {
 public:
  explicit WholeStore(const StoreContext<T>& c) : first_stage_(c.mesh.first_stage()), rounded_(c.param_dtype, c.clock) {
    for (auto p = c.parameters.rbegin(); p != c.parameters.rend(); ++p)
      if (p->parameter != c.table) parts_.push_back(whole_part(*p));
    if (c.table) parts_.push_back(table_part(*c.table));
    for (OwnedPart<T>& part : parts_) rounded_.keep(part);
  }
  const std::vector<OwnedPart<T>>& parts() const override { return parts_; }
  void updated(std::int64_t version) override {
    this->version_ = version;
    rounded_.follow();
  }
  void loaded(std::int64_t version) override { updated(version); }
  std::vector<StateSlot> state() override {
    std::vector<StateSlot> slots;
    for (const OwnedPart<T>& part : parts_) {
      slots.push_back(weights_slot(part.parameter->layout, part.weights));
      slots.back().copy = part.tied_table && !first_stage_;
    }
    return slots;
  }

 private:
  bool first_stage_;
  std::vector<OwnedPart<T>> parts_;
  RoundedValues<T> rounded_;
};

StoreFootprint footprint(std::int64_t split, std::int64_t whole, int /*ranks*/) {
  return {.weights = split + whole, .gradients = split + whole, .owned = split + whole, .in_place = split + whole};
}

const bool registered = register_store<WholeStore>({.zero_stage = 0, .summary = "everything whole on every replica", .source = "", .footprint = footprint});

}  // namespace
}  // namespace thinwire
