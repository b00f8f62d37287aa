// What a rank updates of its parameters, and the weights of a checkpoint.
#pragma once

#include <vector>

#include "collectives/communicator/cost_terms.h"
#include "models/layout/parameter.h"
#include "models/store/state_slot.h"

namespace thinwire {

/// A parameter of this rank and the unit that it belongs to: the layer whose backward pass completes its gradient.
template <typename T>
struct UnitParameter {
  Parameter<T>* parameter = nullptr;
  int unit = 0;
  int rule_layer = unit;  ///< that a compression rule's `layers` go by: the unit, or of a flat parameter FlatParameter::rule_layer
};

template <typename T>
struct OwnedPart {
  Parameter<T>* parameter = nullptr;
  int unit = 0;
  int rule_layer = 0;       ///< UnitParameter::rule_layer
  RowBlock rows{0, 0};      ///< of the parameter seen as a matrix
  std::int64_t first_column = 0;  ///< of a flat parameter's member, which may be cut inside a row: elements of the first row in front of it
  TensorView weights;       ///< [rows.count, columns], or the whole vector, or a member's elements in a row: what an update changes, in full precision
  TensorView gradient;      ///< of the same shape: where an update reads the reduced gradient
  bool sharded = false;     ///< the ranks of a replica own other rows: gradients are reduce-scattered; else all own the whole
  bool lent = false;        ///< `gradient` has memory of its own: that of the whole gradient is lent until it was reduced (ParameterStore::gradient_reduced)
  std::vector<int> adders = {};  ///< of a lent gradient: the units whose backward passes add to it
  bool tied_table = false;  ///< held by the first and the last stage, which add up its gradient (models/parallel/gradient/tied_table.h): whole, or what this rank owns of it
  bool of_flat = false;     ///< reduced and gathered with its neighbours, as a part of ParameterStore::exchanged()
};

/// The whole parameter, where it lies.
template <typename T>
OwnedPart<T> whole_part(const UnitParameter<T>& p) {
  Parameter<T>& parameter = *p.parameter;
  OwnedPart<T> part;
  part.parameter = &parameter, part.unit = p.unit, part.rule_layer = p.rule_layer;
  part.rows = {0, parameter.shape().rows()};
  part.weights = parameter.value.view(), part.gradient = parameter.gradient.view();
  return part;
}

/// The tied table where it stays whole, which belongs to no unit alone.
template <typename T>
OwnedPart<T> table_part(Parameter<T>& table) {
  OwnedPart<T> part = whole_part(UnitParameter<T>{&table, -1});
  part.tied_table = true;
  return part;
}

/// Matrices are split over ranks; vectors, less than one percent of the elements, are kept whole.
template <typename T>
bool is_matrix(const Parameter<T>& p) {
  return p.layout.local().rank() == 2 && p.layout.local().rows() > 1;
}

/// Rows `rows` of a matrix.
inline TensorView rows_of(TensorView matrix, RowBlock rows) {
  const std::int64_t columns = matrix.shape().columns();
  return matrix.flat_slice(rows.first * columns, rows.count * columns).reshaped({rows.count, columns});
}

/// Values that every data-parallel rank holds whole. A checkpoint of a run that kept more bits than it sent gives those.
inline StateSlot weights_slot(const ParameterLayout& layout, TensorView value) {
  StateSlot slot;
  slot.name = "weights", slot.layout = layout, slot.value = value;
  slot.sources = {"full_precision_weights", "weights"};
  return slot;
}

/// State of kind `name` that a policy keeps of a part: `value` has a number for each element of it.
template <typename T>
StateSlot slot_of(const OwnedPart<T>& part, std::string name, TensorView value, bool first_stage) {
  StateSlot slot;
  slot.name = std::move(name), slot.value = value;
  slot.owner = part.sharded ? Owner::sharded : Owner::replicated;
  slot.layout = part.parameter->layout, slot.first_row = part.rows.first, slot.first_column = part.first_column;
  slot.copy = part.tied_table && !first_stage;
  return slot;
}

}  // namespace thinwire
