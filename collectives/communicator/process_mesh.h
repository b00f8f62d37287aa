// The mesh of ranks of 3D parallelism. Every group follows from one order string, as pure data that tests
// inspect.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator/communicator.h"
#include "kernels/codec/codec.h"

namespace thinwire {

/// The data axis as a product: dp = replicas x nodes x inside, the ranks inside a node adjacent. A replica is what exchanges every so many steps
/// only (outer loops); within it all ranks reduce in each step, inside nodes and between them.
struct DataAxis {
  int replicas = 1, nodes = 1, inside = 1;
  int within_replica() const { return nodes * inside; }
  bool operator==(const DataAxis&) const = default;
};

/// A place on it.
struct DataCoordinates {
  int replica = 0, node = 0, inside = 0;
  int within_replica = 0;  ///< node and inside as one number, from 0
  bool operator==(const DataCoordinates&) const = default;
};

/// Extents of the mesh and which axis varies fastest with the rank: "tp-pp-dp" puts tensor-parallel
/// neighbours on adjacent ranks, then pipeline stages, then replicas.
struct MeshShape {
  int tp = 1, pp = 1, dp = 1;
  std::string order = "tp-pp-dp";
  int dp_replicas = 1, dp_nodes = 1;  ///< factors of dp; what is left of it lies inside a node
  int ranks() const { return tp * pp * dp; }
  DataAxis data() const { return {dp_replicas, dp_nodes, dp / (dp_replicas * dp_nodes)}; }
};

struct MeshCoordinates {
  int tp = 0, pp = 0, dp = 0;
  bool operator==(const MeshCoordinates&) const = default;
};

/// Lists of world ranks. Each rank is in exactly one tp, pp and dp group; in an embedding group only when it
/// holds the first or the last stage (they share the tied table; with one stage the group is that rank
/// alone).
struct MeshGroups {
  std::vector<std::vector<int>> tp, pp, dp, embedding;
};

/// Throws UsageError for extents below 1, factors that do not divide dp, or an order that is no permutation of tp, pp, dp.
void check_mesh(const MeshShape& shape);
DataCoordinates data_coordinates(const MeshShape& shape, int dp);
MeshCoordinates mesh_coordinates(const MeshShape& shape, int rank);
int mesh_rank(const MeshShape& shape, const MeshCoordinates& coordinates);
/// Groups in ascending order of their first rank; members in ascending order of their coordinate.
MeshGroups mesh_groups(const MeshShape& shape);
/// Who sums the tied table's gradient in one fused reduction (Optimus-CC, docs/papers/optimus_cc.md, "The method, as built here"):
/// per tensor coordinate first and last stage of all replicas, which hold the same rows of the vocabulary. `released`: all of them at once,
/// as megatron/mpu/initialize.py of the authors' code, which for tp > 1 sums different rows ("Defects of the released code" 1 there).
std::vector<std::vector<int>> fused_embedding_groups(const MeshShape& shape, Form form);
/// Names of the groups along the data axis: "data" (all of dp), its factors "replica", "node", "inside" (members differ in that coordinate
/// alone), and "within_replica" (nodes x inside).
std::vector<std::string> data_group_names();
/// Groups of one of these names, as of mesh_groups. UsageError for another name.
std::vector<std::vector<int>> data_groups(const MeshShape& shape, const std::string& name);
/// Which of the groups `rank` is in; -1: none.
int group_of(const std::vector<std::vector<int>>& groups, int rank);
/// One line per group kind, for --show-mesh.
std::string describe_mesh(const MeshShape& shape);

/// The groups of this rank as communicators. Construction is collective over `world`; throws UsageError
/// saying what to launch when the product of the extents is not the number of ranks.
class ProcessMesh {
 public:
  ProcessMesh(Communicator& world, MeshShape shape);
  const MeshShape& shape() const { return shape_; }
  const MeshCoordinates& coordinates() const { return coordinates_; }
  Communicator& tp() { return *tp_; }
  Communicator& pp() { return *pp_; }
  Communicator& dp() { return *dp_; }
  /// First and last stage of my tensor and replica coordinates; null on the stages between.
  Communicator* embedding() { return embedding_.get(); }
  /// A group by its name: "tensor", "pipeline", "embedding", or along the data axis. Null where it has one rank, or not this one. UsageError for
  /// a name that does not exist.
  Communicator* group(const std::string& name);
  DataCoordinates data_coordinates() const { return thinwire::data_coordinates(shape_, coordinates_.dp); }
  bool first_stage() const { return coordinates_.pp == 0; }
  bool last_stage() const { return coordinates_.pp == shape_.pp - 1; }

 private:
  MeshShape shape_;
  MeshCoordinates coordinates_;
  std::unique_ptr<Communicator> tp_, pp_, dp_, embedding_;
  std::map<std::string, std::unique_ptr<Communicator>> data_;  ///< of the data axis' groups those that are neither one rank nor all of dp
};

}  // namespace thinwire
