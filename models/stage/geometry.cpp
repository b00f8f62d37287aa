#include "models/stage/geometry.h"

#include <set>

namespace thinwire {

std::int64_t DeclaredUnit::computes_with() const {
  std::int64_t numbers = 0;
  for (const DeclaredParameter& p : parameters) numbers += p.looked_up ? 0 : p.whole();
  return numbers;
}

double DeclaredUnit::product_flops(const PassShape& pass) const {
  double multiplied = 0;
  for (const DeclaredParameter& p : parameters)
    if (p.decays && !p.looked_up) multiplied += static_cast<double>(p.whole());
  return 2 * multiplied * static_cast<double>(rows(pass));
}

// Scores and their product with the values: two products of [seq, columns] and [columns, seq] each.
double DeclaredUnit::attention_flops(const PassShape& pass) const {
  return 4 * static_cast<double>(attention) * static_cast<double>(pass.rows()) * static_cast<double>(pass.seq);
}

std::vector<DeclaredParameter> Geometry::parameters() const {
  std::vector<DeclaredParameter> all;
  std::set<std::string> seen;
  for (const DeclaredUnit& unit : units)
    for (const DeclaredParameter& p : unit.parameters)
      if (seen.insert(p.name()).second) all.push_back(p);
  return all;
}

double training_flops_per_token(const Geometry& whole, std::int64_t seq) {
  const PassShape sequence{.batch = 1, .seq = seq};
  double weights = 0, attention = 0;
  for (const DeclaredUnit& unit : whole.units) {
    weights += static_cast<double>(unit.computes_with()) * static_cast<double>(unit.rows(sequence));
    attention += unit.attention_flops(sequence);
  }
  return (6 * weights + 3 * attention) / static_cast<double>(seq);
}

}  // namespace thinwire
