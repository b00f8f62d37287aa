// What stores that split matrices over the ranks of a replica have in common: the rows of a rank, and gradients whose memory is lent.
#pragma once

#include <deque>
#include <map>

#include "collectives/communicator/process_mesh.h"
#include "models/parallel/channels/row_exchange.h"
#include "models/store/memory_pool.h"
#include "models/store/parameter_store.h"

namespace thinwire {

/// Makes `part` the rows that this rank owns, whose weights `kept` holds from now on.
template <typename T>
void keep_rows(OwnedPart<T>& part, const RowOwners& owners, Tensor& kept) {
  const Parameter<T>& p = *part.parameter;
  const std::int64_t columns = p.shape().columns();
  part.sharded = true;
  part.rows = owners.own(p.shape().rows());
  kept.reshape({part.rows.count, columns}, dtype_of<T>);
  if (p.has_value())
    copy_bytes(kept.view().data(), p.w() + part.rows.first * columns, kept.bytes());
  else
    p.initialise(p.layout, part.rows.first, kept.view());
  part.weights = kept.view();
}

/// Values and gradients of a deferred matrix that stay whole after all. Its values do not move any more, and it no longer says how they begin: what
/// computes with them may keep copies (models/layers/linear.cpp).
template <typename T>
void make_values(Parameter<T>& p) {
  if (p.has_value()) return;
  p.value.reshape(p.shape(), dtype_of<T>);
  p.initialise(p.layout, 0, p.value.view());
  p.initialise = {};
}
template <typename T>
void make_gradient(Parameter<T>& p) {
  if (p.has_gradient()) return;
  p.gradient.reshape(p.shape(), dtype_of<T>);
  p.gradient.fill_zero();
}

inline constexpr const char* gather_name = "param_all_gather";

/// What gathers weights. `reused`: several times between two updates.
inline std::vector<ChannelSpec> weight_channels(ProcessMesh& mesh, bool reused) {
  return row_exchange_channels({.name = gather_name, .traffic = TrafficClass::param_all_gather, .reuse_payloads = reused}, mesh.shape().data());
}
template <typename T>
RowExchange weight_exchange(const StoreContext<T>& c) {
  return {c.channels, gather_name, {c.mesh.shape().data(), c.mesh.data_coordinates()}, c.mesh.coordinates().pp};
}

/// Gradients of split matrices (P_g of ZeRO): whole from a backward pass on until they are reduced, of which a rank keeps its rows.
template <typename T>
class LentGradients {
 public:
  LentGradients(const StoreContext<T>& context, MemoryPool& pool) : units_(context.units), clock_(context.clock), pool_(pool) {}
  /// `part` is sharded.
  void add(OwnedPart<T>& part) {
    Parameter<T>& p = *part.parameter;
    Tensor& rows = rows_.emplace_back(Shape{part.rows.count, p.shape().columns()}, dtype_of<T>);
    rows.fill_zero();
    part.gradient = rows.view();
    part.lent = true;
    p.gradient = Tensor();
    for (const Unit<T>& unit : units_)
      if (std::ranges::find(unit.parameters, &p) != unit.parameters.end()) {
        of_unit_[unit.layer].push_back(&p);
        part.adders.push_back(unit.layer);
      }
  }
  void lend(int unit) {
    const auto found = of_unit_.find(unit);
    if (found == of_unit_.end()) return;
    for (Parameter<T>* p : found->second) {
      if (p->has_gradient()) continue;
      p->gradient = pool_.take(p->shape(), dtype_of<T>);
      clock_.run("zero gradient", unit, -1, [&] { p->gradient.fill_zero(); });
    }
  }
  void reduced(Parameter<T>& p) { pool_.give(p.gradient.own()); }

 private:
  const std::vector<Unit<T>> units_;
  ComputeClock& clock_;
  MemoryPool& pool_;
  std::deque<Tensor> rows_;
  std::map<int, std::vector<Parameter<T>*>> of_unit_;
};

}  // namespace thinwire
