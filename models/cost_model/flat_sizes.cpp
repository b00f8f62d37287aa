#include "models/cost_model/flat_sizes.h"

#include "models/store/flat_store.h"

namespace thinwire {

std::optional<FlatSizes> flat_sizes(const TrainConfig& c, const std::vector<Geometry>& chunks) {
  if (c.zero_layout != "flat" || c.mesh.data().within_replica() == 1) return std::nullopt;
  FlatSizes sizes;
  sizes.table_apart = c.mesh.pp > 1 && !c.shards_table();
  std::vector<DeclaredUnit> units;
  for (const Geometry& chunk : chunks) {
    sizes.chunk_begins.push_back(static_cast<int>(units.size()));
    units.insert(units.end(), chunk.units.begin(), chunk.units.end());
  }
  const auto candidates = flat_candidates(units, [&](const DeclaredParameter& p, FlatCandidate& candidate) {
    if (p.tied && sizes.table_apart) return false;
    const Shape shape = p.layout.local();
    candidate.alone = p.tied && c.mesh.pp > 1;
    candidate.name = p.name(), candidate.elements = p.local(), candidate.matrix = shape.rank() == 2 && shape.rows() > 1;
    return true;
  });
  sizes.parameters = flat_parameters(candidates, flat_units(units), {c.mesh.data().within_replica(), c.zero_wrap, c.dtype == DType::f64 ? flat_alignment<double> : flat_alignment<float>});
  return sizes;
}

}  // namespace thinwire
