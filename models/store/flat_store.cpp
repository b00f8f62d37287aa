#include "models/store/flat_store.h"

#include <algorithm>

#include "collectives/communicator/process_mesh.h"

namespace thinwire {
namespace {

/// The same number everywhere, wherever `to` lies.
template <typename T>
void fill(TensorView to, double number) {
  const std::vector<T> numbers(static_cast<std::size_t>(to.elements()), static_cast<T>(number));
  if (!numbers.empty()) copy_and_wait(to.data(), numbers.data(), to.bytes());
}

}  // namespace

template <typename T>
FlatStore<T>::FlatStore(const StoreInfo& info, const StoreContext<T>& context) : padding_(context.flat->padding) {
  make_flats(context);
  make_inner(info, context);
  make_parts(context);
}

template <typename T>
void FlatStore<T>::make_flats(const StoreContext<T>& c) {
  std::map<std::string, Parameter<T>*> by_name;
  for (const UnitParameter<T>& p : c.parameters) by_name[p.parameter->name()] = p.parameter;
  const std::vector<FlatCandidate> candidates = flat_candidates(c.units, [&](Parameter<T>* p, FlatCandidate& candidate) {
    if (c.keeps_whole(p)) return false;
    candidate.name = p->name(), candidate.elements = p->elements(), candidate.matrix = is_matrix(*p);
    candidate.alone = p == c.table;  // two stages cut it alike
    return true;
  });
  const FlatRule rule{c.mesh.shape().data().within_replica(), c.flat->alone_from, flat_alignment<T>};
  for (FlatParameter& plan : flat_parameters(candidates, flat_units(c.units), rule)) {
    Flat& flat = flats_.emplace_back();
    for (const FlatParameter::Member& m : plan.members) flat.members.push_back(by_name.at(candidates[m.candidate].name));
    flat.whole.layout = ParameterLayout::whole(plan.name, {plan.shards, plan.shard});
    flat.whole.initialise = [this, &flat](const ParameterLayout&, std::int64_t first_row, TensorView to) { begin_rows(flat, first_row, to); };
    for (const int reader : plan.readers) of_unit_[c.units[static_cast<std::size_t>(reader)].layer].push_back(&flat);
    flat.plan = std::move(plan);
    flat_of_[&flat.whole] = &flat, by_name_[flat.plan.name] = &flat;
  }
}

template <typename T>
template <typename Body>
void FlatStore<T>::for_pieces(const Flat& flat, std::int64_t first, std::int64_t count, Body&& body) {
  for (std::size_t i = 0; i < flat.members.size(); ++i) {
    const FlatParameter::Member& m = flat.plan.members[i];
    const std::int64_t begin = std::max(first, m.first), end = std::min(first + count, m.end());
    if (begin < end) body(*flat.members[i], begin - m.first, begin - first, end - begin);
  }
}

// Of a deferred matrix whole rows are drawn, of which the shard has a part of the first and the last.
template <typename T>
void FlatStore<T>::begin_rows(const Flat& flat, std::int64_t first_row, TensorView to) const {
  fill<T>(to, padding_);
  for_pieces(flat, first_row * flat.plan.shard, to.elements(), [&](Parameter<T>& p, std::int64_t of_member, std::int64_t at, std::int64_t count) {
    const TensorView piece = to.flat_slice(at, count);
    if (p.has_value()) return copy_and_wait(piece.data(), p.w() + of_member, piece.bytes());
    const std::int64_t columns = p.shape().columns(), row = of_member / columns, end = (of_member + count + columns - 1) / columns;
    Tensor drawn(Shape{end - row, columns}, dtype_of<T>, Device());
    p.initialise(p.layout, row, drawn.view());
    copy_and_wait(piece.data(), data_of<T>(drawn) + (of_member - row * columns), piece.bytes());
  });
}

template <typename T>
void FlatStore<T>::make_inner(const StoreInfo& info, const StoreContext<T>& c) {
  StoreContext<T> of_flats{c.config, c.mesh, {}, {}, c.table, c.channels, c.clock, c.node_shards, c.param_dtype, c.shards_table};
  if (c.table && c.shards_table)
    for (Flat& flat : flats_)
      if (flat.members == std::vector<Parameter<T>*>{c.table}) of_flats.table = &flat.whole;
  for (Flat& flat : flats_) of_flats.parameters.push_back({&flat.whole, c.units[static_cast<std::size_t>(flat.plan.home())].layer, flat.plan.rule_layer});
  for (const Unit<T>& unit : c.units) {
    Unit<T>& of = of_flats.units.emplace_back(Unit<T>{unit.name, unit.layer, {}});
    for (Flat* flat : of_unit_[unit.layer]) of.parameters.push_back(&flat->whole);
  }
  for (const UnitParameter<T>& p : c.parameters)
    if (c.keeps_whole(p.parameter)) of_flats.parameters.push_back(p);
  inner_ = make_store<T>(info, of_flats);
  for (Flat& flat : flats_) {
    if (flat.whole.has_gradient() && padding_ != 0) fill<T>(flat.whole.gradient.view(), padding_);
    for (Parameter<T>* p : flat.members) p->value = Tensor(), p->gradient = Tensor();
    follow_values(flat), follow_gradient(flat);
    for (Parameter<T>* p : flat.members) {
      if (p->has_gradient()) p->gradient.fill_zero();
      if (p->has_value()) p->initialise = {};  // it stays where it is, as make_values has it
    }
  }
}

template <typename T>
void FlatStore<T>::make_parts(const StoreContext<T>& c) {
  std::map<const Parameter<T>*, int> homes;
  for (const UnitParameter<T>& p : c.parameters) homes[p.parameter] = p.unit;
  for (const OwnedPart<T>& whole : inner_->parts()) {
    const auto found = flat_of_.find(whole.parameter);
    if (found == flat_of_.end()) {
      parts_.push_back(whole);
      continue;
    }
    TW_ASSERT(whole.sharded, whole.parameter->name());
    const std::int64_t shard = found->second->plan.shard;
    for_pieces(*found->second, whole.rows.first * shard, shard, [&](Parameter<T>& p, std::int64_t of_member, std::int64_t at, std::int64_t count) {
      const std::int64_t columns = p.shape().columns(), row = of_member / columns;
      OwnedPart<T>& part = parts_.emplace_back();
      part.parameter = &p, part.unit = part.rule_layer = homes.at(&p);
      part.rows = {row, (of_member + count + columns - 1) / columns - row}, part.first_column = of_member - row * columns;
      part.weights = whole.weights.flat_slice(at, count), part.gradient = whole.gradient.flat_slice(at, count);
      part.sharded = part.of_flat = true, part.tied_table = whole.tied_table;
    });
  }
}

template <typename T>
void FlatStore<T>::follow_values(Flat& flat) {
  const bool there = flat.whole.has_value();
  for (std::size_t i = 0; i < flat.members.size(); ++i) {
    Parameter<T>& p = *flat.members[i];
    const FlatParameter::Member& m = flat.plan.members[i];
    if (there)
      p.value.borrow(flat.whole.value.view().flat_slice(m.first, m.elements).reshaped(p.shape()));
    else
      p.value = Tensor();
  }
}

template <typename T>
void FlatStore<T>::follow_gradient(Flat& flat) {
  const bool there = flat.whole.has_gradient();
  for (std::size_t i = 0; i < flat.members.size(); ++i) {
    Parameter<T>& p = *flat.members[i];
    const FlatParameter::Member& m = flat.plan.members[i];
    if (there)
      p.gradient.borrow(flat.whole.gradient.view().flat_slice(m.first, m.elements).reshaped(p.shape()));
    else
      p.gradient = Tensor();
  }
}

template <typename T>
void FlatStore<T>::updated(std::int64_t version) {
  this->version_ = version;
  inner_->updated(version);
  take_waiting();
}

template <typename T>
void FlatStore<T>::loaded(std::int64_t version) {
  this->version_ = version;
  inner_->loaded(version);
  take_waiting();
}

template <typename T>
void FlatStore<T>::unshard(int unit) {
  inner_->unshard(unit);
  for (Flat* flat : of_unit_[unit]) follow_values(*flat);
}

template <typename T>
void FlatStore<T>::wait_unshard(int unit) {
  inner_->wait_unshard(unit);
  take_waiting();
}

template <typename T>
void FlatStore<T>::reshard(int unit) {
  inner_->reshard(unit);
  for (Flat* flat : of_unit_[unit]) follow_values(*flat);
}

template <typename T>
void FlatStore<T>::lend_gradients(int unit) {
  std::vector<Flat*> without;
  for (Flat* flat : of_unit_[unit])
    if (!flat->whole.has_gradient()) without.push_back(flat);
  inner_->lend_gradients(unit);
  for (Flat* flat : without) {
    if (padding_ != 0 && flat->whole.has_gradient()) {
      fill<T>(flat->whole.gradient.view(), padding_);
      follow_gradient(*flat);
      for (Parameter<T>* p : flat->members) p->gradient.fill_zero();
    }
    follow_gradient(*flat);
  }
}

template <typename T>
void FlatStore<T>::gradient_reduced(const OwnedPart<T>& part) {
  inner_->gradient_reduced(part);
  if (const auto found = flat_of_.find(part.parameter); found != flat_of_.end()) follow_gradient(*found->second);
}

// A checkpoint knows parameters, not how they lie.
template <typename T>
std::vector<StateSlot> FlatStore<T>::state() {
  std::vector<StateSlot> slots;
  for (StateSlot& whole : inner_->state()) {
    const auto found = by_name_.find(whole.layout.name());
    if (found == by_name_.end()) {
      slots.push_back(std::move(whole));
      continue;
    }
    for_pieces(*found->second, whole.first_row * found->second->plan.shard, whole.value.elements(), [&](Parameter<T>& p, std::int64_t of_member, std::int64_t at, std::int64_t count) {
      StateSlot& slot = slots.emplace_back(whole);
      const std::int64_t columns = p.shape().columns();
      slot.layout = p.layout, slot.value = whole.value.flat_slice(at, count);
      slot.first_row = of_member / columns, slot.first_column = of_member % columns;
      if (slot.first_column == 0 && count % columns == 0 && p.shape().rank() == 2) slot.value = slot.value.reshaped({count / columns, columns});
    });
  }
  return slots;
}

template <typename T>
std::unique_ptr<ParameterStore<T>> make_store_in_layout(const StoreInfo& info, const StoreContext<T>& c) {
  if (!c.flat || c.mesh.shape().data().within_replica() == 1) return make_store<T>(info, c);
  return std::make_unique<FlatStore<T>>(info, c);
}

template class FlatStore<float>;
template class FlatStore<double>;
template std::unique_ptr<ParameterStore<float>> make_store_in_layout<float>(const StoreInfo&, const StoreContext<float>&);
template std::unique_ptr<ParameterStore<double>> make_store_in_layout<double>(const StoreInfo&, const StoreContext<double>&);

}  // namespace thinwire
