#include "models/layout/layout.h"

#include "core/random.h"
#include "kernels/threads.h"

namespace thinwire {

int parts_of(const SplitGroups& groups) {
  int parts = 1;
  for (const SplitGroup& g : groups) parts *= g.size;
  return parts;
}

int place_of(const SplitGroups& groups) {
  int place = 0;
  for (const SplitGroup& g : groups) {
    TW_ASSERT(g.index >= 0 && g.index < g.size, g.name);
    place = place * g.size + g.index;
  }
  return place;
}

AxisRange split_axis(const std::string& what, std::int64_t extent, const SplitGroups& groups) {
  const int parts = parts_of(groups);
  if (extent % parts != 0)
    throw UsageError(what + ": " + std::to_string(extent) + " cannot be split into " + std::to_string(parts) +
                     " equal parts. Choose an extent that is a multiple of " + std::to_string(parts) +
                     ", or fewer ranks.");
  return {extent / parts * place_of(groups), extent / parts};
}

Shape Layout::local(const Shape& global) const {
  TW_ASSERT(global.rank() == 3);
  return {split_axis("batch of an activation", global[0], batch).count,
          split_axis("sequence of an activation", global[1], sequence).count,
          split_axis("hidden size of an activation", global[2], hidden).count};
}

ParameterLayout::ParameterLayout(std::string name, Shape global, SplitGroups row_groups,
                                 SplitGroups column_groups, SplitGroups replicas)
    : name_(std::move(name)),
      global_(global),
      used_(global),
      row_groups_(std::move(row_groups)),
      column_groups_(std::move(column_groups)),
      replicas_(std::move(replicas)),
      rows_(split_axis("rows of " + name_, global.rows(), row_groups_)),
      columns_(split_axis("columns of " + name_, global.columns(), column_groups_)) {}

ParameterLayout ParameterLayout::absent() const {
  ParameterLayout other = *this;
  other.rows_ = other.columns_ = {};
  other.held_ = false;
  return other;
}

ParameterLayout ParameterLayout::padded_after(std::int64_t used) const {
  TW_ASSERT(used > 0 && used <= global_[0], name_);
  ParameterLayout other = *this;
  other.used_ = global_.rank() == 1 ? Shape{used} : Shape{used, global_.columns()};
  return other;
}

Shape ParameterLayout::local() const {
  return global_.rank() == 1 ? Shape{columns_.count} : Shape{rows_.count, columns_.count};
}

std::int64_t ParameterLayout::global_index(std::int64_t local) const {
  TW_ASSERT(local >= 0 && local < rows_.count * columns_.count, name_);
  return (rows_.begin + local / columns_.count) * global_.columns() + columns_.begin + local % columns_.count;
}

void initialise_normal(const ParameterLayout& layout, std::uint64_t seed, double deviation, TensorView to, std::int64_t first_row) {
  const std::int64_t first = first_row * layout.columns().count;
  TW_ASSERT(first_row >= 0 && first + to.elements() <= layout.local().elements(), layout.name());
  const Random random(seed, layout.name());
  const auto fill = [&](auto values) {
    using T = typename decltype(values)::value_type;
    parallel_for(to.elements(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        values[static_cast<std::size_t>(i)] =
            static_cast<T>(deviation * random.normal(static_cast<std::uint64_t>(layout.global_index(first + i))));
    });
  };
  // Drawn on the host also where the parameter lies on a device: the same numbers everywhere.
  const bool on_host = to.device().kind == DeviceKind::host;
  Tensor drawn{Device()};
  if (!on_host) drawn.reshape(to.shape(), to.dtype());
  const TensorView values = on_host ? to : drawn.view();
  if (to.dtype() == DType::f64)
    fill(values.as<double>());
  else
    fill(values.as<float>());
  if (!on_host) copy_and_wait(to.data(), values.data(), to.bytes());
}

}  // namespace thinwire
