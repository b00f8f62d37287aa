#include "collectives/communicator/process_mesh.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "core/joined.h"

namespace thinwire {
namespace {

enum Axis { tp_axis, pp_axis, dp_axis };
const std::array<std::string, 3> axis_names = {"tp", "pp", "dp"};

/// Axes in the order of the string, fastest first.
std::array<Axis, 3> parse_order(const std::string& order) {
  std::array<Axis, 3> axes = {tp_axis, pp_axis, dp_axis};
  do {
    if (axis_names[axes[0]] + "-" + axis_names[axes[1]] + "-" + axis_names[axes[2]] == order) return axes;
  } while (std::next_permutation(axes.begin(), axes.end()));
  throw UsageError("mesh order '" + order +
                   "' is no permutation of tp-pp-dp; write the axis of adjacent ranks first");
}

int extent(const MeshShape& shape, Axis axis) {
  return axis == tp_axis ? shape.tp : axis == pp_axis ? shape.pp : shape.dp;
}

template <typename Coordinates>
auto& along(Coordinates& c, Axis axis) {
  return axis == tp_axis ? c.tp : axis == pp_axis ? c.pp : c.dp;
}

/// Groups whose members differ in `axis` alone.
std::vector<std::vector<int>> groups_along(const MeshShape& shape, Axis axis) {
  std::vector<std::vector<int>> groups;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    MeshCoordinates c = mesh_coordinates(shape, rank);
    if (along(c, axis) != 0) continue;
    std::vector<int>& group = groups.emplace_back();
    for (int i = 0; i < extent(shape, axis); ++i) {
      along(c, axis) = i;
      group.push_back(mesh_rank(shape, c));
    }
  }
  return groups;
}

std::string list_of(const std::vector<std::vector<int>>& groups) {
  std::string text;
  for (const auto& group : groups) text += " [" + joined(group, " ", [](int rank) { return std::to_string(rank); }) + "]";
  return text;
}

}  // namespace

void check_mesh(const MeshShape& shape) {
  parse_order(shape.order);
  if (shape.tp < 1 || shape.pp < 1 || shape.dp < 1) {
    throw UsageError("mesh tp " + std::to_string(shape.tp) + " x pp " + std::to_string(shape.pp) + " x dp " +
                     std::to_string(shape.dp) + ": every extent must be at least 1");
  }
  if (double{1} * shape.tp * shape.pp * shape.dp > std::numeric_limits<int>::max())
    throw UsageError("mesh tp " + std::to_string(shape.tp) + " x pp " + std::to_string(shape.pp) + " x dp " + std::to_string(shape.dp) + ": more ranks than can be numbered");
  if (shape.dp_replicas < 1 || shape.dp_nodes < 1 || shape.dp % (std::int64_t{shape.dp_replicas} * shape.dp_nodes) != 0)
    throw UsageError("dp " + std::to_string(shape.dp) + " is no product of " + std::to_string(shape.dp_replicas) + " replicas and " +
                     std::to_string(shape.dp_nodes) + " nodes in each; the product of --dp-replicas and --dp-nodes must divide --dp");
}

MeshCoordinates mesh_coordinates(const MeshShape& shape, int rank) {
  MeshCoordinates c;
  for (Axis axis : parse_order(shape.order)) {
    along(c, axis) = rank % extent(shape, axis);
    rank /= extent(shape, axis);
  }
  return c;
}

int mesh_rank(const MeshShape& shape, const MeshCoordinates& coordinates) {
  int rank = 0, stride = 1;
  for (Axis axis : parse_order(shape.order)) {
    rank += along(coordinates, axis) * stride;
    stride *= extent(shape, axis);
  }
  return rank;
}

MeshGroups mesh_groups(const MeshShape& shape) {
  check_mesh(shape);
  MeshGroups groups{
      groups_along(shape, tp_axis), groups_along(shape, pp_axis), groups_along(shape, dp_axis), {}};
  for (const auto& stages : groups.pp) {
    if (shape.pp == 1)
      groups.embedding.push_back({stages.front()});
    else
      groups.embedding.push_back({stages.front(), stages.back()});
  }
  return groups;
}

std::vector<std::vector<int>> fused_embedding_groups(const MeshShape& shape, Form form) {
  check_mesh(shape);
  std::vector<std::vector<int>> groups(form == Form::released ? 1 : static_cast<std::size_t>(shape.tp));
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const MeshCoordinates c = mesh_coordinates(shape, rank);
    if (c.pp == 0 || c.pp == shape.pp - 1) groups[form == Form::released ? 0 : static_cast<std::size_t>(c.tp)].push_back(rank);
  }
  return groups;
}

