#include "experiments/slurm/packing.h"

#include <map>
#include <tuple>

namespace thinwire::sweep {

double expected_seconds(const PlannedCell& cell, const Estimates& estimates, const Machine& machine) {
  return estimates.seconds_of(cell).value_or(machine.slurm.cell_seconds);
}

std::vector<PlannedArray> pack(std::span<const PlannedCell> cells, const Machine& machine, const Estimates& estimates) {
  constexpr std::size_t most_tasks = 1000;
  // By shape, then by launch, both in the order of their first cell.
  using LaunchKey = std::tuple<std::string, std::string, int, int, double>;
  struct Group {
    std::vector<LaunchKey> order;
    std::map<LaunchKey, std::vector<std::size_t>> launches;
  };
  std::vector<std::pair<Shape, double>> shapes;
  std::map<std::pair<Shape, double>, Group> groups;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const PlannedCell& cell = cells[i];
    const std::pair shape(shape_of(machine, cell.link, cell.ranks, cell.omp_threads), cell.memory_gib);
    if (!groups.contains(shape)) shapes.push_back(shape);
    Group& group = groups[shape];
    const LaunchKey key(cell.program, cell.link, cell.ranks, cell.omp_threads, cell.timeout);
    if (!group.launches.contains(key)) group.order.push_back(key);
    group.launches[key].push_back(i);
  }
  std::vector<PlannedArray> arrays;
  const double most_seconds = machine.slurm.minutes_per_job * 60;
  for (const auto& shape : shapes) {
    arrays.push_back({shape.first, shape.second, {}, {}});
    const Group& group = groups[shape];
    bool is_open = false;
    for (const LaunchKey& key : group.order)
      for (const std::size_t i : group.launches.at(key)) {
        const double seconds = expected_seconds(cells[i], estimates, machine);
        if (is_open && arrays.back().seconds.back() + seconds > most_seconds) is_open = false;
        if (!is_open) {
          if (arrays.back().tasks.size() == most_tasks) arrays.push_back({shape.first, shape.second, {}, {}});
          arrays.back().tasks.emplace_back();
          arrays.back().seconds.push_back(0);
          is_open = true;
        }
        arrays.back().tasks.back().push_back(i);
        arrays.back().seconds.back() += seconds;
      }
  }
  return arrays;
}

}  // namespace thinwire::sweep