DataCoordinates data_coordinates(const MeshShape& shape, int dp) {
  const DataAxis axis = shape.data();
  const int within = axis.nodes * axis.inside;
  return {dp / within, dp % within / axis.inside, dp % axis.inside, dp % within};
}

std::vector<std::string> data_group_names() {
  return {"data", "replica", "node", "inside", "within_replica"};
}

std::vector<std::vector<int>> data_groups(const MeshShape& shape, const std::string& name) {
  check_mesh(shape);
  const auto names = data_group_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw UsageError("the mesh has no group '" + name + "'; did you mean '" + nearest_name(name, names.data(), names.data() + names.size()) + "'?");
  std::vector<std::vector<int>> groups;
  std::map<std::array<int, 4>, std::size_t> number;  // of a group by what its members share
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const MeshCoordinates c = mesh_coordinates(shape, rank);
    const DataCoordinates d = data_coordinates(shape, c.dp);
    std::array<int, 4> shared = {c.tp, c.pp, d.replica, d.within_replica};
    if (name == "data") shared[2] = shared[3] = 0;
    if (name == "replica") shared[2] = 0;
    if (name == "within_replica") shared[3] = 0;
    if (name == "node") shared[3] = d.inside;
    if (name == "inside") shared[3] = d.node;
    const auto [found, fresh] = number.emplace(shared, groups.size());
    if (fresh) groups.emplace_back();
    groups[found->second].push_back(rank);
  }
  return groups;
}

int group_of(const std::vector<std::vector<int>>& groups, int rank) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (std::find(groups[g].begin(), groups[g].end(), rank) != groups[g].end()) return static_cast<int>(g);
  return -1;
}

namespace {

/// The factors of the data axis, where it has more than one.
std::string describe_data(const MeshShape& shape) {
  const DataAxis axis = shape.data();
  if (axis.replicas == 1 && axis.nodes == 1) return "";
  std::string text;
  for (const char* name : {"replica", "node", "inside"}) text += "  " + std::string(name) + ":" + list_of(data_groups(shape, name)) + "\n";
  return text;
}

}  // namespace

std::string describe_mesh(const MeshShape& shape) {
  const MeshGroups groups = mesh_groups(shape);
  return "mesh " + shape.order + ": tp " + std::to_string(shape.tp) + ", pp " + std::to_string(shape.pp) +
         ", dp " + std::to_string(shape.dp) + "\n  tp:" + list_of(groups.tp) +
         "\n  pp:" + list_of(groups.pp) + "\n  dp:" + list_of(groups.dp) +
         "\n  embedding:" + list_of(groups.embedding) + "\n" + describe_data(shape);
}

ProcessMesh::ProcessMesh(Communicator& world, MeshShape shape) : shape_(std::move(shape)) {
  check_mesh(shape_);
  if (shape_.ranks() != world.size()) {
    throw UsageError("mesh tp " + std::to_string(shape_.tp) + " x pp " + std::to_string(shape_.pp) +
                     " x dp " + std::to_string(shape_.dp) + " needs " + std::to_string(shape_.ranks()) +
                     " ranks, but " + std::to_string(world.size()) + " are running; launch with -n " +
                     std::to_string(shape_.ranks()));
  }
  coordinates_ = mesh_coordinates(shape_, world.rank());
  // A group's colour is its first rank; members are ordered by the coordinate that tells them apart.
  const auto group_of = [&](Axis axis) {
    MeshCoordinates first = coordinates_;
    along(first, axis) = 0;
    return world.split(mesh_rank(shape_, first), along(coordinates_, axis));
  };
  tp_ = group_of(tp_axis);
  pp_ = group_of(pp_axis);
  dp_ = group_of(dp_axis);
  MeshCoordinates first = coordinates_;
  first.pp = 0;
  embedding_ = world.split(first_stage() || last_stage() ? mesh_rank(shape_, first) : -1, coordinates_.pp);
  for (const std::string& name : data_group_names()) {
    const auto groups = data_groups(shape_, name);
    const auto members = static_cast<int>(groups.front().size());
    if (members == 1 || members == shape_.dp) continue;
    data_[name] = world.split(thinwire::group_of(groups, world.rank()), coordinates_.dp);
  }
}

Communicator* ProcessMesh::group(const std::string& name) {
  const auto shared = [](Communicator* group) { return group && group->size() > 1 ? group : nullptr; };
  if (name == "tensor") return shared(tp_.get());
  if (name == "pipeline") return shared(pp_.get());
  if (name == "embedding") return shared(embedding_.get());
  if (const auto found = data_.find(name); found != data_.end()) return found->second.get();
  return data_groups(shape_, name).front().size() > 1 ? shared(dp_.get()) : nullptr;
}

}  // namespace thinwire
